"""How sure a look-ahead is: the covariance of linear functions of its coefficients C, (d, 1 + p).

Pooled over people it is the sandwich: a participant's influence on C is A⁻¹ (XᵢᵀUYᵢ − XᵢᵀUXᵢ C), A = XᵀUX + ζ. For one
participant's own fit, whose decision points are all there is, it is Σₑ ⊗ A⁻¹ with Σₑ the residual covariance.
"""

from __future__ import annotations

from typing import Protocol

from surefoot.learning.horizon.look_ahead import LookAhead, Moments
from surefoot.numerics.arrays import Array, array_namespace

ENOUGH_PEOPLE = 20
"""With fewer people the spread between them is no estimate, and their decision points are taken to be independent."""


class Uncertainty(Protocol):
    """What is not known about the coefficients."""

    between_people: bool
    """Whether people were the units."""

    def covariance(self, functionals: Array) -> Array:
        """Of Σ W ∘ C for weights W (units, m, d, 1 + p): (units, m, m)."""


class BetweenPeople:
    """The sandwich over people, for one pooled unit."""

    between_people = True

    def __init__(self, found: LookAhead, moments: Moments, penalty: Array) -> None:
        xp = array_namespace(moments.gram)
        people = moments.gram.shape[0]
        score = moments.cross - moments.gram @ found.coef - penalty[:, None] * found.coef / people
        self._influence = xp.reshape(found.inverse @ score, (people, -1))
        self._correction = people / (people - 1)

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        flat = xp.reshape(functionals, (*functionals.shape[:2], -1))
        moved = self._influence @ xp.matrix_transpose(flat)
        return self._correction * (xp.matrix_transpose(moved) @ moved)


class WithinUnits:
    """Σₑ ⊗ A⁻¹ for each unit."""

    between_people = False

    def __init__(self, found: LookAhead, moments: Moments) -> None:
        xp = array_namespace(moments.gram)
        across = xp.matrix_transpose(found.coef)
        explained = across @ moments.cross
        squares = moments.squares - explained - xp.matrix_transpose(explained) + across @ moments.gram @ found.coef
        free = moments.gram[:, 0, 0] - moments.gram.shape[-1]
        self._inverse = found.inverse
        self._residual = squares / xp.maximum(free, xp.ones_like(free))[:, None, None]

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        shape = (*functionals.shape[:2], -1)
        spread = self._inverse[:, None, :, :] @ functionals @ self._residual[:, None, :, :]
        return xp.reshape(functionals, shape) @ xp.matrix_transpose(xp.reshape(spread, shape))


def uncertainty(found: LookAhead, moments: Moments, penalty: Array) -> Uncertainty:
    """For the model that was fitted to these people's moments, one by one or all together."""
    if moments.gram.shape[0] == found.coef.shape[0]:
        return WithinUnits(found, moments)
    if moments.gram.shape[0] < ENOUGH_PEOPLE:
        return WithinUnits(found, moments.total())
    return BetweenPeople(found, moments, penalty)
