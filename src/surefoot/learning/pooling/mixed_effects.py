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

Columns Z that everybody shares, with random coefficients v in groups of one variance σ² λ_g each (a smooth baseline, effects
that change over the study), join the fixed part F = [X, Z √λ]. Where there are several paces, the columns are multiplied by
the one with the highest likelihood. With C = Lᵀ XᵀUZ √λ of a participant

    A = [[Σ W + ζ, Σ M⁻¹C], [·, √λ ZᵀUZ √λ − Σ CᵀM⁻¹C + I]],   (β, v) = A⁻¹ (Σ M⁻¹m, √λ ZᵀUy − Σ CᵀM⁻¹m)

and all else follows as before, with R = [W, M⁻¹C] where W meets A: bᵢ = M⁻¹m − R (β, v). A λ_g of zero is the model without
these columns.

The search for λ: a few steps of EM, λ ← mean of b² and what is not known of it, are quick while λ is far too small. Newton's
method, which follows, is quick at the end, and on the boundary, where people do not differ in a coefficient and EM would
crawl.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, PerParticipant, array_namespace, gram, split_people
from surefoot.numerics.batched_cholesky import invert, invert_definite, solve

ROUNDING = 1e-14
"""A residual sum of squares below this share of Σ y² is rounding."""
NOTHING = 1e-12
"""A column whose square is less than this share of what it was before it was centred is constant."""
UNEXPLAINED = 1e-6
"""A shared column of whose square other columns leave less than this share tells nothing."""
LEAST = 1e-12
MOST = 1e8
"""λ = ψ / σ², counted in what one participant's decision points tell of a coefficient, is searched between these: at the
first people do not differ, at the second they have nothing in common."""
MOST_SHARED = 1e4
"""The largest λ of a group of shared columns, counted in what all decision points tell of one: next to no shrinkage."""
EM_STEPS = 3
WARM = 1e-2
"""A search that begins at a fit to similar data begins with this λ where it was zero and now would rise."""
NEWTON_STEPS = 100
FULL_STEPS = 2000
NOISE_ROUNDS = 50
SETTLED = 1e-9
"""With a prior σ² is found when a round changes it by less than this share."""
LEAST_FULL = 1e-4
"""The least diagonal of a full L: with a smaller one its deviance is rounding."""
PROMISED = 1e-6
"""The search ends after a step that promised less than this of the deviance."""
CUT = 3.841458820694124
"""The 95 % point of χ² with one degree of freedom."""
FLAT = 1e-10
"""A deviance that changes by less when λ is multiplied by e tells nothing of it."""


@dataclass(frozen=True)
class Moments(PerParticipant):
    """XᵀUX, XᵀUY and YᵀUY of each participant."""

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

    def total(self) -> Moments:
        """Everybody's together, as one unit."""
        return Moments(*(np.sum(part, axis=0, keepdims=True) for part in vars(self).values()))

    def subtract(self, coef: Array) -> Moments:
        """Of the same decision points with Y − X w instead of Y; `coef` is w, (d, responses)."""
        cross = self.cross - self.gram @ coef
        return Moments(self.gram, cross, self.squares - coef.T @ self.cross - np.swapaxes(cross, 1, 2) @ coef)

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


@dataclass(frozen=True, eq=False)
class SharedMoments:
    """Of columns Z whose random coefficients everybody shares."""

    between: Array
    """XᵀUZ, (people, d, columns)."""
    gram: Array
    """ZᵀUZ of all people, (columns, columns)."""
    cross: Array
    """ZᵀUY of all people, (columns, responses)."""
    group: NDArray[np.int64]
    """(columns,), from 0 on: the coefficients of a group have one variance."""
    current: Array
    """(people, d, columns): by which share of Z's coefficients those of a participant have moved by now."""
    paces: Array
    """(paces, columns): alternatives for the standard deviations of a group's coefficients, relative to each other; at the
    first pace they are 1."""

    def subtract(self, coef: Array) -> SharedMoments:
        """With Y − X w instead of Y; `coef` is w, (d, responses)."""
        return replace(self, cross=self.cross - np.sum(np.swapaxes(self.between, 1, 2) @ coef, axis=0))

    def recombine(self, moments: Moments, mixing: Array, removed: Array) -> SharedMoments:
        """Of the columns Z H − X F instead of Z; `mixing` is H, (columns, columns), and `removed` F, (d, columns).

        Of a column of which X explains all, rounding is left: it becomes zero.
        """
        between = self.between @ mixing
        across = np.sum(between, axis=0).T @ removed
        before = mixing.T @ self.gram @ mixing
        gram = before - across - across.T + removed.T @ np.sum(moments.gram, axis=0) @ removed
        informed = np.diagonal(gram) > UNEXPLAINED * np.diagonal(before)
        return replace(
            self,
            between=(between - moments.gram @ removed) * informed,
            gram=gram * (informed[:, None] & informed),
            cross=(mixing.T @ self.cross - removed.T @ np.sum(moments.cross, axis=0)) * informed[:, None],
            current=self.current @ mixing,
        )


