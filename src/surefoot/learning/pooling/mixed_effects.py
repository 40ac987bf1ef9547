"""Coefficients that differ between people: restricted maximum likelihood from each participant's moments.

    y = x(s, a)ᵀ wᵢ + noise of variance σ²,   wᵢ = β + bᵢ,   bᵢ ~ N(0, Ψ)

With Ψ = σ² L Lᵀ all is computed in coordinates in which bᵢ has the covariance σ² I: S = Lᵀ XᵀUX L and m = Lᵀ XᵀUy of a
participant give

    M = I + S,   W = S M⁻¹,   A = Σ W + ζ,   β = A⁻¹ Σ M⁻¹m,   bᵢ = M⁻¹m − W β
    σ² = (Σ yᵀUy − mᵀM⁻¹m − βᵀ Σ M⁻¹m) / (N − d)
    −2 log likelihood = Σ log det M + log det A + (N − d) log σ²  (Laird and Ware, 1982; Patterson and Thompson, 1971)

and wᵢ has the posterior covariance σ² (M⁻¹ + M⁻¹ A⁻¹ M⁻¹), of which the second part is what is not known of β.

A prior β ~ N(0, s²), s in units of the outcome, adds σ² / s² to ζ, which is held while Ψ is searched; then σ² is

    σ² = (Σ yᵀUy − mᵀM⁻¹m − βᵀ Σ M⁻¹m − βᵀ(σ²/s²)β) / (N − d + tr A⁻¹ σ²/s²)

where the derivative of the likelihood of y alone, β integrated out, is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import device

from surefoot.learning.moments import Moments
from surefoot.numerics.arrays import Array, array_namespace, split_people
from surefoot.numerics.batched_cholesky import invert, invert_definite

ROUNDING = 1e-14
"""A residual sum of squares below this share of Σ y² is rounding."""
NOTHING = 1e-12
"""A column whose square is less than this share of what it was before it was centred is constant."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of one output's coefficients: of the population, and of every participant."""

    population: Array
    """β, (d,)."""
    population_covariance: Array
    """Of β̂, (d, d)."""
    spread: Array
    """Ψ, (d, d): how people differ."""
    noise: float
    """σ²."""
    mean: Array
    """wᵢ, (people, d)."""
    covariance: Array
    """Of wᵢ, (people, d, d), Ψ and σ² taken as known."""
    deviance: float
    """−2 log restricted likelihood, but for a constant."""
    n_iter: int
    converged: bool
    likelihood: Likelihood
    """What it was found from."""
    walk: float = 0.0
    """q: by which share of Ψ a participant's coefficients vary from one decision point to the next; `mean` is the last."""

    @property
    def new_covariance(self) -> Array:
        """Of the coefficients of somebody of whom nothing is known, (d, d): Ψ, and what is not known of β."""
        return self.spread + self.population_covariance


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The restricted likelihood of one output as a function of L, in columns of one participant's information each."""

    gram: Array
    """XᵀUX, (people, d, d)."""
    cross: Array
    """XᵀUy, (people, d)."""
    squares: float
    """Σ yᵀUy."""
    free: float
    """N − d."""
    penalty: Array
    """ζ, (d, d)."""
    basis: Array
    """(d, d): columns of these coordinates in those of the moments."""
    moments: Moments
    prior: Array | float = 0.0
    """The part of ζ that is σ² / s² of a prior, (d, d)."""
    held_noise: float | None = None
    """σ², where it is not the best for every L, because ζ depends on it."""

    @classmethod
    def of_moments(
        cls,
        moments: Moments,
        response: int,
        penalty: Array,
        basis: Array,
        variance_left: float = 1.0,
        *,
        prior: tuple[Array, float] | None = None,
    ) -> Likelihood:
        """Of one response; `penalty` is ζ, (d,), `basis` says in which columns Ψ is diagonal, and `prior` holds 1 / s² of
        every coefficient and σ².

        Where outliers were cut off, the rest tells of too little noise, and Ψ would absorb what is missing: everybody's own
        residual sum of squares is divided by the square of the share of the variance that was left.
        """
        xp = array_namespace(moments.gram)
        across = xp.matrix_transpose(basis)
        gram = across @ moments.gram @ basis
        total = xp.sum(moments.gram, axis=0)
        size = _diagonal(xp.sum(gram, axis=0))
        informed = size > NOTHING * _diagonal(xp.abs(across) @ xp.abs(total) @ xp.abs(basis))
        given = (across * (xp.zeros_like(penalty) if prior is None else prior[0] * prior[1])) @ basis
        # A prior may inform coefficients on which the data are silent.
        size = xp.where(informed, size, _diagonal(given))
        informed = informed | (_diagonal(given) > 0)
        people = float(max(int(xp.sum(xp.astype(moments.count > 0, xp.int64))), 1))
        scale = xp.where(informed, xp.sqrt(people / xp.where(informed, size, 1.0)), 0.0)
        basis = basis * xp.where(informed, scale, 1.0)[None, :]
        informative = xp.astype(informed, gram.dtype)
        gram = gram * (scale[:, None] * scale)
        cross = (xp.matrix_transpose(basis) @ moments.cross[:, :, response, None])[..., 0] * informative
        shrink = (xp.matrix_transpose(basis) * penalty) @ basis * (informative[:, None] * informative)
        given = given * (scale[:, None] * scale)
        free = float(xp.sum(moments.count)) - float(xp.sum(informative))
        squares = float(xp.sum(moments.squares[:, response, response]))
        if variance_left < 1:
            coefficients = moments.solve(penalty)[0][:, :, response]
            left = squares - float(xp.sum(coefficients * moments.cross[:, :, response]))
            squares += (1 / variance_left**2 - 1) * left
        return cls(
            gram=gram,
            cross=cross,
            squares=squares,
            free=max(free, 1.0),
            penalty=shrink + given,
            basis=basis,
            moments=moments,
            prior=0.0 if prior is None else given,
            held_noise=None if prior is None else prior[1],
        )

    @property
    def people(self) -> int:
        """Those with decision points."""
        xp = array_namespace(self.gram)
        return int(xp.sum(xp.astype(xp.any(self.gram != 0, axis=(1, 2)), xp.int64)))

    def at(self, root: Array) -> LikelihoodPoint:
        """At L = diag(root), or at L itself, (d, d)."""
        xp = array_namespace(self.gram)
        across = xp.matrix_transpose(root) if root.ndim == 2 else root
        d = self.gram.shape[-1]
        cross = self.cross * root if root.ndim == 1 else self.cross @ root
        shrink = self.penalty * (root[:, None] * root) if root.ndim == 1 else across @ self.penalty @ root
        inverse = xp.empty_like(self.gram)
        reliability = xp.empty_like(self.gram)
        log_determinant = xp.empty_like(self.gram[:, 0, 0])
        eye = xp.eye(d, dtype=cross.dtype, device=device(cross))
        for people in split_people(self.gram, d**2):
            gram = self.gram[people]
            inner = gram * (root[:, None] * root) if root.ndim == 1 else across @ gram @ root
            inverse[people], log_determinant[people] = invert_definite(eye + inner)
            reliability[people] = inner @ inverse[people]
        right = (inverse @ cross[..., None])[..., 0]
        system, log_determinant_of_system = (
            part[0, ...] for part in invert((xp.sum(reliability, axis=0) + shrink)[None, ...])
        )
        pull = xp.sum(right, axis=0)
        beta = system @ pull
        left = self.squares - float(xp.sum(cross * right)) - float(xp.sum(pull * beta))
        left = max(left, ROUNDING * self.squares, float(np.finfo(np.float64).tiny))
        noise = left / self.free if self.held_noise is None else self.held_noise
        # log det A is that of these coordinates; columns that were dropped have no part in it.
        length = xp.log(root if root.ndim == 1 else _diagonal(root))
        logs = 2 * float(xp.sum(xp.where(_diagonal(system) > 0, length, 0.0)))
        noise_term = self.free * float(np.log(noise)) if self.held_noise is None else left / noise
        deviance = float(xp.sum(log_determinant)) + float(log_determinant_of_system) - logs + noise_term
        return LikelihoodPoint(
            self, root, inverse, reliability, right - reliability @ beta, system, beta, noise, deviance, left
        )


