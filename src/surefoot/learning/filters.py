"""Outlier filters: clean each participant's series (each state variable and the reward) before a plain method sees it.

Arrays are (people, decision points) in time order; `present` is False on padding and where the value is missing. What is
missing stays missing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.learning.part import Part, make_part
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.masked_quantiles import median, scaled_mad
from surefoot.registry import Registry

__all__ = ["FILTERS", "Filter", "Hampel", "Kalman", "clean", "register_filter"]


@dataclass(frozen=True)
class Filter(Part, ABC):
    """A filter; the fields of a subclass are its parameters, and each has a default."""

    kind: ClassVar[str] = "filter"

    @abstractmethod
    def clean_series(self, values: Array, present: Array) -> Array:
        """The values, cleaned; both arrays are (people, decision points) in time order."""


FILTERS: Registry[type[Filter]] = Registry("filter")
register_filter = FILTERS.register
"""Adds a class of filters under its `name`, which must be free."""


def clean(logs: Trajectories, by: Any) -> Trajectories:
    """The logs as a filter cleans them.

    Parameters
    ----------
    logs
        Whose states and rewards are cleaned, participant by participant in the order of time.
    by
        The name of one of `FILTERS`, or a filter.

    Returns
    -------
    Trajectories
        A copy.

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> reward = np.array([[1.0, 2.0, 1.0, 90.0, 2.0, 1.0, 2.0]])
    >>> logs = sf.Trajectories.from_arrays(np.zeros((1, 7, 1)), np.zeros((1, 7)), reward)
    >>> clean(logs, "hampel").outcome
    array([1., 2., 1., 2., 2., 1., 2.])
    """
    cleaner = make_part(FILTERS, by)
    state = logs.state.copy()
    reward = logs.outcome.copy()
    for _, rows in logs.blocks():
        for series in (*(state[:, j] for j in range(state.shape[1])), reward):
            values = series[rows]
            present = (rows >= 0) & ~np.isnan(values)
            cleaned = cleaner.clean_series(np.where(present, values, 0.0), present)
            series[rows[present]] = cleaned[present]
    return logs.with_values(state=state, outcome=reward)


@register_filter
@dataclass(frozen=True)
class Hampel(Filter):
    """Replaces a point that lies too far from the median of its window by that median.

    At the ends of a series, and where values are missing, a window holds fewer points.
    """

    name: ClassVar[str] = "hampel"
    above: ClassVar[Mapping[str, float]] = {"deviations": 0}
    window: int = 7
    """Decision points in a window, the point itself in the middle: an odd number."""
    deviations: float = 3.0
    """How many scaled MADs are too far."""

    def check_parameters(self) -> None:
        super().check_parameters()
        if isinstance(self.window, bool) or not isinstance(self.window, int) or self.window < 3 or self.window % 2 == 0:
            raise InputError(f"window is {self.window!r}; it must be an odd number of decision points, at least 3")

    def clean_series(self, values: Array, present: Array) -> Array:
        xp = array_namespace(values)
        half = self.window // 2
        margin = xp.zeros_like(values[:, :1])
        wide = xp.concat([margin] * half + [values] + [margin] * half, axis=1)
        known = xp.concat([margin > 0] * half + [present] + [margin > 0] * half, axis=1)
        spans = [slice(j, j + values.shape[1]) for j in range(self.window)]
        windows = xp.stack([wide[:, span] for span in spans], axis=-1)
        inside = xp.stack([known[:, span] for span in spans], axis=-1)
        centre = median(windows, inside)
        width = scaled_mad(windows, inside, centre)
        return xp.where(present & (xp.abs(values - centre) > self.deviations * width), centre, values)


@register_filter
@dataclass(frozen=True)
class Kalman(Filter):
    """The on-line filter-cleaner of Liu, Shah and Jiang (2004).

    The series is taken as an AR(1) process, x_t − c = φ (x_{t−1} − c) + e_t, with c, φ and the variance of e estimated by
    medians. Going through it once, a point whose prediction error exceeds `deviations` standard deviations of the Kalman
    prediction is replaced by the prediction; the uncertainty then grows until a point is believed again.
    """

    name: ClassVar[str] = "kalman"
    above: ClassVar[Mapping[str, float]] = {"deviations": 0}
    deviations: float = 3.0
    """How many standard deviations are too far."""

    def clean_series(self, values: Array, present: Array) -> Array:
        xp = array_namespace(values)
        centre, total, phi, noise = _robust_ar1(values, present)
        deviation = values - centre[:, None]
        state = xp.zeros_like(centre)
        variance = total
        cleaned = []
        for t in range(values.shape[1]):
            if t:
                state = phi * state
                variance = phi**2 * variance + noise
            error = deviation[:, t] - state
            believed = present[:, t] & (error**2 <= self.deviations**2 * variance)
            cleaned.append(xp.where(believed | ~present[:, t], values[:, t], centre + state))
            state = xp.where(believed, deviation[:, t], state)
            variance = xp.where(believed, xp.zeros_like(variance), variance)
        return xp.stack(cleaned, axis=1)


def _robust_ar1(values: Array, present: Array) -> tuple[Array, Array, Array, Array]:
    """Centre, variance, autoregression and innovation variance of each series, (people,) each.

    The autoregression follows Gnanadesikan and Kettenring: the correlation of u and v is
    (S²(u+v) − S²(u−v)) / (S²(u+v) + S²(u−v)) with a robust scale S, here the scaled MAD.
    """
    xp = array_namespace(values)

    def measure(series: Array, known: Array) -> Array:
        scale = scaled_mad(series, known, xp.where(xp.any(known, axis=1), median(series, known), series[:, 0]))
        return xp.where(xp.isfinite(scale), scale, 0.0)

    count = xp.sum(xp.astype(present, values.dtype), axis=1)
    centre = xp.where(count > 0, median(values, present), 0.0)
    deviation = xp.where(present, values - centre[:, None], 0.0)
    # When more than half of a series is one value its MAD is zero; the mean absolute deviation still says something.
    mean_absolute = 1.2533 * xp.sum(xp.abs(deviation), axis=1) / xp.where(count > 0, count, 1.0)
    scale = measure(deviation, present)
    scale = xp.where(scale > 0, scale, mean_absolute)
    later = deviation[:, 1:]
    earlier = deviation[:, :-1]
    both = present[:, 1:] & present[:, :-1]
    plus = measure(later + earlier, both) ** 2
    minus = measure(later - earlier, both) ** 2
    phi = xp.clip((plus - minus) / xp.where(plus + minus > 0, plus + minus, 1.0), -0.99, 0.99)
    noise = measure(later - phi[:, None] * earlier, both) ** 2
    return centre, scale**2, phi, xp.where(noise > 0, noise, (1 - phi**2) * scale**2)