@dataclass(frozen=True, eq=False)
class SharedPosterior:
    """What is believed of the coefficients of columns that everybody shares."""

    mean: Array
    """(columns,)."""
    covariance: Array
    """(columns, columns)."""
    with_population: Array
    """The covariance with β, (d, columns)."""
    variances: Array
    """σ² λ of every group, (groups,)."""


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
    ratios: Array
    """ψ / σ² of the columns in which Ψ is diagonal, then of the groups of shared columns, (paces, d + groups): where the
    next search begins."""
    shared: SharedPosterior | None = None
    """Of columns that everybody shares, where there are any; `mean` then has what they add by now, `population` has not."""
    walk: float = 0.0
    """q: by which share of Ψ a participant's coefficients vary from one decision point to the next; `mean` is the last."""

    @property
    def new_covariance(self) -> Array:
        """Of the coefficients of somebody of whom nothing is known, (d, d): Ψ, and what is not known of β."""
        return self.spread + self.population_covariance

    def admit_ignorance(self, prior_variance: Array) -> Posterior:
        """With the prior variance of actions that nobody has been sent, (actions, features of each) in σ², instead of none.

        Such an action is as likely good as bad: without a variance its effect would be surely 0. A state that is constant
        stays without an effect.
        """
        likelihood = self.likelihood
        size = prior_variance.size
        informed = likelihood.informed[:size].reshape(prior_variance.shape)
        unknown = ~informed[:, :1] & informed[0]
        if likelihood.prior is not None:
            unknown = unknown & ~(np.diagonal(likelihood.prior)[:size] > 0).reshape(unknown.shape)
        basis = likelihood.basis[:, :size]
        covariance = basis * (self.noise * np.where(unknown, prior_variance, 0.0)).ravel() @ basis.T
        return replace(
            self,
            population_covariance=self.population_covariance + covariance,
            covariance=self.covariance + covariance,
        )

    def inflation(self, spread: float) -> float:
        """By how much covariances grow when the spread of the outcome counts as one more decision point.

        As in `rules.estimate_noise`: a fit through as many points as it has coefficients must not claim to be certain.
        """
        free = self.likelihood.free
        return (free + spread**2 / self.noise) / (free + 1)


def _times(values: Array, root: Array) -> Array:
    """Rows times L, which is diag(root) or the matrix itself."""
    return values * root if root.ndim == 1 else values @ root


