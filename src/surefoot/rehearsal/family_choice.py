"""Which family of outcomes fits a pilot best: the likelihood of days that the model has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.rehearsal.outcome_families import FAMILIES, OutcomeFamily, find_family
from surefoot.rehearsal.pilot_data import NO_PILOT

Floats = NDArray[np.float64]
FOLDS = 5
LEAST_LIKELIHOOD = 1e-12


@dataclass(frozen=True)
class FamilyChoice:
    """The family, and how likely held-out outcomes were under each that could be.

    Attributes
    ----------
    name
        Of the family.
    log_likelihood
        Mean log probability of an outcome as it was recorded, on days held out (five folds of everybody's days), by family.
        Empty where the family was named.
    """

    name: str
    log_likelihood: dict[str, float]


def find_step(values: Floats) -> float:
    """The step to which outcomes were recorded; 0 where they have none that matters.

    >>> find_step(np.array([0.0, 5.0, 20.0, 35.0])), find_step(np.array([0.1234, 0.5, 0.7]))
    (5.0, 0.0)
    """
    gaps = np.diff(np.unique(values))
    least = float(gaps.min())
    whole = np.abs(gaps / least - np.round(gaps / least)).max() < 1e-6
    return least if whole and least > 1e-3 * float(np.ptp(values)) / max(len(gaps), 1) else 0.0


def choose_family(
    x: Floats, y: Floats, weight: Floats, day: Floats, named: str | None, rng: np.random.Generator
) -> FamilyChoice:
    """By the likelihood of held-out days, unless one is named.

    Outcomes count as what was recorded, up to half a step (or a thousandth of their spread), so that families with piles
    and without are on one scale.
    """
    known = y[weight > 0]
    if named is not None:
        if not find_family(named).suits(known):
            fitting = [name for name in FAMILIES if find_family(name).suits(known)]
            raise InputError(f"the pilot's outcomes cannot be '{named}'; choose from {fitting}")
        return FamilyChoice(named, {})
    names = [name for name in FAMILIES if find_family(name).suits(known)]
    if not names:
        values = " and ".join(f"{value:g}" for value in np.unique(known))
        raise InputError(f"the pilot's outcome has only the values {values}, and no family suits it; code it as 0 and 1")
    if len(names) == 1:
        return FamilyChoice(names[0], {})
    if len(np.unique(day[weight > 0])) < 2:
        raise InputError(
            "the pilot's outcomes lie on one day, and families of outcomes are compared on days held out; give a longer "
            f'pilot, name one of {names} in the plan ([people] outcome = "{names[0]}"), or {NO_PILOT}'
        )
    half = (find_step(known) or 1e-3 * float(known.std())) / 2
    scores = {name: _score(find_family(name), x, y, weight, day, half, rng) for name in names}
    return FamilyChoice(max(scores, key=scores.__getitem__), scores)


def _score(
    kind: type[OutcomeFamily], x: Floats, y: Floats, weight: Floats, day: Floats, half: float, rng: np.random.Generator
) -> float:
    features = [x[..., j].T for j in range(x.shape[-1])]
    outcome = np.where(weight > 0, y, np.nanmean(y[weight > 0])).T
    total = 0.0
    for fold in range(FOLDS):
        held_out = (weight > 0) & (day % FOLDS == fold)
        learned = (weight > 0) & ~held_out
        if not held_out.any():
            continue
        if not kind.suits(y[learned]):
            # The other days do not show what the family needs, so it says nothing about this one.
            total += float(np.log(LEAST_LIKELIHOOD)) * int(held_out.sum())
            continue
        fitted = kind.fit(x, y, np.where(learned, weight, 0.0), rng)
        likelihood = fitted.cumulate(outcome + half, features) - fitted.cumulate(outcome - half, features)
        total += float(np.log(np.maximum(likelihood, LEAST_LIKELIHOOD))[held_out.T].sum())
    return total / float(weight.sum())
