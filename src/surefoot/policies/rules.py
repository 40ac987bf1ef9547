"""Decision rules: arrays that turn a state into probabilities of actions, one rule per participant (or lane).

Every rule has a batch shape, (people,) for fitted policies, (policies, people) in simulations, and looks at a state
through z(s) = [s, 1]. Its mathematics is in `evaluator`, on NumPy or PyTorch arrays alike; decisions for tables, for one
participant and in the inner loops of simulations all follow from it. Adding a rule is a subclass under `register_rule`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.action_probabilities import mean_of_logistic, probability_of_largest
from surefoot.numerics.arrays import Array, Engine, array_namespace
from surefoot.policies.features import policy_feature_names
from surefoot.registry import Registry

State = Any
"""A sequence of one array (*batch) for every state variable, or an array (variables, *batch)."""
Evaluator = Callable[[State], Iterable[Array]]


@dataclass(frozen=True, eq=False)
class DecisionRule(ABC):
    """Base of the rules; the fields of a subclass are its arrays, all with the same leading batch axes."""

    name: ClassVar[str]
    batch_axes_follow: ClassVar[int]
    """How many axes of the first array are not batch axes."""
    omits_nothing: ClassVar[bool] = False
    """Whether the first array has a row for every action but action 0."""
    how: ClassVar[str]
    """How it decides, in one sentence or two. Cards and pages print it."""
    looks_through: ClassVar[str] = "policy"
    """Whose state variables it looks at: those that the `policy` sees, or those that the `critic` sees."""
    looks_at_states: ClassVar[bool] = True
    """False for a rule that can decide without knowing a state."""

    @abstractmethod
    def evaluator(self) -> Evaluator:
        """A function of states that gives the probability of every action, (*batch) each, in their order.

        A generator computes the last probability only where it is wanted: to draw an action, the others are enough.
        """

    @property
    def actions(self) -> int:
        """How many actions there are, nothing included."""
        first = next(iter(self.arrays().values()))
        return int(first.shape[first.ndim - self.batch_axes_follow]) + self.omits_nothing

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (*batch, actions) at states (*batch, variables)."""
        shape = np.broadcast_shapes(state.shape[:-1], self.batch)
        weights = self.evaluator()(np.moveaxis(state, -1, 0))
        return np.stack([np.broadcast_to(weight, shape) for weight in weights], axis=-1)

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        """For a rule with an empty batch shape: a function of one state in plain numbers, for one decision at a time."""
        evaluate = self.evaluator()
        return lambda state: [float(weight) for weight in evaluate(state)]

    def chooser(self) -> Callable[[State, Array], Array]:
        """A fast function (state (variables, *batch), uniform numbers) → actions (*batch)."""
        evaluate = self.evaluator()
        edges = self.actions - 1

        def choose(state: State, uniform: Array) -> Array:
            xp = array_namespace(uniform)
            action: Array = 0
            edge: Array = 0.0
            for weight in islice(evaluate(state), edges):
                edge = edge + weight
                action = action + xp.astype(uniform >= edge, xp.int64)
            return action

        return choose

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def batch(self) -> tuple[int, ...]:
        first = next(iter(self.arrays().values()))
        return tuple(first.shape[: first.ndim - self.batch_axes_follow])

    @property
    def cells(self) -> int:
        """How many numbers one rule of the batch holds."""
        return sum(values.size for values in self.arrays().values()) // max(int(np.prod(self.batch)), 1)

    def map(self, function: Callable[[Array], Array]) -> Self:
        """The same kind of rule with a function of each of its arrays."""
        return type(self)(**{name: function(values) for name, values in self.arrays().items()})

    def __getitem__(self, index: Any) -> Self:
        """The rules of some people, by an index over the batch axes."""
        return self.map(lambda values: values[index])

    def on(self, engine: Engine) -> Self:
        """The same rules with their arrays where the engine works."""
        return self.map(engine.to_device)

    def to_numpy(self, engine: Engine) -> Self:
        return self.map(engine.to_numpy)

    def repeat(self, count: int) -> Self:
        """The same rules with a new first batch axis."""
        return self.map(lambda values: np.broadcast_to(values, (count, *values.shape)))

    @classmethod
    def join(cls, rules: Sequence[Self], how: Callable[[list[Array]], Array] = np.stack) -> Self:
        """Several rules as one: stacked along a new first batch axis, unless `how` says otherwise."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: how([getattr(rule, name) for rule in rules]) for name in names})

    def coefficients(self) -> NDArray[np.float64] | None:
        """Coefficients of its own, (*batch, actions − 1, variables + 1); None for a rule without."""
        return None

    def with_coefficients(self, coef: NDArray[np.float64]) -> DecisionRule:
        """The same rule with other coefficients, of any batch shape."""
        raise InputError(f"a rule of kind '{self.name}' has no coefficients of its own")

    def draw(self, count: int, rng: np.random.Generator) -> Self | None:
        """Rules as they might have been learned from other data of the same kind, batch shape (count, *batch); None for a
        rule that does not know how sure it is."""
        return None

    def name_coefficients(self, state: Sequence[str], actions: Sequence[str]) -> list[tuple[str, str]]:
        """(action, feature) of every coefficient of its own."""
        return [] if self.coefficients() is None else policy_feature_names(state, actions)

    def preferences(self) -> NDArray[np.float64]:
        """What draws it to each action rather than action 0 as a linear function of z(s), (*batch, actions − 1, m)."""
        return np.zeros((*self.batch, 1, 1))


RULES: Registry[type[DecisionRule]] = Registry("decision rule")
register_rule = RULES.register
find_rule = RULES.find


def _linear(coef: Array) -> Callable[[int, State], Array]:
    """cᵀ z(s) for row a of coefficients, with the batch axes last so that every operation runs over contiguous memory."""
    xp = array_namespace(coef)
    by_variable = xp.asarray(xp.moveaxis(coef, (-2, -1), (0, 1)), copy=True)

    def evaluate(a: int, state: State) -> Array:
        total = by_variable[a, 0] * state[0]
        for j in range(1, len(state)):
            total += by_variable[a, j] * state[j]
        total += by_variable[a, -1]
        return total

    return evaluate


@register_rule
@dataclass(frozen=True, eq=False)
class Fixed(DecisionRule):
    """The same probabilities in every state."""

    name: ClassVar[str] = "fixed"
    how: ClassVar[str] = "The probabilities are the same in every state."
    batch_axes_follow: ClassVar[int] = 1
    looks_at_states: ClassVar[bool] = False
    probability: NDArray[np.float64]
    """(*batch, actions)."""

    def evaluator(self) -> Evaluator:
        weights = [self.probability[..., a] for a in range(self.actions)]
        return lambda state: weights


@register_rule
@dataclass(frozen=True, eq=False)
class Boltzmann(DecisionRule):
    """An actor's rule: π_θ(a | s) ∝ exp(θ_aᵀ z(s)) with θ_0 = 0."""

    name: ClassVar[str] = "boltzmann"
    how: ClassVar[str] = "The probability of an action is proportional to exp(logit); the logit of doing nothing is 0."
    batch_axes_follow: ClassVar[int] = 2
    omits_nothing: ClassVar[bool] = True
    coef: NDArray[np.float64]
    """θ, (*batch, actions − 1, variables + 1)."""

    def coefficients(self) -> NDArray[np.float64]:
        return self.coef

    def with_coefficients(self, coef: NDArray[np.float64]) -> Boltzmann:
        return Boltzmann(coef)

    def preferences(self) -> NDArray[np.float64]:
        """θ: the logits."""
        return self.coef

    def evaluator(self) -> Evaluator:
        xp = array_namespace(self.coef)
        logits = _linear(self.coef)
        others = self.actions - 1

        def evaluate_two(state: State) -> Iterator[Array]:
            logit = logits(0, state)
            for signed in (logit, -logit):
                # An exponential that overflows leaves a probability of zero, as it should.
                with np.errstate(over="ignore"):
                    weight = 1.0 / (1.0 + xp.exp(signed))
                yield weight

        def evaluate(state: State) -> Iterator[Array]:
            values = [logits(a, state) for a in range(others)]
            values.insert(0, xp.zeros_like(values[0]))
            top = reduce(xp.maximum, values)
            raised = [xp.exp(value - top) for value in values]
            total = sum(raised)
            for weight in raised:
                yield weight / total

        return evaluate_two if others == 1 else evaluate


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

    def scorer(self) -> Callable[[int, State], Array]:
        """A function that gives the bound of an action at states."""
        xp = array_namespace(self.mean)
        means = _linear(self.mean)
        last = self.mean.shape[-1] - 1
        spread = xp.asarray(xp.moveaxis(self.spread, (-3, -2, -1), (0, 1, 2)), copy=True)
        certain = not xp.any(spread != 0)

        def score(a: int, state: State) -> Array:
            mean = means(a, state)
            if certain:
                return mean
            width = spread[a, last, last]
            for i in range(last):
                row = spread[a, i, i] * state[i] + 2 * spread[a, i, last]
                for j in range(i):
                    row = row + 2 * spread[a, i, j] * state[j]
                width = width + row * state[i]
            # Rounding may leave a width of zero slightly below it.
            return mean + self.sign * xp.sqrt(xp.abs(width))

        return score

    def evaluator(self) -> Evaluator:
        xp = array_namespace(self.mean)
        score = self.scorer()
        actions = self.actions

        def evaluate(state: State) -> Iterator[Array]:
            best = score(0, state)
            other = score(1, state)
            chosen = xp.astype(other > best, xp.int64)
            for a in range(2, actions):
                best = xp.maximum(best, other)
                other = score(a, state)
                chosen = xp.where(other > best, a, chosen)
            for a in range(actions):
                yield xp.astype(chosen == a, best.dtype)

        return evaluate


