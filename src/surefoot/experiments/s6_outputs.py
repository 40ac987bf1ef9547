"""S6 from the command line: run study by study, resumable, and written as table, runs, figure and verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from surefoot.atomic_files import atomic_write
from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.experiments import runner
from surefoot.experiments.further import FurtherExperiment, SummaryTable
from surefoot.experiments.progress import UnitProgress
from surefoot.experiments.s6 import ARTEFACTS, DECISION_POINTS, METHODS, OURS, RATIOS, Row, run_study, summarise
from surefoot.reports import figures
from surefoot.reports.render import save_svg
from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JUDGED_AT = 0.2
MOST_WRONG = 0.003
"""Of clean values at most this share may be flagged."""
LEAST_UNSAFE = 0.95
"""Of studies whose zeros come only after nothing was sent at least this share must be called unsafe."""


class S6Unit(NamedTuple):
    """A unit of S6: one simulated study under every artefact."""

    replicate: int

    @property
    def name(self) -> str:
        return f"s6-{self.replicate:04d}"


@dataclass(frozen=True, kw_only=True)
class S6Settings:
    """Everything that decides the numbers of S6."""

    participants: int = 100
    studies: int = 20
    seed: int = 0

    def check(self) -> None:
        if self.participants < 2 or self.studies < 1 or self.seed < 0:
            raise InputError(f"S6 needs at least two participants, one study and a seed of at least 0; got {asdict(self)}")


QUICK = {"participants": 20, "studies": 2}


def run_s6(seed: int, out: Path, *, quick: bool, jobs: int, progress: UnitProgress) -> dict[str, Any]:
    """Run S6, write `s6.*` into the folder, and return its summary."""
    settings = S6Settings(seed=seed, **(QUICK if quick else {}))
    settings.check()
    folder = out / f".s6-{'-'.join(str(value) for value in (__version__, *asdict(settings).values()))}"
    runner.prepare_folder(out, folder)
    units = [S6Unit(replicate) for replicate in range(settings.studies)]
    studies = runner.run_units(units, partial(_run, settings=settings), folder, jobs=jobs, progress=progress)
    rows = summarise(studies)
    summary = {
        "limits": judge_rows(rows),
        "rows": [asdict(row) for row in rows],
        "parameters": asdict(settings),
        "surefoot": __version__,
    }
    _write(rows, summary, out)
    runner.remove_folder(folder)
    return summary


def _run(unit: S6Unit, settings: S6Settings) -> list[dict[str, Any]]:
    return run_study(ARTEFACTS, RATIOS, participants=settings.participants, replicate=unit.replicate, seed=settings.seed)


def judge_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What the screen is held to, what came out, and whether it held."""
    found = []
    at = {row.artefact: row for row in rows if row.ratio in (0.0, JUDGED_AT)}
    found.append(_verdict("clean", "clean values flagged", at["clean"].wrong, MOST_WRONG, at["clean"].wrong <= MOST_WRONG))
    for artefact in ARTEFACTS:
        row = at[artefact.name]
        if not artefact.blind:
            what = "studies called unsafe, at least"
            found.append(_verdict(artefact.name, what, row.unsafe, LEAST_UNSAFE, row.unsafe >= LEAST_UNSAFE))
        elif artefact.limit is not None:
            held = row.to_oracle <= artefact.limit
            found.append(_verdict(artefact.name, f"{OURS} after the screen / oracle", row.to_oracle, artefact.limit, held))
    return found


def _verdict(data: str, what: str, found: float, limit: float, held: bool) -> dict[str, Any]:
    return {"data": data, "against": what, "ratio": found, "limit": limit, "held": bool(held)}


