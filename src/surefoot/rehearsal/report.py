"""A rehearsal's report: answers, recommendation, the table for the protocol, and a page with curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.atomic_files import json_text, write_texts
from surefoot.data.frames import make_frame
from surefoot.inference.intervals import Interval
from surefoot.rehearsal.candidate_answers import CandidateAnswers
from surefoot.rehearsal.candidates import NEVER
from surefoot.rehearsal.design import TrialDesign
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.model_checks import PilotChecks
from surefoot.rehearsal.pilot_effect import PilotEffect
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.recommendation import Recommendation
from surefoot.reports.figures import BLUE, GREY, SERIES, add_legend, interval_bars, label_axes, new_figure
from surefoot.reports.numbers import format_number, format_percent
from surefoot.reports.render import inline_svg, render
from surefoot.reports.summaries import ShownResult, make_table

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.console import Console

Answers = Mapping[str, CandidateAnswers]
"""Candidate → its answers in one environment."""
Floats = NDArray[np.float64]
SURE = 1.96
HEADERS = (
    "candidate",
    "mean outcome",
    "over coin",
    "prompted",
    "harmed",
    "power",
    "25th percentile",
    "over never",
    "regret",
    "SD / SE",
    "effective share",
    "fallback",
    "updates refused",
    "left",
)


@dataclass(frozen=True, eq=False)
class Rehearsal(ShownResult):
    """Candidates compared in several environments.

    Attributes
    ----------
    plan, design
        What was rehearsed.
    environments
        What sending did, no effect first.
    answers
        Environment → candidate → its answers.
    by_environment, overall
        The recommendations and their reasons.
    tuned
        For every environment the mean rewards from which the best fixed probability and the best policy were chosen.
    spread
        Standard deviation of the reward at available decision points.
    unit
        Of the reward.
    warnings
        Why the pilot's logs may not be what they are said to be.
    checks
        Whether the simulated people look like those in the pilot; None without a pilot.
    effect
        The effect in the pilot; None without one.
    manifest
        Versions, plan, hashes of study and pilot.
    notes
        What the reader should know.
    """

    plan: RehearsalPlan
    design: TrialDesign
    environments: tuple[Environment, ...]
    answers: Mapping[str, Answers]
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

    page_title: ClassVar[str] = "Rehearsal of a trial"

    @property
    def trials(self) -> int:
        return self.plan.trials

    @property
    def harm(self) -> float:
        """A participant whose mean reward lies this much below never's is harmed."""
        return self.plan.rule.harm * self.spread

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """The numbers of the table, one row for each environment and candidate, with Monte Carlo errors."""
        rows: list[dict[str, Any]] = []
        for answers in (answers for environment in self.answers.values() for answers in environment.values()):
            row: dict[str, Any] = {}
            for name, value in answers.to_dict().items():
                if isinstance(value, dict) and "standard_error" in value:
                    row[name] = value["value"]
                    row[f"{name}_error"] = value["standard_error"]
                elif name in ("environment", "candidate", "trials", "analysed"):
                    row[name] = value
            rows.append(row)
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

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
            "answers": [answers.to_dict() for environment in self.answers.values() for answers in environment.values()],
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
        texts = {
            "answers.json": json_text(self.to_dict()) + "\n",
            "table.md": write_markdown(self.answers, self.harm, self.unit),
        }
        write_texts({Path(folder) / name: text for name, text in texts.items()})

    def print_summary(self, console: Console) -> None:
        for warning in self.warnings:
            console.print(warning, markup=False)
        if self.checks is not None:
            console.print(f"The model of the pilot: {self.checks.verdict}")
            for difference in self.checks.differences:
                console.print(f"  look: {difference}", markup=False)
        for recommendation, answers in zip(self.by_environment, self.answers.values(), strict=True):
            console.print(f"\n{recommendation.environment}", markup=False, style="bold")
            table = make_table(*HEADERS[:6])
            for row in tabulate(answers):
                table.add_row(*row[:6])
            console.print(table)
            console.print(f"→ {recommendation.sentence}", markup=False)
        for note in self.notes:
            console.print(note, markup=False)
        console.print(f"\nRecommended: {self.overall.sentence} ({self.trials} trials)", markup=False)

    def render_page(self, *, title: str, source: str) -> str:
        sections = [
            _describe_environment(self, environment, recommendation, tuned)
            for environment, recommendation, tuned in zip(self.environments, self.by_environment, self.tuned, strict=True)
        ]
        legend = explain_table(self.trials, self.harm, self.unit)
        return render(
            "rehearsal.html", title=title, source=source, found=self, sections=sections, headers=HEADERS, legend=legend
        )