@register_rule
@dataclass(frozen=True, eq=False)
class UpperConfidence(_ConfidenceBound):
    """The action with the highest m_aᵀ z(s) + √(z(s)ᵀ V_a z(s)): of two equal actions the one that is less well known."""

    name: ClassVar[str] = "upper-confidence"
    how: ClassVar[str] = (
        "It takes the action with the highest upper confidence bound of the expected reward. It does not randomise."
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
    how: ClassVar[str] = "It leaves the reference action only where another is significantly better. It does not randomise."
    sign: ClassVar[float] = -1.0


@dataclass(frozen=True, eq=False)
class _Posterior(DecisionRule):
    """The effects of the actions over action 0 are m_aᵀ z(s), and m is normal; nothing is drawn from it."""

    looks_through: ClassVar[str] = "critic"
    batch_axes_follow: ClassVar[int] = 2
    omits_nothing: ClassVar[bool] = True
    mean: NDArray[np.float64]
    """m, (*batch, actions − 1, variables + 1)."""
    covariance: NDArray[np.float64]
    """V of all of m, (*batch, (actions − 1) · (variables + 1), the same)."""

    def preferences(self) -> NDArray[np.float64]:
        """The expected effects."""
        return self.mean

    def draw(self, count: int, rng: np.random.Generator) -> Self:
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        noise = rng.standard_normal((count, *self.batch, root.shape[-1]))
        mean = self.mean + np.einsum("...ij,...j->...i", root, noise).reshape(count, *self.mean.shape)
        return replace(self.repeat(count), mean=mean)

    @abstractmethod
    def weigh(self, mean: Array, covariance: Array) -> Array:
        """Probabilities (*batch, actions) for effects with these means (*batch, actions − 1) and covariances."""

    def evaluator(self) -> Evaluator:
        xp = array_namespace(self.mean)
        means = _linear(self.mean)
        others, size = self.mean.shape[-2:]
        by_feature = xp.asarray(xp.moveaxis(self.covariance, (-2, -1), (0, 1)), copy=True)

        def covary(a: int, b: int, state: State) -> Array:
            rows = []
            for i in range(size):
                row = by_feature[a * size + i, b * size + size - 1]
                for j in range(size - 1):
                    row = row + by_feature[a * size + i, b * size + j] * state[j]
                rows.append(row)
            total = rows[-1]
            for i in range(size - 1):
                total = total + rows[i] * state[i]
            return total

        def evaluate(state: State) -> Iterable[Array]:
            if others == 1:
                weights = self.weigh(means(0, state)[..., None], covary(0, 0, state)[..., None, None])
                return [weights[..., 0], weights[..., 1]]
            pairs = {(a, b): covary(a, b, state) for a in range(others) for b in range(a + 1)}
            rows = [xp.stack([pairs[max(a, b), min(a, b)] for b in range(others)], axis=-1) for a in range(others)]
            mean = xp.stack([means(a, state) for a in range(others)], axis=-1)
            weights = self.weigh(mean, xp.stack(rows, axis=-2))
            return [weights[..., a] for a in range(others + 1)]

        return evaluate


@register_rule
@dataclass(frozen=True, eq=False)
class PosteriorSampling(_Posterior):
    """P(a | s) = P(action a has the largest effect), with the effects' posterior: Thompson's rule without the draw.

    For two actions it is Φ(mᵀz / √(zᵀVz)); for more a fixed quadrature gives it to 1e-6. An effect without
    variance is known, and a tie goes to the lower action.

    >>> rule = PosteriorSampling(np.array([[1.0, 0.0]]), np.diag([0.0, 4.0]))
    >>> [round(p, 4) for p in rule.scalar()([2.0])]
    [0.1587, 0.8413]
    """

    name: ClassVar[str] = "posterior-sampling"
    how: ClassVar[str] = (
        "Sampled from the posterior: an action is taken with the probability that its effect is the largest, given what the "
        "data say. That is near an even chance where they say little, and near 0 or 1 where they are sure."
    )

    def weigh(self, mean: Array, covariance: Array) -> Array:
        return probability_of_largest(mean, covariance)


@register_rule
@dataclass(frozen=True, eq=False)
class SmoothAllocation(_Posterior):
    """P(1 | s) = E ρ(effect) over its posterior, ρ(x) = L_min + (L_max − L_min) / [1 + c exp(−b x)]^k, for two actions.

    The generalised logistic of the Oralytics and MiWaves trials: it moves more gently with the data than the probability of
    the larger effect, which keeps later analyses valid.

    >>> curve = np.array([0.2, 0.8, 1.0, 2.0, 1.0])
    >>> SmoothAllocation(np.array([[1.0, 0.0]]), np.zeros((2, 2)), curve).scalar()([0.0])
    [0.5, 0.5]
    """

    name: ClassVar[str] = "smooth-allocation"
    how: ClassVar[str] = (
        "Sampled from the posterior, smoothly: the probability rises with the effect along a logistic curve, averaged over "
        "what the data leave open about the effect."
    )
    curve: NDArray[np.float64]
    """L_min, L_max, c, b and k, (*batch, 5)."""

    def weigh(self, mean: Array, covariance: Array) -> Array:
        xp = array_namespace(mean)
        low, high, c, b, k = (self.curve[..., i] + 0.0 * mean[..., 0] for i in range(5))
        deviation = xp.sqrt(xp.maximum(covariance[..., 0, 0], xp.zeros_like(c)))
        send = low + (high - low) * mean_of_logistic(mean[..., 0], deviation, c, b, k)
        return xp.stack([1 - send, send], axis=-1)
