"""Pooling: who shares a fit with whom. Adding one is a subclass of `Pooling` under `register_pooling`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import BLOCK_CELLS, PADDED_TO, Trajectories
from surefoot.errors import InputError, did_you_mean
from surefoot.learning.part import Part, make_part
from surefoot.learning.pooling.random_walk import ESTIMATE
from surefoot.registry import Registry

__all__ = ["POOLINGS", "Everyone", "Partial", "Person", "Pooling", "register_pooling"]

TIMES = ("constant", "smooth")
"""How effects may change over the study for everybody."""
Block = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The positions of some fits, and the rows that each of them learns from, (fits, rows), −1 where padded."""


@dataclass(frozen=True)
class Pooling(Part, ABC):
    """The decision points of each fit and the people that its policy serves; a subclass's fields are its parameters."""

    kind: ClassVar[str] = "pooling"
    shared: ClassVar[bool]
    """Whether one fit and one policy serve everybody."""
    serves_anybody: ClassVar[bool]
    """Whether there is a policy for people who are not in the logs. Then methods are cross-fitted by participant."""
    needs_everybody: ClassVar[bool]
    """Whether a fit needs all people at once, so that logs cannot go through part by part."""
    needs_coefficients: ClassVar[bool] = False
    """Whether people share a critic's coefficients."""
    second_judge: ClassVar[str | None] = None
    """The pooling whose fits must keep a decision point too, for a critic that judges twice or a pooling that borrows."""
    borrows: ClassVar[bool] = False
    """Whether everybody's coefficients are drawn towards those of the population, as far as people are alike."""
    whom: ClassVar[str]
    """Whom the policy is for, as a sentence."""
    for_whom: ClassVar[str] = "per participant"
    """The same after "one policy"."""
    estimates: ClassVar[str]
    """What a coefficient with its interval is, over all fits."""
    without_points: ClassVar[str] = (
        "so nothing was learned; an actor flips a coin, LinUCB sends nothing, posterior sampling follows its prior"
    )
    few_points: ClassVar[str] = "the penalty decides the rest"
    """What becomes of a participant without usable decision points, and of one with fewer than there are features."""

    @abstractmethod
    def list_participants(self, logs: Trajectories) -> NDArray[Any]:
        """Whose fits there are, in their order."""

    @abstractmethod
    def list_blocks(self, logs: Trajectories, cells: int = BLOCK_CELLS) -> Iterator[Block]:
        """The fits in blocks of about so many cells that can be learned at once and apart from the others."""

    @abstractmethod
    def assign_rows(self, logs: Trajectories) -> NDArray[np.int64]:
        """For every row the position of the fit that it belongs to."""

    @property
    def walk_step(self) -> float | str | None:
        """By which share of the variance between people coefficients vary between decision points; None if they stay."""
        return None

    @property
    def correlates(self) -> bool:
        """Whether people's coefficients may differ together."""
        return False

    @property
    def alike(self) -> bool:
        """Whether all people have the same coefficients."""
        return self.shared

    @property
    def changes_together(self) -> bool:
        """Whether effects may change over the study for everybody."""
        return False

    @property
    def cross_fit(self) -> str:
        """How a method is cross-fitted unless somebody says otherwise."""
        return "person" if self.serves_anybody else "time"


POOLINGS: Registry[type[Pooling]] = Registry("pooling")
register_pooling = POOLINGS.register
"""Adds a class of poolings under its `name`, which must be free."""


def make_pooling(given: Any) -> Pooling:
    """The pooling that is meant by a name, by a mapping with `name` and parameters, or by itself."""
    return make_part(POOLINGS, given)


@register_pooling
@dataclass(frozen=True)
class Person(Pooling):
    """One policy per participant, learned from that participant's decision points alone, as in the paper."""

    name: ClassVar[str] = "person"
    padded_to: ClassVar[int] = PADDED_TO
    """To a multiple of how many decision points people are padded."""
    shared: ClassVar[bool] = False
    serves_anybody: ClassVar[bool] = False
    needs_everybody: ClassVar[bool] = False
    whom: ClassVar[str] = "One policy for each participant."
    estimates: ClassVar[str] = "Mean over people"

    def list_participants(self, logs: Trajectories) -> NDArray[Any]:
        return logs.participants

    def list_blocks(self, logs: Trajectories, cells: int = BLOCK_CELLS) -> Iterator[Block]:
        return logs.blocks(cells, self.padded_to)

    def assign_rows(self, logs: Trajectories) -> NDArray[np.int64]:
        return logs.participant_index


