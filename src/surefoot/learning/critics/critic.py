"""What a critic is: a model of the expected reward x(s, a)ᵀw that says what it leaves out. Ridge, and the paper's critic:
least squares whose squared residuals are capped.

Arrays are (people, decision points, features); `weights` is zero on padding and on decision points that cannot be used,
so ragged people and removed outliers are the same thing to the solvers. Everything is written to the array API standard.
Whatever the order of the axes, the solvers keep the values of one feature side by side in memory, where passes over them
are fastest.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from statistics import NormalDist
from typing import ClassVar, Self

from array_api_compat import device

from surefoot.errors import InputError
from surefoot.learning.batch import Batch
from surefoot.learning.part import Part
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace, split_people
from surefoot.numerics.batched_cholesky import Cholesky, solve
from surefoot.numerics.masked_quantiles import quantiles
from surefoot.policies.features import critic_features, effects
from surefoot.registry import Registry


@dataclass(frozen=True)
class CriticFit(PerParticipant):
    """The fit of a critic for each participant of a block."""

    coef: Array
    """w, (people, features)."""
    gram: Array
    """XᵀUX with the final weights, (people, features, features)."""
    weights: Array
    """The final weight of every decision point, (people, decision points)."""
    threshold: Array
    """ε, the limit of the squared residuals, (people,); +∞ where there is none."""
    n_iter: Array
    """The number of weighted least-squares fits, (people,)."""
    converged: Array
    """Whether the weights stopped changing, (people,)."""

    def find_residuals(self, features: Array, rewards: Array) -> Array:
        """r − E[r | s, a] of every decision point, (people, decision points)."""
        return rewards - (features @ self.coef[..., None])[..., 0]

    def find_advantage(self, state: Array, actions: int) -> Array:
        """E[r | s, a] − E[r | s, 0] of every decision point, (people, decision points, actions − 1)."""
        effect = array_namespace(state).matrix_transpose(effects(self.coef, actions))
        return state @ effect[:, :-1, :] + effect[:, -1:, :]

    def expect_rewards(self, state: Array, actions: int) -> Array:
        """E[r | s, a] of every decision point and action, (people, decision points, actions)."""
        xp = array_namespace(state)
        codes = (xp.full_like(state[..., 0], code) for code in range(actions))
        return xp.stack([(critic_features(state, c, actions) @ self.coef[..., None])[..., 0] for c in codes], axis=-1)


@dataclass(frozen=True)
class Removal:
    """Wording for a rule that removes decision points."""

    name: str
    """`the cap`."""
    unit: str
    """The unit of residuals: `caps`."""
    plural: bool = False
    """Whether the name is a plural."""
    because: str = ""
    """The reason for a removal, where that is not the reward alone."""
    normal_share: float | None = None
    """The share that it removes from normal noise without a single outlier, where that is not nearly zero."""

    @property
    def removes(self) -> str:
        """Name and verb: `the cap removes`."""
        return f"{self.name} {'remove' if self.plural else 'removes'}"


@dataclass(frozen=True)
class Critic(Part, ABC):
    """A model of the expected reward; the fields of a subclass are its parameters, and each has a default."""

    kind: ClassVar[str] = "critic"
    title: ClassVar[str]
    """As it stands in a sentence: `the paper's cap`."""
    removal: ClassVar[Removal | None] = None
    """None: every usable decision point counts, if only with a small weight."""
    weighs_rows: ClassVar[bool] = True
    """False: every usable decision point counts in full, so that nobody needs to fit the critic to know its weights."""
    judges_twice: ClassVar[bool] = False
    """Whether a pooled look-ahead keeps a decision point only if each participant's own fit keeps it too."""
    compared_with: ClassVar[str | None] = None
    """The critic with which the audit compares this one."""
    has_coefficients: ClassVar[bool] = True
    """Whether E[r | s, a] is x(s, a)ᵀw."""

    @abstractmethod
    def fit(self, batch: Batch) -> CriticFit:
        """Coefficients, and the final weights of the decision points."""

    def trust_states(self, state: Array, present: Array) -> Array:
        """Which of the states (people, decision points, variables) that are present can be believed."""
        return present

    def judge_residuals(self, residuals: Array, present: Array) -> Array:
        """Which of the transitions that are present count; `residuals` are the next state minus its expectation, (people,
        decision points, variables)."""
        return present

    def require_coefficients(self, needed_by: str) -> None:
        """Raise an error if this critic has no coefficients."""
        if not self.has_coefficients:
            raise InputError(
                f"{needed_by} needs a critic that is linear in the state, which {self.title} is not; take critic = "
                "'capped', 'ridge' or 'high-breakdown', or a method that needs only what the critic expects (accb, saccb)"
            )

    @property
    def limit_name(self) -> str:
        """What removes decision points: `the cap`."""
        return "no limit" if self.removal is None else self.removal.name

    @property
    def strictness(self) -> float:
        """The factor of the limit of squared residuals; +∞ without a limit."""
        return inf

    def at_strictness(self, factor: float) -> "Critic":
        """The same critic with its limit that many times as high."""
        return self

    def without_removal(self) -> "Critic":
        """The same critic with an infinitely high limit."""
        return self


