"""What a critic's coefficients are shrunk by: the units of penalties, and priors.

In *standard* units a penalty is counted in the spread of the reward and in the widths of the states, measured by the
quartiles of every fit: minutes or milliseconds, kilometres or miles, °C or °F give the same policy. In *absolute* units,
those of the paper, it is counted in whatever the reward and the states come in.

A prior has a mean and a scale for each coefficient that has one, by a readable name: `intercept` and the state variables for
what is expected without any action, the action for its effect with all state variables at 0, and `action × variable` for how
a variable changes that effect.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean
from surefoot.learning.part import Part
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


@dataclass(frozen=True)
class PenaltyUnits(Part, ABC):
    """How a penalty's number becomes one for every coefficient."""

    kind: ClassVar[str] = "unit of penalties"
    of_intercepts: ClassVar[float] = 0.0
    """How many times ζ counts for an intercept. Where zero lies is a matter of units."""

    @abstractmethod
    def measure(self, state: Array, reward: Array, usable: Array) -> FitScales:
        """The units of each fit, from (fits, rows, variables), (fits, rows) and 1.0 where a row can be used."""

    def penalise_critic(self, scaling: FitScales, penalty: float, *, actions: int, intercept: bool) -> Array:
        """ζ of every feature of the critic, (fits, features); `intercept`: whether the paper's own is kept."""
        xp = array_namespace(scaling.width)
        block = xp.concat([xp.full_like(scaling.width[:, :1], self.of_intercepts), scaling.width**2], axis=1)
        penalties = penalty * xp.concat([block] * actions, axis=1)
        penalties[:, 0] *= intercept
        return penalties


PENALTY_UNITS: Registry[type[PenaltyUnits]] = Registry("unit of penalties")


@PENALTY_UNITS.register
@dataclass(frozen=True)
class AbsoluteUnits(PenaltyUnits):
    """ζ ‖w‖² and ζ ‖θ‖² as in the paper: the units of rewards and states decide how much they are."""

    name: ClassVar[str] = "absolute"
    of_intercepts: ClassVar[float] = 1.0

    def measure(self, state: Array, reward: Array, usable: Array) -> FitScales:
        xp = array_namespace(state)
        zeros = xp.zeros_like(state[:, 0, :])
        return FitScales(zeros, zeros + 1.0, xp.ones_like(reward[:, 0]))


@PENALTY_UNITS.register
@dataclass(frozen=True)
class StandardUnits(PenaltyUnits):
    """ζ Σ (w_j · width_j)² over the slopes of the critic, and ζ · spread · ‖θ‖² of a policy of standardised states.

    The critic's intercepts are free, because where zero lies is a matter of units; a policy's is its logit in the middle of
    the states.
    """

    name: ClassVar[str] = "standard"

    def measure(self, state: Array, reward: Array, usable: Array) -> FitScales:
        xp = array_namespace(state)
        if usable.shape[1] > MOST_ROWS:
            chosen = np.sort(np.random.default_rng(0).permutation(usable.shape[1])[:MOST_ROWS])
            sample = xp.asarray(chosen, device=device(state))
            state, reward, usable = (xp.take(values, sample, axis=1) for values in (state, reward, usable))
        values = xp.concat([xp.permute_dims(state, (0, 2, 1)), reward[:, None, :]], axis=1)
        low, middle, high = quantiles(values, (usable > 0)[:, None, :], (0.25, 0.5, 0.75))
        known = xp.isfinite(middle)
        width = xp.where(known, high - xp.where(known, low, 0.0), 0.0) / QUARTILES_TO_DEVIATION
        narrow = xp.nonzero(xp.any(width == 0, axis=1))[0]
        if narrow.shape[0]:
            # What mostly takes one value has quartiles that coincide, but a standard deviation.
            counted = usable[narrow][:, None, :]
            count = xp.sum(counted, axis=-1)
            count = xp.where(count > 0, count, 1.0)
            mean = xp.sum(values[narrow] * counted, axis=-1) / count
            deviation = xp.sqrt(xp.sum(counted * (values[narrow] - mean[..., None]) ** 2, axis=-1) / count)
            width[narrow] = xp.where(width[narrow] > 0, width[narrow], deviation)
        width = xp.where(width > 0, width, 1.0)
        middle = xp.where(known, middle, 0.0)
        return FitScales(middle[:, :-1], width[:, :-1], width[:, -1])


Prior = Mapping[str, Mapping[str, float]]
"""{name: {"mean": …, "scale": …}}; the mean may be left out, and is then 0."""


class PlacedPrior(NamedTuple):
    """A prior in the order of the critic's coefficients."""

    mean: NDArray[np.float64]
    """(features,); 0 where none is given."""
    scale: NDArray[np.float64]
    """(features,); +∞ where none is given."""


def list_coefficient_names(state: Sequence[str], actions: Sequence[str]) -> list[str]:
    """The names of the critic's coefficients, in their order.

    >>> list_coefficient_names(["weather"], ["nothing", "send"])
    ['intercept', 'weather', 'send', 'send × weather']
    """
    effects = [name for action in actions[1:] for name in (action, *(f"{action} × {variable}" for variable in state))]
    return ["intercept", *state, *effects]


def check_prior(prior: Prior) -> None:
    """Refuse numbers that cannot be."""
    for name, moments in prior.items():
        if not isinstance(moments, Mapping) or not set(moments) <= {"mean", "scale"} or "scale" not in moments:
            raise InputError(f"prior of '{name}' is {moments!r}; write {{'mean': 0.0, 'scale': 1.0}} with your numbers")
        for key, value in moments.items():
            if not isinstance(value, int | float | np.number) or not isfinite(value) or (key == "scale" and value <= 0):
                least = " above 0" if key == "scale" else ""
                raise InputError(f"prior of '{name}': {key} is {value!r}; it must be a finite number{least}")


def place_prior(prior: Prior | None, state: Sequence[str], actions: Sequence[str]) -> PlacedPrior:
    """The prior in the order of the critic's coefficients; a name that is not one of theirs is refused."""
    names = list_coefficient_names(state, actions)
    mean = np.zeros(len(names))
    scale = np.full(len(names), np.inf)
    for name, moments in (prior or {}).items():
        if names.count(name) != 1:
            many = "two coefficients have the name" if name in names else "there is no coefficient"
            raise InputError(f"prior: {many} '{name}'{did_you_mean(name, names)}; there are {names}")
        mean[names.index(name)] = moments.get("mean", 0.0)
        scale[names.index(name)] = moments["scale"]
    return PlacedPrior(mean, scale)


def write_prior(prior: Prior) -> str:
    """As a section of a study file.

    >>> print(write_prior({"send × weather": {"mean": 0.25, "scale": 1.0}}))
    [method.prior]
    "send × weather" = { mean = 0.25, scale = 1.0 }
    <BLANKLINE>
    """
    lines = [
        f"{json.dumps(name, ensure_ascii=False)} = {{ mean = {moments['mean']!r}, scale = {moments['scale']!r} }}"
        for name, moments in prior.items()
    ]
    return "\n".join(["[method.prior]", *lines, ""])
