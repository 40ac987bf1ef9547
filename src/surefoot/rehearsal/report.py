"""The result of a rehearsal: answers, recommendation, the table for the protocol, and a page with curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from surefoot.atomic_files import json_text, write_texts
from surefoot.data.frames import make_frame
from surefoot.inference.intervals import Interval
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.model_checks import PilotChecks
from surefoot.rehearsal.pilot_fit import PilotEffect
from surefoot.rehearsal.plan import NEVER, RehearsalPlan, TrialDesign
from surefoot.rehearsal.recommendation import CandidateAnswers, Recommendation
from surefoot.reports.figures import BLUE, GREY, SERIES, add_legend, interval_bars, label_axes, new_figure
from surefoot.reports.numbers import format_number, format_percent
from surefoot.reports.render import inline_svg, render
from surefoot.reports.summaries import ShownResult, make_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

Answers = Mapping[str, CandidateAnswers]
"""Candidate → its answers in one environment."""
SHORT_COLUMNS = 6
"""Columns of the table that a terminal shows."""


@dataclass(frozen=True, eq=False, repr=False)
class Rehearsal(ShownResult):
    """Candidates compared in several environments."""

    plan: RehearsalPlan
    """The plan."""
    design: TrialDesign
    """Its design, with the decision points a day of the pilot."""
    environments: tuple[Environment, ...]
    """The effects of sending, no effect first."""
    answers: Mapping[str, Answers]
    """Environment → candidate → its answers."""
    by_environment: tuple[Recommendation, ...]
    """The recommendation for every environment."""
    overall: Recommendation
    """The recommendation over all environments."""
    tuned: tuple[Mapping[str, Any], ...]
    """For every environment the mean rewards from which the best fixed probability and the best policy were chosen."""
    spread: float
    """Standard deviation of the reward at available decision points."""
    unit: str
    """Of the reward."""
    warnings: tuple[str, ...]
    """Findings about the pilot's logs that are not fine."""
    checks: PilotChecks | None
    """Whether the simulated people look like those in the pilot; None without a pilot."""
    effect: PilotEffect | None
    """The effect in the pilot; None without one."""
    manifest: Mapping[str, Any]
    """Versions, plan, hashes of study and pilot."""
    notes: tuple[str, ...]
    """Notes for the reader."""

    page_title: ClassVar[str] = "Rehearsal of a trial"

    def __repr__(self) -> str:
        candidates = len(next(iter(self.answers.values())))
        return (
            f"Rehearsal({self.trials} trials, {len(self.environments)} environments, {candidates} candidates, "
            f"recommended: {self.overall.candidate})"
        )

    @property
    def trials(self) -> int:
        return self.plan.trials

    @property
    def harm(self) -> float:
        """A participant whose mean reward lies this much below never's is harmed."""
        return self.plan.rule.harm * self.spread

    def _list_answers(self) -> list[CandidateAnswers]:
        return [candidate for answers in self.answers.values() for candidate in answers.values()]

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """The numbers of the table, one row for each environment and candidate, with Monte Carlo errors."""
        columns: dict[str, list[Any]] = {}
        for answers in self._list_answers():
            for name, value in answers.to_dict().items():
                if isinstance(value, dict) and "standard_error" in value:
                    columns.setdefault(name, []).append(value["value"])
                    columns.setdefault(f"{name}_error", []).append(value["standard_error"])
                elif name in ("environment", "candidate", "trials", "analysed"):
                    columns.setdefault(name, []).append(value)
        return make_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        checks = self.checks
        return {
            "warnings": list(self.warnings),
            "recommendation": self.overall.to_dict(),
            "by_environment": [recommendation.to_dict() for recommendation in self.by_environment],
            "trials": self.trials,
            "unit": self.unit,
            "spread": self.spread,
            "harm": self.harm,
            "answers": [answers.to_dict() for answers in self._list_answers()],
            "tuning": [
                {"environment": environment.name, **tuned}
                for environment, tuned in zip(self.environments, self.tuned, strict=True)
            ],
            "model": None if checks is None else {"verdict": checks.verdict, "differences": checks.differences},
            "notes": list(self.notes),
            "manifest": dict(self.manifest),
        }

    def save(self, folder: str | Path) -> None:
        """Write `answers.json` and `table.md`, for a protocol, into the folder."""
        lines: list[str] = []
        for environment, answers in self.answers.items():
            rows = tabulate(answers)
            lines += [f"**{environment}**", "", f"| {' | '.join(rows[0])} |", "|---" + "|---:" * (len(rows[0]) - 1) + "|"]
            lines += [f"| {' | '.join(row.values())} |" for row in rows]
            lines.append("")
        table = "\n".join([*lines, self._legend]) + "\n"
        write_texts({Path(folder) / "answers.json": json_text(self.to_dict()) + "\n", Path(folder) / "table.md": table})

    def print_summary(self, console: Console) -> None:
        for warning in self.warnings:
            console.print(warning, markup=False)
        if self.checks is not None:
            console.print(f"The model of the pilot: {self.checks.verdict}")
            for difference in self.checks.differences:
                console.print(f"  look: {difference}", markup=False)
        for recommendation, answers in zip(self.by_environment, self.answers.values(), strict=True):
            console.print(f"\n{recommendation.environment}", markup=False, style="bold")
            rows = tabulate(answers)
            table = make_table(*list(rows[0])[:SHORT_COLUMNS])
            for row in rows:
                table.add_row(*list(row.values())[:SHORT_COLUMNS])
            console.print(table)
            console.print(f"→ {recommendation.sentence}", markup=False)
        for note in self.notes:
            console.print(note, markup=False)
        console.print(f"\nRecommended: {self.overall.sentence} ({self.trials} trials)", markup=False)

    def plot(self, environment: str | None = None) -> Figure:
        """The gain of every candidate over a coin in an environment, the last one unless named."""
        return self._draw_gains(environment or self.environments[-1].name)[0]

    def _draw_gains(self, environment: str) -> tuple[Figure, str]:
        return _draw_intervals(
            {name: candidate.mean("over_coin") for name, candidate in self.answers[environment].items()},
            title="Gain over a coin",
            x=f"mean outcome minus the coin's ({self.unit})",
            note="Over the same people with the same chance; 95 % intervals over trials.",
        )

    def render_page(self, *, title: str, source: str) -> str:
        sections = [
            self._describe_environment(environment, recommendation, tuned)
            for environment, recommendation, tuned in zip(self.environments, self.by_environment, self.tuned, strict=True)
        ]
        return render("rehearsal.html", title=title, source=source, rehearsal=self, sections=sections, legend=self._legend)

    @property
    def _legend(self) -> str:
        """The meaning of the table's columns."""
        return (
            f"{self.trials} simulated trials; Monte Carlo errors in brackets; outcomes in {self.unit}. Over coin and over "
            "never are differences of mean outcomes for the same people with the same chance. Prompted is the share of "
            "available decision points, with the 10th and 90th percentile of people. Harmed is the share of people whose "
            f"mean outcome lies more than {format_number(self.harm)} below what it would have been under never. Power is "
            "how often the primary analysis finds an effect (where there is none: the type I error). Regret is against the "
            "best policy of the environment. SD / SE is the standard deviation of the estimated effects over their mean "
            "standard error: 1 is honest."
        )

    def _describe_environment(
        self, environment: Environment, recommendation: Recommendation, tuned: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The section of the page about one environment."""
        answers = self.answers[environment.name]
        level = self.plan.rule.level
        rejections = {name: candidate.rejections for name, candidate in answers.items()}
        prompts = {name: candidate.curves["sent_by_day"] for name, candidate in answers.items()}
        charts = [
            _draw_curves(
                {name: (100 * mean, 100 * error) for name, (mean, error) in prompts.items()},
                title="Prompts",
                y="% of available decision points",
                note="The share of available decision points with a prompt; bands are 95 % intervals over trials.",
                limits=(-3, 103),
            ),
            _draw_intervals(
                {name: interval for name, interval in rejections.items() if not np.isnan(interval.value)},
                title="Power" if environment.effects else "Type I error",
                x="% of trials in which the primary analysis finds an effect",
                note=f"95 % intervals; the dashed line is the level of the test, {100 * level:g} %.",
                level=level,
            ),
        ]
        if environment.effects:  # Without an effect no outcome differs.
            by_day = {name: candidate.minus(answers[NEVER], "outcome_by_day") for name, candidate in answers.items()}
            root = np.sqrt(self.trials)
            charts = [
                self._draw_gains(environment.name),
                _draw_curves(
                    {name: (days.mean(axis=0), days.std(axis=0, ddof=1) / root) for name, days in by_day.items()},
                    title="Learning",
                    y=f"mean outcome minus never's ({self.unit})",
                    note="The mean outcome of every day against sending nothing; bands are 95 % intervals over trials.",
                ),
                *charts,
            ]
        refusals = []
        for name, candidate in answers.items():
            judged = int(candidate.values["updates_done"].sum() + candidate.values["updates_refused"].sum())
            counts = ", ".join(f"{check} {count} of {judged}" for check, count in candidate.refusals.items())
            refusals += [f"{name}: {counts}"] if counts else []
        return {
            "environment": environment,
            "recommendation": recommendation,
            "rows": tabulate(answers),
            "charts": [(inline_svg(figure, note), note) for figure, note in charts],
            "tuned": tuned,
            # Never and always leave nothing to compare, so that their trials cannot be analysed.
            "reasons": [
                f"{name}: {candidate.reasons[0]}"
                for name, candidate in answers.items()
                if candidate.reasons and candidate.sends not in (0, 1)
            ],
            "refusals": refusals,
        }


def show_mean(interval: Interval) -> str:
    """A mean with its Monte Carlo error, with the digits that this supports."""
    if np.isnan(interval.value):
        return "–"
    if not interval.standard_error > 0:
        return format_number(interval.value)
    digits = max(0, 1 - int(np.floor(np.log10(interval.standard_error))))
    return f"{interval.value:,.{digits}f} ({interval.standard_error:.{digits}f})".replace("-", "−")


def show_share(interval: Interval) -> str:
    """A share in per cent with its Monte Carlo error."""
    if np.isnan(interval.value):
        return "–"
    return f"{100 * interval.value:.1f} ({100 * interval.standard_error:.1f}) %"


def tabulate(answers: Answers) -> list[dict[str, str]]:
    """A row for each candidate: column → entry."""
    rows = []
    for candidate in answers.values():
        low, high = (format_percent(candidate.mean(name).value, 0).removesuffix(" %") for name in ("sent_low", "sent_high"))
        name = candidate.candidate
        if candidate.sends is not None and f"{candidate.sends:g}" not in name:
            name = f"{name} ({candidate.sends:g})"
        rows.append(
            {
                "candidate": name,
                "mean outcome": show_mean(candidate.mean("outcome")),
                "over coin": show_mean(candidate.mean("over_coin")),
                "prompted": f"{format_percent(candidate.mean('sent').value, 0)} ({low} to {high})",
                "harmed": show_share(candidate.mean("harmed")),
                "power": show_share(candidate.rejections),
                "25th percentile": show_mean(candidate.mean("lower_quarter")),
                "over never": show_mean(candidate.mean("over_never")),
                "regret": show_mean(candidate.mean("regret")),
                "SD / SE": show_mean(candidate.honesty),
                "effective share": show_share(candidate.mean("effective_share")),
                "fallback": show_share(candidate.mean("fallback")),
                "updates refused": show_share(candidate.refused_updates),
                "left": show_share(candidate.mean("left")),
            }
        )
    return rows


def _draw_intervals(
    intervals: Mapping[str, Interval], *, title: str, x: str, note: str, level: float | None = None
) -> tuple[Figure, str]:
    """A dot with its interval for each candidate, the first at the top; shares in per cent against a level, or gains
    against 0."""
    names = list(intervals)[::-1]
    figure, axes = new_figure(width=5.6, height=1.4 + 0.36 * len(names))
    values, bars = interval_bars([intervals[name] for name in names], 1.0 if level is None else 100.0)
    axes.errorbar(values, range(len(names)), xerr=bars, fmt="o", color=BLUE, markersize=5, linewidth=1.6, capsize=3)
    axes.axvline(100 * level if level else 0, color=GREY, linewidth=1.0, linestyle="--" if level else "-")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.5, max(len(names), 1) - 0.5)
    if level is not None:
        axes.set_xlim(left=0)
    label_axes(axes, x=x, y="", title=title)
    return figure, note


def _draw_curves(
    curves: Mapping[str, tuple[Any, Any]], *, title: str, y: str, note: str, limits: tuple[float, float] | None = None
) -> tuple[Figure, str]:
    """Means by day with 95 % bands of Monte Carlo error; further dashes where colours repeat."""
    figure, axes = new_figure(width=5.6, height=4.2)
    for number, (name, (mean, error)) in enumerate(curves.items()):
        if np.isnan(mean).all():
            continue
        colour = SERIES[number % len(SERIES)]
        dash = ("-", "--", ":")[number // len(SERIES) % 3]
        days = np.arange(1, len(mean) + 1)
        axes.plot(days, mean, color=colour, linestyle=dash, linewidth=1.6, label=name)
        axes.fill_between(days, mean - 1.96 * error, mean + 1.96 * error, color=colour, alpha=0.2, linewidth=0)
    if limits is not None:
        axes.set_ylim(*limits)
    label_axes(axes, x="day of the participant", y=y, title=title)
    add_legend(figure, axes, columns=3)
    return figure, note
