"""The policies that decide in many trials at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.policies.policies import Policies
from surefoot.policies.rules import DecisionRule
from surefoot.study import TrialSection
from surefoot.trial_rules.choices import is_stale

Floats = NDArray[np.float64]


class LivePolicies:
    """For every trial the policies that are live, and since when; none during warm-up.

    Attributes
    ----------
    policies
        By trial.
    coefficients
        What the update that made them found, for the next one to compare with.
    covered
        (trials, people) For whom they have a rule.
    """

    def __init__(self, settings: TrialSection, participants: NDArray[Any], trials: int, actions: int) -> None:
        self._settings, self._participants, self._actions = settings, participants, actions
        self.policies: list[Policies | None] = [None] * trials
        self.coefficients: list[list[dict[str, Any]]] = [[] for _ in range(trials)]
        self.covered = np.zeros((trials, len(participants)), dtype=bool)
        self._since: list[timedelta] = [timedelta(0)] * trials
        self._groups: list[tuple[list[int], DecisionRule]] | None = []

    def activate(self, trial: int, policies: Policies, coefficients: list[dict[str, Any]], since: timedelta) -> None:
        """Put policies live in one trial."""
        self.policies[trial], self.coefficients[trial], self._since[trial] = policies, coefficients, since
        self.covered[trial] = policies.covers(self._participants)
        self._groups = None

    def list_usable(self, at: timedelta) -> NDArray[np.bool_]:
        """(trials, 1): whether the policies are not stale."""
        return np.array([[not is_stale(self._settings, at - since)] for since in self._since])

    def probabilities(self, state: Floats) -> Floats:
        """(trials, people, actions) before the study's limits, NaN where there is no rule; states without missing values."""
        if self._groups is None:
            self._groups = self._group_rules()
        found = np.full((*state.shape[:2], self._actions), np.nan)
        for trials, rule in self._groups:
            found[trials] = rule.probabilities(state[trials])
        return np.where(self.covered[..., None], found, np.nan)

    def _group_rules(self) -> list[tuple[list[int], DecisionRule]]:
        """The rules of all trials, those of one kind as one; whom there is no rule for gets one that is not used."""
        rules = {}
        for trial, policies in enumerate(self.policies):
            own = self.covered[trial]
            if policies is not None and own.any():
                rules[trial] = policies.rules_for(self._participants[own])[np.maximum(np.cumsum(own) - 1, 0)]
        groups = []
        for kind in {type(rule): None for rule in rules.values()}:
            trials = [trial for trial, rule in rules.items() if type(rule) is kind]
            groups.append((trials, kind.join([rules[trial] for trial in trials])))
        return groups
