"""Candidates of an evaluation, and cross-fitting: what judges a decision point was learned from other people or times."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.evaluation.values import LOGGED
from surefoot.learning.batch import Batch
from surefoot.learning.critics import Critic
from surefoot.learning.methods import Method
from surefoot.learning.pooling import make_pooling
from surefoot.policies.features import critic_features
from surefoot.policies.policies import Policies, Policy, baselines
from surefoot.registry import Registry

NUISANCE_PENALTY = 1.0
"""ζ of the critic that judges, on standardised states and with a free intercept: the shrinkage of one decision point."""
Evaluated = Policy | Policies | Method | Callable[[NDArray[np.float64]], Any] | NDArray[np.float64]
"""A function takes states (n, variables) and gives probabilities (n, actions); an array has a row for each of the logs."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy under evaluation."""

    name: str
    item: Evaluated
    description: str
    is_baseline: bool = False

    def decide(self, logs: Trajectories, rows: NDArray[np.int64], fold: NDArray[np.int64]) -> NDArray[np.float64]:
        """π(a | s) at the given rows, (rows, actions)."""
        item = self.item
        if isinstance(item, Policy):
            probabilities = item.probabilities(logs.state[rows])
        elif isinstance(item, Policies):
            probabilities = item.probabilities(logs.participant[rows], logs.state[rows])
        elif isinstance(item, Method):
            probabilities = np.empty((len(rows), logs.actions))
            for number, policies in fit_without_folds(item, logs, fold):
                held_out = fold[rows] == number
                judged = rows[held_out]
                probabilities[held_out] = policies.probabilities(logs.participant[judged], logs.state[judged])
        elif callable(item):
            probabilities = self._complete(item(logs.state[rows]), len(rows))
        else:
            probabilities = self._complete(item, len(logs))[rows]
        if probabilities.shape[1] != logs.actions:
            raise InputError(
                f"'{self.name}': a policy over {probabilities.shape[1]} actions cannot be judged by logs with {logs.actions}"
            )
        sums_to_one = np.abs(probabilities.sum(axis=1) - 1) <= 1e-6
        wrong = np.flatnonzero(~((probabilities >= 0).all(axis=1) & sums_to_one))
        if wrong.size:
            raise InputError(
                f"'{self.name}' gives {probabilities[wrong[0]].tolist()} at a decision point; give probabilities, which sum "
                "to 1"
            )
        return probabilities

    def _complete(self, given: Any, count: int) -> NDArray[np.float64]:
        """Probabilities (count, actions); a single number per row is the probability of sending, with two actions."""
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


def list_candidates(policies: Mapping[str, Evaluated], logs: Trajectories) -> tuple[list[Candidate], list[str]]:
    """The policies, then the baselines; and notes. Policies that were learned from these logs are refused."""
    if not isinstance(policies, Mapping):
        raise InputError(f"policies are given by name, as {{'mine': policy}}, not as a {type(policies).__name__}")
    constant = baselines(logs.action_names)
    candidates = []
    notes = []
    for name, item in policies.items():
        if name in constant or name == LOGGED:
            raise InputError(f"'{name}' is the name of a policy that every evaluation shows; give yours another name")
        description = "as given"
        if isinstance(item, Method):
            description = "learned anew without the decision points that judge it"
        elif isinstance(item, Policy) and item.state_names is None:
            description = "the same probabilities in every state"
        elif isinstance(item, Policies) and item.training is not None:
            same_rows, same_people = item.training.count_shared(logs)
            if same_rows:
                raise InputError(
                    f"'{name}' was learned from {same_rows} of these {len(logs)} decision points, and judged by them it "
                    "would look better than it is; give logs that it has not seen, or evaluate the method, which is then "
                    "cross-fitted"
                )
            if same_people and item.participants is None:
                notes.append(
                    f"{name} was learned from {same_people} of these {len(logs.participants)} people, at other times: it "
                    "may be worth less for new people"
                )
        candidates.append(Candidate(name, item, description))
    for (name, policy), action in zip(constant.items(), logs.action_names, strict=True):
        candidates.append(Candidate(name, policy, f"{action} at every decision point", is_baseline=True))
    return candidates, notes


@dataclass(frozen=True)
class CrossFit:
    """A way to deal decision points into folds."""

    name: str
    deal: Callable[[Trajectories, int, int], NDArray[np.int64]]
    """(logs, folds, seed) → the fold of every row."""
    pooling: str
    """Who shares the critic that judges."""