@register_pooling
@dataclass(frozen=True)
class Everyone(Pooling):
    """One policy for everybody, learned from the decision points of all people."""

    name: ClassVar[str] = "all"
    shared: ClassVar[bool] = True
    second_judge: ClassVar[str | None] = "person"
    serves_anybody: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    whom: ClassVar[str] = "One policy for everybody."
    for_whom: ClassVar[str] = "for everyone"
    estimates: ClassVar[str] = "Estimates"

    def list_participants(self, logs: Trajectories) -> NDArray[Any]:
        return np.array(["everyone"])

    def list_blocks(self, logs: Trajectories, cells: int = BLOCK_CELLS) -> Iterator[Block]:
        return logs.one_block()

    def assign_rows(self, logs: Trajectories) -> NDArray[np.int64]:
        return np.zeros(len(logs), dtype=np.int64)


@register_pooling
@dataclass(frozen=True)
class Partial(Person):
    """Individual coefficients for each participant, shrunk towards the population the more alike people are.

    In formulas wᵢ = β + bᵢ with bᵢ ~ N(0, Ψ).
    """

    name: ClassVar[str] = "partial"
    padded_to: ClassVar[int] = 4 * PADDED_TO
    """In a trial that enrols, lengths differ; for the few people of a joint fit, few blocks are faster than short ones."""
    serves_anybody: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    needs_coefficients: ClassVar[bool] = True
    borrows: ClassVar[bool] = True
    second_judge: ClassVar[str | None] = "all"
    whom: ClassVar[str] = (
        "One policy for each participant, drawn towards everybody's as far as people are alike; one for anybody else."
    )
    for_whom: ClassVar[str] = "per participant, drawn towards everybody's"
    estimates: ClassVar[str] = "Population"
    without_points: ClassVar[str] = "so the policy is the population's"
    few_points: ClassVar[str] = "the policy is the population's"
    correlated_differences: bool = False
    """Whether people's coefficients may differ together; of few people that cannot be told."""
    random_walk: float | str | None = None
    """By which share of the variance between people a participant's coefficients vary from one decision point to the next,
    or `estimate`. The policy is then of their last ones."""
    time: str = "constant"
    """`smooth`: effects change over the participant's own time, for everybody alike, by an estimated random walk. The policy
    is then of everybody's next decision point, and for somebody new of their first one."""
    differences: bool = True
    """Whether people's coefficients may differ; if not, policies differ in time alone."""

    @property
    def walk_step(self) -> float | str | None:
        return self.random_walk

    @property
    def correlates(self) -> bool:
        return self.correlated_differences

    @property
    def alike(self) -> bool:
        return not self.differences

    @property
    def changes_together(self) -> bool:
        return self.time == "smooth"

    def check_parameters(self) -> None:
        super().check_parameters()
        step = self.random_walk
        number = isinstance(step, int | float | np.number) and not isinstance(step, bool)
        if not (step is None or step == ESTIMATE or (number and np.isfinite(float(step)) and float(step) >= 0)):
            raise InputError(
                f"random_walk is {step!r}; it is 'estimate', or the variance of a step from one decision point to the next "
                "as a share of that between people, such as 0.005"
            )
        if self.random_walk is not None and self.correlated_differences:
            raise InputError("random_walk is of differences that are independent; leave correlated_differences out")
        if self.time not in TIMES:
            raise InputError(f"time is {self.time!r}{did_you_mean(str(self.time), TIMES)}; choose from {list(TIMES)}")
        if self.random_walk is not None and self.changes_together:
            raise InputError(
                "time = 'smooth' is for a change that is common to all, random_walk for changes of single people; leave out "
                "one of them"
            )
        if not self.differences and (self.random_walk is not None or self.correlated_differences):
            raise InputError("differences = false leaves no differences to walk or correlate; leave one of them out")
