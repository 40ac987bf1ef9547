"""What `reproduce` writes about S1 to S4: runs, tables as in the paper, its figure, a report and a summary."""

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from surefoot.atomic_files import atomic_write, write_texts
from surefoot.experiments import paper
from surefoot.experiments.engine import keep_units, render_page, run_units
from surefoot.experiments.paper import ELRAR, FILTER_NAMES, JUDGED, SCENES, TYPES, Cell, Results, Scene, Settings
from surefoot.inference.intervals import mean_interval
from surefoot.numerics.parallel import Progress
from surefoot.reports.figures import BLUE, GREEN, GREY, LEGEND, ORANGE, label_axes, new_figure
from surefoot.reports.render import inline_svg, render, save_svg
from surefoot.simulators.measures import reference_policies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
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
VERSIONS = ("surefoot", "numpy", "scipy", "array-api-compat", "matplotlib")


def run_paper(settings: Settings, out: Path, *, jobs: int, progress: Progress | None = None) -> dict[str, Any]:
    """Run the units, write everything, and return the summary; an interrupted run continues."""
    start = time.monotonic()
    with keep_units(out, asdict(settings)) as folder:
        work = partial(paper.run_unit, settings=settings)
        units = run_units(settings.units(), work, folder, jobs=jobs, progress=progress)
        rows = [row for unit in units for row in unit]
        results = Results(rows)
        with atomic_write(out / "runs.parquet") as temporary:
            parquet.write_table(pa.Table.from_pylist(rows), temporary)
        tables = list_tables(results, settings)
        write_texts({out / f"{name}.md": render_page("paper.md", tables=group) + "\n" for name, group in tables.items()})
        figure = draw_sweeps(results, settings)
        if figure is not None:
            words = "Long-run average reward against the cap, the share and the strength of outliers"
            save_svg(figure, out / "figure.svg", words)
        claims = paper.judge_claims(results, settings)
        summary = {
            "caution": settings.caution,
            "claims": [claim.to_dict() for claim in claims],
            "filters_above_the_robust_form": paper.filters_that_win(results, settings),
            "parameters": asdict(settings),
            "versions": {**{name: version(name) for name in VERSIONS}, "python": platform.python_version()},
            "elapsed_seconds": round(time.monotonic() - start, 1),
        }
        write_texts({out / "report.html": _render_report(results, settings, claims, tables, summary)})
        # Last: the summary shows that everything else is complete.
        write_texts({out / "summary.json": json.dumps(summary, indent=2, ensure_ascii=False) + "\n"})
    return summary


# Tables


class Entry(NamedTuple):
    """One cell of a table."""

    text: str
    bold: bool = False


class Table(NamedTuple):
    """A caption, a header and rows; the first column names the row."""

    caption: str
    header: list[str]
    rows: list[list[Entry]]


class Sweep(NamedTuple):
    """An experiment that sweeps one parameter: the words of its tables and of its column in the figure."""

    parameter: str
    title: str
    header: str
    axis: str
    scale: float = 1.0

    def values(self, scene: Scene) -> tuple[float, ...]:
        swept = {"tau": paper.SWEPT_TAUS[scene.data_set], "ratio": paper.RATIOS, "strength": paper.STRENGTHS}
        return swept[self.parameter]

    @property
    def types(self) -> tuple[str, ...]:
        return ("accb",) if self.parameter == "tau" else TYPES

    def cells(self, settings: Settings, scene: Scene, method: str) -> list[Cell]:
        """A method along the sweep; a plain method has no threshold."""
        swept = self.parameter != "tau" or method.startswith("ro-")
        sweep = [{self.parameter: value} if swept else {} for value in self.values(scene)]
        return [settings.cell(method, "", **swept_value) for swept_value in sweep]


SWEEPS = {
    "s4": Sweep("tau", "factor of the threshold", "τ = {:g}", "τ, factor of the threshold (log scale)"),
    "s2": Sweep("ratio", "share of outliers", "ψ = {:g} %", "ψ, share of decision points with an outlier (%)", 100),
    "s3": Sweep("strength", "strength of outliers", "ν = {:g}", "ν, strength of the outliers (× mean size)"),
}
"""In the order of the paper's columns."""


