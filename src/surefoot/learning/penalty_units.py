"""What the penalties of critic and policy are counted in.

In *standard* units a penalty is counted in the spread of the reward and in the widths of the states, measured by the
quartiles of every fit: minutes or milliseconds, kilometres or miles, °C or °F give the same policy. In *absolute* units,
those of the paper, it is counted in whatever the reward and the states come in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace
from surefoot.numerics.masked_quantiles import quantiles
from surefoot.registry import Registry

QUARTILES_TO_DEVIATION = 1.349
"""The distance of the quartiles of normal noise in standard deviations."""

MOST_ROWS = 2**14
"""Of more rows a fixed sample is measured: quartiles of so many are known to 1 % of the spread."""


@dataclass(frozen=True)
class FitScales(PerParticipant):
    """The units of each fit."""

    centre: Array
    """Of the state variables, (fits, variables)."""
    width: Array
    """(fits, variables)."""
    reward: Array
    """The spread of the reward, (fits,)."""

    def standardise(self, state: Array, sees: Array) -> Array:
        """(s − centre) / width of the variables that are seen, zero for the others; `state` is (fits, rows, variables)."""
        return (state * sees - (self.centre * sees)[:, None, :]) / self.width[:, None, :]

    def to_raw(self, coef: Array) -> Array:
        """Coefficients (fits, k, variables + 1) on [standardised s, 1] as those on [s, 1]."""
        xp = array_namespace(coef)
        slopes = coef[..., :-1] / self.width[:, None, :]
        offset = coef[..., -1] - xp.sum(slopes * self.centre[:, None, :], axis=-1)
        return xp.concat([slopes, offset[..., None]], axis=-1)

    def to_standard(self, coef: Array) -> Array:
        """The inverse of `to_raw`."""
        xp = array_namespace(coef)
        offset = coef[..., -1] + xp.sum(coef[..., :-1] * self.centre[:, None, :], axis=-1)
        return xp.concat([coef[..., :-1] * self.width[:, None, :], offset[..., None]], axis=-1)


class PenaltyUnits(ABC):
    """How a penalty's number becomes one for every coefficient."""

    name: ClassVar[str]

    @abstractmethod
    def measure(self, state: Array, reward: Array, usable: Array) -> FitScales:
        """The units of each fit, from (fits, rows, variables), (fits, rows) and 1.0 where a row can be used."""

    @abstractmethod
    def penalise_critic(self, scaling: FitScales, penalty: float, *, actions: int, intercept: bool) -> Array:
        """ζ of every feature of the critic, (fits, features); `intercept`: whether the paper's own is kept."""


class AbsoluteUnits(PenaltyUnits):
    """ζ ‖w‖² and ζ ‖θ‖² as in the paper: the units of rewards and states decide how much they are."""

    name: ClassVar[str] = "absolute"

    def measure(self, state: Array, reward: Array, usable: Array) -> FitScales:
        xp = array_namespace(state)
        zeros = xp.zeros_like(state[:, 0, :])
        return FitScales(zeros, zeros + 1.0, xp.ones_like(reward[:, 0]))

    def penalise_critic(self, scaling: FitScales, penalty: float, *, actions: int, intercept: bool) -> Array:
        xp = array_namespace(scaling.width)
        block = xp.concat([xp.ones_like(scaling.width[:, :1]), scaling.width], axis=1)
        penalties = penalty * xp.concat([block] * actions, axis=1)
        penalties[:, 0] *= intercept
        return penalties


class StandardUnits(PenaltyUnits):
    """ζ Σ (w_j · width_j)² over the slopes of the critic, and ζ · spread · ‖θ‖² of a policy of standardised states.

    The critic's intercepts are free, because where zero lies is a matter of units; a policy's is its logit in the middle of
    the states.
    """

    name: ClassVar[str] = "standard"

    def measure(self, state: Array, reward: Array, usable: Array) -> FitScales:
        xp = array_namespace(state)
        if usable.shape[1] > MOST_ROWS:
            sample = xp.asarray(_sample_rows(usable.shape[1]), device=device(state))
            state, reward, usable = (xp.take(part, sample, axis=1) for part in (state, reward, usable))
        values = xp.concat([xp.permute_dims(state, (0, 2, 1)), reward[:, None, :]], axis=1)
        low, middle, high = quantiles(values, (usable > 0)[:, None, :], (0.25, 0.5, 0.75))
        known = xp.isfinite(middle)
        width = xp.where(known, high - xp.where(known, low, 0.0), 0.0) / QUARTILES_TO_DEVIATION
        narrow = xp.nonzero(xp.any(width == 0, axis=1))[0]
        if narrow.shape[0]:
            # What mostly takes one value has quartiles that coincide, but a standard deviation.
            width[narrow] = xp.where(width[narrow] > 0, width[narrow], _deviation(values[narrow], usable[narrow]))
        width = xp.where(width > 0, width, 1.0)
        middle = xp.where(known, middle, 0.0)
        return FitScales(middle[:, :-1], width[:, :-1], width[:, -1])

    def penalise_critic(self, scaling: FitScales, penalty: float, *, actions: int, intercept: bool) -> Array:
        xp = array_namespace(scaling.width)
        block = xp.concat([xp.zeros_like(scaling.width[:, :1]), scaling.width**2], axis=1)
        return penalty * xp.concat([block] * actions, axis=1)


def _sample_rows(rows: int) -> NDArray[np.int64]:
    """Which rows stand for so many; the same for every fit to as many."""
    return np.sort(np.random.default_rng(0).permutation(rows)[:MOST_ROWS])


def _deviation(values: Array, usable: Array) -> Array:
    """The standard deviation of the usable values along the last axis of (fits, variables, rows)."""
    xp = array_namespace(values)
    count = xp.sum(usable, axis=1)[:, None]
    count = xp.where(count > 0, count, 1.0)
    mean = xp.sum(values * usable[:, None, :], axis=-1) / count
    return xp.sqrt(xp.sum(usable[:, None, :] * (values - mean[..., None]) ** 2, axis=-1) / count)


PENALTY_UNITS: Registry[PenaltyUnits] = Registry("unit of penalties")
find_penalty_units = PENALTY_UNITS.find
for _units in (StandardUnits(), AbsoluteUnits()):
    PENALTY_UNITS.register(_units)
