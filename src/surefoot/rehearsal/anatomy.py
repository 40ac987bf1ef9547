"""What a simulated participant consists of, and how new ones are made like the old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.numerics.random_streams import streams
from surefoot.rehearsal.artefacts import ArtefactPart
from surefoot.rehearsal.clock import StudyClock
from surefoot.rehearsal.normal_scores import ScoreTable
from surefoot.rehearsal.outcome_families import OutcomeFamily
from surefoot.rehearsal.state_parts import StatePart, YesNoPart
from surefoot.rehearsal.varying import Varying, count_varying, map_varying
from surefoot.simulators.simulator import Seed
from surefoot.study import Study
from surefoot.study.log_description import Reward

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Anatomy:
    """What all participants of a model have in common, and everything of theirs that differs between them."""

    study: Study
    clock: StudyClock
    states: dict[str, StatePart]
    """By state variable, in the study's order."""
    predictors: tuple[str, ...]
    """The state variables that the outcome depends on."""
    availability: YesNoPart | None
    missing: dict[str, YesNoPart]
    """By state variable; those that are never missing are not among them."""
    lost: YesNoPart | None
    """The outcome; None where it is always reported."""
    artefacts: tuple[ArtefactPart, ...]
    family: OutcomeFamily
    scores: ScoreTable
    """Of rewards."""
    reward: Reward | None
    """How an outcome becomes a reward; None where it is one."""
    limits: tuple[float, float]
    """Between which outcomes lie."""
    step: float
    """To which outcomes are recorded; 0 for none."""
    send_rate: float
    """Prompts for each decision point of the pilot."""
    sends: float
    """The mean probability of sending in the pilot."""

    @cached_property
    def marks(self) -> tuple[YesNoPart, ...]:
        """Availability and what is missing, in the order in which they are drawn."""
        return tuple(part for part in (self.availability, *self.missing.values(), self.lost) if part is not None)

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """Everything that may differ between people: the parts of the inner state in its order, then the family."""
        return (*self.marks, *self.artefacts, *self.states.values(), self.family)

    @cached_property
    def places(self) -> dict[str, int]:
        """Of every state variable its place among the parts."""
        first = len(self.marks) + len(self.artefacts)
        return {name: first + place for place, name in enumerate(self.states)}

    def with_parts(self, parts: Sequence[Any]) -> Anatomy:
        """The same with other parts, in the order of `parts`."""
        left = iter(parts)
        return replace(
            self,
            availability=None if self.availability is None else next(left),
            missing={name: next(left) for name in self.missing},
            lost=None if self.lost is None else next(left),
            artefacts=tuple(next(left) for _ in self.artefacts),
            states={name: next(left) for name in self.states},
            family=next(left),
        )


def redraw_people(parts: Sequence[Any], participants: int, seeds: Sequence[Seed], lanes: tuple[int, ...]) -> list[Any]:
    """The parts of new people, so many for every seed; one of the old is the model for all parts of a new one."""
    size = sum(map(count_varying, parts))
    drawn = [_draw_person(rng, size) for one in seeds for rng in streams(one, "participants", range(participants))]
    chosen = np.array([who for who, _ in drawn]).reshape(lanes)
    normals = np.stack([numbers for _, numbers in drawn], axis=1).reshape(size, *lanes)
    place = 0

    def take(old: Varying) -> Varying:
        nonlocal place
        place += len(old)
        return old.redraw((chosen * len(old.roots)).astype(np.int64), normals[place - len(old) : place])

    return [map_varying(part, take) for part in parts]


def _draw_person(rng: np.random.Generator, size: int) -> tuple[float, Floats]:
    """On whom somebody new is modelled, as a place between 0 and 1, and standard normal numbers."""
    return float(rng.random()), rng.standard_normal(size)
