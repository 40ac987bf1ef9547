"""The figures of S5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.experiments.s5 import CoefficientErrors, Problem, Scenario, log_normal_logs, make_problems, robust_fit
from surefoot.learning.critics.ridge import residuals
from surefoot.numerics.fences import SKEWNESS_DEVIATION, SKEWNESS_Z, WINDOW
from surefoot.numerics.masked_quantiles import scaled_mad
from surefoot.numerics.skewness import medcouple
from surefoot.reports import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = (0.04, 0.1, 0.15, 0.2, 0.25, 0.3)
FIGURE_SCENARIOS = (
    Scenario("clean"),
    *(Scenario(mechanism, ratio) for mechanism in ("sensor", "prompted", "careless") for ratio in SHARES),
)
LINES = {
    "oracle": (figures.GREY, "--", ""),
    "least squares": (figures.ORANGE, "-", "s"),
    "kalman": (figures.NAVY, "-", "v"),
    "capped": (figures.BROWN, "-", "D"),
    "huber": (figures.PURPLE, ":", "x"),
    "ransac": (figures.GREEN, ":", "+"),
    "high-breakdown": (figures.BLUE, "-", "o"),
}


def errors_figure(found: CoefficientErrors) -> Figure:
    """Coefficient error against the share of decision points touched, a panel per mechanism; bars are 95 % intervals."""
    mechanisms = [name for name in ("sensor", "prompted", "careless") if any(s.mechanism == name for s in found.scenarios)]
    figure, axes = figures.new_figure(1, len(mechanisms), width=11, height=4.2, sharey=True, squeeze=False)
    for panel, mechanism in zip(axes[0], mechanisms, strict=True):
        rows = [
            place
            for place, scenario in enumerate(found.scenarios)
            if scenario.mechanism in ("clean", mechanism) and scenario.strength == 5
        ]
        share = [100 * found.scenarios[place].ratio for place in rows]
        for name, (colour, style, marker) in LINES.items():
            if name in found.critics:
                critic = found.critics.index(name)
                panel.errorbar(
                    share,
                    found.relative[rows, critic],
                    yerr=1.96 * found.standard_error[rows, critic],
                    **{"color": colour, "linestyle": style, "marker": marker, "markersize": 4, "label": name},
                )
        panel.set_yscale("log")
        ticks = [1, 2, 4, 8]
        panel.set_yticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()
        figures.label_axes(panel, x="decision points touched (%)", y="", title=mechanism)
    axes[0, 0].set_ylabel("coefficient error\n(least squares on clean data = 1)", color=figures.INK)
    figures.add_legend(figure, axes[0, 0], columns=len(LINES))
    return figure


def _skewness(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Everybody's medcouple of all residuals, and the skewness of those kept and near the centre, in standard errors."""
    fit = robust_fit(problem, "high-breakdown")
    left = residuals(problem.features, problem.reward, fit.coef)
    kept = fit.weights > 0
    z = left / scaled_mad(left, kept, np.zeros(len(left)))[:, None]
    core = np.ma.masked_array(z, ~(kept & (np.abs(z) < WINDOW)))
    off = core - core.mean(axis=1)[:, None]
    moment = (off**3).mean(axis=1) / (off**2).mean(axis=1) ** 1.5
    return np.array([medcouple(row) for row in left]), np.asarray(moment * np.sqrt(core.count(axis=1)) / SKEWNESS_DEVIATION)


def skewness_figure(*, participants: int = 200, seed: int = 2025) -> Figure:
    """Which measure of skewness tells skewed rewards from artefacts: each participant's value under three kinds of data."""
    cases: dict[str, Any] = {}
    for name, scenario in (("clean", Scenario("clean")), ("prompted 20 %", Scenario("prompted", 0.2))):
        (_, clean, problem) = next(iter(make_problems([scenario], participants=participants, seeds=1, seed=seed)))
        cases[name] = _skewness(problem)
    cases["log-normal"] = _skewness(clean.with_logs(log_normal_logs(clean.logs, seed)))
    figure, axes = figures.new_figure(1, 2, width=11, height=3.6)
    titles = ("medcouple of all residuals", "skewness of the kept residuals within 2.5 scales (in its standard errors)")
    for which, (panel, title) in enumerate(zip(axes, titles, strict=True)):
        values = [found[which] for found in cases.values()]
        bins = np.linspace(min(map(np.min, values)), max(map(np.max, values)), 40)
        for (name, found), colour in zip(cases.items(), (figures.GREY, figures.ORANGE, figures.BLUE), strict=True):
            panel.hist(found[which], bins=bins, alpha=0.6, color=colour, label=name)
        figures.label_axes(panel, x=title, y="people")
    axes[1].axvline(SKEWNESS_Z, color=figures.INK, linewidth=1)
    axes[1].annotate(
        "taken as skewed",
        (SKEWNESS_Z, 0.97),
        (4, 0),
        ("data", "axes fraction"),
        "offset points",
        va="top",
        color=figures.INK,
    )
    figures.add_legend(figure, axes[0], columns=3)
    return figure
