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
from surefoot.rehearsal.pilot_effects import PilotEffects
from surefoot.rehearsal.plan import NEVER, RehearsalPlan, TrialDesign
from surefoot.rehearsal.recommendation import CandidateAnswers, Recommendation, show_interval
from surefoot.reports.figures import BLUE, GREY, SERIES, add_legend, interval_bars, label_axes, new_figure
from surefoot.reports.numbers import format_number, format_percent
from surefoot.reports.render import inline_svg, render
from surefoot.reports.summaries import ShownResult, make_table, to_plain

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
    spread: float
    """Standard deviation of the reward at available decision points."""
    unit: str
    """Of the reward."""
    warnings: tuple[str, ...]
    """Findings about the pilot's logs that are not fine."""
    checks: PilotChecks | None
    """Whether the model shows what the pilot shows; None without a pilot."""
    effects: PilotEffects | None
    """The effects in the pilot; None without one."""
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
            "warnings": list(self.warnings),
            "recommendation": self.overall.to_dict(),
            "by_environment": [recommendation.to_dict() for recommendation in self.by_environment],
            "trials": self.trials,
            "unit": self.unit,
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
        """The effects of prompts in the pilot, and whether it can tell what earlier ones do."""
        if self.effects is None:
            return ["Without a pilot the effects are assumed, and intervals hold the simulation's error alone"]
        sentences = [
            f"In the pilot a prompt changes the mean outcome ({self.unit}) at once by {show_interval(self.effects.now)}; "
            f"all earlier prompts, as often as in the pilot, change it by {show_interval(self.effects.later)} (95 % "
            "intervals)"
        ]
        if self.effects.later_is_unclear:
            sentences.append(
                "The pilot cannot tell whether earlier prompts matter: nothing and a sizeable effect both lie within the "
                "interval. Every interval below includes this"
            )
            if any(environment.carry_over != "estimate" for environment in self.environments):
                sentences[-1] += "; none, and both ends, are rehearsed as well"
        return sentences

    @property
    def next_step(self) -> str:
        """How to go on."""
        return (
            f"{self.trials} trials of each environment; --trials {10 * self.trials} --out rehearsal makes the simulation's "
            "error a third, and can be interrupted and continued"
        )

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

    def plot(self, environment: str | None = None) -> Figure:
        """The gain of every candidate over a coin in an environment, the first with an effect unless named."""
        return self._draw_gains(environment or self.environments[:2][-1].title)[0]

    def _draw_gains(self, environment: str) -> tuple[Figure, str]:
        """A dot with its interval for each candidate, the first at the top."""
        gains = {name: candidate.mean("over_coin") for name, candidate in list(self.answers[environment].items())[::-1]}
        rows = range(len(gains))
        figure, axes = new_figure(width=5.6, height=1.4 + 0.36 * len(gains))
        values, bars = interval_bars(list(gains.values()))
        axes.errorbar(values, rows, xerr=bars, fmt="o", color=BLUE, markersize=5, linewidth=1.6, capsize=3)
        axes.axvline(0, color=GREY, linewidth=1.0)
        axes.set_yticks(rows, list(gains))
        label_axes(axes, x=f"mean outcome minus the coin's ({self.unit})", y="", title="Gain over a coin")
        return figure, "Over the same people with the same chance; 95 % intervals with the pilot's uncertainty."

    def render_page(self, *, title: str, source: str) -> str:
        sections = [
            self._describe_environment(environment, recommendation)
            for environment, recommendation in zip(self.environments, self.by_environment, strict=True)
        ]
        return render("rehearsal.html", title=title, source=source, rehearsal=self, sections=sections, legend=self._legend)

    @property
    def _legend(self) -> str:
        """The meaning of the table's columns."""
        return (
            f"{self.trials} simulated trials, outcomes in {self.unit}; in brackets 95 % intervals with the pilot's "
            "uncertainty. Over coin and over never are differences of mean outcomes for the same people with the same "
            "chance; the simulation error is that of the first. Prompted is the share of available decision points, with "
            "the 10th and 90th percentile of people. Harmed is the share of people whose mean outcome lies more than "
            f"{format_number(self.harm)} below what it would have been under never. Power is how often the primary analysis "
            "finds an effect (where there is none: the type I error). SD / SE is "
            "the standard deviation of the estimated effects over their mean standard error: 1 is honest."
        )

    def _describe_environment(self, environment: Environment, recommendation: Recommendation) -> dict[str, Any]:
        """The section of the page about one environment."""
        answers = self.answers[environment.title]
        root = np.sqrt(len(answers[NEVER].values["outcome"]))
        prompts = {name: 100 * candidate.values["sent_by_day"] for name, candidate in answers.items()}
        note = "The share of available decision points with a prompt; bands are the simulation's error."
        charts = [_draw_curves(prompts, root, "Prompts", "% of available decision points", note)]
        if not environment.is_null:  # Without an effect no outcome differs.
            never = answers[NEVER].values["outcome_by_day"]
            gains = {name: candidate.values["outcome_by_day"] - never for name, candidate in answers.items()}
            note = "The mean outcome of every day against sending nothing; bands are the simulation's error."
            learning = _draw_curves(gains, root, "Learning", f"mean outcome minus never's ({self.unit})", note)
            charts = [self._draw_gains(environment.title), learning, *charts]
        return {
            "environment": environment,
            "recommendation": recommendation,
            "answers": answers,
            "rows": tabulate(answers),
            "charts": [(inline_svg(figure, note), note) for figure, note in charts],
        }