def _between(matrix: Array, root: Array) -> Array:
    """Lᵀ M L."""
    return matrix * (root[:, None] * root) if root.ndim == 1 else root.T @ matrix @ root


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
    prior: Array | None
    """The part of ζ that is σ² / s² of a prior, (d, d)."""
    held_noise: float | None
    """σ², where it is not the best for every L, because ζ depends on it."""
    unit: Array
    """(d + groups,): the length of these columns in those of `basis` and of the shared columns as they came."""
    shared: SharedMoments
    """Of the columns that everybody shares, those of a group scaled alike but for the pace; cross is of this output,
    (columns,)."""
    pace: int = 0
    """Which of the paces the columns have."""

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
        shared: SharedMoments | None = None,
        unshared: Moments | None = None,
    ) -> Likelihood:
        """Of one response; `penalty` is ζ, (d,), `basis` says in which columns Ψ is diagonal, `prior` holds 1 / s² of every
        coefficient and σ², and `shared` the moments of columns that everybody shares.

        Where outliers were cut off, the rest tells of too little noise, and Ψ would absorb what is missing: everybody's own
        residual sum of squares is divided by the square of the share of the variance that was left. `unshared` are moments
        of outcomes less what shared columns explain, for these residuals.
        """
        gram = basis.T @ moments.gram @ basis
        size = np.diagonal(np.sum(gram, axis=0))
        largest = np.diagonal(np.abs(basis.T) @ np.abs(np.sum(moments.gram, axis=0)) @ np.abs(basis))
        informed = size > NOTHING * largest
        given = (basis.T * (np.zeros_like(penalty) if prior is None else prior[0] * prior[1])) @ basis
        # A prior may inform coefficients on which the data are silent.
        size = np.where(informed, size, np.diagonal(given))
        informed = informed | (np.diagonal(given) > 0)
        people = max(int(np.count_nonzero(moments.count)), 1)
        scale = np.where(informed, np.sqrt(people / np.where(informed, size, 1.0)), 0.0)
        basis = basis * np.where(informed, scale, 1.0)
        shrink = (basis.T * penalty) @ basis * (informed[:, None] & informed)
        given = _between(given, scale)
        if shared is None:
            shared = _share_nothing(*gram.shape[:2])
        columns = np.bincount(shared.group, np.diagonal(shared.gram)) / np.maximum(np.bincount(shared.group), 1)
        shared_unit = np.where(columns > 0, 1 / np.sqrt(np.where(columns > 0, columns, 1.0)), 0.0)
        lengths = shared_unit[shared.group]
        squares = float(np.sum(moments.squares[:, response, response]))
        if variance_left < 1:
            judged = moments if unshared is None else unshared
            coefficients = judged.solve(penalty)[0][:, :, response]
            left = float(np.sum(judged.squares[:, response, response]))
            left -= float(np.sum(coefficients * judged.cross[:, :, response]))
            squares += (1 / variance_left**2 - 1) * left
        return cls(
            gram=_between(gram, scale),
            cross=(basis.T @ moments.cross[:, :, response, None])[..., 0] * informed,
            squares=squares,
            free=max(float(np.sum(moments.count)) - float(np.sum(informed)), 1.0),
            penalty=shrink + given,
            basis=basis,
            moments=moments,
            prior=None if prior is None else given,
            held_noise=None if prior is None else prior[1],
            unit=np.append(np.where(informed, scale, 1.0), shared_unit),
            shared=replace(
                shared,
                between=(basis.T @ shared.between) * (informed[:, None] * lengths),
                gram=_between(shared.gram, lengths),
                cross=shared.cross[:, response] * lengths if len(lengths) else np.zeros(0),
            ),
        )

    def list_paces(self) -> list[Likelihood]:
        """One for each pace of the shared columns."""
        return [self._at_pace(pace) for pace in range(len(self.shared.paces))]

    def _at_pace(self, pace: int) -> Likelihood:
        """With the columns at this pace instead of theirs."""
        if pace == self.pace:
            return self
        shared = self.shared
        factor = shared.paces[pace] / shared.paces[self.pace]
        rescaled = replace(
            shared,
            between=shared.between * factor,
            gram=_between(shared.gram, factor),
            cross=shared.cross * factor,
        )
        return replace(self, shared=rescaled, pace=pace)

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Who has decision points, (people,)."""
        return np.asarray(np.any(self.gram != 0, axis=(1, 2)))

    @property
    def people(self) -> int:
        """Those with decision points."""
        return int(self.observed.sum())

    def of_observed(self) -> Likelihood:
        """Of the people with decision points alone, on whom it depends: in a trial that enrols, many have none yet."""
        if self.observed.all():
            return self
        between = self.shared.between[self.observed]
        shared = replace(self.shared, between=between, current=self.shared.current[self.observed])
        return replace(self, gram=self.gram[self.observed], cross=self.cross[self.observed], shared=shared)

    @property
    def groups(self) -> NDArray[np.float64]:
        """(groups, columns): which shared columns belong to which group."""
        groups = len(self.unit) - self.gram.shape[-1]
        return np.asarray(self.shared.group == np.arange(groups)[:, None], dtype=np.float64)

    @property
    def informed(self) -> NDArray[np.bool_]:
        """Variances of which the data tell anything, (d + groups,)."""
        return np.append(np.diagonal(np.sum(self.gram, axis=0)) > 0, np.diagonal(self.shared.gram) @ self.groups.T > 0)

    @property
    def most(self) -> NDArray[np.float64]:
        """The largest λ of the search, (d + groups,)."""
        d = self.gram.shape[-1]
        return np.append(np.full(d, MOST), np.full(len(self.unit) - d, MOST_SHARED))

    def at_ratios(self, ratios: Array) -> LikelihoodPoint:
        """At ψ / σ² of the columns, then of the groups; where they are zero, at the least λ that is searched."""
        root = np.sqrt(self.find_scale(ratios))
        d = self.gram.shape[-1]
        return self.at(root[:d], root[d:])

    def find_scale(self, ratios: Array) -> NDArray[np.float64]:
        """λ of ψ / σ², (d + groups,)."""
        return np.asarray(np.clip(ratios / np.where(self.unit > 0, self.unit, 1.0) ** 2, LEAST, self.most))

    def at(self, root: Array, shared_root: Array | None = None) -> LikelihoodPoint:
        """At L = diag(root), or at L itself, (d, d), and at √λ of the groups of shared columns."""
        shared_root = np.zeros(len(self.groups)) if shared_root is None else shared_root
        lengths = shared_root[self.shared.group]
        cross = _times(self.cross, root)
        between = np.swapaxes(_times(np.swapaxes(self.shared.between, 1, 2), root), 1, 2) * lengths
        inverse = np.empty_like(self.gram)
        reliability = np.empty_like(self.gram)
        log_determinant = np.empty(len(self.gram))
        right = np.empty_like(cross)
        explained = np.empty_like(between)
        d = self.gram.shape[-1]
        for people in split_people(self.gram, d**2):
            inner = _between(self.gram[people], root)
            system = np.eye(d) + inner
            inverse[people], log_determinant[people] = invert_definite(system)
            reliability[people] = inner @ inverse[people]
            # Solved, because a product with M⁻¹ is far less exact where people differ much: CᵀM⁻¹C may exceed ZᵀUZ then.
            solution = np.linalg.solve(system, np.concatenate([cross[people, :, None], between[people]], axis=-1))
            right[people] = solution[..., 0]
            explained[people] = solution[..., 1:]
        columns = len(lengths)
        information = np.empty((d + columns, d + columns))
        information[:d, :d] = np.sum(reliability, axis=0) + _between(self.penalty, root)
        information[:d, d:] = np.sum(explained, axis=0)
        information[d:, :d] = information[:d, d:].T
        flat = (len(right) * d, columns)
        information[d:, d:] = _between(self.shared.gram, lengths) - between.reshape(flat).T @ explained.reshape(flat)
        pull = np.append(np.sum(right, axis=0), self.shared.cross * lengths - between.reshape(flat).T @ right.ravel())
        system, system_determinant = _invert_bordered(information, d)
        beta = system @ pull
        left = self.squares - float(np.sum(cross * right)) - float(np.sum(pull * beta))
        left = max(left, ROUNDING * self.squares, float(np.finfo(np.float64).tiny))
        noise = left / self.free if self.held_noise is None else self.held_noise
        # log det A is that of these coordinates; columns that were dropped have no part in it.
        widths = (root if root.ndim == 1 else np.diagonal(root))[np.diagonal(system)[:d] > 0]
        noise_term = self.free * float(np.log(noise)) if self.held_noise is None else left / noise
        deviance = float(np.sum(log_determinant)) + system_determinant - 2 * float(np.log(widths).sum()) + noise_term
        pulled = np.concatenate([reliability, explained], axis=-1)
        return LikelihoodPoint(
            likelihood=self,
            root=root,
            shared_root=shared_root,
            inverse=inverse,
            reliability=reliability,
            pulled=pulled,
            deviation=right - pulled @ beta,
            information=information,
            system=system,
            beta=beta,
            noise=noise,
            deviance=deviance,
            left=left,
        )


def _share_nothing(people: int, d: int) -> SharedMoments:
    """Moments of no columns."""
    empty = np.zeros((people, d, 0))
    nothing = np.zeros((0, 0))
    return SharedMoments(empty, nothing, np.zeros((0, 1)), np.zeros(0, dtype=np.int64), empty, paces=np.ones((1, 0)))


def _invert_bordered(information: Array, d: int) -> tuple[Array, float]:
    """A⁻¹ and log det A of A = `information`, plus I for all columns after the first d; of these some may be dropped."""
    columns = len(information) - d
    corner = np.linalg.cholesky(information[d:, d:] + np.eye(columns))
    half = np.linalg.solve(corner, np.concatenate([information[d:, :d], np.eye(columns)], axis=1))
    toward = half[:, d:].T @ half[:, :d]
    firsts, determinants = invert((information[:d, :d] - half[:, :d].T @ half[:, :d])[None])
    first = firsts[0]
    system = np.empty_like(information)
    system[:d, :d] = first
    system[d:, :d] = -toward @ first
    system[:d, d:] = system[d:, :d].T
    system[d:, d:] = half[:, d:].T @ half[:, d:] + toward @ first @ toward.T
    return system, float(determinants[0]) + 2 * float(np.log(np.diagonal(corner)).sum())


@dataclass(frozen=True, eq=False)
class LikelihoodPoint:
    """The likelihood at one L, in coordinates in which bᵢ has the covariance σ² I."""

    likelihood: Likelihood
    root: Array
    shared_root: Array
    """√λ of the groups of shared columns, (groups,)."""
    inverse: Array
    """M⁻¹, (people, d, d)."""
    reliability: Array
    """W, (people, d, d)."""
    pulled: Array
    """R = [W, M⁻¹C], (people, d, d + columns)."""
    deviation: Array
    """bᵢ, (people, d)."""
    information: Array
    """A without the I of the shared columns."""
    system: Array
    """A⁻¹, (d + columns, d + columns)."""
    beta: Array
    """β and v, (d + columns,)."""
    noise: float
    deviance: float
    left: float
    """σ² times the sum of squares that is left, in units of its own covariance, with what ζ adds."""

    @property
    def scale(self) -> NDArray[np.float64]:
        """λ of a diagonal L and of the groups."""
        return np.append(self.root, self.shared_root) ** 2

    @property
    def ratios(self) -> NDArray[np.float64]:
        """ψ / σ² of the columns, then of the groups; zero where λ is the least that is searched."""
        diagonal = self.root if self.root.ndim == 1 else np.sqrt(np.sum(self.root**2, axis=1))
        scale = np.append(diagonal, self.shared_root) ** 2
        return np.asarray(np.where(scale > LEAST, scale, 0.0) * self.likelihood.unit**2)

    def estimate_noise(self) -> float:
        """The best σ² for this L, and this β, with the part of ζ that a prior has."""
        prior = _between(self.likelihood.prior, self.root)
        d = len(prior)
        paid = float(np.sum(self.beta[:d] * (prior @ self.beta[:d])))
        return (self.left - paid) / (self.likelihood.free + float(np.sum(self.system[:d, :d] * prior)))

    @cached_property
    def toward(self) -> Array:
        """R A⁻¹, (people, d, d + columns)."""
        return self.pulled @ self.system

    def slope(self) -> Array:
        """Of the deviance in L Lᵀ, at I of these coordinates: Σ W − R A⁻¹ Rᵀ − b bᵀ / σ², (d, d)."""
        explained = np.sum(self.toward @ np.swapaxes(self.pulled, 1, 2), axis=0)
        return np.sum(self.reliability, axis=0) - explained - self.deviation.T @ self.deviation / self.noise

    def diagonal_slope(self) -> Array:
        """Of the deviance in log λ, (d + groups,); of L it is the diagonal of `slope`, for less."""
        total = np.diagonal(np.sum(self.reliability, axis=0)) - np.sum(self.deviation**2, axis=0) / self.noise
        total = total - np.sum(self.toward * self.pulled, axis=(0, 2))
        d = len(total)
        # I − A⁻¹ is A⁻¹ (A − I), which is exact where λ is next to nothing.
        reliability = np.sum(self.system[d:] * self.information[d:], axis=1)
        return np.append(total, self.likelihood.groups @ (reliability - self.beta[d:] ** 2 / self.noise))

    def curvature(self) -> tuple[Array, Array]:
        """Second derivatives of the deviance in λ, times λλᵀ, (d + groups, d + groups), and a positive semi-definite
        stand-in (the average information of Gilmour, Thompson and Cullis, 1995)."""
        d = self.reliability.shape[-1]
        groups = self.likelihood.groups
        size = d + len(groups)
        expected = np.zeros((size, size))
        between = np.permute_dims(self.toward, (1, 2, 0)) @ np.swapaxes(self.pulled, 0, 1)
        expected[:d, :d] = between.reshape(d, -1) @ np.swapaxes(between, 1, 2).reshape(d, -1).T
        quadratic = np.zeros((size, size))
        pulled = np.zeros((len(self.beta), size))
        for people in split_people(self.reliability, self.pulled.shape[-1] ** 2):
            w = self.reliability[people]
            r = self.pulled[people]
            off = self.deviation[people]
            toward = self.toward[people]
            expected[:d, :d] += np.sum(w * (w - 2 * (toward @ np.swapaxes(r, 1, 2))), axis=0)
            expected[:d, d:] += np.sum(toward[..., d:] ** 2, axis=0) @ groups.T
            quadratic[:d, :d] += np.sum(w * off[:, None, :] * off[:, :, None], axis=0)
            pulled[:, :d] += np.sum(r * off[:, :, None], axis=0).T
        expected[d:, :d] = expected[:d, d:].T
        known = self.system[d:, d:] @ self.information[d:, d:] + self.system[d:, :d] @ self.information[:d, d:]
        across = np.where(groups.T @ groups > 0, known, self.system[d:, d:])
        expected[d:, d:] = groups @ across**2 @ groups.T
        pulled[d:, d:] = -self.beta[d:, None] * groups.T
        quadratic[d:, d:] = np.diag(groups @ self.beta[d:] ** 2)
        average = (quadratic - pulled.T @ self.system @ pulled) / self.noise
        exact = 2 * average - expected
        if self.likelihood.held_noise is not None:
            return exact, average
        squares = np.append(np.sum(self.deviation**2, axis=0), groups @ self.beta[d:] ** 2) / self.noise
        noise_term = squares[:, None] * squares / self.likelihood.free
        return exact - noise_term, average - noise_term

    @property
    def lengths(self) -> NDArray[np.float64]:
        """Coefficients of shared columns as they came are these times v, (columns,)."""
        likelihood = self.likelihood
        widths = likelihood.shared.paces[likelihood.pace]
        return np.asarray((self.shared_root * likelihood.unit[len(self.root) :])[likelihood.shared.group] * widths)

    def join_coefficients(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and covariance of β and the coefficients of shared columns together, in the coordinates of the moments."""
        d = len(self.root)
        transform = _times(self.likelihood.basis, self.root)
        lengths = self.lengths
        half = np.concatenate([transform @ self.system[:d], lengths[:, None] * self.system[d:]])
        covariance = np.concatenate([half[:, :d] @ transform.T, half[:, d:] * lengths], axis=1)
        return np.append(transform @ self.beta[:d], lengths * self.beta[d:]), self.noise * covariance

    def posterior(self, n_iter: int, converged: bool, ratios: Array | None = None) -> Posterior:
        """In the coordinates of the moments; where λ is the least that is searched, Ψ is zero. `ratios` are those of all
        paces."""
        likelihood = self.likelihood
        d = len(self.root)
        transform = _times(likelihood.basis, self.root)
        differs = transform * (self.root**2 > LEAST) if self.root.ndim == 1 else transform
        coefficients, of_coefficients = self.join_coefficients()
        current = likelihood.shared.current * self.lengths
        moved = np.concatenate([transform @ self.inverse, current - transform @ self.pulled[..., d:]], axis=-1)
        covariance = transform @ self.inverse @ transform.T + moved @ self.system @ np.swapaxes(moved, 1, 2)
        return Posterior(
            population=coefficients[:d],
            population_covariance=of_coefficients[:d, :d],
            spread=self.noise * (differs @ differs.T),
            noise=self.noise,
            mean=(self.beta[:d] + self.deviation) @ transform.T + current @ self.beta[d:],
            covariance=self.noise * covariance,
            deviance=self.deviance,
            n_iter=n_iter,
            converged=converged,
            likelihood=likelihood,
            ratios=self.ratios[None] if ratios is None else ratios,
            shared=SharedPosterior(
                mean=coefficients[d:],
                covariance=of_coefficients[d:, d:],
                with_population=of_coefficients[:d, d:],
                variances=self.noise * self.ratios[d:],
            )
            if len(coefficients) > d
            else None,
        )


