"""The effect over study days: a natural cubic spline of the day, with a pointwise and a simultaneous band."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.effects.analysis import Analysis, Floats
from surefoot.effects.formulas import parse_terms, quote_name
from surefoot.effects.result import EffectResult
from surefoot.errors import InputError
from surefoot.inference.simultaneous import LargestT
from surefoot.reports.summaries import lay_out_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.reports.figures import Drawable

GRID = 60
KNOTS = 2
"""Interior knots of the spline, unless the study names another number before the outcomes are seen."""


@dataclass(frozen=True, eq=False)
class EffectCurve:
    """The effect over a variable, with 95 % bands: of every day alone (pointwise), and of all days together."""

    over: str
    values: Floats
    effect: Floats
    low: Floats
    high: Floats
    simultaneous_low: Floats
    simultaneous_high: Floats
    knots: tuple[float, ...]
    """Interior knots of the natural cubic spline; none for a straight line."""
    unit: str = "outcome"

    @property
    def shape(self) -> str:
        if not self.knots:
            return "a straight line"
        at = " and ".join(f"{knot:g}" for knot in self.knots)
        return f"a natural cubic spline with {len(self.knots)} knot{'s' * (len(self.knots) > 1)} at {self.over} {at}"

    def describe(self) -> str:
        """What is drawn, and what each band means."""
        return (
            f"The effect over {self.over} is {self.shape}. The dark band is pointwise: a 95 % interval at each value of "
            f"{self.over} alone. The light band is simultaneous: it covers the whole curve with a chance of 95 %."
        )

    def lay_out(self) -> str:
        """The curve at five values, as text."""
        chosen = np.linspace(0, len(self.values) - 1, 5).round().astype(np.int64)
        ends = (self.effect, self.low, self.high, self.simultaneous_low, self.simultaneous_high)
        numbers = np.column_stack([array[chosen] for array in ends]).tolist()
        cells = [
            [f"{value:g}", *(f"{number:.4f}" for number in row)]
            for value, row in zip(self.values[chosen].round(1).tolist(), numbers, strict=True)
        ]
        return lay_out_table(cells, (self.over, "effect", "[0.025", "0.975]", "[curve from", "to]"))

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each of `GRID` values: effect, pointwise and simultaneous ends."""
        names = ("effect", "low", "high", "simultaneous_low", "simultaneous_high")
        return make_frame({self.over: self.values} | {name: getattr(self, name) for name in names}, backend)

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """The curve with both bands."""
        from surefoot.reports.figures import BLUE, INK, SKY, add_legend, choose_axes, label_axes

        axes = choose_axes(ax, width=5.6, height=3.6)
        axes.axhline(0, color=INK, linewidth=0.8, linestyle="--", label="no effect")
        style: dict[str, Any] = {"alpha": 0.3, "linewidth": 0}
        bands = {
            "95 %, whole curve": (SKY, self.simultaneous_low, self.simultaneous_high),
            "95 %, each value alone": (BLUE, self.low, self.high),
        }
        for label, (colour, low, high) in bands.items():
            axes.fill_between(self.values, low, high, color=colour, label=label, **style)
        axes.plot(self.values, self.effect, color=BLUE, linewidth=1.8, label="effect")
        axes.margins(x=0)
        x = f"{self.over} of the study" if self.over == "day" else self.over
        label_axes(axes, x=x, y=f"Effect on {self.unit}", title=f"Effect over {self.over}")
        add_legend(axes, columns=2)
        return axes


def fit_curve(
    fit: Callable[[Analysis], EffectResult], analysis: Analysis, over: str, *, knots: int = KNOTS, unit: str = "outcome"
) -> EffectCurve | None:
    """The average analysis with a natural cubic spline of `over` as moderator and control, of the first treatment.

    Interior knots lie at equally spaced quantiles of the decision points that count. A straight line stands in where the
    sample is too small for the spline, or has no more days than the spline has coefficients; None where it is too small for
    a line.
    """
    controls = tuple(term for term in parse_terms(analysis.controls) if term != over)
    try:
        line = fit(replace(analysis, moderators=(over,), controls=(*controls, over)))
    except InputError:  # One day only, or too few participants for two more coefficients.
        return None
    days = line.points.counted_only.moderators[1]
    interior = np.unique(np.quantile(days, np.arange(1, knots + 1) / (knots + 1)))
    interior = interior[(interior > days.min()) & (interior < days.max())]
    known = not np.isnan(line.points.moderators[1]).any()
    if knots and known and len(interior) == knots and len(np.unique(days)) > knots + 2:
        first, last = (float(end(line.points.moderators[1])) for end in (np.min, np.max))
        places = ", ".join(f"{float(knot)!r}" for knot in interior)
        # Centred columns leave the intercept alone; the straight line is among their combinations.
        spline = (
            f"cr({quote_name(over)}, knots=[{places}], lower_bound={first!r}, upper_bound={last!r}, constraints='center')"
        )
        try:
            curved = fit(replace(analysis, moderators=(spline,), controls=(*controls, spline)))
        except InputError:  # Too few participants for the spline.
            pass
        else:
            return _evaluate(curved, over, days, tuple(interior.tolist()), unit)
    return _evaluate(line, over, days, (), unit)


def _evaluate(result: EffectResult, over: str, days: Floats, knots: tuple[float, ...], unit: str) -> EffectCurve:
    grid = np.linspace(days.min(), days.max(), GRID)
    design = result.points.evaluate_moderators({over: grid})
    matrix = np.zeros((len(grid), len(result.params)))
    # The parts of a mediated effect add up.
    for part in range(max(1, len(result.parts))):
        matrix[:, part * design.shape[1] : (part + 1) * design.shape[1]] = design
    contrast = result.t_test(matrix)
    degrees = int(np.min(contrast.df_denom))
    largest = LargestT.of(matrix @ result.cov_params() @ matrix.T, degrees)
    half = largest.critical() * contrast.sd
    low, high = contrast.conf_int().T
    effect = contrast.effect
    return EffectCurve(over, grid, effect, low, high, effect - half, effect + half, knots, unit)