def _write(rows: list[Row], summary: dict[str, Any], out: Path) -> None:
    from pyarrow import csv, parquet

    frame = make_runs_frame(rows)
    with atomic_write(out / "s6.parquet") as temporary:
        parquet.write_table(frame, temporary)
    with atomic_write(out / "s6.csv") as temporary:
        csv.write_csv(frame, temporary)
    save_svg(draw_errors(rows), out / "s6.svg", "Coefficient error by artefact and share touched")
    with atomic_write(out / "s6.md") as temporary:
        temporary.write_text(_page(rows, summary), encoding="utf-8")
    with atomic_write(out / "s6.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_runs_frame(rows: Sequence[Row]) -> Any:
    """A row per artefact, ratio, method, and with or without the screen."""
    data: dict[str, list[Any]] = {name: [] for name in ("artefact", "ratio", "method", "screened", "relative_error")}
    for row in rows:
        for screened, errors in ((False, {"oracle": row.oracle, **row.plain}), (True, row.screened)):
            for name, value in errors.items():
                for key, entry in zip(data, (row.artefact, row.ratio, name, screened, value), strict=True):
                    data[key].append(entry)
    return make_frame(data, "pyarrow")


def _page(rows: Sequence[Row], summary: dict[str, Any]) -> str:
    names, settings = list(METHODS), summary["parameters"]
    lines = [
        "**S6: mean error ‖ŵ − w*‖ relative to `accb` on the clean data, without → with the screen**",
        "",
        f"{settings['studies']} studies of {settings['participants']} people × {DECISION_POINTS} decision points.",
        "",
        "| artefact | touched | oracle | " + " | ".join(names) + f" | {OURS} after the screen / oracle | found | unsafe |",
        "|---|---:|---:|" + "---:|" * (len(names) + 3),
    ]
    for row in rows:
        cells = [f"{row.plain[name]:.2f} → {row.screened[name]:.2f}" for name in names]
        ours = f"{row.to_oracle:.3f} ± {row.standard_error:.3f}"
        share, found, unsafe = f"{100 * row.ratio:g} %", f"{100 * row.found:.0f} %", f"{100 * row.unsafe:.0f} %"
        lines.append(f"| {row.artefact} | {share} | {row.oracle:.2f} | {' | '.join(cells)} | {ours} | {found} | {unsafe} |")
    lines += [
        "",
        "*found*: share of the wrong values that were flagged. *unsafe*: share of studies in which the flagged share "
        "differed by action; for artefacts that know nothing of the action these are false alarms.",
        "",
        "| at 20 % | what | came out | limit | held |",
        "|---|---|---:|---:|---|",
    ]
    for verdict in summary["limits"]:
        held = "yes" if verdict["held"] else "**no**"
        lines.append(
            f"| {verdict['data']} | {verdict['against']} | {verdict['ratio']:.3f} | {verdict['limit']:g} | {held} |"
        )
    return "\n".join(lines) + "\n"


COLOURS = {"accb": figures.ORANGE, "filter-accb (kalman)": figures.PURPLE, "ro-accb": figures.BROWN, "hb-accb": figures.BLUE}


def draw_errors(rows: Sequence[Row]) -> Figure:
    """Coefficient error against the share touched, a panel per artefact; dashed without the screen, drawn with it."""
    clean = next(row for row in rows if row.artefact == "clean")
    figure, axes = figures.new_figure(2, 4, width=12, height=6.2, sharey=True)
    panels = axes.ravel()
    for panel, artefact in zip(panels, ARTEFACTS, strict=False):
        own = [clean, *(row for row in rows if row.artefact == artefact.name)]
        share = [100 * row.ratio for row in own]
        panel.plot(share, [row.oracle for row in own], color=figures.GREY, linestyle=":", label="oracle")
        for name, colour in COLOURS.items():
            panel.plot(share, [row.plain[name] for row in own], color=colour, linestyle="--", linewidth=1)
            panel.plot(share, [row.screened[name] for row in own], color=colour, marker="o", markersize=3, label=name)
        panel.set_yscale("log")
        panel.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        panel.minorticks_off()
        figures.label_axes(panel, x="decision points touched (%)", y="", title=artefact.name)
    for panel in panels[len(ARTEFACTS) :]:
        panel.set_axis_off()
    for row_of_panels in axes:
        row_of_panels[0].set_ylabel("coefficient error\n(accb on clean data = 1)")
    shown = panels[0].get_legend_handles_labels()
    panels[-1].legend(*shown, loc="center", title="dashed: without the screen", **figures.LEGEND)
    return figure


def tabulate_limits(summary: dict[str, Any]) -> SummaryTable:
    """What the command line prints: what came out beside its limit."""
    rows = [
        (row["held"], (row["data"], f"{row['ratio']:.3f}", f"{row['limit']:g}", row["against"])) for row in summary["limits"]
    ]
    title = "S6: what devices do wrong, after the screen"
    return SummaryTable(title, ("data", "came out", "limit", "what"), (1, 2), tuple(rows))


EXPERIMENT = FurtherExperiment(run=run_s6, tabulate=tabulate_limits)
