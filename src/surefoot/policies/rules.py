"""Decision rules: arrays that turn a state into probabilities of actions, one rule per participant (or lane).

Every rule has a batch shape, (people,) for fitted policies, (policies, people) in simulations, and looks at a state
through z(s) = [s, 1]. Its mathematics is in `evaluator`, on NumPy or PyTorch arrays alike; decisions for tables, for one
participant and in the inner loops of simulations all follow from it. Adding a rule is a subclass under `register_rule`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import islice
from math import copysign, erfc, exp, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.action_probabilities import CERTAIN, mean_of_logistic, probability_of_largest, slopes_of_largest
from surefoot.numerics.arrays import Array, array_namespace
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
        """A function of states that gives the probability of every action, (*batch) each, in their order. A generator
        computes the last probability only where it is wanted: to draw an action, the others are enough."""

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

    def draw(self, count: int, rng: np.random.Generator) -> Self | None:
        """Rules as they might have been learned from other data of the same kind, batch shape (count, *batch); None for a
        rule that does not know how sure it is."""
        return None

    def preferences(self) -> NDArray[np.float64]:
        """What draws it to each action rather than action 0 as a linear function of z(s), (*batch, actions − 1, m)."""
        return np.zeros((*self.batch, 1, 1))

    def prefers_sending(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """How sure it is, at states (*batch, variables), that an action is better than action 0: 0, 0.5 (a tie) or 1 for a
        rule that does not know how sure it is."""
        features = np.concatenate([state, np.ones((*state.shape[:-1], 1))], axis=-1)
        largest = np.einsum("...aj,...j->...a", self.preferences(), features).max(axis=-1)
        return np.asarray((np.sign(largest) + 1) / 2)

    def slopes(self, state: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Derivatives of `probabilities` with respect to what `preferences` give at the state, (*batch, actions,
        actions − 1); None for a rule that jumps from one action to another."""
        return None


RULES: Registry[type[DecisionRule]] = Registry("decision rule")
register_rule = RULES.register


def _by_feature(values: Array, axes: int) -> Any:
    """The last axes first, so that every operation runs over contiguous memory; plain numbers for a rule without a batch."""
    xp = array_namespace(values)
    if values.ndim == axes:
        return values.tolist()
    return xp.asarray(xp.moveaxis(values, tuple(range(-axes, 0)), tuple(range(axes))), copy=True)


def _linear(coef: Array) -> Callable[[int, State], Array]:
    """cᵀ z(s) for row a of the coefficients."""
    rows = _by_feature(coef, 2)

    def evaluate(a: int, state: State) -> Array:
        row = rows[a]
        total = row[0] * state[0]
        for j in range(1, len(state)):
            total += row[j] * state[j]
        total += row[-1]
        return total

    return evaluate


