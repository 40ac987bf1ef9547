"""Moments: all that a linear model needs to know of each participant's decision points."""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace, gram
from surefoot.numerics.batched_cholesky import solve


@dataclass(frozen=True)
class Moments(PerParticipant):
    """XᵀUX, XᵀUY and YᵀUY of each participant; those of further decision points are added.

    >>> import numpy as np
    >>> x, y, u = np.ones((1, 4, 1)), np.array([[[1.0], [2.0], [3.0], [6.0]]]), np.ones((1, 4))
    >>> whole = Moments.of_rows(x, y, u)
    >>> parts = Moments.of_rows(x[:, :1], y[:, :1], u[:, :1]) + Moments.of_rows(x[:, 1:], y[:, 1:], u[:, 1:])
    >>> whole.solve(np.zeros(1))[0], bool((whole.squares == parts.squares).all()), whole.count
    (array([[[3.]]]), True, array([4.]))
    """

    gram: Array
    """XᵀUX, (people, d, d). Its first row counts: [0, 0] the decision points, [0, a·k] those with action a."""
    cross: Array
    """XᵀUY, (people, d, responses)."""
    squares: Array
    """YᵀUY, (people, responses, responses)."""

    @classmethod
    def of_rows(cls, features: Array, responses: Array, weights: Array) -> Moments:
        """From x (people, decision points, d), Y (…, responses) and a weight for each decision point."""
        xp = array_namespace(features)
        weighted = xp.matrix_transpose(responses * weights[..., None])
        return cls(gram(features, weights), xp.matrix_transpose(weighted @ features), weighted @ responses)

    def __add__(self, other: Moments) -> Moments:
        """Of the decision points of both, for the same people in the same order."""
        return Moments(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))

    def total(self) -> Moments:
        """Everybody's together, as one unit."""
        xp = array_namespace(self.gram)
        return Moments(*(xp.sum(part, axis=0, keepdims=True) for part in vars(self).values()))

    def subtract(self, coef: Array) -> Moments:
        """Of the same decision points with Y − X w instead of Y; `coef` is w, (d, responses)."""
        xp = array_namespace(self.gram)
        cross = self.cross - self.gram @ coef
        explained = xp.matrix_transpose(coef) @ self.cross
        return Moments(self.gram, cross, self.squares - explained - xp.matrix_transpose(cross) @ coef)

    @property
    def count(self) -> Array:
        """How many decision points each participant has, (people,)."""
        return self.gram[:, 0, 0]

    def solve(self, penalty: Array) -> tuple[Array, Array]:
        """Ridge coefficients (units, d, responses) and (XᵀUX + ζ)⁻¹; `penalty` is ζ, (d,)."""
        xp = array_namespace(self.gram)
        eye = xp.eye(self.gram.shape[-1], dtype=self.gram.dtype, device=device(self.gram))
        system = self.gram + penalty * eye
        return solve(system, self.cross)[0], solve(system, xp.broadcast_to(eye, system.shape))[0]