def fit_mixed_effects(
    moments: Moments,
    penalty: Array,
    *,
    response: int = 0,
    basis: Array | None = None,
    correlated: bool = False,
    alike: bool = False,
    variance_left: float = 1.0,
    prior: tuple[Array, Array] | None = None,
    shared: SharedMoments | None = None,
    unshared: Moments | None = None,
    start: Array | None = None,
) -> Posterior:
    """β, Ψ, σ² and everybody's coefficients, from everybody's moments.

    `penalty` is ζ of β, (d,). Ψ is diagonal in the columns of `basis` (d, d), full if `correlated`, or zero if people are
    `alike`; with 50 people a diagonal one is closer to the truth. `variance_left` is the share of the noise's variance that
    the critic left, where it cuts into noise without outliers. `prior` holds mean and standard deviation of every
    coefficient of β, +∞ where nothing is known of it but ζ. `shared` are the moments of columns that everybody shares, and
    `unshared` those of outcomes less what such columns explain, of which `variance_left` is. `start` holds `ratios` of a fit
    to similar data. A participant without decision points is believed to be like somebody new.

    >>> rng = np.random.default_rng(0)
    >>> x = np.ones((200, 20, 1))
    >>> y = 5 + 2 * rng.standard_normal((200, 1, 1)) + rng.standard_normal((200, 20, 1))
    >>> found = fit_mixed_effects(Moments.of_rows(x, y, np.ones((200, 20))), np.zeros(1))
    >>> found.population.round(1), found.spread.round(1), round(found.noise, 1)
    (array([5.]), array([[3.6]]), 1.0)
    """
    data = (response, penalty, np.eye(moments.gram.shape[-1]) if basis is None else basis, variance_left)
    if prior is None:
        likelihood = Likelihood.of_moments(moments, *data, shared=shared, unshared=unshared)
        best, steps, converged, ratios = _search_paces(likelihood, correlated, alike, start)
        return best.posterior(steps, converged, ratios)
    # In deviations from its mean a prior is a penalty σ² / s²: Ψ and σ² in turn, until σ² stays.
    mean, scale = prior
    deviations = moments.subtract(mean[:, None])
    shared = None if shared is None else shared.subtract(mean[:, None])
    unshared = None if unshared is None else unshared.subtract(mean[:, None])
    best, steps, _, _ = _search_paces(
        Likelihood.of_moments(deviations, *data, shared=shared, unshared=unshared), correlated, alike, start
    )
    noise = best.noise
    for _ in range(NOISE_ROUNDS):
        likelihood = Likelihood.of_moments(deviations, *data, prior=(1 / scale**2, noise), shared=shared, unshared=unshared)
        best, round_steps, converged, ratios = _search_paces(likelihood, correlated, alike, start)
        steps = steps + round_steps
        before = noise
        noise = best.estimate_noise()
        settled = converged and abs(noise - before) <= SETTLED * noise
        if settled:
            break
    posterior = best.posterior(steps, settled, ratios)
    return replace(
        posterior,
        population=posterior.population + mean,
        mean=posterior.mean + mean,
        likelihood=replace(posterior.likelihood, moments=moments),
    )


