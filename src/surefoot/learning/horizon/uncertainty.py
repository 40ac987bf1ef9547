"""How sure a look-ahead is: the covariance of linear functions of its coefficients C, (d, 1 + p).

Pooled over people it is the sandwich: a participant's influence on C is A⁻¹ (XᵢᵀUYᵢ − XᵢᵀUXᵢ C), A = XᵀUX + ζ. For one
participant's own fit, whose decision points are all there is, it is Σₑ ⊗ A⁻¹ with Σₑ the residual covariance, for the reward
and for the next state. Partially pooled coefficients come with a posterior covariance for every output.
"""

from __future__ import annotations

from typing import Protocol

from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments
from surefoot.learning.moments import Moments
from surefoot.numerics.arrays import Array, array_namespace

ENOUGH_PEOPLE = 20
"""With fewer people the spread between them is no estimate, and their decision points are taken to be independent."""


class Uncertainty(Protocol):
    """What is not known about the coefficients."""

    between_people: bool
    """Whether people were the units."""

    def covariance(self, functionals: Array) -> Array:
        """Of Σ W ∘ C for weights W (units, m, d, 1 + p): (units, m, m)."""

    def coefficient_covariance(self, rows: slice, output: int) -> Array:
        """Of C[rows, output]: (units, rows, rows)."""


class BetweenPeople:
    """The sandwich over people, for one pooled unit."""

    between_people = True

    def __init__(self, model: LookAhead, moments: TransitionMoments, penalty: Array) -> None:
        xp = array_namespace(model.coef)
        people = moments.reward.gram.shape[0]
        influences = []
        for part, coef in ((moments.reward, model.coef[..., :1]), (moments.state, model.coef[..., 1:])):
            inverse = part.total().solve(penalty)[1]
            score = part.cross - part.gram @ coef - penalty[:, None] * coef / people
            influences.append(inverse @ score)
        self._influence = xp.concat(influences, axis=-1)
        self._correction = people / (people - 1)

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        flat = xp.reshape(functionals, (*functionals.shape[:2], -1))
        moved = xp.reshape(self._influence, (self._influence.shape[0], -1)) @ xp.matrix_transpose(flat)
        return self._correction * (xp.matrix_transpose(moved) @ moved)

    def coefficient_covariance(self, rows: slice, output: int) -> Array:
        moved = self._influence[:, rows, output]
        return self._correction * (array_namespace(moved).matrix_transpose(moved) @ moved)[None, ...]


class WithinUnits:
    """Σₑ ⊗ A⁻¹ for each unit."""

    between_people = False

    def __init__(self, model: LookAhead, moments: TransitionMoments, penalty: Array) -> None:
        self._reward = moments.reward.solve(penalty)[1], _residual_covariance(moments.reward, model.coef[..., :1])
        self._state = moments.state.solve(penalty)[1], _residual_covariance(moments.state, model.coef[..., 1:])

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        shape = (*functionals.shape[:2], -1)
        total = 0.0
        for weights, (inverse, residual) in ((functionals[..., :1], self._reward), (functionals[..., 1:], self._state)):
            spread = inverse[:, None, :, :] @ weights @ residual[:, None, :, :]
            total = total + xp.reshape(weights, shape) @ xp.matrix_transpose(xp.reshape(spread, shape))
        return total

    def coefficient_covariance(self, rows: slice, output: int) -> Array:
        inverse, residual = self._state if output else self._reward
        index = max(output - 1, 0)
        return inverse[:, rows, rows] * residual[:, index, index][:, None, None]


class OfPosteriors:
    """Σ over outputs of W V Wᵀ, V (units, outputs, d, d) the covariance of an output's coefficients, fitted apart."""

    def __init__(self, covariance: Array, *, between_people: bool) -> None:
        self._covariance = covariance
        self.between_people = between_people

    def covariance(self, functionals: Array) -> Array:
        xp = array_namespace(functionals)
        total = 0.0
        for output in range(functionals.shape[-1]):
            weights = functionals[..., output]
            total = total + weights @ self._covariance[:, output, ...] @ xp.matrix_transpose(weights)
        return total

    def coefficient_covariance(self, rows: slice, output: int) -> Array:
        return self._covariance[:, output, rows, rows]


def _residual_covariance(moments: Moments, coef: Array) -> Array:
    xp = array_namespace(coef)
    across = xp.matrix_transpose(coef)
    explained = across @ moments.cross
    squares = moments.squares - explained - xp.matrix_transpose(explained) + across @ moments.gram @ coef
    free = moments.count - moments.gram.shape[-1]
    return squares / xp.maximum(free, xp.ones_like(free))[:, None, None]


def estimate_uncertainty(model: LookAhead, moments: TransitionMoments, penalty: Array) -> Uncertainty:
    """For the model that was fitted to these people's moments, one by one or all together."""
    people = moments.reward.gram.shape[0]
    if people == model.coef.shape[0]:
        return WithinUnits(model, moments, penalty)
    if people < ENOUGH_PEOPLE:
        return WithinUnits(model, moments.total(), penalty)
    return BetweenPeople(model, moments, penalty)
