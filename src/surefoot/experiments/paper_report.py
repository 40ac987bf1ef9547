"""What `reproduce` writes about S1 to S4: runs, tables as in the paper, its figure, a report and a summary."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.atomic_files import atomic_write
from surefoot.experiments.claims import Claim, filters_that_win, judge
from surefoot.experiments.engine import keep_units, markdown_table, run_units, write_text
from surefoot.experiments.paper import (
    COLUMNS,
    DATA_SETS,
    ELRAR,
    FILTER_NAMES,
    RATIOS,
    SCENES,
    STRENGTHS,
    SWEPT_TAUS,
    TYPES,
    Cell,
    Results,
    Scene,
    Settings,
    run_unit,
    scene_title,
)
from surefoot.experiments.progress import UnitProgress
from surefoot.inference.intervals import mean_interval
from surefoot.reports.figures import BLUE, GREEN, GREY, LEGEND, ORANGE, label_axes, new_figure
from surefoot.reports.render import inline_svg, render, save_svg
from surefoot.simulators.measures import reference_policies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"linucb": "LinUCB", "accb": "ACCB", "saccb": "SACCB"}
COLOURS = {"linucb": GREEN, "accb": BLUE, "saccb": ORANGE}
BOLD = "bold where the 95 % intervals do not overlap"
MEASURES = {
    ELRAR: "ElrAR",
    "share_treated": "treated",
    "immediate_regret": "regret",
    "coefficient_error": "‖ŵ − w*‖",
    "share_removed": "removed",
    "precision": "precision",
    "recall": "recall",
}
LATEX = str.maketrans(
    {"%": r"\%", "ψ": r"$\psi$", "ν": r"$\nu$", "τ": r"$\tau$", "±": r"$\pm$", "–": "--", "&": r"\&", "_": r"\_"}
)
VERSIONS = ("surefoot", "numpy", "scipy", "array-api-compat", "matplotlib")
PAPER_SCENES = (SCENES[0], SCENES[2])


def run_paper(settings: Settings, out: Path, *, jobs: int, progress: UnitProgress) -> dict[str, Any]:
    """Run the units, write everything, and return the summary; an interrupted run goes on where it stopped."""
    start = time.monotonic()
    with keep_units(out, asdict(settings)) as folder:
        work = partial(run_unit, settings=settings)
        units = run_units(settings.units(), work, folder, jobs=jobs, progress=progress)
        rows = [{column: row[column] for column in COLUMNS} for unit in units for row in unit]
        return write_results(rows, settings, out, time.monotonic() - start)


def write_results(rows: list[dict[str, Any]], settings: Settings, out: Path, elapsed: float) -> dict[str, Any]:
    """Write runs, tables, figures, report and summary; give back the summary."""
    results = Results(rows)
    claims = judge(results, settings)
    _write_runs(rows, out)
    tables = all_tables(results, settings)
    for name, group in tables.items():
        write_text(out / f"{name}.md", "\n".join(table.markdown() for table in group))
        write_text(out / f"{name}.tex", "\n".join(table.latex() for table in group))
    figure = sweep_figure(results, settings)
    if figure is not None:
        # Without dates in the files two equal runs are equal byte for byte.
        for ending, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
            with atomic_write(out / f"figure.{ending}") as temporary:
                figure.savefig(temporary, format=ending, dpi=150, metadata=metadata)
        save_svg(
            figure, out / "figure.svg", "Long-run average reward against the cap, the share and the strength of outliers"
        )
    versions = {**{name: version(name) for name in VERSIONS}, "python": platform.python_version()}
    summary = {
        "caution": settings.caution,
        "claims": [claim.to_dict() for claim in claims],
        "filters_above_the_robust_form": filters_that_win(results, settings),
        "parameters": asdict(settings),
        "versions": versions,
        "elapsed_seconds": round(elapsed, 1),
    }
    write_text(out / "report.html", _page(results, settings, claims, tables, versions))
    # Last: a summary says that everything else is there.
    write_text(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    return summary


def _write_runs(rows: list[dict[str, Any]], out: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kinds[kind], from_pandas=True) for name, kind in COLUMNS.items()}
    )
    with atomic_write(out / "runs.parquet") as temporary:
        parquet.write_table(table, temporary)
    with atomic_write(out / "runs.csv") as temporary:
        csv.write_csv(table, temporary)


# Tables


class Entry(NamedTuple):
    """One cell of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A caption, a header and rows; the first column names the row."""

    caption: str
    header: list[str]
    rows: list[list[Entry]]

    def markdown(self) -> str:
        rows = [[f"**{entry.text}**" if entry.bold else entry.text for entry in row] for row in self.rows]
        return "\n".join([f"**{self.caption}**", "", *markdown_table(self.header, rows)]) + "\n"

    def latex(self) -> str:
        """A table environment with its caption."""

        def text(entry: Entry) -> str:
            plain = entry.text.replace("‖ŵ − w*‖", "NORM").translate(LATEX).replace("NORM", r"$\|\hat w-w^*\|$")
            return rf"\textbf{{{plain}}}" if entry.bold else plain

        header = " & ".join(text(Entry(title)) for title in self.header)
        rows = " \\\\\n".join(" & ".join(text(entry) for entry in row) for row in self.rows)
        return (
            f"\\begin{{table}}\n\\centering\n\\caption{{{text(Entry(self.caption))}}}\n"
            f"\\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}\n"
            f"\\hline\n{header} \\\\\n\\hline\n{rows} \\\\\n\\hline\n"
            "\\end{tabular}\n\\end{table}\n"
        )


def all_tables(results: Results, settings: Settings) -> dict[str, list[Table]]:
    """Tables by experiment, in the order they are read."""
    ratios = {f"ψ = {100 * ratio:g} %": settings.cell("", ratio=ratio) for ratio in RATIOS}
    strengths = {f"ν = {strength:g}": settings.cell("", strength=strength) for strength in STRENGTHS}
    makers: dict[str, Callable[[], list[Table]]] = {
        "s1": lambda: _compare_types(results, settings),
        "s2": lambda: _sweep(results, "s2", "S2, share of outliers", ratios),
        "s3": lambda: _sweep(results, "s3", "S3, strength of outliers", strengths),
        "s4": lambda: _sweep_taus(results, settings),
    }
    return {name: makers[name]() for name in settings.experiments}


def _compare_types(results: Results, settings: Settings) -> list[Table]:
    """S1: three tables by type, then everything that was measured, scene by scene."""
    setting = f"ψ = {100 * settings.ratio:g} %, ν = {settings.strength:g}"
    tables = []
    for kind in TYPES:
        forms = list_forms(kind)
        values = [[results.cell("s1", scene, settings.cell(*form)) for scene in SCENES] for form in forms]
        columns = list(zip(*values, strict=True))
        apart = [stand_apart(column) for column in columns]
        rows = [
            [Entry(_label(*form))]
            + [Entry(_number(columns[s][row], scene), apart[s][row]) for s, scene in enumerate(SCENES)]
            for row, form in enumerate(forms)
        ]
        caption = f"S1, {TITLES[kind]}: ElrAR at {setting} (± 95 % interval; {BOLD})"
        tables.append(Table(caption, ["method", *(scene_title(*scene) for scene in SCENES)], rows))
    return tables + [_tabulate_measures(results, settings, scene, setting) for scene in SCENES]


def _tabulate_measures(results: Results, settings: Settings, scene: Scene, setting: str) -> Table:
    rows = []
    for form in (form for kind in TYPES for form in list_forms(kind)):
        values = [results.cell("s1", scene, settings.cell(*form), measure) for measure in MEASURES]
        rows.append([Entry(_label(*form)), *_measure_entries(values, scene)])
    for policy in reference_policies(DATA_SETS[scene[0]](participants=1)):
        values = [results.reference(scene, policy, measure) for measure in MEASURES]
        rows.append([Entry(policy), *_measure_entries(values, scene)])
    return Table(f"S1, {scene_title(*scene)}: all measures at {setting}", ["method", *MEASURES.values()], rows)


def list_forms(kind: str) -> list[tuple[str, str]]:
    """(method, filter) of all forms of one type."""
    return [(kind, ""), *((f"filter-{kind}", name) for name in FILTER_NAMES), (f"ro-{kind}", "")]


def _measure_entries(values_by_measure: Sequence[NDArray[np.float64]], scene: Scene) -> list[Entry]:
    entries = []
    for measure, values in zip(MEASURES, values_by_measure, strict=True):
        if np.isnan(values).all():
            entries.append(Entry("–"))
        elif measure in (ELRAR, "immediate_regret", "coefficient_error"):
            entries.append(Entry(_number(values, scene)))
        else:
            entries.append(Entry(f"{100 * np.nanmean(values):.1f} %"))
    return entries


def _number(values: NDArray[np.float64], scene: Scene) -> str:
    """Mean ± half the width of the 95 % interval."""
    interval = mean_interval(values)
    digits = _digits(scene)
    return f"{interval.value:,.{digits}f} ± {interval.high - interval.value:,.{digits}f}"


def stand_apart(rivals: Sequence[NDArray[np.float64]]) -> list[bool]:
    """Of each rival, a value per replicate, whether its 95 % interval lies above those of all others."""
    intervals = [mean_interval(values) for values in rivals]
    return [interval.low > max(other.high for other in intervals if other is not interval) for interval in intervals]


def _digits(scene: Scene) -> int:
    return 0 if scene[0] == "heartsteps" else 1


def _sweep(results: Results, experiment: str, title: str, settings: dict[str, Cell]) -> list[Table]:
    """Methods × settings, a table for each scene, the surely better of plain and robust in bold; cells lack a method."""
    tables = []
    for scene in SCENES:
        rows = []
        for kind in TYPES:
            names = (kind, f"ro-{kind}")
            pairs = [
                [results.cell(experiment, scene, cell._replace(method=name)) for name in names] for cell in settings.values()
            ]
            rows += _compare(names, pairs, scene)
        tables.append(Table(f"{title}, {scene_title(*scene)}: ElrAR ({BOLD})", ["method", *settings], rows))
    return tables


def _sweep_taus(results: Results, settings: Settings) -> list[Table]:
    tables = []
    for scene in SCENES:
        plain = results.cell("s4", scene, settings.cell("accb"))
        taus = SWEPT_TAUS[scene[0]]
        pairs = [[plain, results.cell("s4", scene, settings.cell("ro-accb", tau=tau))] for tau in taus]
        caption = f"S4, factor of the threshold, {scene_title(*scene)}: ElrAR ({BOLD})"
        header = ["method", *(f"τ = {tau:g}" for tau in taus)]
        tables.append(Table(caption, header, _compare(("accb", "ro-accb"), pairs, scene)))
    return tables


def _compare(names: Sequence[str], columns: Sequence[Sequence[NDArray[np.float64]]], scene: Scene) -> list[list[Entry]]:
    """A row for each name, an entry for each column of their values."""
    best = [stand_apart(rivals) for rivals in columns]
    return [
        [Entry(name)]
        + [
            Entry(f"{rivals[side].mean():,.{_digits(scene)}f}", apart[side])
            for rivals, apart in zip(columns, best, strict=True)
        ]
        for side, name in enumerate(names)
    ]


def _label(method: str, filter_name: str) -> str:
    return f"{method} ({filter_name})" if filter_name else method


# Figure


class Sweep(NamedTuple):
    """A column of the figure: what is swept, over which values, and how its axis reads."""

    parameter: str
    axis: str
    scale: float = 1.0

    def values(self, scene: Scene) -> tuple[float, ...]:
        return {"tau": SWEPT_TAUS[scene[0]], "ratio": RATIOS, "strength": STRENGTHS}[self.parameter]


SWEEPS = {
    "s4": Sweep("tau", "τ, factor of the threshold (log scale)"),
    "s2": Sweep("ratio", "ψ, share of decision points with an outlier (%)", 100),
    "s3": Sweep("strength", "ν, strength of the outliers (× mean size)"),
}
"""In the order of the paper's columns."""


