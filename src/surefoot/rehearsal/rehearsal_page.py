"""The page of a rehearsal: recommendation, table, curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.rehearsal.candidate_answers import CandidateAnswers
from surefoot.rehearsal.candidates import NEVER
from surefoot.rehearsal.protocol_table import HEADERS, explain_table, tabulate
from surefoot.reports.figures import BLUE, GREY, SERIES, add_legend, interval_bars, label_axes, new_figure
from surefoot.reports.render import inline_svg, render

if TYPE_CHECKING:
    from markupsafe import Markup

    from surefoot.rehearsal.rehearsal_findings import RehearsalFindings

SURE = 1.96


def render_rehearsal(found: RehearsalFindings, *, title: str, source: str) -> str:
    """A self-contained HTML page."""
    sections = []
    for one, environment, tuned in zip(found.by_environment, found.environments, found.tuned, strict=True):
        cells = found.answers[environment.name]
        charts = [_draw_prompts(cells), _draw_rejections(cells)]
        if environment.effects:  # Where nothing has an effect, no outcome differs.
            charts = [_draw_gains(cells, found.unit), _draw_learning(cells, found.unit), *charts]
        sections.append(
            {"name": environment.name, "effects": environment.describe(), "recommendation": one, "rows": tabulate(cells),
             "has_effect": bool(environment.effects), "charts": charts, "tuned": tuned,
             "reasons": _list_reasons(cells), "refusals": _list_refusals(cells)}
        )  # fmt: skip
    legend = explain_table(found.trials, found.harm, found.unit)
    return render(
        "rehearsal.html", title=title, source=source, found=found, sections=sections, headers=HEADERS, legend=legend
    )


def _list_reasons(cells: Mapping[str, CandidateAnswers]) -> list[str]:
    """Why trials were not analysed, one sentence for each candidate; never and always leave nothing to compare."""
    return [f"{name}: {one.reasons[0]}" for name, one in cells.items() if one.reasons and one.sends not in (0, 1)]


def _list_refusals(cells: Mapping[str, CandidateAnswers]) -> list[str]:
    """Which checks refused how many of a candidate's updates."""
    found = []
    for name, one in cells.items():
        judged = int(one.values["updates_done"].sum() + one.values["updates_refused"].sum())
        counts = ", ".join(f"{check} {count} of {judged}" for check, count in one.refusals.items())
        found += [f"{name}: {counts}"] if counts else []
    return found


def _draw_gains(cells: Mapping[str, CandidateAnswers], unit: str) -> tuple[Markup, str]:
    figure, axes = new_figure(width=5.6, height=1.4 + 0.36 * len(cells))
    names = list(cells)[::-1]
    values, bars = interval_bars([cells[name].mean("over_coin") for name in names])
    axes.errorbar(values, range(len(names)), xerr=bars, fmt="o", color=BLUE, markersize=5, linewidth=1.6, capsize=3)
    axes.axvline(0, color=GREY, linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.5, max(len(names), 1) - 0.5)
    label_axes(axes, x=f"mean outcome minus the coin's ({unit})", y="", title="Gain over a coin")
    note = "Over the same people with the same chance; 95 % intervals over trials."
    return inline_svg(figure, note), note


def _draw_lines(axes: Any, cells: Mapping[str, tuple[np.ndarray, np.ndarray]], scale: float = 1.0) -> None:
    """Means by day with bands of two Monte Carlo errors; after the sixth colours come again with another dash."""
    for place, (name, (mean, error)) in enumerate(cells.items()):
        if np.isnan(mean).all():
            continue
        colour, dash = SERIES[place % len(SERIES)], ("-", "--", ":")[place // len(SERIES) % 3]
        days = np.arange(1, len(mean) + 1)
        axes.plot(days, scale * mean, color=colour, linestyle=dash, linewidth=1.6, label=name)
        low, high = scale * (mean - SURE * error), scale * (mean + SURE * error)
        axes.fill_between(days, low, high, color=colour, alpha=0.2, linewidth=0)


def _draw_learning(cells: Mapping[str, CandidateAnswers], unit: str) -> tuple[Markup, str]:
    found = {}
    for name, one in cells.items():
        moved = one.minus(cells[NEVER], "outcome_by_day")
        found[name] = moved.mean(axis=0), moved.std(axis=0, ddof=1) / np.sqrt(len(moved))
    figure, axes = new_figure(width=5.6, height=4.2)
    _draw_lines(axes, found)
    label_axes(axes, x="day of the participant", y=f"mean outcome minus never's ({unit})", title="Learning")
    add_legend(figure, axes, columns=3)
    note = "The mean outcome of every day against sending nothing; bands are 95 % intervals over trials."
    return inline_svg(figure, note), note


def _draw_prompts(cells: Mapping[str, CandidateAnswers]) -> tuple[Markup, str]:
    figure, axes = new_figure(width=5.6, height=4.2)
    _draw_lines(axes, {name: one.curves["sent_by_day"] for name, one in cells.items()}, 100)
    axes.set_ylim(-3, 103)
    label_axes(axes, x="day of the participant", y="% of available decision points", title="Prompts")
    add_legend(figure, axes, columns=3)
    note = "The share of available decision points with a prompt; bands are 95 % intervals over trials."
    return inline_svg(figure, note), note


def _draw_rejections(cells: Mapping[str, CandidateAnswers]) -> tuple[Markup, str]:
    first = next(iter(cells.values()))
    shown = {name: one.rejections for name, one in cells.items() if not np.isnan(one.rejections.value)}
    figure, axes = new_figure(width=5.6, height=1.4 + 0.36 * len(shown))
    names = list(shown)[::-1]
    values, bars = interval_bars([shown[name] for name in names], 100)
    axes.errorbar(values, range(len(names)), xerr=bars, fmt="o", color=BLUE, markersize=5, linewidth=1.6, capsize=3)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.5, max(len(names), 1) - 0.5)
    axes.axvline(100 * first.level, color=GREY, linewidth=1.0, linestyle="--")
    axes.set_xlim(left=0)
    what = "Type I error" if first.is_null else "Power"
    label_axes(axes, x="% of trials in which the primary analysis finds an effect", y="", title=what)
    note = f"95 % intervals; the dashed line is the level of the test, {100 * first.level:g} %."
    return inline_svg(figure, note), note
