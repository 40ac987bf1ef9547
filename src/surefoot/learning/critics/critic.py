"""What a critic is: a model of the expected reward x(s, a)ᵀw that says what it leaves out, and how it is spoken of.

Arrays are (people, decision points, features); `weights` is zero on padding and on decision points that cannot be used,
so ragged people and removed outliers are the same thing to the solvers. Everything is written to the array API standard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Self

from surefoot.errors import InputError
from surefoot.learning.batch import Batch
from surefoot.learning.part import Part, check_range
from surefoot.numerics.arrays import Array, PerParticipant, array_namespace
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

    def at_strictness(self, factor: float) -> Critic:
        """The same critic with its limit that many times as high."""
        return self

    def without_removal(self) -> Critic:
        """The same critic with an infinitely high limit."""
        return self


@dataclass(frozen=True)
class RemovingCritic(Critic):
    """A critic that leaves out what lies beyond a limit."""

    labels: ClassVar[Mapping[str, str]] = {"tau": "height of the limit τ"}
    removal: ClassVar[Removal]
    tau: float = 1.0
    """Multiplies the limit of squared residuals."""

    def check_parameters(self) -> None:
        super().check_parameters()
        check_range("tau", self.tau, above=0)

    @property
    def strictness(self) -> float:
        return self.tau

    def at_strictness(self, factor: float) -> Self:
        return replace(self, tau=self.tau * factor)

    def without_removal(self) -> Critic:
        return CRITICS.find("ridge")()


CRITICS: Registry[type[Critic]] = Registry("critic")
register_critic = CRITICS.register
"""Adds a class of critics under its `name`, which must be free."""
