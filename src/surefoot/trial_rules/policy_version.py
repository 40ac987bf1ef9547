"""A policy version that is ready to decide about people one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from typing import Any

import numpy as np

from surefoot.policies.policies import Policies, Policy


@dataclass(frozen=True, eq=False)
class PolicyVersion:
    """One version, ready to decide."""

    id: int
    study_id: str
    """The study that it was fitted under."""
    policies: Policies

    @cached_property
    def _people(self) -> frozenset[str] | None:
        participants = self.policies.participants
        return None if participants is None or self.policies.anybody is not None else frozenset(participants.tolist())

    def covers(self, participant_id: str) -> bool:
        """Whether it has a rule for that participant."""
        return self._people is None or participant_id in self._people

    @cached_property
    def _each(self) -> dict[str, Policy]:
        return {}

    def probabilities(self, participant_id: str, state: list[float | None]) -> np.ndarray[Any, Any]:
        """(1, actions) before the study's limits."""
        policy = self._each.get(participant_id)
        if policy is None:
            policy = self._each[participant_id] = self.policies[participant_id]
        return np.array([policy.decide([nan if value is None else value for value in state])])


def select_participants(fitted: Policies, people: list[str]) -> Policies:
    """Only the rules of those people; all of them where anybody has one."""
    if fitted.participants is None or fitted.anybody is not None:
        return fitted
    chosen = np.isin(fitted.participants, np.array(people, dtype=fitted.participants.dtype))
    return replace(fitted, participants=fitted.participants[chosen], rule=fitted.rule[chosen])