def _deal_people(logs: Trajectories, folds: int, seed: int) -> NDArray[np.int64]:
    people = len(logs.participants)
    if people < 2:
        raise InputError("cross-fitting by participant needs at least 2 people; cross-fit by time")
    dealt = np.random.default_rng(seed).permutation(people) % min(folds, people)
    return dealt[logs.participant_index]


def _cut_time(logs: Trajectories, folds: int, seed: int) -> NDArray[np.int64]:
    """Each participant's time in stretches of equally many usable decision points."""
    usable = logs.usable[logs.order].astype(np.int64)
    before: NDArray[np.int64] = np.cumsum(usable) - usable
    lengths = np.bincount(logs.participant_index[logs.usable], minlength=len(logs.participants))
    ordered = logs.participant_index[logs.order]
    rank = before - np.concatenate([[0], np.cumsum(lengths)])[ordered]
    fold = np.empty(len(logs), dtype=np.int64)
    fold[logs.order] = np.minimum(rank * folds // np.maximum(lengths, 1)[ordered], folds - 1)
    return fold


CROSS_FITS: Registry[CrossFit] = Registry("cross-fitting")
CROSS_FITS.register(CrossFit("person", _deal_people, pooling="all"))
CROSS_FITS.register(CrossFit("time", _cut_time, pooling="person"))


def choose_cross_fit(policies: Mapping[str, Evaluated], requested: str | None) -> CrossFit:
    """The requested one, or the one that suits the methods: by participant only where all of them serve new people."""
    methods = {name: item for name, item in policies.items() if isinstance(item, Method)}
    personal = [name for name, item in methods.items() if not item.pooling.serves_anybody]
    cross_fit = CROSS_FITS.find(requested or ("time" if personal else "person"))
    if personal and make_pooling(cross_fit.pooling).shared:
        raise InputError(
            f"'{personal[0]}' learns a policy per participant, which cannot be learned from other people; "
            "cross-fit by time, or learn one policy for all (pooling = 'all')"
        )
    return cross_fit


def assign_folds(logs: Trajectories, cross_fit: str, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of every row: people dealt at random (`person`), or each participant's time cut into stretches (`time`)."""
    deal = CROSS_FITS.find(cross_fit).deal
    if folds < 2:
        raise InputError(f"folds is {folds}; cross-fitting needs at least 2")
    return deal(logs, folds, seed)


def expect_rewards(
    logs: Trajectories,
    fold: NDArray[np.int64],
    *,
    critic: Critic,
    pooling: str,
    penalty: float = NUISANCE_PENALTY,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """q̂(s, a) of every row and action, (rows, actions), by a critic that did not see the row's fold; NaN if not usable.

    `weights` (rows,) say how much each row counts in the critic's fit, by default equally.
    """
    usable = logs.usable
    actions = logs.actions
    width = logs.state[usable].std(axis=0)
    standardised = (logs.state - logs.state[usable].mean(axis=0)) / np.where(width > 0, width, 1.0)
    state = np.where(usable[:, None], standardised, 0.0)
    reward = np.where(usable, logs.reward, 0.0)
    counts = usable * (1.0 if weights is None else weights)
    shrinkage = np.full((state.shape[1] + 1) * actions, penalty)
    shrinkage[0] = 0.0
    expected = np.full((len(logs), actions), np.nan)
    for _, rows in make_pooling(pooling).list_blocks(logs):
        present = (rows >= 0) & usable[rows]
        features = critic_features(state[rows], logs.action[rows], actions)
        for number in np.unique(fold[usable]):
            seen = np.where(present & (fold[rows] != number), counts[rows], 0.0)
            batch = Batch(features, state[rows], logs.action[rows], reward[rows], seen, actions, shrinkage)
            held_out = present & (fold[rows] == number)
            expected[rows[held_out]] = critic.fit(batch).expect_rewards(state[rows], actions)[held_out]
    return expected


def fit_without_folds(method: Method, logs: Trajectories, fold: NDArray[np.int64]) -> Iterator[tuple[int, Policies]]:
    """For every fold the policies that the method learns from the other folds: the rewards of the fold are hidden."""
    for number in np.unique(fold[logs.usable]):
        hidden = logs.with_values(reward=np.where(fold == number, np.nan, logs.reward))
        with warnings.catch_warnings():
            # Too little data is reported once, about the fit to all folds.
            warnings.simplefilter("ignore", FitWarning)
            yield int(number), type(method)(**method.get_params(deep=False)).fit_some(hidden).policies_