def list_tables(results: Results, settings: Settings) -> dict[str, list[Table]]:
    """Tables by experiment, in the order they are read."""
    return {
        name: _compare_types(results, settings)
        if name == "s1"
        else [_tabulate_sweep(results, settings, name, scene) for scene in SCENES]
        for name in settings.experiments
    }


def _compare_types(results: Results, settings: Settings) -> list[Table]:
    """S1: a table for each type, then all measures, scene by scene."""
    setting = f"ψ = {100 * settings.ratio:g} %, ν = {settings.strength:g}"
    cells: dict[str, Cell] = {}
    tables = []
    for kind in TYPES:
        forms = {
            kind: settings.cell(kind),
            **{f"filter-{kind} ({name})": settings.cell(f"filter-{kind}", name) for name in FILTER_NAMES},
            f"ro-{kind}": settings.cell(f"ro-{kind}"),
        }
        cells |= forms
        columns = [[results.cell("s1", scene, cell) for cell in forms.values()] for scene in SCENES]
        best = [stand_apart(values) for values in columns]
        rows = []
        for row, label in enumerate(forms):
            entries = [
                Entry(_format_mean(column[row], scene), bold[row])
                for scene, column, bold in zip(SCENES, columns, best, strict=True)
            ]
            rows.append([Entry(label), *entries])
        caption = f"S1, {TITLES[kind]}: ElrAR at {setting} (± 95 % interval; {BOLD})"
        tables.append(Table(caption, ["method", *map(str, SCENES)], rows))
    for scene in SCENES:
        rows = [
            [Entry(label), *(_format_measure(results.cell("s1", scene, cell, name), name, scene) for name in MEASURES)]
            for label, cell in cells.items()
        ]
        for policy in reference_policies(paper.DATA_SETS[scene.data_set](participants=1)):
            values = {name: results.reference(scene, policy, name) for name in MEASURES}
            rows.append([Entry(policy), *(_format_measure(value, name, scene) for name, value in values.items())])
        tables.append(Table(f"S1, {scene}: all measures at {setting}", ["method", *MEASURES.values()], rows))
    return tables


def _format_measure(values: Floats, measure: str, scene: Scene) -> Entry:
    if np.isnan(values).all():
        return Entry("–")
    if measure in (ELRAR, "immediate_regret", "coefficient_error"):
        return Entry(_format_mean(values, scene))
    return Entry(f"{100 * np.nanmean(values):.1f} %")


def _format_mean(values: Floats, scene: Scene) -> str:
    """Mean ± half the width of the 95 % interval."""
    interval = mean_interval(values)
    digits = _digits(scene)
    return f"{interval.value:,.{digits}f} ± {interval.high - interval.value:,.{digits}f}"


def stand_apart(rivals: Sequence[Floats]) -> list[bool]:
    """Of each rival, a value per replicate, whether its 95 % interval lies above those of all others."""
    intervals = [mean_interval(values) for values in rivals]
    return [interval.low > max(other.high for other in intervals if other is not interval) for interval in intervals]


def _digits(scene: Scene) -> int:
    return 0 if scene.data_set == "heartsteps" else 1


def _tabulate_sweep(results: Results, settings: Settings, experiment: str, scene: Scene) -> Table:
    """Methods × settings, the significantly better of plain and robust in bold."""
    sweep = SWEEPS[experiment]
    rows = []
    for kind in sweep.types:
        names = (kind, f"ro-{kind}")
        curves = [[results.cell(experiment, scene, cell) for cell in sweep.cells(settings, scene, name)] for name in names]
        best = [stand_apart(rivals) for rivals in zip(*curves, strict=True)]
        for side, name in enumerate(names):
            entries = [
                Entry(f"{values.mean():,.{_digits(scene)}f}", bold[side])
                for values, bold in zip(curves[side], best, strict=True)
            ]
            rows.append([Entry(name), *entries])
    header = ["method", *(sweep.header.format(sweep.scale * value) for value in sweep.values(scene))]
    return Table(f"{experiment.upper()}, {sweep.title}, {scene}: ElrAR ({BOLD})", header, rows)


