"""S7 from the command line: run replicate by replicate, resumable, and written as table, runs, figure and summary."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from surefoot.atomic_files import atomic_write
from surefoot.data.frames import make_frame
from surefoot.experiments import runner
from surefoot.experiments.further import FurtherExperiment, SummaryTable
from surefoot.experiments.progress import UnitProgress
from surefoot.experiments.s7 import (
    FAMILY,
    OWN,
    PAPER,
    SETTINGS,
    Row,
    RunLength,
    S7Setting,
    Summary,
    run_replicate,
    summarise_rows,
)
from surefoot.experiments.s7_people import PeopleRow, run_people
from surefoot.experiments.s7_people_outputs import write_people
from surefoot.reports import figures
from surefoot.reports.numbers import format_signed
from surefoot.reports.render import save_svg
from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("HeartSteps", "50 × 210")
"""What figure and first sentences are about."""
REFERENCES = ("never", "coin", "always", "oracle-myopic")


class S7Unit(NamedTuple):
    """A unit of S7: one replicate of every setting."""

    replicate: int
    part: str = "s7"

    @property
    def name(self) -> str:
        return f"{self.part}-{self.replicate:04d}"


@dataclass(frozen=True, kw_only=True)
class S7Settings:
    """Everything that decides the numbers of S7."""

    replicates: int = 20
    steps: int = 2000
    keep: int = 1700
    seed: int = 0


QUICK = {"replicates": 3, "steps": 1500, "keep": 1200}


class Limit(NamedTuple):
    """What `hb-ahead` is held to."""

    what: str
    measure: str
    least: float
    simulator: str = "HeartSteps"
    size: str = "50 × 210"
    method: str = "hb-ahead"


LIMITS = (
    Limit("mean difference", "difference", 5.0),
    Limit("worst replicate", "worst", 0.0),
    Limit("mean reward", "reward", 1503.0),
    Limit("mean difference", "difference", 7.5, size="200 × 210"),
    Limit("mean difference", "difference", 0.0, size="50 × 42"),
    Limit("worst replicate", "worst", -20.0, size="50 × 42"),
    *(Limit("mean difference", "difference", -1.0, size=size) for size in ("50 × 10", "50 × 20")),
    *(Limit("5 % quantile", "low", -2.0, size=size) for size in ("50 × 10", "50 × 20")),
    Limit("mean difference", "difference", -2.0, method=OWN),
    *(Limit("mean reward", "reward", 89.5, simulator="chain walk", size=size) for size in ("50 × 42", "50 × 210")),
)


def run_s7(seed: int, out: Path, *, quick: bool, jobs: int, progress: UnitProgress) -> dict[str, Any]:
    """Run S7, write `s7.*` and `s7-people.*` into the folder, and return its summary."""
    settings = S7Settings(seed=seed, **(QUICK if quick else {}))
    key = "-".join(str(value) for value in (__version__, *asdict(settings).values()))
    folder = out / f".s7-{key}"
    runner.prepare_folder(out, folder)
    units = [S7Unit(replicate) for replicate in range(settings.replicates)]
    found = runner.run_units(units, partial(_rows, settings=settings), folder, jobs=jobs, progress=progress)
    units = [S7Unit(replicate, "s7-people") for replicate in range(settings.replicates)]
    people = runner.run_units(units, partial(_people_rows, settings=settings), folder, jobs=jobs, progress=progress)
    summary = _write(found, settings, out) | {"people": write_people(people, asdict(settings), out)}
    runner.remove_folder(folder)
    return summary


def _rows(unit: S7Unit, settings: S7Settings) -> list[Row]:
    return run_replicate(unit.replicate, SETTINGS, RunLength(settings.steps, settings.keep, settings.seed))


def _people_rows(unit: S7Unit, settings: S7Settings) -> list[PeopleRow]:
    return run_people(unit.replicate, RunLength(settings.steps, settings.keep, settings.seed))


def _write(found: list[list[Any]], settings: S7Settings, out: Path) -> dict[str, Any]:
    from pyarrow import parquet

    table = summarise_rows(found)
    rows = [(place, *row[1:], *SETTINGS[row[0]]) for place, rows in enumerate(found) for row in rows]
    names = ("replicate", *Row._fields[1:], *S7Setting._fields)
    frame = make_frame(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), "pyarrow")
    summary = {
        "limits": compare_with_limits(table),
        "results": [{**row._asdict(), "setting": str(SETTINGS[row.setting])} for row in table],
        "parameters": asdict(settings),
        "surefoot": __version__,
    }
    with atomic_write(out / "s7.parquet") as temporary:
        parquet.write_table(frame, temporary)
    save_svg(draw_figure(table), out / "s7.svg", "Long-run reward beside never prompting")
    with atomic_write(out / "s7.md") as temporary:
        temporary.write_text(write_page(table, summary), encoding="utf-8")
    with atomic_write(out / "s7.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary


def compare_with_limits(table: list[Summary]) -> list[dict[str, Any]]:
    """Every limit with the least favourable of the data that it is about."""
    rows = []
    for limit in LIMITS:
        about = [
            row
            for row in table
            if (SETTINGS[row.setting].simulator, SETTINGS[row.setting].size) == (limit.simulator, limit.size)
            and row.method == limit.method
        ]
        worst = min(about, key=lambda row: float(getattr(row, limit.measure)))
        value = float(getattr(worst, limit.measure))
        where = f"{limit.simulator}, {limit.size}, {limit.method}"
        found = {"what": limit.what, "where": where, "data": SETTINGS[worst.setting].data, "value": value}
        rows.append({**found, "limit": limit.least, "held": bool(value >= limit.least)})
    return rows


def draw_figure(table: list[Summary]) -> Figure:
    """Long-run difference from never on HeartSteps, 50 × 210, a panel for each kind of data."""
    shown = [place for place, s in enumerate(SETTINGS) if (s.simulator, s.size) == SHOWN]
    names = [*REFERENCES[1:], *PAPER, *FAMILY]
    figure, axes = figures.new_figure(1, len(shown), width=13, height=5.2, sharey=True, squeeze=False)
    for panel, place in zip(axes[0], shown, strict=True):
        found = {row.method: row for row in table if row.setting == place}
        for height, name in enumerate(names):
            colour = figures.GREY if name in REFERENCES else figures.BLUE if name in FAMILY else figures.ORANGE
            bar = 1.96 * found[name].standard_error
            panel.errorbar(found[name].difference, height, xerr=bar, fmt="o", color=colour, markersize=4, linewidth=1.2)
        panel.axvline(0, color=figures.INK, linewidth=0.8, linestyle="--")
        panel.set_xscale("symlog", linthresh=10)
        panel.set_xticks([-300, -30, 0, 10], ["−300", "−30", "0", "10"])
        panel.minorticks_off()
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        figures.label_axes(panel, x="steps per decision point\nmore than never", y="", title=SETTINGS[place].data)
    return figure


def write_page(table: list[Summary], summary: dict[str, Any]) -> str:
    """The tables with plain words."""
    found = {(row.setting, row.method): row for row in table}
    first = next(place for place, s in enumerate(SETTINGS) if (s.simulator, s.size) == SHOWN)
    ours = found[first, "hb-ahead"]
    best = found[first, "oracle-myopic"]
    replicates = summary["parameters"]["replicates"]
    lines = [
        "**S7: what a policy earns in the long run, beside never prompting**",
        "",
        "On HeartSteps every prompt tires people for about a day. Never prompting earns "
        f"{found[first, 'never'].reward:,.0f} steps a decision point. The best policy that looks at the next outcome only "
        f"earns {best.reward:,.0f}: it knows the truth and still loses {-best.difference:.0f} steps, because what a prompt "
        "gains now it costs several times later. All of the paper's nine methods look at the next outcome only. `hb-ahead`, "
        f"from the same 50 × 210 logs, earns {ours.difference:+.1f} more than never, prompting at "
        f"{100 * ours.share_treated:.0f} % of the decision points; no policy could earn more than about 9.",
        "",
        f"Differences from `never` under the same random numbers, means over {replicates} replicates ± standard error; "
        "in brackets the worst replicate. `ahead`, `ro-ahead` and `hb-ahead` learn one policy for everybody, the others "
        "one each.",
        "",
    ]
    for simulator, size in dict.fromkeys((setting.simulator, setting.size) for setting in SETTINGS):
        lines += [*_tabulate_study(simulator, size, found), ""]
    lines += ["**What `hb-ahead` is held to**", "", "| | data | found | at least |", "|---|---|---:|---:|"]
    for row in summary["limits"]:
        missed = "" if row["held"] else " (missed)"
        lines.append(f"| {row['what']}: {row['where']} | {row['data']} | {row['value']:.1f}{missed} | {row['limit']:g} |")
    return "\n".join(lines) + "\n"


def _tabulate_study(simulator: str, size: str, found: dict[tuple[int, str], Summary]) -> list[str]:
    """One line per method, one column for each kind of data."""
    places = [place for place, setting in enumerate(SETTINGS) if (setting.simulator, setting.size) == (simulator, size)]
    lines = [
        f"| {simulator}, {size} | " + " | ".join(SETTINGS[place].data for place in places) + " |",
        "|---" + "|---:" * len(places) + "|",
        "| never (reward) | " + " | ".join(f"{found[place, 'never'].reward:,.1f}" for place in places) + " |",
    ]
    for name in (*REFERENCES[1:], *PAPER, *FAMILY, OWN):
        rows = [found.get((place, name)) for place in places]
        if any(rows):
            lines.append(f"| {name} | " + " | ".join(map(_format_difference, rows)) + " |")
    return lines


def _format_difference(row: Summary | None) -> str:
    if row is None:
        return "–"
    mean, worst = format_signed(row.difference, 1), format_signed(row.worst, 1)
    return f"{mean} ± {row.standard_error:.1f} ({worst})"


def tabulate_limits(summary: dict[str, Any]) -> SummaryTable:
    """What the command line prints: every limit beside what was found."""
    rows = []
    for row in summary["limits"]:
        cells = (f"{row['what']}: {row['where']}", row["data"], f"{row['value']:.1f}", f"{row['limit']:g}")
        rows.append((row["held"], cells))
    for row in summary.get("people", {"limits": []})["limits"]:
        sign = "at most " if row["at_most"] else ""
        rows.append((row["held"], (row["what"], "people differ", f"{row['value']:.2f}", f"{sign}{row['limit']:g}")))
    return SummaryTable("S7: hb-ahead beside never", ("what", "data", "found", "at least"), (2, 3), tuple(rows))


EXPERIMENT = FurtherExperiment(run=run_s7, tabulate=tabulate_limits)