@dataclass(frozen=True)
class RemovingCritic(Critic):
    """A critic that removes decision points beyond a limit."""

    labels: ClassVar[Mapping[str, str]] = {"tau": "height of the limit τ"}
    above: ClassVar[Mapping[str, float]] = {"tau": 0}
    removal: ClassVar[Removal]
    tau: float = 1.0
    """Multiplies the limit of squared residuals."""

    @property
    def strictness(self) -> float:
        return self.tau

    def at_strictness(self, factor: float) -> Self:
        return replace(self, tau=self.tau * factor)

    def without_removal(self) -> Critic:
        return Ridge()


CRITICS: Registry[type[Critic]] = Registry("critic")
register_critic = CRITICS.register
"""Adds a class of critics under its `name`, which must be free."""


SHAKY_PIVOT = 1e-3
CORRECTIONS = 3
"""Below this pivot a solution gets this many correction steps."""


def join_rewards(features: Array, rewards: Array) -> Array:
    """[r, X] with the decision points side by side, (people, 1 + features, decision points): all products of a fit are
    products with it."""
    xp = array_namespace(features)
    return xp.concat([rewards[:, None, :], xp.matrix_transpose(features)], axis=1)


def joined_residuals(joined: Array, coef: Array) -> Array:
    """r − Xw from [r, X], (…, people, decision points), of coefficients (…, people, features)."""
    xp = array_namespace(joined)
    return (xp.concat([xp.ones_like(coef[..., :1]), -coef], axis=-1)[..., None, :] @ joined)[..., 0, :]


def weighted_moments(joined: Array, weights: Array, arms: int) -> tuple[Array, Array]:
    """XᵀUX and XᵀUr.

    With arms X is [b, 1{a=1}·b, …], so that every product of two features is one of b with a feature, or zero.
    """
    xp = array_namespace(joined)
    people, columns, points = joined.shape
    d = columns - 1
    size = d // arms
    products = xp.empty((people, size + 1, columns), dtype=joined.dtype, device=device(joined))
    for chunk in split_people(joined, columns * points):
        rows = joined[chunk]
        products[chunk] = (rows[:, : size + 1, :] * weights[chunk][:, None, :]) @ xp.matrix_transpose(rows)
    squares = xp.zeros((people, d, d), dtype=joined.dtype, device=device(joined))
    squares[:, :size, :] = products[:, 1:, 1:]
    for start in range(size, d, size):
        arm = slice(start, start + size)
        squares[:, arm, :size] = squares[:, :size, arm]
        squares[:, arm, arm] = squares[:, :size, arm]
    return squares, products[:, 0, 1:]


