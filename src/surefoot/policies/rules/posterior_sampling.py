"""Rules that randomise by what is believed of the effects: their posterior N(m, V), without drawing from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import mul
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.largest_value import probability_of_largest, scalar_probability_of_largest
from surefoot.numerics.logistic_mean import mean_of_logistic
from surefoot.policies.rules.decision_rule import Chooser, DecisionRule, evaluate_linear, register_rule


@dataclass(frozen=True, eq=False)
class _Posterior(DecisionRule):
    """The effects of the actions over action 0 are m_aᵀ z(s), and m is normal."""

    looks_through: ClassVar[str] = "critic"
    batch_axes_follow: ClassVar[int] = 2
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
        others = {
            field.name: np.broadcast_to(getattr(self, field.name), (count, *getattr(self, field.name).shape))
            for field in fields(self)
        }
        return replace(self, **{**others, "mean": mean})

    @abstractmethod
    def _weigh(self, mean: Array, covariance: Array) -> Array:
        """Probabilities (*batch, actions) for effects with these means (*batch, actions − 1) and covariances."""

    def _effects(self) -> Callable[[Array], tuple[Array, Array]]:
        """Means and covariances of the effects at states (variables, *batch)."""
        xp = array_namespace(self.mean)
        means = evaluate_linear(self.mean)
        others = self.mean.shape[-2]
        size = self.mean.shape[-1]
        by_feature = xp.asarray(xp.moveaxis(self.covariance, (-2, -1), (0, 1)), copy=True)

        def covariance(a: int, b: int, state: Array) -> Array:
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

        def evaluate(state: Array) -> tuple[Array, Array]:
            among = {(a, b): covariance(a, b, state) for a in range(others) for b in range(a + 1)}
            rows = [xp.stack([among[max(a, b), min(a, b)] for b in range(others)], axis=-1) for a in range(others)]
            return xp.stack([means(a, state) for a in range(others)], axis=-1), xp.stack(rows, axis=-2)

        return evaluate

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._weigh(*self._effects()(np.moveaxis(state, -1, 0))))

    def chooser(self) -> Chooser:
        xp = array_namespace(self.mean)
        effects = self._effects()

        def choose(state: Array, uniform: Array) -> Array:
            edges = xp.cumulative_sum(self._weigh(*effects(state)), axis=-1)[..., :-1]
            return xp.sum(xp.astype(uniform[..., None] >= edges, xp.int64), axis=-1)

        return choose

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        means: list[list[float]] = self.mean.tolist()
        others, size = self.mean.shape
        blocks: list[list[list[list[float]]]] = np.swapaxes(
            self.covariance.reshape(others, size, others, size), 1, 2
        ).tolist()
        decide = self._scalar_weigh()

        def probabilities(state: Sequence[float]) -> list[float]:
            z = [*state, 1.0]
            mean = [sum(map(mul, row, z)) for row in means]
            covariance = [[sum(map(mul, z, [sum(map(mul, row, z)) for row in block])) for block in row] for row in blocks]
            return decide(mean, covariance)

        return probabilities

    def _scalar_weigh(self) -> Callable[[list[float], list[list[float]]], list[float]]:
        """`_weigh` for one decision."""

        def weigh(mean: list[float], covariance: list[list[float]]) -> list[float]:
            weights: list[float] = self._weigh(np.array(mean), np.array(covariance)).tolist()
            return weights

        return weigh


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

    def _weigh(self, mean: Array, covariance: Array) -> Array:
        return probability_of_largest(mean, covariance)

    def _scalar_weigh(self) -> Callable[[list[float], list[list[float]]], list[float]]:
        return scalar_probability_of_largest


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

    def _weigh(self, mean: Array, covariance: Array) -> Array:
        xp = array_namespace(mean)
        low, high, c, b, k = (self.curve[..., i] + 0.0 * mean[..., 0] for i in range(5))
        deviation = xp.sqrt(xp.maximum(covariance[..., 0, 0], xp.zeros_like(c)))
        send = low + (high - low) * mean_of_logistic(mean[..., 0], deviation, c, b, k)
        return xp.stack([1 - send, send], axis=-1)
