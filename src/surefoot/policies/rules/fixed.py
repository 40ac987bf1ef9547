"""The same probabilities in every state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.arrays import array_namespace
from surefoot.policies.rules.decision_rule import Chooser, DecisionRule, register_rule


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

    def probabilities(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(self.probability, (*state.shape[:-1], self.probability.shape[-1])).copy()

    def scalar(self) -> Callable[[Sequence[float]], list[float]]:
        probability: list[float] = self.probability.tolist()
        return lambda state: probability.copy()

    def chooser(self) -> Chooser:
        xp = array_namespace(self.probability)
        edges = xp.moveaxis(xp.cumulative_sum(self.probability, axis=-1)[..., :-1], -1, 0)
        return lambda state, uniform: xp.sum(xp.astype(uniform >= edges, xp.int64), axis=0)