def sweep_figure(results: Results, settings: Settings, scenes: Sequence[Scene] = PAPER_SCENES) -> Figure | None:
    """One panel per scene and sweep that was run; nothing when no sweep was."""
    columns = [name for name in SWEEPS if name in settings.experiments]
    if not columns:
        return None
    height = 3.3 * len(scenes) + 0.5
    figure, axes = new_figure(len(scenes), len(columns), width=4.3 * len(columns), height=height, squeeze=False)
    for row, scene in enumerate(scenes):
        for column, experiment in enumerate(columns):
            panel = axes[row, column]
            _draw_sweep(panel, results, settings, scene, experiment)
            # The reference is drawn after the limits are set by the methods: it may lie far off.
            low, high = panel.get_ylim()
            oracle = results.reference(scene, "oracle-myopic").mean()
            panel.axhline(oracle, color=GREY, linewidth=1, linestyle=":", zorder=1)
            panel.set_ylim(min(low, oracle - 0.02 * abs(oracle)), max(high, oracle + 0.01 * abs(oracle)))
    _add_legend(figure)
    return figure


def _draw_sweep(axes: Axes, results: Results, settings: Settings, scene: Scene, experiment: str) -> None:
    sweep = SWEEPS[experiment]
    values = sweep.values(scene)
    for kind in ("accb",) if sweep.parameter == "tau" else TYPES:
        for robust in (False, True):
            cell = settings.cell(f"ro-{kind}" if robust else kind)
            cells = [cell._replace(**{sweep.parameter: value}) for value in values]  # type: ignore[arg-type]
            if sweep.parameter == "tau" and not robust:
                cells = [cell] * len(values)  # The plain method has no threshold.
            intervals = [mean_interval(results.cell(experiment, scene, cell)) for cell in cells]
            positions = [sweep.scale * value for value in values]
            means = [interval.value for interval in intervals]
            axes.plot(positions, means, "o-" if robust else "s--", color=COLOURS[kind], markersize=3.5, linewidth=1.4)
            low = [interval.low for interval in intervals]
            high = [interval.high for interval in intervals]
            axes.fill_between(positions, low, high, color=COLOURS[kind], alpha=0.15, linewidth=0)
    if sweep.parameter == "tau":
        axes.set_xscale("log")
        ticks = [tau for tau in (0.1, 0.2, 0.5, 1, 2, 4, 8) if values[0] <= tau <= values[-1]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    unit = "steps per decision point" if scene[0] == "heartsteps" else "points per step"
    label_axes(axes, x=sweep.axis, y=f"ElrAR ({unit})", title=f"{experiment.upper()}: {scene_title(*scene)}")


def _add_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for kind in TYPES:
        handles.append(Line2D([], [], color=COLOURS[kind], linestyle="-", marker="o", label=f"Ro-{TITLES[kind]}"))
        handles.append(Line2D([], [], color=COLOURS[kind], linestyle="--", marker="s", label=TITLES[kind]))
    handles.append(Line2D([], [], color=GREY, linestyle=":", label="oracle-myopic"))
    figure.legend(handles=handles, loc="outside lower center", ncols=7, **LEGEND)


# Report


def _page(
    results: Results, settings: Settings, claims: list[Claim], tables: dict[str, list[Table]], versions: dict[str, str]
) -> str:
    drawings = []
    for scenes, caption in (
        (PAPER_SCENES, "Both data sets, as in the paper; bands are 95 % intervals over replicates."),
        ((SCENES[1],), "HeartSteps under sensor outliers: ElrAR hardly tells the methods apart here."),
    ):
        figure = sweep_figure(results, settings, scenes)
        if figure is not None:
            drawings.append((inline_svg(figure, caption), caption))
    references = {
        scene_title(*scene): [
            {
                "name": name,
                "reward": mean_interval(results.reference(scene, name)),
                "treated": results.reference(scene, name, "share_treated").mean(),
                "regret": results.reference(scene, name, "immediate_regret").mean(),
            }
            for name in reference_policies(DATA_SETS[scene[0]](participants=1))
        ]
        for scene in PAPER_SCENES
    }
    return render(
        "reproduction.html",
        title="Robust actor-critic contextual bandits: the experiments again",
        settings=settings,
        command=_command(settings),
        claims=claims,
        tables=tables,
        figures=drawings,
        references=references,
        filters=filters_that_win(results, settings),
        versions=versions,
        measure=ELRAR,
    )


def _command(settings: Settings) -> str:
    """The command that gives these results again."""
    default = Settings()
    words = ["surefoot reproduce"]
    if settings.experiments != default.experiments:
        words += settings.experiments
    for name, value in asdict(settings).items():
        if name != "experiments" and value != getattr(default, name):
            words.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(words)
