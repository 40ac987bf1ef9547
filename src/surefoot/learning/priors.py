"""Priors of a critic's coefficients: a mean and a scale for each that has one, by a readable name.

The names are `intercept` and the state variables for what is expected without any action, the action for its effect with
all state variables at 0, and `action × variable` for how a variable changes that effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean

Prior = Mapping[str, Mapping[str, float]]
"""{name: {"mean": …, "scale": …}}; the mean may be left out, and is then 0."""


@dataclass(frozen=True, eq=False)
class PlacedPrior:
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
        f"{_quote(name)} = {{ mean = {moments['mean']!r}, scale = {moments['scale']!r} }}" for name, moments in prior.items()
    ]
    return "\n".join(["[method.prior]", *lines, ""])


def _quote(name: Any) -> str:
    import json

    return json.dumps(str(name), ensure_ascii=False)
