"""The figure of the paper: data sets in rows, the sweeps S4, S2 and S3 in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from surefoot.experiments.paper_tables import TITLES
from surefoot.experiments.replicate import scene_title
from surefoot.experiments.results import Results
from surefoot.experiments.settings import RATIOS, SCENES, STRENGTHS, SWEPT_TAUS, TYPES, Cell, Settings
from surefoot.inference.intervals import mean_interval
from surefoot.reports.figures import BLUE, GREEN, GREY, LEGEND, ORANGE, label_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"linucb": GREEN, "accb": BLUE, "saccb": ORANGE}
COLUMNS = ("s4", "s2", "s3")
PAPER_SCENES = (SCENES[0], SCENES[2])
Scene = tuple[str, str]


def sweep_figure(results: Results, settings: Settings, scenes: Sequence[Scene] = PAPER_SCENES) -> Figure | None:
    """One panel per scene and sweep that was run; nothing when no sweep was."""
    columns = [name for name in COLUMNS if name in settings.experiments]
    if not columns:
        return None
    figure, axes = new_figure(
        len(scenes), len(columns), width=4.3 * len(columns), height=3.3 * len(scenes) + 0.5, squeeze=False
    )
    for row, scene in enumerate(scenes):
        for column, experiment in enumerate(columns):
            PANELS[experiment](axes[row, column], results, settings, scene)
            panel = axes[row, column]
            # The reference is drawn after the limits are set by the methods: it may lie far off.
            limits = panel.get_ylim()
            oracle = results.reference(scene, "oracle-myopic").mean()
            panel.axhline(oracle, color=GREY, linewidth=1, linestyle=":", zorder=1)
            panel.set_ylim(min(limits[0], oracle - 0.02 * abs(oracle)), max(limits[1], oracle + 0.01 * abs(oracle)))
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        handle
        for kind in TYPES
        for handle in (
            Line2D([], [], color=COLOURS[kind], linestyle="-", marker="o", label=f"Ro-{TITLES[kind]}"),
            Line2D([], [], color=COLOURS[kind], linestyle="--", marker="s", label=TITLES[kind]),
        )
    ]
    handles.append(Line2D([], [], color=GREY, linestyle=":", label="oracle-myopic"))
    figure.legend(handles=handles, loc="outside lower center", ncols=7, **LEGEND)


def _curve(axes: Axes, at: Sequence[float], values: Sequence[Any], kind: str, *, robust: bool) -> None:
    intervals = [mean_interval(value) for value in values]
    means = [found.value for found in intervals]
    axes.plot(at, means, "o-" if robust else "s--", color=COLOURS[kind], markersize=3.5, linewidth=1.4)
    low, high = [found.low for found in intervals], [found.high for found in intervals]
    axes.fill_between(at, low, high, color=COLOURS[kind], alpha=0.15, linewidth=0)


def _labels(axes: Axes, scene: Scene, x: str, title: str) -> None:
    unit = "steps per decision point" if scene[0] == "heartsteps" else "points per step"
    label_axes(axes, x=x, y=f"ElrAR ({unit})", title=f"{title}: {scene_title(*scene)}")


def _tau_panel(axes: Axes, results: Results, settings: Settings, scene: Scene) -> None:
    taus = SWEPT_TAUS[scene[0]]
    flat = results.cell("s4", scene, Cell("accb", "", settings.ratio, settings.strength, 1.0))
    _curve(axes, taus, [flat] * len(taus), "accb", robust=False)
    values = [results.cell("s4", scene, Cell("ro-accb", "", settings.ratio, settings.strength, tau)) for tau in taus]
    _curve(axes, taus, values, "accb", robust=True)
    axes.set_xscale("log")
    ticks = [tau for tau in (0.1, 0.2, 0.5, 1, 2, 4, 8) if taus[0] <= tau <= taus[-1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    _labels(axes, scene, "τ, factor of the threshold (log scale)", "S4")


def _ratio_panel(axes: Axes, results: Results, settings: Settings, scene: Scene) -> None:
    for kind in TYPES:
        for name, robust in ((kind, False), (f"ro-{kind}", True)):
            values = [results.cell("s2", scene, Cell(name, "", ratio, settings.strength, 1.0)) for ratio in RATIOS]
            _curve(axes, [100 * ratio for ratio in RATIOS], values, kind, robust=robust)
    _labels(axes, scene, "ψ, share of decision points with an outlier (%)", "S2")


def _strength_panel(axes: Axes, results: Results, settings: Settings, scene: Scene) -> None:
    for kind in TYPES:
        for name, robust in ((kind, False), (f"ro-{kind}", True)):
            values = [results.cell("s3", scene, Cell(name, "", settings.ratio, strength, 1.0)) for strength in STRENGTHS]
            _curve(axes, STRENGTHS, values, kind, robust=robust)
    _labels(axes, scene, "ν, strength of the outliers (× mean size)", "S3")


PANELS: dict[str, Callable[[Axes, Results, Settings, Scene], None]] = {
    "s4": _tau_panel,
    "s2": _ratio_panel,
    "s3": _strength_panel,
}
