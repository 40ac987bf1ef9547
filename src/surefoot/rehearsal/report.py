"""The result of a rehearsal: answers, recommendation, the table for the protocol, and a page with curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from surefoot.atomic_files import json_text, write_texts
from surefoot.data.frames import make_frame
from surefoot.inference.intervals import Interval
from surefoot.log_checks import Check, list_warnings
from surefoot.rehearsal.model_checks import PilotChecks
from surefoot.rehearsal.pilot_effects import PilotEffects
from surefoot.rehearsal.plan import NEVER, Environment, RehearsalPlan, TrialDesign
from surefoot.rehearsal.recommendation import CandidateAnswers, Recommendation
from surefoot.reports import figures, numbers
from surefoot.reports.render import inline_svg, render
from surefoot.reports.summaries import Overview, ShownResult, make_table, to_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

Answers = Mapping[str, CandidateAnswers]
"""Candidate → its answers in one environment."""
SHORT_COLUMNS = 6
"""Columns of the table that a terminal shows."""
OVERVIEW_COLUMNS = 4
"""Columns of the table that an overview shows."""


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
    spread: float
    """Standard deviation of the outcome at available decision points."""
    unit: numbers.OutcomeUnit
    """Of the outcome."""
    treatment: str
    """The study's noun for what is sent."""
    log_checks: tuple[Check, ...]
    """Whether the pilot's logs agree with their description; empty without a pilot."""
    checks: PilotChecks | None
    """Whether the model shows what the pilot shows; None without a pilot."""
    effects: PilotEffects | None
    """The effects in the pilot; None without one."""
    manifest: Mapping[str, Any]
    """Versions, plan, hashes of study and pilot."""
    notes: tuple[str, ...]
    """Notes for the reader."""

    page_title: ClassVar[str] = "Rehearsal of a trial"

    def _overview(self) -> Overview:
        environment = self.environments[:2][-1].title
        rows = tabulate(self.answers[environment])
        facts = {
            "recommended": self.overall.sentence,
            "outcome": str(self.unit),
            "model of the pilot": "no pilot" if self.checks is None else self.checks.verdict,
            "table": environment,
        }
        heading = f"Rehearsal: {len(rows)} candidates, {len(self.environments)} environments, {self.trials:,} trials of each"
        return Overview(
            heading, facts, [list(line)[:OVERVIEW_COLUMNS] for line in (rows[0], *(row.values() for row in rows))]
        )

    @property
    def trials(self) -> int:
        return self.plan.trials

    @property
    def harm(self) -> float:
        """A participant whose mean outcome lies this much below never's is harmed."""
        return self.plan.rule.harm * self.spread

    def _list_answers(self) -> list[CandidateAnswers]:
        return [candidate for answers in self.answers.values() for candidate in answers.values()]

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each environment and candidate: every measure with its interval and its simulation error."""
        columns: dict[str, list[Any]] = {}
        for answers in self._list_answers():
            for name, value in answers.to_dict().items():
                if isinstance(value, dict) and "standard_error" in value:
                    columns.setdefault(name, []).append(value["value"])
                    for part, ending in (("low", "lower"), ("high", "upper"), ("simulation_error", "simulation_error")):
                        if part in value:
                            columns.setdefault(f"{name}_{ending}", []).append(value[part])
                elif name in ("environment", "candidate", "trials", "analysed"):
                    columns.setdefault(name, []).append(value)
        return make_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        checks = self.checks
        effects = self.effects
        return {
            "warnings": list_warnings(self.log_checks),
            "recommendation": self.overall.to_dict(),
            "by_environment": [recommendation.to_dict() for recommendation in self.by_environment],
            "trials": self.trials,
            "unit": str(self.unit),
            "spread": self.spread,
            "harm": self.harm,
            "answers": [answers.to_dict() for answers in self._list_answers()],
            "model": None if checks is None else checks.to_dict(),
            "pilot_effects": None if effects is None else to_plain({"now": effects.now, "later": effects.later}),
            "notes": list(self.notes),
            "manifest": dict(self.manifest),
        }

    @property
    def effect_sentences(self) -> list[str]:
        """The effects in the pilot, at once and later, and whether it shows what earlier ones do."""
        if self.plan.is_imported:
            return ["People and effects are those of Gymnasium environments; intervals include the simulation error only"]
        if self.effects is None:
            return ["Without a pilot the effects are assumed, and intervals include the simulation error only"]
        sentences = []
        for subject, change in (
            (f"In the pilot, one {self.treatment} changes the next outcome", self.effects.now),
            ("All earlier prompts, as often as in the pilot, change the outcome", self.effects.later),
        ):
            percent = self.unit.describe_difference(change)
            sentences.append(f"{subject} by {numbers.format_estimate(change, str(self.unit))}")
            sentences[-1] += f". That is {percent}" if percent else ""
        if self.effects.later_is_unclear:
            sentences.append(
                "The pilot does not show whether what was sent before matters: the interval includes no effect and a "
                "large one. Every interval below includes this uncertainty"
            )
            if any(environment.carry_over != "estimate" for environment in self.environments):
                sentences.append("No later effect, and both ends of its interval, are rehearsed as well")
        return sentences

    @property
    def next_step(self) -> str:
        """How to go on."""
        return (
            f"These are {self.trials} trials of each environment. With --trials {10 * self.trials} --out rehearsal the "
            "simulation error is a third as large; that command can be interrupted and continued"
        )

    def save(self, folder: str | Path) -> None:
        """Write `answers.json` and `table.md`, for a protocol, into the folder."""
        lines: list[str] = []
        for environment, answers in self.answers.items():
            rows = tabulate(answers)
            lines += [f"**{environment}**", "", f"| {' | '.join(rows[0])} |", "|---" + "|---:" * (len(rows[0]) - 1) + "|"]
            lines += [f"| {' | '.join(row.values())} |" for row in rows]
            lines.append("")
        table = "\n".join([*lines, *(f"- {sentence}" for sentence in self._legend)]) + "\n"
        write_texts({Path(folder) / "answers.json": json_text(self.to_dict()) + "\n", Path(folder) / "table.md": table})

    def print_summary(self, console: Console) -> None:
        for warning in list_warnings(self.log_checks):
            console.print(warning, markup=False)
        for sentence in self.effect_sentences:
            console.print(f"{sentence}.", markup=False)
        if self.checks is not None:
            console.print(f"The model of the pilot: {self.checks.verdict}")
            for difference in self.checks.differences:
                console.print(f"  {difference}", markup=False)
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
        console.print(f"{self.next_step}.", markup=False)

    def plot(self, environment: str | None = None, *, ax: figures.Drawable = None) -> Axes:
        """The gain of every candidate over a coin in an environment, the first with an effect unless named."""
        environment = environment or self.environments[:2][-1].title
        gains = {name: candidate.mean("over_coin") for name, candidate in list(self.answers[environment].items())[::-1]}
        rows = range(len(gains))
        axes = figures.choose_axes(ax, width=5.6, height=1.4 + 0.36 * len(gains))
        values, bars = figures.interval_bars(list(gains.values()))
        axes.errorbar(values, rows, xerr=bars, fmt="o", color=figures.BLUE, markersize=5, linewidth=1.6, capsize=3)
        axes.axvline(0, color=figures.GREY, linewidth=1.0)
        axes.set_yticks(rows, list(gains))
        figures.label_axes(axes, x=f"mean outcome minus the coin's ({self.unit})", y="", title="Gain over a coin")
        return axes

    def render_page(self, *, title: str, source: str) -> str:
        sections = [
            self._describe_environment(environment, recommendation)
            for environment, recommendation in zip(self.environments, self.by_environment, strict=True)
        ]
        return render("rehearsal.html", title=title, source=source, rehearsal=self, sections=sections, legend=self._legend)

    @property
    def _legend(self) -> tuple[str, ...]:
        """The meaning of the table's columns."""
        return (
            f"Outcomes are in {self.unit}. Brackets hold 95 % intervals with the pilot's uncertainty.",
            "Over coin and over never: differences of mean outcomes, for the same people and the same chance.",
            "Simulation error: the standard error of the difference from the coin, over simulated trials.",
            f"Prompted: the share of available decision points with a {self.treatment}. Brackets hold the 10th and the 90th "
            "percentile of people.",
            f"Harmed: the share of people whose mean outcome is {numbers.format_number(self.harm)} or more below that under "
            "never.",
            "Power: how often the primary analysis finds an effect. Without an effect this is the type I error.",
            "SD / SE: the standard deviation of the estimated effects over their mean standard error. It should be 1.",
        )

    def _describe_environment(self, environment: Environment, recommendation: Recommendation) -> dict[str, Any]:
        """The section of the page about one environment."""
        answers = self.answers[environment.title]
        root = np.sqrt(len(answers[NEVER].values["outcome"]))
        prompts = {name: 100 * candidate.values["sent_by_day"] for name, candidate in answers.items()}
        note = f"The share of available decision points with a {self.treatment}. Bands show the simulation error."
        charts = [_draw_curves(prompts, root, "Prompts", "% of available decision points", note)]
        if not environment.is_null:  # Without an effect no outcome differs.
            never = answers[NEVER].values["outcome_by_day"]
            gains = {name: candidate.values["outcome_by_day"] - never for name, candidate in answers.items()}
            note = "The mean outcome of every day minus that under never. Bands show the simulation error."
            learning = _draw_curves(gains, root, "Learning", f"mean outcome minus never's ({self.unit})", note)
            note = "Differences for the same people and the same chance, with 95 % intervals."
            charts = [(self.plot(environment.title, ax=figures.new_page_figure()), note), learning, *charts]
        return {
            "environment": environment,
            "recommendation": recommendation,
            "answers": answers,
            "rows": tabulate(answers),
            "charts": [(inline_svg(axes, note), note) for axes, note in charts],
        }