def _quadratic(matrices: Array) -> Callable[[int, State], Array]:
    """z(s)ᵀ V z(s) for matrix a of V, (*batch, matrices, variables + 1, the same)."""
    xp = array_namespace(matrices)
    last = matrices.shape[-1] - 1
    # Elements off the diagonal count twice.
    cells = _by_feature(matrices + xp.matrix_transpose(matrices), 3)

    def evaluate(a: int, state: State) -> Array:
        rows = cells[a]
        total = 0.5 * rows[last][last]
        for i in range(last):
            row = 0.5 * rows[i][i] * state[i] + rows[i][last]
            for j in range(i):
                row = row + rows[i][j] * state[j]
            total = total + row * state[i]
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

    def preferences(self) -> NDArray[np.float64]:
        return self.coef

    def slopes(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """π_a (1{a = b} − π_b)."""
        weights = self.probabilities(state)
        return weights[..., :, None] * (np.eye(self.actions)[:, 1:] - weights[..., None, 1:])

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

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        logits = _linear(self.coef)
        others = range(self.actions - 1)

        def decide(state: Sequence[float]) -> list[float]:
            values = [0.0, *(logits(a, state) for a in others)]
            top = max(values)
            raised = [exp(value - top) for value in values]
            total = sum(raised)
            return [weight / total for weight in raised]

        return decide


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

    def evaluator(self) -> Evaluator:
        xp = array_namespace(self.mean)
        means = _linear(self.mean)
        certain = not xp.any(self.spread != 0)
        widths = _quadratic(self.spread)
        actions = self.actions

        def score(a: int, state: State) -> Array:
            if certain:
                return xp.asarray(means(a, state))
            # Rounding may leave a width of zero slightly below it.
            return means(a, state) + self.sign * xp.sqrt(xp.abs(widths(a, state)))

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
        "It takes the action with the highest upper confidence bound of the expected outcome. It does not randomise."
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
        return self.mean

    def draw(self, count: int, rng: np.random.Generator) -> Self:
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        noise = rng.standard_normal((count, *self.batch, root.shape[-1]))
        mean = self.mean + np.einsum("...ij,...j->...i", root, noise).reshape(count, *self.mean.shape)
        return replace(self.repeat(count), mean=mean)

    def prefers_sending(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """The posterior probability that an action has a positive effect; for two actions Φ of the standardised one."""
        return 1 - PosteriorSampling(self.mean, self.covariance).probabilities(state)[..., 0]

    @abstractmethod
    def weigh(self, mean: Array, covariance: Array) -> Array:
        """Probabilities (*batch, actions) for effects with these means (*batch, actions − 1) and covariances."""

    @abstractmethod
    def differentiate(self, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Derivatives of `weigh` with respect to the means, (*batch, actions, actions − 1)."""

    def slopes(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        z = np.concatenate([state, np.ones_like(state[..., :1])], axis=-1)
        others, size = self.mean.shape[-2:]
        blocks = self.covariance.reshape(*self.batch, others, size, others, size)
        covariance = np.einsum("...i,...aibj,...j->...ab", z, blocks, z)
        return self.differentiate((self.mean @ z[..., None])[..., 0], covariance)

    def evaluator(self) -> Evaluator:
        xp = array_namespace(self.mean)
        means = _linear(self.mean)
        others, size = self.mean.shape[-2:]
        features = [slice(a * size, (a + 1) * size) for a in range(others)]
        pairs = [(a, b) for a in range(others) for b in range(a + 1)]
        covary = _quadratic(xp.stack([self.covariance[..., features[a], features[b]] for a, b in pairs], axis=-3))

        def evaluate(state: State) -> Iterable[Array]:
            mean = [xp.asarray(means(a, state)) for a in range(others)]
            between = {pair: xp.asarray(covary(index, state)) for index, pair in enumerate(pairs)}
            if others == 1:
                weights = self.weigh(mean[0][..., None], between[0, 0][..., None, None])
            else:
                rows = [xp.stack([between[max(a, b), min(a, b)] for b in range(others)], axis=-1) for a in range(others)]
                weights = self.weigh(xp.stack(mean, axis=-1), xp.stack(rows, axis=-2))
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

    def differentiate(self, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
        return slopes_of_largest(mean, covariance)

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        if self.actions > 2:
            return super().scalar()
        means = _linear(self.mean)
        variances = _quadratic(self.covariance[None])

        def decide(state: Sequence[float]) -> list[float]:
            mean = means(0, state)
            variance = variances(0, state)
            limit = mean / sqrt(2 * variance) if variance > 0 else copysign(CERTAIN, mean or -1.0)
            return [erfc(limit) / 2, erfc(-limit) / 2]

        return decide


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

    def differentiate(self, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
        """G has the derivative k b (G − G₊), G₊ with k + 1 in place of k."""
        low, high, c, b, k = (self.curve[..., i] + 0.0 * mean[..., 0] for i in range(5))
        deviation = np.sqrt(np.maximum(covariance[..., 0, 0], 0.0))
        curves = [mean_of_logistic(mean[..., 0], deviation, c, b, exponent) for exponent in (k, k + 1)]
        slope = (high - low) * k * b * (curves[0] - curves[1])
        return np.stack([-slope, slope], axis=-1)[..., None]
