"""What a rehearsal found: answers, recommendation, table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.atomic_files import json_text, write_texts
from surefoot.data.frames import make_frame
from surefoot.rehearsal.candidate_answers import CandidateAnswers
from surefoot.rehearsal.design import TrialDesign
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.pilot_checks import PilotChecks
from surefoot.rehearsal.pilot_effect import PilotEffect
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.protocol_table import write_markdown
from surefoot.rehearsal.recommendation import Recommendation


@dataclass(frozen=True, eq=False)
class RehearsalFindings:
    """Candidates side by side in environments.

    Attributes
    ----------
    plan, design
        What was rehearsed.
    environments
        What sending did, no effect first.
    answers
        Environment → candidate → its answers.
    by_environment, overall
        What is recommended, and why.
    tuned
        For every environment the mean rewards from which the best fixed probability and the best policy were chosen.
    spread
        Standard deviation of the reward at available decision points.
    unit
        Of the reward.
    warnings
        Why the pilot's logs may not be what they are said to be.
    checks
        Whether the people look like the pilot's; None without a pilot.
    effect
        What the pilot showed; None without one.
    manifest
        Versions, plan, hashes of study and pilot.
    notes
        What the reader should know.
    """

    plan: RehearsalPlan
    design: TrialDesign
    environments: tuple[Environment, ...]
    answers: Mapping[str, Mapping[str, CandidateAnswers]]
    by_environment: tuple[Recommendation, ...]
    overall: Recommendation
    tuned: tuple[Mapping[str, Any], ...]
    spread: float
    unit: str
    warnings: tuple[str, ...]
    checks: PilotChecks | None
    effect: PilotEffect | None
    manifest: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def trials(self) -> int:
        return self.plan.trials

    @property
    def harm(self) -> float:
        """Who has a mean reward so much below never's is harmed."""
        return self.plan.rule.harm * self.spread

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """The numbers of the table, one row for each environment and candidate, with Monte Carlo errors."""
        rows: list[dict[str, Any]] = []
        for cells in self.answers.values():
            for one in cells.values():
                row: dict[str, Any] = {}
                for name, value in one.to_dict().items():
                    if isinstance(value, dict) and "standard_error" in value:
                        row |= {name: value["value"], f"{name}_error": value["standard_error"]}
                    elif name in ("environment", "candidate", "trials", "analysed"):
                        row[name] = value
                rows.append(row)
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "warnings": list(self.warnings),
            "recommendation": self.overall.to_dict(),
            "by_environment": [one.to_dict() for one in self.by_environment],
            "trials": self.trials,
            "unit": self.unit,
            "spread": self.spread,
            "harm": self.harm,
            "answers": [one.to_dict() for cells in self.answers.values() for one in cells.values()],
            "tuning": [{"environment": one.name, **found} for one, found in zip(self.environments, self.tuned, strict=True)],
            "model": None
            if self.checks is None
            else {"verdict": self.checks.verdict, "differences": self.checks.differences},
            "notes": list(self.notes),
            "manifest": dict(self.manifest),
        }

    def save(self, folder: str | Path) -> None:
        """Write `answers.json` and `table.md`, for a protocol, into the folder."""
        texts = {
            "answers.json": json_text(self.to_dict()) + "\n",
            "table.md": write_markdown(self.answers, self.harm, self.unit),
        }
        write_texts({Path(folder) / name: text for name, text in texts.items()})