def tabulate(answers: Answers) -> list[dict[str, str]]:
    """A row for each candidate: column → entry."""

    def show(interval: Interval) -> str:
        """A number with its interval, with the digits that its standard error supports."""
        if np.isnan(interval.value):
            return "–"
        if not interval.standard_error > 0:
            return format_number(interval.value)
        digits = max(0, -int(np.floor(np.log10(max(interval.standard_error, abs(interval.value) / 50)))))
        value, low, high = (f"{number:,.{digits}f}".replace("-", "−") for number in (interval.value, *interval[2:]))
        return f"{value} ({low} to {high})"

    def show_percent(interval: Interval) -> str:
        if np.isnan(interval.value):
            return "–"
        return f"{100 * interval.value:.0f} % ({100 * interval.low:.0f} to {100 * interval.high:.0f})"

    rows = []
    for candidate in answers.values():
        low, high = (format_percent(candidate.mean(name).value, 0).removesuffix(" %") for name in ("sent_low", "sent_high"))
        name = candidate.candidate
        if candidate.sends is not None and f"{candidate.sends:g}" not in name:
            name = f"{name} ({candidate.sends:g})"
        rows.append(
            {
                "candidate": name,
                "over coin": show(candidate.mean("over_coin")),
                "over never": show(candidate.mean("over_never")),
                "prompted": f"{format_percent(candidate.mean('sent').value, 0)} ({low} to {high})",
                "harmed": show_percent(candidate.mean("harmed")),
                "power": show_percent(candidate.rejections),
                "simulation error": format_number(candidate.simulation_error("over_coin")),
                "mean outcome": show(candidate.mean("outcome")),
                "25th percentile": show(candidate.mean("lower_quarter")),
                "SD / SE": show(candidate.honesty),
                "effective share": show_percent(candidate.mean("effective_share")),
                "fallback": show_percent(candidate.mean("fallback")),
                "updates refused": show_percent(candidate.refused_updates),
                "left": show_percent(candidate.mean("left")),
            }
        )
    return rows


def _draw_curves(curves: Mapping[str, Any], root: float, title: str, y: str, note: str) -> tuple[Figure, str]:
    """Means by day of values (trials, days), with 95 % bands of simulation error; further dashes where colours repeat."""
    figure, axes = new_figure(width=5.6, height=4.2)
    for number, (name, values) in enumerate(curves.items()):
        if np.isnan(values).all():
            continue
        mean = values.mean(axis=0)
        half = 1.96 * values.std(axis=0, ddof=1) / root
        colour = SERIES[number % len(SERIES)]
        dash = ("-", "--", ":")[number // len(SERIES) % 3]
        days = np.arange(1, len(mean) + 1)
        axes.plot(days, mean, color=colour, linestyle=dash, linewidth=1.6, label=name)
        axes.fill_between(days, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
    label_axes(axes, x="day of the participant", y=y, title=title)
    add_legend(figure, axes, columns=3)
    return figure, note
