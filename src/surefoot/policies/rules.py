"""Decision rules: arrays of numbers that turn a state into probabilities of actions, one rule per participant (or lane).

Every rule has a batch shape, (people,) for fitted policies, (policies, people) in simulations, and looks at a state
through z(s) = [s, 1]. `probabilities` is for people to call; `chooser` is the same thing for inner loops: it takes the state
as one array per variable, a uniform number per lane, and returns actions, on NumPy or PyTorch arrays alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import exp, inf, sqrt
from operator import mul
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.boltzmann import boltzmann
from surefoot.numerics.engines import Engine
from surefoot.policies.features import policy_feature_names, policy_features
from surefoot.registry import Registry

Chooser = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class DecisionRule(ABC):
    """Base of the rules; the fields of a subclass are its arrays, all with the same leading batch axes."""

    name: ClassVar[str]
    batch_axes_follow: ClassVar[int]
    """How many axes of the first array are not batch axes."""
    how: ClassVar[str]
    """How it decides, as a sentence."""
    looks_through: ClassVar[str] = "policy"
    """Whose state variables it looks at: those that the `policy` sees, or those that the `critic` sees."""

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def batch(self) -> tuple[int, ...]:
        first = next(iter(self.arrays().values()))
        return tuple(first.shape[: first.ndim - self.batch_axes_follow])

    def __getitem__(self, index: Any) -> Self:
        """The rules of some people, by an index over the batch axes."""
        return type(self)(**{name: values[index] for name, values in self.arrays().items()})

    def on(self, engine: Engine) -> Self:
        """The same rules with their arrays where the engine works."""
        return type(self)(**{name: engine.to_device(values) for name, values in self.arrays().items()})

    def to_numpy(self, engine: Engine) -> Self:
        """The same rules with NumPy arrays."""
        return type(self)(**{name: engine.to_numpy(values) for name, values in self.arrays().items()})

    def coefficients(self) -> NDArray[np.float64] | None:
        """Coefficients of its own, (*batch, actions − 1, variables + 1); None for a rule without."""
        return None

    def with_coefficients(self, coef: NDArray[np.float64]) -> DecisionRule:
        """The same rule with other coefficients, of any batch shape."""
        raise InputError(f"a rule of kind '{self.name}' has no coefficients of its own")

    def name_coefficients(self, state: Sequence[str], actions: Sequence[str]) -> list[tuple[str, str]]:
        """(action, feature) of every coefficient of its own."""
        return [] if self.coefficients() is None else policy_feature_names(state, actions)

    def preferences(self) -> NDArray[np.float64]:
        """What draws it to each action rather than action 0 as a linear function of z(s), (*batch, actions − 1, m)."""
        return np.zeros((*self.batch, 1, 1))

    @classmethod
    def stack(cls, rules: Sequence[Self]) -> Self:
        """Several rules of one batch shape as one rule with a new first batch axis."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.stack([getattr(rule, name) for rule in rules]) for name in names})

    @abstractmethod
    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (*batch, actions) at states (*batch, variables)."""

    @abstractmethod
    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        """For a rule with an empty batch shape: a function of one state in plain numbers, for one decision at a time.

        NumPy's calls cost more than the few multiplications of a single decision.
        """

    @abstractmethod
    def chooser(self) -> Chooser:
        """A fast function (state (variables, *batch), uniform numbers) → actions (*batch)."""


RULES: Registry[type[DecisionRule]] = Registry("decision rule")
register_rule, find_rule = RULES.register, RULES.find


@register_rule
@dataclass(frozen=True, eq=False)
class Fixed(DecisionRule):
    """The same probabilities in every state."""

    name: ClassVar[str] = "fixed"
    how: ClassVar[str] = "The probabilities are the same in every state."
    batch_axes_follow: ClassVar[int] = 1
    probability: NDArray[np.float64]
    """(*batch, actions)."""

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(self.probability, (*state.shape[:-1], self.probability.shape[-1])).copy()

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        probability: list[float] = self.probability.tolist()
        return lambda state: probability.copy()

    def chooser(self) -> Chooser:
        xp = array_namespace(self.probability)
        edges = xp.moveaxis(xp.cumulative_sum(self.probability, axis=-1)[..., :-1], -1, 0)
        return lambda state, uniform: xp.sum(xp.astype(uniform >= edges, xp.int64), axis=0)


@register_rule
@dataclass(frozen=True, eq=False)
class Boltzmann(DecisionRule):
    """π_θ(a | s) ∝ exp(θ_aᵀ z(s)) with θ_0 = 0."""

    name: ClassVar[str] = "boltzmann"
    how: ClassVar[str] = "The probability of an action is proportional to exp(logit); the logit of doing nothing is 0."
    batch_axes_follow: ClassVar[int] = 2
    coef: NDArray[np.float64]
    """θ, (*batch, actions − 1, variables + 1)."""

    def coefficients(self) -> NDArray[np.float64]:
        return self.coef

    def with_coefficients(self, coef: NDArray[np.float64]) -> Boltzmann:
        return Boltzmann(coef)

    def preferences(self) -> NDArray[np.float64]:
        """θ: the logits."""
        return self.coef

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        # Actions go first, so that sums over the few of them are sums of whole arrays.
        logits = np.einsum("...km,...m->k...", self.coef, policy_features(state))
        top = np.maximum(logits.max(axis=0), 0.0)
        nothing, raised = np.exp(-top), np.exp(logits - top)
        total = nothing + raised.sum(axis=0)
        return np.stack([nothing / total, *(raised / total)], axis=-1)

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        blocks = [(block[:-1], block[-1]) for block in self.coef.tolist()]

        def probabilities(state: Sequence[float]) -> list[float]:
            logits = [sum(map(mul, slopes, state), offset) for slopes, offset in blocks]
            top = max(0.0, *logits)
            raised = [exp(-top), *(exp(logit - top) for logit in logits)]
            total = sum(raised)
            return [value / total for value in raised]

        return probabilities

    def chooser(self) -> Chooser:
        xp = array_namespace(self.coef)
        logits = _linear(self.coef)
        k = self.coef.shape[-2]

        def choose(state: Array, uniform: Array) -> Array:
            if k == 1:
                # An exponential that overflows leaves a probability of zero for the reference, as it should.
                with np.errstate(over="ignore"):
                    return xp.astype(uniform >= 1.0 / (1.0 + xp.exp(logits(0, state))), xp.int64)
            raised = boltzmann(xp.stack([logits(a, state) for a in range(k)], axis=-1))
            edge = 1.0 - xp.sum(raised, axis=-1)
            action = xp.astype(uniform >= edge, xp.int64)
            for a in range(k - 1):
                edge = edge + raised[..., a]
                action += xp.astype(uniform >= edge, xp.int64)
            return action

        return choose


@dataclass(frozen=True, eq=False)
class _ConfidenceBound(DecisionRule):
    """The action with the highest m_aᵀ z(s) ± √(z(s)ᵀ V_a z(s)); a tie goes to the lower action."""

    sign: ClassVar[float]
    """+1: what is uncertain is tried; −1: it is shunned."""
    looks_through: ClassVar[str] = "critic"
    batch_axes_follow: ClassVar[int] = 2
    mean: NDArray[np.float64]
    """m, (*batch, actions, variables + 1)."""
    spread: NDArray[np.float64]
    """V, (*batch, actions, variables + 1, variables + 1): the squared half-width of the confidence bound."""

    def preferences(self) -> NDArray[np.float64]:
        """The advantages, whose sign decides but for the width of the bound."""
        return np.asarray(self.mean[..., 1:, :] - self.mean[..., :1, :])

    def scores(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        z = policy_features(state)
        width = np.einsum("...m,...kmn,...n->...k", z, self.spread, z)
        return np.asarray(np.einsum("...km,...m->...k", self.mean, z) + self.sign * np.sqrt(np.maximum(width, 0.0)))

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.scores(state)
        return np.asarray(np.eye(scores.shape[-1])[scores.argmax(axis=-1)])

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        rules, sign = list(zip(self.mean.tolist(), self.spread.tolist(), strict=True)), self.sign

        def probabilities(state: Sequence[float]) -> list[float]:
            z = [*state, 1.0]
            best, chosen = -inf, 0
            for action, (mean, spread) in enumerate(rules):
                width = sum(map(mul, z, [sum(map(mul, row, z)) for row in spread]))
                score = sum(map(mul, mean, z)) + sign * sqrt(abs(width))
                if score > best:
                    best, chosen = score, action
            return [float(action == chosen) for action in range(len(rules))]

        return probabilities

    def chooser(self) -> Chooser:
        xp = array_namespace(self.mean)
        means, actions, size = _linear(self.mean), self.mean.shape[-2], self.mean.shape[-1]
        spread = xp.asarray(xp.moveaxis(self.spread, (-3, -2, -1), (0, 1, 2)), copy=True)
        certain = not xp.any(spread != 0)

        def score(a: int, state: Array) -> Array:
            mean = means(a, state)
            if certain:
                return mean
            width = spread[a, size - 1, size - 1]
            for i in range(size - 1):
                row = spread[a, i, i] * state[i] + 2 * spread[a, i, size - 1]
                for j in range(i):
                    row = row + 2 * spread[a, i, j] * state[j]
                width = width + row * state[i]
            # Rounding may leave a width of zero slightly below it.
            return mean + self.sign * xp.sqrt(xp.abs(width))

        def choose(state: Array, uniform: Array) -> Array:
            best = score(0, state)
            other = score(1, state)
            action = xp.astype(other > best, xp.int64)
            for a in range(2, actions):
                best, other = xp.maximum(best, other), score(a, state)
                action = xp.where(other > best, a, action)
            return action

        return choose


@register_rule
@dataclass(frozen=True, eq=False)
class UpperConfidence(_ConfidenceBound):
    """The action with the highest m_aᵀ z(s) + √(z(s)ᵀ V_a z(s)): of two equal actions the one that is less well known."""

    name: ClassVar[str] = "upper-confidence"
    how: ClassVar[str] = (
        "It takes the action with the highest upper confidence bound of the expected reward: it does not randomise."
    )
    sign: ClassVar[float] = 1.0


@register_rule
@dataclass(frozen=True, eq=False)
class Pessimistic(_ConfidenceBound):
    """The action with the highest m_aᵀ z(s) − √(z(s)ᵀ V_a z(s)), m the advantage over a reference action and V κ² times its
    covariance: the reference, whose m and V are zero, is left only where an advantage is more than κ standard errors.

    >>> rule = Pessimistic(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([np.zeros((2, 2)), np.diag([0.0, 4.0])]))
    >>> rule.scalar()([1.9]), rule.scalar()([2.1])
    ([1.0, 0.0], [0.0, 1.0])
    """

    name: ClassVar[str] = "pessimistic"
    how: ClassVar[str] = "It leaves the reference action only where another is surely better: it does not randomise."
    sign: ClassVar[float] = -1.0


def _linear(coef: Array) -> Callable[[int, Array], Array]:
    """cᵀ z(s) for action a, with the batch axes last so that every operation runs over contiguous memory."""
    xp = array_namespace(coef)
    by_variable = xp.asarray(xp.moveaxis(coef, (-2, -1), (0, 1)), copy=True)

    def evaluate(a: int, state: Array) -> Array:
        total = by_variable[a, 0] * state[0]
        for j in range(1, len(state)):
            total += by_variable[a, j] * state[j]
        total += by_variable[a, -1]
        return total

    return evaluate