def solve_ridge(joined: Array, weights: Array, penalty: Array, arms: int) -> tuple[Array, Array]:
    """Ridge coefficients and XᵀUX from [r, X].

    Forming XᵀUX costs digits when features are nearly dependent. For people whose features are, correction steps with the
    residuals of the data bring them back (the corrected semi-normal equations of Björck).
    """
    xp = array_namespace(joined)
    squares, right = weighted_moments(joined, weights, arms)
    penalty = xp.broadcast_to(penalty, right.shape)
    shrink = penalty[:, None, :] * xp.eye(squares.shape[-1], dtype=squares.dtype, device=device(squares))
    penalised = squares + shrink
    solution, smallest_pivot, _ = solve(penalised, right[..., None])
    coef = solution[..., 0]
    shaky = xp.nonzero(smallest_pivot < SHAKY_PIVOT)[0]
    if shaky.shape[0]:
        parts = (part[shaky] for part in (joined, weights, penalised, right, penalty))
        coef[shaky] = solve_corrected(*parts)
    return coef, squares


def solve_corrected(joined: Array, weights: Array, penalised: Array, right: Array, penalty: Array) -> Array:
    """Ridge coefficients of people whose features are nearly dependent; `penalised` is XᵀUX + diag(ζ), `right` XᵀUr."""
    factored = Cholesky(penalised)
    coef = factored.solve(right)
    for _ in range(CORRECTIONS):
        pull = joined[:, 1:, :] @ (weights * joined_residuals(joined, coef))[..., None]
        coef = coef + factored.solve(pull[..., 0] - penalty * coef)
    return coef


def fit_ridge(features: Array, rewards: Array, weights: Array, *, penalty: Array, arms: int = 1) -> CriticFit:
    """Weighted ridge regression for every participant.

    Parameters
    ----------
    features
        X, (people, decision points, features).
    rewards
        r, (people, decision points).
    weights
        u, (people, decision points); 0 where a decision point does not count.
    penalty
        ζ of every feature, (features,) or (people, features).
    arms
        The number of actions if X is [b, 1{a=1}·b, …], the same features b once for all and once for each further action,
        which saves time.

    Returns
    -------
    CriticFit

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.ones((1, 4))
    >>> fit_ridge(ones[..., None], np.array([[1.0, 2.0, 3.0, 4.0]]), ones, penalty=np.zeros(1)).coef
    array([[2.5]])
    """
    xp = array_namespace(features)
    coef, squares = solve_ridge(join_rewards(features, rewards), weights, penalty, arms)
    ones = xp.ones_like(coef[:, 0])
    return CriticFit(coef, squares, weights, ones * xp.inf, xp.astype(ones, xp.int64), ones > 0)


@register_critic
@dataclass(frozen=True)
class Ridge(Critic):
    """Ordinary ridge regression, in which every usable decision point counts.

    w = (XᵀUX + ζI)⁻¹ XᵀU r.
    """

    name: ClassVar[str] = "ridge"
    title: ClassVar[str] = "ridge"
    weighs_rows: ClassVar[bool] = False

    def fit(self, batch: Batch) -> CriticFit:
        return fit_ridge(batch.features, batch.reward, batch.weights, penalty=batch.penalty, arms=batch.arms)


BOXPLOT_FACTOR = 1.5
FIRST_QUARTILE = NormalDist().inv_cdf(0.625) ** 2
THIRD_QUARTILE = NormalDist().inv_cdf(0.875) ** 2
NORMAL_CAP = (THIRD_QUARTILE + BOXPLOT_FACTOR * (THIRD_QUARTILE - FIRST_QUARTILE)) ** 0.5
"""The cap in standard deviations of normal noise, from the quartiles of its square."""


def boxplot_threshold(squared_residuals: Array, rewards: Array, weights: Array, tau: float) -> Array:
    """ε = τ (q₃ + 1.5 (q₃ − q₁)) over each participant's usable squared residuals, (people,).

    Residuals below 1e-13 of the largest reward are rounding, not information: ε never falls below their square, so that a
    perfect fit keeps its decision points.
    """
    xp = array_namespace(squared_residuals)
    usable = weights > 0
    first, third = quantiles(squared_residuals, usable, (0.25, 0.75))
    # A participant with no usable decision point has quartiles of +∞, and so no cap.
    fence = third + BOXPLOT_FACTOR * (third - xp.where(xp.isfinite(first), first, xp.zeros_like(first)))
    largest = xp.max(xp.abs(rewards) * weights, axis=1)
    rounding = (1e-13 * largest) ** 2 + float(xp.finfo(rewards.dtype).smallest_normal)
    return xp.maximum(tau * fence, rounding)


