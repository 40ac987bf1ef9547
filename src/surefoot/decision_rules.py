"""Decision rules: arrays of numbers that turn a state into probabilities of actions, one rule per person (or lane).

Every rule has a batch shape, (people,) for fitted policies, (policies, people) in simulations, and looks at a state
through z(s) = [s, 1]. `probabilities` is for people to call; `chooser` is the same thing for inner loops: it takes the state
as one array per variable, a uniform number per lane, and returns actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.features import policy_features

Chooser = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class DecisionRule(ABC):
    """Base of the rules; the fields of a subclass are its arrays, all with the same leading batch axes."""

    kind: ClassVar[str]
    batch_axes_follow: ClassVar[int]
    """How many axes of the first array are not batch axes."""

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def batch(self) -> tuple[int, ...]:
        first = next(iter(self.arrays().values()))
        return tuple(first.shape[: first.ndim - self.batch_axes_follow])

    def __getitem__(self, index: Any) -> Self:
        """The rules of some people, by an index over the batch axes."""
        return type(self)(**{name: values[index] for name, values in self.arrays().items()})

    @classmethod
    def stack(cls, rules: Sequence[Self]) -> Self:
        """Several rules of one batch shape as one rule with a new first batch axis."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: np.stack([getattr(rule, name) for rule in rules]) for name in names})

    @abstractmethod
    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (*batch, actions) at states (*batch, variables)."""

    @abstractmethod
    def chooser(self) -> Chooser:
        """A fast function (state (variables, *batch), uniform numbers) → actions (*batch)."""


@dataclass(frozen=True, eq=False)
class Fixed(DecisionRule):
    """The same probabilities in every state."""

    kind: ClassVar[str] = "fixed"
    batch_axes_follow: ClassVar[int] = 1
    probability: NDArray[np.float64]
    """(*batch, actions)."""

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(self.probability, (*state.shape[:-1], self.probability.shape[-1])).copy()

    def chooser(self) -> Chooser:
        edges = np.moveaxis(np.cumsum(self.probability, axis=-1)[..., :-1], -1, 0)
        return lambda state, uniform: np.sum(uniform >= edges, axis=0)


@dataclass(frozen=True, eq=False)
class Boltzmann(DecisionRule):
    """π_θ(a | s) ∝ exp(θ_aᵀ z(s)) with θ_0 = 0."""

    kind: ClassVar[str] = "boltzmann"
    batch_axes_follow: ClassVar[int] = 2
    coef: NDArray[np.float64]
    """θ, (*batch, actions − 1, variables + 1)."""

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        logits = np.einsum("...km,...m->...k", self.coef, policy_features(state))
        logits = np.concatenate([np.zeros_like(logits[..., :1]), logits], axis=-1)
        raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))

    def chooser(self) -> Chooser:
        logits = _linear(self.coef)
        k = self.coef.shape[-2]

        def choose(state: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
            # Beyond 700 the exponential overflows, and the probability is one to the last bit anyway.
            raised = [np.exp(np.minimum(logits(a, state), 700.0)) for a in range(k)]
            target = uniform * (1.0 + sum(raised))
            action = (target >= 1.0).astype(np.int64)
            edge: Any = 1.0
            for a in range(k - 1):
                edge = edge + raised[a]
                action += target >= edge
            return action

        return choose


@dataclass(frozen=True, eq=False)
class UpperConfidence(DecisionRule):
    """The action with the highest m_aᵀ z(s) + √(z(s)ᵀ V_a z(s)); a tie goes to the lower action."""

    kind: ClassVar[str] = "upper-confidence"
    batch_axes_follow: ClassVar[int] = 2
    mean: NDArray[np.float64]
    """m, (*batch, actions, variables + 1)."""
    spread: NDArray[np.float64]
    """V, (*batch, actions, variables + 1, variables + 1): the squared width of the confidence bound."""

    def scores(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        z = policy_features(state)
        width = np.einsum("...m,...kmn,...n->...k", z, self.spread, z)
        return np.asarray(np.einsum("...km,...m->...k", self.mean, z) + np.sqrt(np.maximum(width, 0.0)))

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.scores(state)
        return np.asarray(np.eye(scores.shape[-1])[scores.argmax(axis=-1)])

    def chooser(self) -> Chooser:
        means, actions, size = _linear(self.mean), self.mean.shape[-2], self.mean.shape[-1]
        spread = np.moveaxis(self.spread, (-3, -2, -1), (0, 1, 2)).copy()
        certain = not spread.any()

        def score(a: int, state: NDArray[np.float64]) -> NDArray[np.float64]:
            mean = means(a, state)
            if certain:
                return mean
            width = spread[a, size - 1, size - 1]
            for i in range(size - 1):
                row = spread[a, i, i] * state[i] + 2 * spread[a, i, size - 1]
                for j in range(i):
                    row = row + 2 * spread[a, i, j] * state[j]
                width = width + row * state[i]
            return np.asarray(mean + np.sqrt(np.maximum(width, 0.0)))

        def choose(state: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
            best = score(0, state)
            action = np.zeros(best.shape, dtype=np.int64)
            for a in range(1, actions):
                other = score(a, state)
                action = np.where(other > best, a, action)
                best = np.maximum(best, other) if a + 1 < actions else best
            return action

        return choose


RULES: dict[str, type[DecisionRule]] = {rule.kind: rule for rule in (Fixed, Boltzmann, UpperConfidence)}


def _linear(coef: NDArray[np.float64]) -> Callable[[int, NDArray[np.float64]], NDArray[np.float64]]:
    """cᵀ z(s) for action a, with the batch axes last so that every operation runs over contiguous memory."""
    by_variable = np.moveaxis(coef, (-2, -1), (0, 1)).copy()

    def evaluate(a: int, state: NDArray[np.float64]) -> NDArray[np.float64]:
        total = by_variable[a, 0] * state[0]
        for j in range(1, len(state)):
            total += by_variable[a, j] * state[j]
        total += by_variable[a, -1]
        return np.asarray(total)

    return evaluate