def _search_paces(
    likelihood: Likelihood, correlated: bool, alike: bool, start: Array | None
) -> tuple[LikelihoodPoint, int, bool, Array]:
    """As `_search`, at the pace with the highest likelihood, and the ratios of all paces."""
    paces = likelihood.list_paces()
    starts = [None] * len(paces) if start is None or start.shape != (len(paces), len(likelihood.unit)) else list(start)
    results = [_search(paced, correlated, alike, ratios) for paced, ratios in zip(paces, starts, strict=True)]
    best = min(results, key=lambda result: result[0].deviance)
    return *best, np.stack([point.ratios for point, *_ in results])


def _search(
    likelihood: Likelihood, correlated: bool, alike: bool, ratios: Array | None
) -> tuple[LikelihoodPoint, int, bool]:
    """The best L, diagonal or full, how many were tried, and whether the search ended."""
    observed = likelihood.of_observed()
    d = likelihood.gram.shape[-1]
    held = np.full(len(likelihood.unit), np.nan)
    if alike:
        held[:d] = LEAST
    best, steps, converged = search_spread(observed, held, None if ratios is None else likelihood.find_scale(ratios))
    if not correlated or alike or likelihood.people < 2:
        return best if observed is likelihood else likelihood.at(best.root, best.shared_root), steps, converged
    # L in full, from the best diagonal one, by the slope of the deviance alone.
    from scipy.optimize import minimize

    lower = np.tril_indices(d)

    def fill(values: NDArray[np.float64]) -> NDArray[np.float64]:
        root = np.zeros((d, d))
        root[lower] = values
        return root

    def deviance(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        root = fill(values)
        point = observed.at(root, best.shared_root)
        return point.deviance, np.asarray(2 * np.linalg.solve(root.T, point.slope())[lower], dtype=np.float64)

    first = np.diag(np.maximum(best.root, 1e-3))[lower]
    bounds = [(LEAST_FULL, None) if row == column else (None, None) for row, column in zip(*lower, strict=True)]
    options = {"maxiter": FULL_STEPS, "maxfun": 2 * FULL_STEPS, "ftol": 1e-12, "gtol": 1e-6, "maxcor": 50}
    optimum = minimize(deviance, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    full = likelihood.at(fill(optimum.x), best.shared_root)
    return full, steps + int(optimum.nfev), bool(optimum.success)


def search_spread(
    likelihood: Likelihood, held: NDArray[np.float64] | None = None, start: NDArray[np.float64] | None = None
) -> tuple[LikelihoodPoint, int, bool]:
    """The diagonal of L, and the λ of groups, with the lowest deviance, how many were tried, and whether the search ended.

    `held` holds λ where it is not NaN; with a `start` Newton's method begins there.
    """
    informed = likelihood.informed
    d = likelihood.gram.shape[-1]
    held = np.full(len(informed), np.nan) if held is None else held
    enough = np.append(np.full(d, likelihood.people > 1), np.ones(len(informed) - d, dtype=bool))
    searched = informed & np.isnan(held) & enough
    # How many coefficients a variance is of.
    counts = np.append(np.full(d, float(likelihood.people)), likelihood.groups.sum(axis=1))

    def at(scale: NDArray[np.float64]) -> LikelihoodPoint:
        root = np.sqrt(scale)
        return likelihood.at(root[:d], root[d:])

    now = at(np.where(searched, 1.0 if start is None else start, np.where(np.isnan(held), LEAST, held)))
    for _ in range(EM_STEPS if start is None else 0):
        slope = now.diagonal_slope()
        now = at(np.where(searched, (now.scale * (1 - slope / counts)).clip(LEAST, likelihood.most), now.scale))
    asleep = searched & (now.scale <= LEAST)
    if start is not None and asleep.any():
        # What was zero before need not stay so, and Newton's method wakes slowly from nothing.
        awake = asleep & (now.diagonal_slope() < 0)
        now = at(np.where(awake, WARM, now.scale)) if awake.any() else now
    damping = 0.0
    before = np.inf
    for steps in range(EM_STEPS + 1, NEWTON_STEPS):
        # Differences of the deviance below this are rounding: σ² is a small difference of large sums.
        rounding = 8 * float(np.finfo(np.float64).eps) * (abs(now.deviance) + likelihood.squares / now.noise)
        change, promised = _newton_step(now, searched, damping)
        # Where a step is rounding, the next one promises no less.
        if promised < PROMISED**2 or (promised < rounding and promised > before / 2):
            return now, steps, True
        trial = at(np.where(searched, (now.scale * (1 + change)).clip(LEAST, likelihood.most), now.scale))
        if trial.deviance <= now.deviance + rounding:
            now = trial
            before = promised
            damping = damping / 16 if damping > 1e-3 else 0.0
            if promised < PROMISED:
                return now, steps, True
        else:
            damping = max(8 * damping, 1e-2)
    return now, NEWTON_STEPS, False


def _newton_step(point: LikelihoodPoint, searched: NDArray[np.bool_], damping: float) -> tuple[NDArray[np.float64], float]:
    """The step in shares of λ, and how much of the deviance it promises.

    A coefficient at the least or most λ that would leave it stays there (Bertsekas, 1982).
    """
    scale = point.scale
    slope = point.diagonal_slope()
    exact, average = point.curvature()
    change = np.zeros_like(scale)
    moving = np.flatnonzero(
        searched & ~((scale <= LEAST) & (slope >= 0)) & ~((scale >= point.likelihood.most) & (slope <= 0))
    )
    if not moving.size or (np.abs(slope[moving]) < FLAT * (scale[moving] > LEAST)).all():
        return change, 0.0
    downhill = -slope[moving]
    for curvature in (exact, average):
        system = curvature[np.ix_(moving, moving)]
        width = np.sqrt(np.maximum(np.diagonal(system), 1e-30 * np.abs(np.diagonal(average)[moving]) + 1e-60))
        values, vectors = np.linalg.eigh(system / (width[:, None] * width) + damping * np.eye(len(moving)))
        if values[0] > 1e-8 or curvature is average:
            turned = vectors.T @ (downhill / width)
            change[moving] = vectors @ (turned / np.maximum(values, 1e-8)) / width
            break
    return change, float(np.abs(np.maximum(change, -1.0)[moving] * downhill).sum())


class SpreadIntervals(NamedTuple):
    """By how much people differ in every coefficient, with 95 % intervals; intercepts at the mean state, (d,)."""

    deviation: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def profile_spread(posterior: Posterior) -> SpreadIntervals:
    """Standard deviations between people with intervals of the profile likelihood, for a diagonal Ψ.

    ψ is in the interval if some σ², β and other ψ make −2 log likelihood less than the 95 % point of χ²₁ worse than at
    best. σ², which is known far better, stays as it is.
    """
    from scipy.optimize import brentq

    likelihood = posterior.likelihood
    best = search_spread(likelihood)[0]
    scale = best.scale
    ends = np.zeros((2, likelihood.gram.shape[-1]))
    d = likelihood.gram.shape[-1]
    for coefficient in np.flatnonzero(likelihood.informed[:d] & (likelihood.people > 1)).tolist():

        def excess(logarithm: float, coefficient: int = coefficient) -> float:
            held = np.full(len(scale), np.nan)
            held[coefficient] = np.exp(logarithm)
            return search_spread(likelihood, held, scale)[0].deviance - best.deviance - CUT

        start = np.log(max(scale[coefficient], 1e-4))
        high = start + 1.0
        while excess(high) < 0 and high < np.log(MOST):
            high += 1.0
        ends[1, coefficient] = np.exp(brentq(excess, start, high, xtol=1e-3)) if excess(high) > 0 else np.inf
        if scale[coefficient] > LEAST and excess(np.log(LEAST)) >= 0:
            while excess(start - 1.0) < 0:
                start -= 1.0
            ends[0, coefficient] = np.exp(brentq(excess, start - 1.0, start, xtol=1e-3))
    unit = best.noise**0.5 * np.abs(np.diagonal(likelihood.basis))
    deviation = np.sqrt(np.where(scale > LEAST, scale, 0.0)[:d])
    return SpreadIntervals(unit * deviation, *(unit * np.sqrt(ends)))
