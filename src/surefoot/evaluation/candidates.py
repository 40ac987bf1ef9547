"""What can be evaluated: methods, policies, functions and arrays of probabilities, and the baselines beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.evaluation.cross_fitting import fit_without_folds
from surefoot.evaluation.values import LOGGED
from surefoot.learning.methods import Method
from surefoot.learning.pooling import find_pooling
from surefoot.policies.constant_policies import baselines
from surefoot.policies.policies import Policies, Policy

Evaluated = Policy | Policies | Method | Callable[[NDArray[np.float64]], Any] | NDArray[np.float64]
"""A function takes states (n, variables) and gives probabilities (n, actions); an array has a row for each of the logs."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy under evaluation."""

    name: str
    item: Evaluated
    what: str
    """What it is, in words."""
    is_baseline: bool = False

    def decide(self, logs: Trajectories, rows: NDArray[np.int64], fold: NDArray[np.int64]) -> NDArray[np.float64]:
        """π(a | s) of some rows, (rows, actions)."""
        item = self.item
        if isinstance(item, Policy):
            found = item.probabilities(logs.state[rows])
        elif isinstance(item, Policies):
            found = item.probabilities(logs.participant[rows], logs.state[rows])
        elif isinstance(item, Method):
            found = np.empty((len(rows), logs.actions))
            for part, learned in fit_without_folds(item, logs, fold):
                held_out = fold[rows] == part
                found[held_out] = learned.probabilities(logs.participant[rows[held_out]], logs.state[rows[held_out]])
        elif callable(item):
            found = self._complete(item(logs.state[rows]), len(rows))
        else:
            found = self._complete(item, len(logs))[rows]
        return self._check_probabilities(found, logs)

    def _complete(self, given: Any, count: int) -> NDArray[np.float64]:
        """Probabilities (count, actions); one number for each is the probability of sending where only one can be sent."""
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"'{self.name}' is {given!r}; give policies, a method, a function of states, or an array of probabilities"
            ) from error
        if values.shape == (count,):
            values = np.column_stack([1 - values, values])
        if values.ndim != 2 or len(values) != count:
            raise InputError(f"'{self.name}' gives probabilities of shape {values.shape}; give one row for each of {count}")
        return values

    def _check_probabilities(self, found: NDArray[np.float64], logs: Trajectories) -> NDArray[np.float64]:
        if found.shape[1] != logs.actions:
            raise InputError(
                f"'{self.name}': a policy over {found.shape[1]} actions cannot be judged by logs with {logs.actions}"
            )
        wrong = np.flatnonzero(~((found >= 0).all(axis=1) & (np.abs(found.sum(axis=1) - 1) <= 1e-6)))
        if wrong.size:
            raise InputError(
                f"'{self.name}' gives {found[wrong[0]].tolist()} at a decision point; give probabilities, which sum to 1"
            )
        return found


def list_candidates(policies: Mapping[str, Evaluated], logs: Trajectories) -> list[Candidate]:
    """The policies, then the baselines; policies that were learned from these logs are refused."""
    if not isinstance(policies, Mapping):
        raise InputError(f"policies are given by name, as {{'mine': policy}}, not as a {type(policies).__name__}")
    simple = baselines(logs.action_names)
    for name, item in policies.items():
        if name in simple or name == LOGGED:
            raise InputError(f"'{name}' is the name of a policy that every evaluation shows; give yours another name")
        _require_other_logs(name, item, logs)
    own = [Candidate(name, item, _describe(item)) for name, item in policies.items()]
    beside = zip(simple.items(), logs.action_names, strict=True)
    return own + [Candidate(name, item, f"{action} at every decision point", True) for (name, item), action in beside]


def _describe(item: Evaluated) -> str:
    if isinstance(item, Method):
        return "learned anew without the decision points that judge it"
    return "the same probabilities in every state" if isinstance(item, Policy) and item.state_names is None else "as given"


def _require_other_logs(name: str, item: Evaluated, logs: Trajectories) -> None:
    if isinstance(item, Policies) and item.training is not None:
        shared = item.training.count_shared(logs)[0]
        if shared:
            raise InputError(
                f"'{name}' was learned from {shared} of these {len(logs)} decision points, and judged by them it would look "
                "better than it is; give logs that it has not seen, or evaluate the method, which is then cross-fitted"
            )


def note_same_people(policies: Mapping[str, Evaluated], logs: Trajectories) -> list[str]:
    """What there is to say about policies for anybody that were learned from other decision points of the same people."""
    notes = []
    for name, item in policies.items():
        if isinstance(item, Policies) and item.participants is None and item.training is not None:
            shared = item.training.count_shared(logs)[1]
            if shared:
                notes.append(
                    f"{name} was learned from {shared} of these {len(logs.participants)} people, at other times: for people "
                    "whom it does not know it may be worth less"
                )
    return notes


def choose_cross_fit(policies: Mapping[str, Evaluated], asked: str | None) -> str:
    """What was asked for, or what suits the methods; by participant only where all of them serve new people."""
    methods = {name: item for name, item in policies.items() if isinstance(item, Method)}
    personal = [name for name, item in methods.items() if not find_pooling(item.pooling).serves_anybody]
    chosen = asked or ("time" if personal else "person")
    if chosen == "person" and personal:
        raise InputError(
            f"'{personal[0]}' learns a policy per participant, which cannot be learned from other people; "
            "cross-fit by time, or learn one policy for all (pooling = 'all')"
        )
    return chosen
