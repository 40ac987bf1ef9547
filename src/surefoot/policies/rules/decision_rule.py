"""What a decision rule is: arrays that turn a state into probabilities of actions, one rule per participant (or lane).

Every rule has a batch shape, (people,) for fitted policies, (policies, people) in simulations, and looks at a state
through z(s) = [s, 1]. `probabilities` is for people to call; `chooser` is the same thing for inner loops: it takes the state
as one array per variable, a uniform number per lane, and returns actions, on NumPy or PyTorch arrays alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.engines import Engine
from surefoot.policies.features import policy_feature_names
from surefoot.registry import Registry

Chooser = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class DecisionRule(ABC):
    """Base of the rules; the fields of a subclass are its arrays, all with the same leading batch axes."""

    name: ClassVar[str]
    batch_axes_follow: ClassVar[int]
    """How many axes of the first array are not batch axes."""
    how: ClassVar[str]
    """How it decides, in one sentence or two. Cards and pages print it."""
    looks_through: ClassVar[str] = "policy"
    """Whose state variables it looks at: those that the `policy` sees, or those that the `critic` sees."""
    looks_at_states: ClassVar[bool] = True
    """False for a rule that can decide without knowing a state."""

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
register_rule = RULES.register
find_rule = RULES.find


def evaluate_linear(coef: Array) -> Callable[[int, Array], Array]:
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