# The table for the protocol


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


def tabulate(answers: Answers) -> list[list[str]]:
    """A row for each candidate, in the order of `HEADERS`."""
    return [_list_entries(candidate) for candidate in answers.values()]


def _list_entries(answers: CandidateAnswers) -> list[str]:
    span = " to ".join(format_percent(answers.mean(name).value, 0).removesuffix(" %") for name in ("sent_low", "sent_high"))
    name = answers.candidate
    if answers.sends is not None and f"{answers.sends:g}" not in name:
        name = f"{name} ({answers.sends:g})"
    return [
        name,
        show_mean(answers.mean("outcome")),
        show_mean(answers.mean("over_coin")),
        f"{format_percent(answers.mean('sent').value, 0)} ({span})",
        show_share(answers.mean("harmed")),
        show_share(answers.rejections),
        show_mean(answers.mean("lower_quarter")),
        show_mean(answers.mean("over_never")),
        show_mean(answers.mean("regret")),
        show_mean(answers.honesty),
        show_share(answers.mean("effective_share")),
        show_share(answers.mean("fallback")),
        show_share(answers.refused_updates),
        show_share(answers.mean("left")),
    ]


def write_markdown(answers: Mapping[str, Answers], harm: float, unit: str) -> str:
    """The table in Markdown, with the Monte Carlo error of every number in brackets."""
    lines: list[str] = []
    for environment, candidates in answers.items():
        lines += [f"**{environment}**", "", f"| {' | '.join(HEADERS)} |", "|---" + "|---:" * (len(HEADERS) - 1) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in tabulate(candidates)]
        lines.append("")
    trials = next(iter(next(iter(answers.values())).values())).trials
    return "\n".join([*lines, explain_table(trials, harm, unit)]) + "\n"


def explain_table(trials: int, harm: float, unit: str) -> str:
    """What the columns mean."""
    return (
        f"{trials} simulated trials; Monte Carlo errors in brackets; outcomes in {unit}. Over coin and over never are "
        "differences of mean outcomes for the same people with the same chance. Prompted is the share of available decision "
        "points, with the 10th and 90th percentile of people. Harmed is the share of people whose mean outcome lies more "
        f"than {format_number(harm)} below what it would have been under never. Power is how often the primary analysis "
        "finds an effect (where there is none: the type I error). Regret is against the best policy of the environment. "
        "SD / SE is the standard deviation of the estimated effects over their mean standard error: 1 is honest."
    )


# The page


def _describe_environment(
    rehearsal: Rehearsal, environment: Environment, recommendation: Recommendation, tuned: Mapping[str, Any]
) -> dict[str, Any]:
    """What the page shows of one environment."""
    answers = rehearsal.answers[environment.name]
    charts = [_draw_prompts(answers), _draw_rejections(answers)]
    if environment.effects:  # Where nothing has an effect, no outcome differs.
        charts = [_draw_gains(answers, rehearsal.unit), _draw_learning(answers, rehearsal.unit), *charts]
    return {
        "name": environment.name,
        "effects": environment.describe(),
        "recommendation": recommendation,
        "rows": tabulate(answers),
        "has_effect": bool(environment.effects),
        "charts": charts,
        "tuned": tuned,
        # Never and always leave nothing to compare, so that their trials cannot be analysed.
        "reasons": [
            f"{name}: {candidate.reasons[0]}"
            for name, candidate in answers.items()
            if candidate.reasons and candidate.sends not in (0, 1)
        ],
        "refusals": _list_refusals(answers),
    }