@dataclass(frozen=True, eq=False)
class LikelihoodPoint:
    """The likelihood at one L, in coordinates in which bᵢ has the covariance σ² I."""

    likelihood: Likelihood
    root: Array
    inverse: Array
    """M⁻¹, (people, d, d)."""
    reliability: Array
    """W, (people, d, d)."""
    deviation: Array
    """bᵢ, (people, d)."""
    system: Array
    """A⁻¹, (d, d)."""
    beta: Array
    noise: float
    deviance: float
    left: float
    """σ² times the sum of squares that is left, in units of its own covariance, with what ζ adds."""

    def estimate_noise(self) -> float:
        """The best σ² for this L, and this β, with the part of ζ that a prior has."""
        xp = array_namespace(self.reliability)
        prior = self.likelihood.prior
        prior = xp.zeros_like(self.system) + prior
        prior = (
            prior * (self.root[:, None] * self.root)
            if self.root.ndim == 1
            else xp.matrix_transpose(self.root) @ prior @ self.root
        )
        paid = float(xp.sum(self.beta * (prior @ self.beta)))
        degrees = float(xp.sum(self.system * prior))
        return (self.left - paid) / (self.likelihood.free + degrees)

    @property
    def rounding(self) -> float:
        """Differences of the deviance below this are rounding: σ² is a small difference of large sums."""
        likelihood = self.likelihood
        return 8 * float(np.finfo(np.float64).eps) * (abs(self.deviance) + likelihood.squares / self.noise)

    def slope(self) -> Array:
        """Of the deviance in L Lᵀ, at I of these coordinates: Σ W − W A⁻¹ W − b bᵀ / σ², (d, d)."""
        xp = array_namespace(self.reliability)
        people, d, _ = self.reliability.shape
        stacked = (xp.reshape(part, (people * d, d)) for part in (self.system @ self.reliability, self.reliability))
        explained = xp.matrix_transpose(next(stacked)) @ next(stacked)
        return (
            xp.sum(self.reliability, axis=0) - explained - xp.matrix_transpose(self.deviation) @ self.deviation / self.noise
        )

    def diagonal_slope(self) -> Array:
        """The diagonal of `slope`, for less."""
        xp = array_namespace(self.reliability)
        d = self.reliability.shape[-1]
        total = -xp.sum(self.deviation**2, axis=0) / self.noise
        for people in split_people(self.reliability, d**2):
            w = self.reliability[people]
            total = total + _diagonal(xp.sum(w, axis=0)) - xp.sum(xp.sum((w @ self.system) * w, axis=2), axis=0)
        return total

    def curvature(self) -> tuple[Array, Array]:
        """Second derivatives of the deviance in λ, times λλᵀ, (d, d), and a positive semi-definite stand-in (the average
        information of Gilmour, Thompson and Cullis, 1995)."""
        xp = array_namespace(self.reliability)
        b = self.deviation
        d = self.reliability.shape[-1]
        rows = xp.permute_dims(self.reliability, (1, 0, 2))
        between = self.system @ (xp.matrix_transpose(rows) @ rows)
        crossed = xp.reshape(between, (d, d * d)) @ xp.matrix_transpose(xp.reshape(xp.matrix_transpose(between), (d, d * d)))
        expected = crossed
        quadratic = 0.0
        pulled = 0.0
        for people in split_people(self.reliability, d**2):
            w = self.reliability[people]
            off = b[people]
            expected = expected + xp.sum(w * (w - 2 * (w @ self.system @ w)), axis=0)
            pull = w * off[:, None, :]
            pulled = pulled + xp.sum(pull, axis=0)
            quadratic = quadratic + xp.sum(pull * off[:, :, None], axis=0)
        average = (quadratic - xp.matrix_transpose(pulled) @ self.system @ pulled) / self.noise
        exact = 2 * average - expected
        if self.likelihood.held_noise is None:
            squares = xp.sum(b**2, axis=0) / self.noise
            noise_term = squares[:, None] * squares / self.likelihood.free
            average = average - noise_term
            exact = exact - noise_term
        return exact, average

    def posterior(self, n_iter: int, converged: bool, least: Array) -> Posterior:
        """In the coordinates of the moments; where λ is the `least` that is searched, Ψ is zero."""
        xp = array_namespace(self.reliability)
        basis = self.likelihood.basis
        transform = basis * self.root if self.root.ndim == 1 else basis @ self.root
        back = xp.matrix_transpose(transform)
        differs = transform * xp.astype(~least, transform.dtype) if self.root.ndim == 1 else transform
        covariance = self.noise * (transform @ (self.inverse + self.inverse @ self.system @ self.inverse) @ back)
        return Posterior(
            population=transform @ self.beta,
            population_covariance=self.noise * (transform @ self.system @ back),
            spread=self.noise * (differs @ xp.matrix_transpose(differs)),
            noise=self.noise,
            mean=(self.beta + self.deviation) @ back,
            covariance=covariance,
            deviance=self.deviance,
            n_iter=n_iter,
            converged=converged,
            likelihood=self.likelihood,
        )


def _diagonal(matrix: Array) -> Array:
    return array_namespace(matrix).stack([matrix[j, j] for j in range(matrix.shape[-1])])