@register_critic
@dataclass(frozen=True)
class Capped(RemovingCritic):
    """Ridge regression that ignores decision points with very large residuals.

    It minimises Σ min{(r − xᵀw)², ε} + ζ‖w‖² with ε = τ (q₃ + 1.5 (q₃ − q₁)) of the squared residuals of ridge.
    """

    name: ClassVar[str] = "capped"
    title: ClassVar[str] = "the paper's cap"
    removal: ClassVar[Removal] = Removal("the cap", unit="caps", normal_share=2 * NormalDist().cdf(-NORMAL_CAP))
    refresh_threshold: bool = False
    """Compute ε anew from the residuals of every fit, not only of the first."""

    def judge_residuals(self, residuals: Array, present: Array) -> Array:
        """The next state as a whole: ε of the sum over its variables of squared residuals, each in its own mean square."""
        xp = array_namespace(residuals)
        u = xp.astype(present, residuals.dtype)
        count = xp.maximum(xp.sum(u, axis=1), xp.ones_like(u[:, 0]))
        squares = residuals**2 * u[..., None]
        typical = xp.sum(squares, axis=1) / count[:, None]
        total = xp.sum(squares / xp.where(typical > 0, typical, 1.0)[:, None, :], axis=-1)
        return present & (total < boxplot_threshold(total, xp.sqrt(total), u, self.tau)[:, None])

    def fit(self, batch: Batch, max_iter: int = 1000) -> CriticFit:
        """Drop decision points beyond ε and fit again.

        With ε held at its first value the objective cannot rise and the loop ends. With `refresh_threshold` ε follows every
        fit; that can cycle, and who is caught (Brent: weights remembered at every power of two) goes on with their last ε.
        """
        xp = array_namespace(batch.features)
        joined = join_rewards(batch.features, batch.reward)
        v = batch.weights
        zeta = batch.penalty + xp.zeros_like(batch.features[:, 0, :])
        w, squares = solve_ridge(joined, v, zeta, batch.arms)
        squared = joined_residuals(joined, w) ** 2
        epsilon = boxplot_threshold(squared, batch.reward, v, self.tau)
        u = xp.where(squared < epsilon[:, None], v, 0.0)
        active = xp.arange(w.shape[0], device=device(w))
        result = CriticFit(*map(xp.empty_like, (w, squares, u, epsilon, active, active < 0)))
        remembered = u
        refreshing = xp.full(w.shape[0], self.refresh_threshold, dtype=xp.bool, device=device(w))
        for iteration in range(2, max_iter + 1):
            w, squares = solve_ridge(joined, u, zeta, batch.arms)
            squared = joined_residuals(joined, w) ** 2
            if self.refresh_threshold:
                epsilon = xp.where(refreshing, boxplot_threshold(squared, joined[:, 0, :], v, self.tau), epsilon)
            inside = xp.where(squared < epsilon[:, None], v, 0.0)
            changed = xp.any(inside != u, axis=1)
            if self.refresh_threshold:
                refreshing = refreshing & xp.any(inside != remembered, axis=1)
                remembered = inside if iteration & (iteration - 1) == 0 else remembered
            if xp.any(~changed):
                fit = CriticFit(w, squares, u, epsilon, xp.full_like(active, iteration), ~changed)
                result.record(active[~changed], fit.of(~changed))
                still_changing = (values[changed] for values in (active, joined, v, w, inside, epsilon, zeta))
                active, joined, v, w, inside, epsilon, zeta = still_changing
                if self.refresh_threshold:
                    remembered = remembered[changed]
                    refreshing = refreshing[changed]
                if not active.shape[0]:
                    return result
            u = inside
        squares = weighted_moments(joined, u, batch.arms)[0]
        result.record(active, CriticFit(w, squares, u, epsilon, xp.full_like(active, max_iter), active < 0))
        return result
