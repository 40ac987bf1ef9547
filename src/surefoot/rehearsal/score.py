"""Last trial's rehearsal against what happened: the prediction of every number, and the trial's."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.effects.study_effects import estimate_primary_effect, plan_primary_effect
from surefoot.errors import InputError, did_you_mean
from surefoot.inference.intervals import t_interval
from surefoot.reports.numbers import format_beside, format_interval
from surefoot.reports.summaries import Overview, ShownResult, align_columns, to_plain
from surefoot.study import Study
from surefoot.study.trial_updates import count_update_states

if TYPE_CHECKING:
    from rich.console import Console

UPDATES = {"done": "updates that passed the checks", "refused": "updates refused", "failed": "updates failed"}
"""State of an update → its name in the table."""


class ScoredNumber(NamedTuple):
    """One number of the trial, the 95 % prediction interval for a single trial, and `as rehearsed`, `lower` or `higher`."""

    name: str
    predicted: float
    low: float
    high: float
    happened: float
    verdict: str


@dataclass(frozen=True, repr=False)
class RehearsalScore(ShownResult):
    """The numbers of a trial compared with those of its rehearsal."""

    environment: str
    """The environment whose predictions count."""
    candidate: str
    """The candidate that the trial ran."""
    numbers: tuple[ScoredNumber, ...]
    """Outcomes, prompts, effect, updates."""

    page_title: ClassVar[str] = "The rehearsal and the trial"

    def _overview(self) -> Overview:
        facts = {"candidate": self.candidate, "environment": self.environment}
        return Overview(f"The rehearsal and the trial: {self.verdict}", facts, self._list_cells())

    def _list_cells(self) -> list[list[str]]:
        """The rows of the table as text, the headers first."""
        rows = [["", "rehearsed", "95 % of trials", "trial", "verdict"]]
        for number in self.numbers:
            predicted, happened = (format_beside(value, number) for value in (number.predicted, number.happened))
            rows.append([number.name, predicted, format_interval(number), happened, number.verdict])
        return rows

    @property
    def verdict(self) -> str:
        """In words."""
        off = [f"{number.name} {number.verdict}" for number in self.numbers if number.verdict != "as rehearsed"]
        return f"not as rehearsed: {', '.join(off)}" if off else "as rehearsed"

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per number."""
        columns = zip(*self.numbers, strict=True)
        return make_frame(dict(zip(ScoredNumber._fields, map(list, columns), strict=True)), backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {**to_plain(self), "verdict": self.verdict}

    def print_summary(self, console: "Console") -> None:
        console.out("\n".join(align_columns(self._list_cells())), highlight=False)
        console.print(f"{self.candidate}, {self.environment}: {self.verdict}", markup=False)

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.reports.render import render

        return render("rehearsal_score.html", title=title, source=source, score=self)


def score_rehearsal(
    folder: str | Path, trial: str | Path, study: Study | str | Path, *, candidate: str | None = None
) -> RehearsalScore:
    """Compare the prediction of a rehearsal with the trial that followed.

    Parameters
    ----------
    folder
        The folder of the rehearsal, with its `answers.json`.
    trial
        The trial's decisions, as `surefoot export` writes them, with the files next to them: a file, or its folder.
    study
        The trial's study, or its file.
    candidate
        The candidate that the trial ran; the study's method unless given.

    Returns
    -------
    RehearsalScore
        `verdict`, `summary`, `to_frame`, `to_dict`, `to_html`.

    Examples
    --------
    >>> study = Study.parse('[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.mood]')
    >>> score_rehearsal("no folder", "decisions.csv", study)
    Traceback (most recent call last):
    surefoot.errors.InputError: no folder/answers.json: is no result of a rehearsal; rehearse with --out no folder first
    """
    study = study if isinstance(study, Study) else Study.load(study)
    file = Path(folder) / "answers.json"
    try:
        rehearsal = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: is no result of a rehearsal; rehearse with --out {folder} first") from error
    name = candidate or study.method_name
    # Environments are in the order of the plan; the pilot's comes first after no effect.
    answers = [answer for answer in rehearsal["answers"] if answer["candidate"] == name]
    if not answers:
        known = list(dict.fromkeys(answer["candidate"] for answer in rehearsal["answers"]))
        raise InputError(f"the rehearsal has no candidate '{name}'{did_you_mean(name, known)}; choose from {known}")
    answer = answers[min(1, len(answers) - 1)]
    trial = Path(trial)
    exported = [trial / name for name in ("decisions.parquet", "decisions.csv") if (trial / name).exists()]
    trial = exported[0] if exported else trial
    logs = study.read(trial).logs
    sent = np.where(logs.available, logs.action > 0, np.nan)
    happened = {
        "outcome": ("mean outcome", _average_people(logs.outcome, logs.participant_index)),
        "sent": ("share prompted", _average_people(sent, logs.participant_index)),
    }
    analysis, estimator, _ = plan_primary_effect(study)
    try:
        effect = estimate_primary_effect(study, logs, analysis, estimator)
        happened["estimate"] = ("effect of a prompt", float(effect.params[0]))
    except InputError:
        pass  # A policy without chance leaves nothing to compare.
    states = count_update_states(trial)
    happened |= {f"updates_{state}": (words, float(states[state])) for state, words in UPDATES.items()}
    numbers = []
    for measure, (words, value) in happened.items():
        predicted = answer[measure]
        spread = predicted["spread_of_trials"] * np.sqrt(1 + 1 / answer["trials"])
        interval = t_interval(predicted["value"], spread, answer["trials"] - 1)
        verdict = "lower" if value < interval.low else "higher" if value > interval.high else "as rehearsed"
        numbers.append(ScoredNumber(words, interval.value, interval.low, interval.high, value, verdict))
    return RehearsalScore(answer["environment"], name, tuple(numbers))


def _average_people(values: Any, participant: Any) -> float:
    """The mean over people of their means of known values."""
    known = ~np.isnan(values)
    count = np.bincount(participant[known])
    total = np.bincount(participant[known], values[known])
    return float((total[count > 0] / count[count > 0]).mean())