def tabulate(answers: Answers) -> list[dict[str, str]]:
    """A row for each candidate: column → entry; the entries of a column have the same number of decimals."""
    candidates = list(answers.values())
    names = []
    prompted = []
    for candidate in candidates:
        is_named = candidate.sends is None or f"{candidate.sends:g}" in candidate.candidate
        names.append(candidate.candidate if is_named else f"{candidate.candidate} ({candidate.sends:g})")
        low, high = (100 * candidate.mean(name).value for name in ("sent_low", "sent_high"))
        prompted.append(f"{numbers.format_percent(candidate.mean('sent').value, 0)} ({low:.0f} to {high:.0f})")
    columns = {
        "candidate": names,
        "over coin": _show_numbers([candidate.mean("over_coin") for candidate in candidates]),
        "over never": _show_numbers([candidate.mean("over_never") for candidate in candidates]),
        "prompted": prompted,
        "harmed": _show_percents([candidate.mean("harmed") for candidate in candidates]),
        "power": _show_percents([candidate.rejections for candidate in candidates]),
        "simulation error": numbers.format_column([candidate.simulation_error("over_coin") for candidate in candidates]),
        "mean outcome": _show_numbers([candidate.mean("outcome") for candidate in candidates]),
        "25th percentile": _show_numbers([candidate.mean("lower_quarter") for candidate in candidates]),
        "SD / SE": _show_numbers([candidate.honesty for candidate in candidates]),
        "effective share": _show_percents([candidate.mean("effective_share") for candidate in candidates]),
        "fallback": _show_percents([candidate.mean("fallback") for candidate in candidates]),
        "updates refused": _show_percents([candidate.refused_updates for candidate in candidates]),
        "left": _show_percents([candidate.mean("left") for candidate in candidates]),
    }
    return [{name: entries[number] for name, entries in columns.items()} for number in range(len(candidates))]