# Figure


def draw_sweeps(results: Results, settings: Settings, scenes: Sequence[Scene] = JUDGED) -> "Figure | None":
    """One panel per scene and sweep that was run; nothing when no sweep was."""
    from matplotlib.lines import Line2D

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
    handles = []
    for kind in TYPES:
        handles.append(Line2D([], [], color=COLOURS[kind], linestyle="-", marker="o", label=f"Ro-{TITLES[kind]}"))
        handles.append(Line2D([], [], color=COLOURS[kind], linestyle="--", marker="s", label=TITLES[kind]))
    handles.append(Line2D([], [], color=GREY, linestyle=":", label="oracle-myopic"))
    figure.legend(handles=handles, loc="outside lower center", ncols=7, **LEGEND)
    return figure


def _draw_sweep(axes: "Axes", results: Results, settings: Settings, scene: Scene, experiment: str) -> None:
    sweep = SWEEPS[experiment]
    values = sweep.values(scene)
    positions = [sweep.scale * value for value in values]
    for kind in sweep.types:
        for name, style in ((kind, "s--"), (f"ro-{kind}", "o-")):
            cells = sweep.cells(settings, scene, name)
            intervals = [mean_interval(results.cell(experiment, scene, cell)) for cell in cells]
            means = [interval.value for interval in intervals]
            axes.plot(positions, means, style, color=COLOURS[kind], markersize=3.5, linewidth=1.4)
            low = [interval.low for interval in intervals]
            high = [interval.high for interval in intervals]
            axes.fill_between(positions, low, high, color=COLOURS[kind], alpha=0.15, linewidth=0)
    if sweep.parameter == "tau":
        axes.set_xscale("log")
        ticks = [tau for tau in (0.1, 0.2, 0.5, 1, 2, 4, 8) if values[0] <= tau <= values[-1]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    unit = "steps per decision point" if scene.data_set == "heartsteps" else "points per step"
    label_axes(axes, x=sweep.axis, y=f"ElrAR ({unit})", title=f"{experiment.upper()}: {scene}")


# Report


def _render_report(
    results: Results,
    settings: Settings,
    claims: list[paper.Claim],
    tables: dict[str, list[Table]],
    summary: dict[str, Any],
) -> str:
    drawings = []
    for scenes, caption in (
        (JUDGED, "Both data sets, as in the paper; bands are 95 % intervals over replicates."),
        ((SCENES[1],), "HeartSteps under sensor outliers: ElrAR hardly distinguishes the methods here."),
    ):
        figure = draw_sweeps(results, settings, scenes)
        if figure is not None:
            drawings.append((inline_svg(figure, caption), caption))
    references = {
        str(scene): [
            {
                "name": name,
                "reward": mean_interval(results.reference(scene, name)),
                "treated": results.reference(scene, name, "share_treated").mean(),
                "regret": results.reference(scene, name, "immediate_regret").mean(),
            }
            for name in reference_policies(paper.DATA_SETS[scene.data_set](participants=1))
        ]
        for scene in JUDGED
    }
    # The command that gives these results again.
    default = Settings()
    words = ["surefoot reproduce", *(settings.experiments if settings.experiments != default.experiments else ())]
    for name, value in asdict(settings).items():
        if name != "experiments" and value != getattr(default, name):
            words.append(f"--{name.replace('_', '-')} {value}")
    return render(
        "reproduction.html",
        title="Robust actor-critic contextual bandits: the experiments again",
        settings=settings,
        command=" ".join(words),
        claims=claims,
        tables=tables,
        figures=drawings,
        references=references,
        filters=summary["filters_above_the_robust_form"],
        versions=summary["versions"],
    )