def _list_refusals(answers: Answers) -> list[str]:
    """Which checks refused how many of a candidate's updates."""
    lines = []
    for name, candidate in answers.items():
        judged = int(candidate.values["updates_done"].sum() + candidate.values["updates_refused"].sum())
        counts = ", ".join(f"{check} {count} of {judged}" for check, count in candidate.refusals.items())
        lines += [f"{name}: {counts}"] if counts else []
    return lines


def _draw_intervals(intervals: Mapping[str, Interval], *, line: float, style: str, scale: float = 1.0) -> tuple[Any, Any]:
    """A dot with its interval for each candidate, the first at the top, and a line to compare with."""
    names = list(intervals)[::-1]
    figure, axes = new_figure(width=5.6, height=1.4 + 0.36 * len(names))
    values, bars = interval_bars([intervals[name] for name in names], scale)
    axes.errorbar(values, range(len(names)), xerr=bars, fmt="o", color=BLUE, markersize=5, linewidth=1.6, capsize=3)
    axes.axvline(line, color=GREY, linewidth=1.0, linestyle=style)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.5, max(len(names), 1) - 0.5)
    return figure, axes


def _draw_gains(answers: Answers, unit: str) -> tuple[Markup, str]:
    gains = {name: candidate.mean("over_coin") for name, candidate in answers.items()}
    figure, axes = _draw_intervals(gains, line=0, style="-")
    label_axes(axes, x=f"mean outcome minus the coin's ({unit})", y="", title="Gain over a coin")
    note = "Over the same people with the same chance; 95 % intervals over trials."
    return inline_svg(figure, note), note


def _draw_rejections(answers: Answers) -> tuple[Markup, str]:
    first = next(iter(answers.values()))
    rejections = {name: candidate.rejections for name, candidate in answers.items()}
    known = {name: interval for name, interval in rejections.items() if not np.isnan(interval.value)}
    figure, axes = _draw_intervals(known, line=100 * first.level, style="--", scale=100)
    axes.set_xlim(left=0)
    title = "Type I error" if first.is_null else "Power"
    label_axes(axes, x="% of trials in which the primary analysis finds an effect", y="", title=title)
    note = f"95 % intervals; the dashed line is the level of the test, {100 * first.level:g} %."
    return inline_svg(figure, note), note


def _draw_curves(curves: Mapping[str, tuple[Floats, Floats]], scale: float = 1.0) -> tuple[Any, Any]:
    """Means by day with bands of two Monte Carlo errors; after the sixth colours come again with another dash."""
    figure, axes = new_figure(width=5.6, height=4.2)
    for number, (name, (mean, error)) in enumerate(curves.items()):
        if np.isnan(mean).all():
            continue
        colour = SERIES[number % len(SERIES)]
        dash = ("-", "--", ":")[number // len(SERIES) % 3]
        days = np.arange(1, len(mean) + 1)
        axes.plot(days, scale * mean, color=colour, linestyle=dash, linewidth=1.6, label=name)
        low = scale * (mean - SURE * error)
        high = scale * (mean + SURE * error)
        axes.fill_between(days, low, high, color=colour, alpha=0.2, linewidth=0)
    return figure, axes


def _draw_learning(answers: Answers, unit: str) -> tuple[Markup, str]:
    curves = {}
    for name, candidate in answers.items():
        difference = candidate.minus(answers[NEVER], "outcome_by_day")
        curves[name] = difference.mean(axis=0), difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    figure, axes = _draw_curves(curves)
    label_axes(axes, x="day of the participant", y=f"mean outcome minus never's ({unit})", title="Learning")
    add_legend(figure, axes, columns=3)
    note = "The mean outcome of every day against sending nothing; bands are 95 % intervals over trials."
    return inline_svg(figure, note), note


def _draw_prompts(answers: Answers) -> tuple[Markup, str]:
    figure, axes = _draw_curves({name: candidate.curves["sent_by_day"] for name, candidate in answers.items()}, 100)
    axes.set_ylim(-3, 103)
    label_axes(axes, x="day of the participant", y="% of available decision points", title="Prompts")
    add_legend(figure, axes, columns=3)
    note = "The share of available decision points with a prompt; bands are 95 % intervals over trials."
    return inline_svg(figure, note), note