def _show_numbers(intervals: Sequence[Interval]) -> list[str]:
    decimals = numbers.count_decimals(intervals)
    entries = []
    for interval in intervals:
        ends = f" ({numbers.format_interval(interval, decimals)})" if interval.standard_error > 0 else ""
        entries.append(f"{numbers.format_value(interval, decimals)}{ends}")
    return entries


def _show_percents(intervals: Sequence[Interval]) -> list[str]:
    return [
        "–"
        if np.isnan(interval.value)
        else f"{numbers.format_percent(interval.value, 0)} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"
        for interval in intervals
    ]


def _draw_curves(curves: Mapping[str, Any], root: float, title: str, y: str, note: str) -> tuple[Axes, str]:
    """Means by day of values (trials, days), with 95 % bands of simulation error; further dashes where colours repeat."""
    axes = figures.new_figure(width=5.6, height=4.2)[1]
    for number, (name, values) in enumerate(curves.items()):
        if np.isnan(values).all():
            continue
        mean = values.mean(axis=0)
        half = 1.96 * values.std(axis=0, ddof=1) / root
        colour = figures.SERIES[number % len(figures.SERIES)]
        dash = ("-", "--", ":")[number // len(figures.SERIES) % 3]
        days = np.arange(1, len(mean) + 1)
        axes.plot(days, mean, color=colour, linestyle=dash, linewidth=1.6, label=name)
        axes.fill_between(days, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
    figures.label_axes(axes, x="day of the participant", y=y, title=title)
    figures.add_legend(axes, columns=3)
    return axes, note
