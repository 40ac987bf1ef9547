"""S7, people who differ, as tables, figure and what partial pooling is held to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from surefoot.atomic_files import atomic_write
from surefoot.data.frames import make_frame
from surefoot.experiments.s7_people import FITS, POINTS, SPREADS, PeopleRow, PeopleSummary, summarise_people
from surefoot.reports import figures
from surefoot.reports.numbers import format_signed
from surefoot.reports.render import save_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAUTIOUS = "partial, κ = 0.5"
Found = dict[tuple[float, int, str], PeopleSummary]


class PeopleLimit(NamedTuple):
    """What partial pooling is held to."""

    what: str
    measure: Callable[[Found], float]
    limit: float
    at_most: bool


def _compare_errors(spread: float, points: int, others: tuple[str, ...] = ("person", "all")) -> Callable[[Found], float]:
    """The coefficients' error beside that of the better of the others."""

    def measure(found: Found) -> float:
        best = min(found[spread, points, other].coefficient_error for other in others)
        return found[spread, points, "partial"].coefficient_error / best

    return measure


def _gain_on_pooled(spread: float, fit: str = CAUTIOUS) -> Callable[[Found], float]:
    return lambda found: found[spread, 210, fit].difference - found[spread, 210, "all"].difference


LIMITS = (
    *(
        PeopleLimit(f"coefficients' error of the better, spread 1, {n} points", _compare_errors(1.0, n), 0.85, True)
        for n in (105, 210)
    ),
    PeopleLimit("coefficients' error of the better, spread 2, 210 points", _compare_errors(2.0, 210), 0.7, True),
    *(
        PeopleLimit(f"coefficients' error of pooled, spread 0, {n} points", _compare_errors(0.0, n, ("all",)), 1.2, True)
        for n in POINTS
    ),
    PeopleLimit("steps more than pooled, κ = 0.5, spread 1", _gain_on_pooled(1.0), 10.0, False),
    PeopleLimit("steps more than pooled, κ = 0.5, spread 2", _gain_on_pooled(2.0), 80.0, False),
    PeopleLimit("share harmed, κ = 0.5, spread 1", lambda found: found[1.0, 210, CAUTIOUS].harmed, 0.08, True),
)


def write_people(replicates: list[list[Any]], parameters: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write `s7-people.*` into the folder, and return its summary."""
    from pyarrow import parquet

    table = summarise_people(replicates)
    rows = [(place, *row) for place, found in enumerate(replicates) for row in found]
    names = ("replicate", *PeopleRow._fields)
    frame = make_frame(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), "pyarrow")
    limits = compare_people(table)
    with atomic_write(out / "s7-people.parquet") as temporary:
        parquet.write_table(frame, temporary)
    save_svg(draw_people(table), out / "s7-people.svg", "Error and reward by how much people differ")
    with atomic_write(out / "s7-people.md") as temporary:
        temporary.write_text(write_page(table, limits, len(replicates)), encoding="utf-8")
    summary = {"limits": limits, "results": [row._asdict() for row in table], "parameters": parameters}
    with atomic_write(out / "s7-people.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary


def compare_people(table: list[PeopleSummary]) -> list[dict[str, Any]]:
    """Every limit that these results can tell of."""
    found = {row[:3]: row for row in table}
    rows = []
    for limit in LIMITS:
        try:
            value = limit.measure(found)
        except KeyError:
            continue
        held = value <= limit.limit if limit.at_most else value >= limit.limit
        rows.append({"what": limit.what, "value": value, "limit": limit.limit, "at_most": limit.at_most, "held": held})
    return rows


def draw_people(table: list[PeopleSummary]) -> Figure:
    """Coefficients' error and long-run difference by spread, at the largest number of decision points."""
    most = max(row.decision_points for row in table)
    figure, (errors, gains) = figures.new_figure(1, 2, width=11, height=4.4)
    colours = dict(zip(FITS, (figures.GREY, figures.ORANGE, figures.BLUE, *figures.SERIES[2:]), strict=False))
    for name in ("person", "all", "partial"):
        rows = [row for row in table if row.fit == name and row.decision_points == most]
        spreads = [row.spread for row in rows]
        errors.plot(spreads, [row.coefficient_error for row in rows], "o-", color=colours[name], label=name)
    for name in ("person", "all", CAUTIOUS):
        rows = [row for row in table if row.fit == name and row.decision_points == most]
        bars = [1.96 * row.standard_error for row in rows]
        values = [row.difference for row in rows]
        gains.errorbar([row.spread for row in rows], values, bars, fmt="o-", color=colours[name], label=name, capsize=3)
    gains.axhline(0, color=figures.INK, linewidth=0.8, linestyle="--")
    unit = "steps per decision point"
    figures.label_axes(errors, x="spread between people", y=f"error ({unit})", title="Coefficients of the reward")
    figures.label_axes(gains, x="spread between people", y=f"{unit}\nmore than never", title="Long-run reward")
    for axes in (errors, gains):
        axes.legend(**figures.LEGEND)
    return figure


def write_page(table: list[PeopleSummary], limits: list[dict[str, Any]], replicates: int) -> str:
    """The tables with plain words."""
    lines = [
        "**S7, people who differ: one policy each, one for all, or partial pooling**",
        "",
        f"`hb-ahead` on 50 people of HeartSteps whose coefficients differ; means over {replicates} replicates, clean logs "
        "under a coin. One each is shown without caution: with κ = 3 it does nothing.",
    ]
    found = {row[:3]: row for row in table}
    for points in [points for points in POINTS if any(row.decision_points == points for row in table)]:
        lines += ["", *_tabulate_points(found, points)]
    lines += ["", "**What partial pooling is held to**", "", "| | found | limit |", "|---|---:|---:|"]
    for row in limits:
        missed, sign = "" if row["held"] else " (missed)", "at most" if row["at_most"] else "at least"
        lines.append(f"| {row['what']} | {row['value']:.2f}{missed} | {sign} {row['limit']:g} |")
    return "\n".join(lines) + "\n"


def _tabulate_points(found: Found, points: int) -> list[str]:
    """Error, difference from never and share harmed for every spread."""
    spreads = [spread for spread in SPREADS if (spread, points, "partial") in found]
    lines = [
        f"| {points} decision points | " + " | ".join(f"spread {spread:g}" for spread in spreads) + " |",
        "|---" + "|---:" * len(spreads) + "|",
    ]
    for name in ("person", "all", "partial"):
        cells = [f"{found[spread, points, name].coefficient_error:,.0f}" for spread in spreads]
        lines.append(f"| error of the coefficients, {name} | " + " | ".join(cells) + " |")
    for name in FITS:
        rows = [found[spread, points, name] for spread in spreads]
        cells = [f"{format_signed(row.difference, 1)} ± {row.standard_error:.1f} ({100 * row.harmed:.0f} %)" for row in rows]
        lines.append(f"| steps more than never (harmed), {name} | " + " | ".join(cells) + " |")
    return lines
