"""Off-policy evaluation: what a policy would have earned, from logs of another.

The estimand is the mean proximal outcome over the available, usable decision points of the logs,

    V(π) = E[ Σ_a π(a | S) · E(R | S, a) ],   S as logged:

a myopic value. That a policy would change later states (fatigue, say) is not in it. People are the units: the intervals
say how far V would move with other people from the same population.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.decision_times import DayBoundary
from surefoot.data.mean_weights import check_probabilities
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.evaluation.cross_fitting import CROSS_FITS, assign_folds, expect_rewards, fit_without_folds
from surefoot.evaluation.estimators import ESTIMATORS, JudgedPolicy, find_estimator
from surefoot.evaluation.long_run import LongRunLogs, value_long_run
from surefoot.evaluation.values import LOGGED, PREFERRED, Contrast, OffPolicy, Overlap, Value
from surefoot.inference.intervals import DRAWS, Interval, PeopleBootstrap, sum_by_participant
from surefoot.learning.critics import Critic, make_critic
from surefoot.learning.methods import Method
from surefoot.learning.pooling import find_pooling
from surefoot.policies import policies as reference
from surefoot.policies.policies import Policies, Policy

LOW_SHARE, LOW_COUNT, HIGH_WEIGHT = 0.1, 100, 0.05
"""Overlap is poor when the effective sample size is below this share or number, or one decision point holds more of the
weight."""

Evaluated = Policy | Policies | Method


def evaluate(
    logs: Trajectories,
    policies: Mapping[str, Evaluated],
    *,
    cross_fit: str | None = None,
    folds: int = 5,
    critic: str | Critic = "ridge",
    clip_probabilities: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    long_run: bool = False,
    max_gap: int = 1,
    day_boundary: DayBoundary = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> OffPolicy:
    """Values of the policies, of `never`, `always` and of the logging policy.

    A `Method` is learned anew without the fold that judges it, so that its value is honest; `Policies` are taken as they
    are and should come from other logs. `cross_fit` is `person` or `time`; by default `time` when a method learns a policy
    per participant, else `person`. `clip_probabilities`, a study's own, keeps the policies within its limits.
    `long_run` adds what the policies are worth once they have been in force for long, with states as they lead to them;
    `max_gap` and `day_boundary` then say which decision points follow each other, as in a method.

    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> found = evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
    >>> round(found.value("mostly").value.value), round(found.value("as logged").value.value)
    (1325, 1270)
    """
    rows = np.flatnonzero(logs.usable)
    if not rows.size:
        raise InputError("no decision point is usable (available, with every state variable and the reward)")
    _require_probabilities(logs, rows)
    check_probabilities(logs)
    cross_fit, model = _choose_cross_fit(policies, cross_fit), make_critic(critic)
    fold = assign_folds(logs, cross_fit, folds, seed)
    expected = expect_rewards(logs, fold, critic=model, pooling=CROSS_FITS.find(cross_fit).pooling)[rows]
    baselines = {"never": reference.never(logs.actions), "always": reference.always(logs.actions)}
    bootstrap = _RowBootstrap(logs, rows, draws, seed)
    ahead = LongRunLogs.of_logs(logs, model, max_gap=max_gap, day_boundary=day_boundary) if long_run else None
    decided = rows if ahead is None else np.union1d(rows, ahead.following)
    values: list[Value] = []
    overlaps: list[Overlap] = []
    following: dict[str, NDArray[np.float64]] = {}
    for name, item in {**policies, **baselines}.items():
        everywhere = _decide(item, logs, decided, fold)
        if clip_probabilities is not None and name in policies:
            everywhere = clip_probabilities(everywhere)
        probabilities = everywhere[np.searchsorted(decided, rows)]
        if ahead is not None:
            following[name] = everywhere[np.searchsorted(decided, ahead.following)]
        ratio = probabilities[np.arange(len(rows)), logs.action[rows]] / logs.probability[rows]
        overlaps.append(_measure_overlap(name, probabilities, ratio))
        values += bootstrap.values(name, JudgedPolicy(probabilities, ratio, expected, logs.action[rows], logs.reward[rows]))
    values.append(Value(LOGGED, PREFERRED, bootstrap.logged(), Interval(0.0, 0.0, 0.0, 0.0)))
    contrasts = tuple(Contrast(name, "never", bootstrap.contrast(name, "never")) for name in baselines if name != "never")
    counts = (bootstrap.people, len(rows))
    found = OffPolicy(*counts, cross_fit, model.name, tuple(ESTIMATORS), tuple(values), tuple(overlaps), contrasts)
    if ahead is None:
        return found
    return replace(
        found, long_run=value_long_run(ahead, following, {name: found.value(name).value.value for name in following})
    )


def _require_probabilities(logs: Trajectories, rows: NDArray[np.int64]) -> None:
    missing = rows[np.isnan(logs.probability[rows])]
    if missing.size:
        row, participant = int(missing[0]), logs.participant[missing[0]].item()
        raise InputError(
            f"row {row}, column '{logs.names.probability}', participant {participant!r}: "
            f"the probability of the action taken is missing"
            f" ({missing.size} of {len(rows)} usable decision points); log it, or state the design's with "
            "actions.probabilities in study.toml",
            row=row,
            column=logs.names.probability,
            participant=participant,
        )


def _choose_cross_fit(policies: Mapping[str, Evaluated], asked: str | None) -> str:
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


def _decide(item: Evaluated, logs: Trajectories, rows: NDArray[np.int64], fold: NDArray[np.int64]) -> NDArray[np.float64]:
    """π(a | s) of every usable row, (rows, actions)."""
    if isinstance(item, Policy):
        found = item.probabilities(logs.state[rows])
    elif isinstance(item, Policies):
        found = item.probabilities(logs.participant[rows], logs.state[rows])
    else:
        found = np.empty((len(rows), logs.actions))
        for part, learned in fit_without_folds(item, logs, fold):
            held_out = fold[rows] == part
            found[held_out] = learned.probabilities(logs.participant[rows[held_out]], logs.state[rows[held_out]])
    if found.shape[1] != logs.actions:
        raise InputError(f"a policy over {found.shape[1]} actions cannot be judged by logs with {logs.actions}")
    return found


class _RowBootstrap:
    """Intervals over the people of some rows."""

    def __init__(self, logs: Trajectories, rows: NDArray[np.int64], draws: int, seed: int) -> None:
        present, self._participant_index = np.unique(logs.participant_index[rows], return_inverse=True)
        self.people = len(present)
        self._bootstrap = PeopleBootstrap(self.people, draws=draws, seed=seed)
        self._reward, self._count = self._sum(logs.reward[rows]), self._sum(np.ones(len(rows)))
        self._preferred: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def _sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return sum_by_participant(self._participant_index, self.people, values)

    def logged(self) -> Interval:
        """The mean reward."""
        return self._bootstrap.ratio(self._reward, self._count)

    def values(self, name: str, judged: JudgedPolicy) -> list[Value]:
        """What a policy is worth by every estimator."""
        found = []
        for estimator in map(find_estimator, ESTIMATORS):
            top, bottom = map(self._sum, estimator.compute_scores(judged))
            if estimator.name == PREFERRED:
                self._preferred[name] = top, bottom
            value = self._bootstrap.ratio(top, bottom)
            difference = self._bootstrap.difference(top, bottom, self._reward, self._count)
            if not estimator.has_interval:
                value, difference = (Interval(part.value, np.nan, np.nan, np.nan) for part in (value, difference))
            found.append(Value(name, estimator.name, value, difference))
        return found

    def contrast(self, policy: str, other: str) -> Interval:
        """How much more one policy is worth than another, of those whose values were asked for."""
        return self._bootstrap.difference(*self._preferred[policy], *self._preferred[other])


def _measure_overlap(name: str, probabilities: NDArray[np.float64], ratio: NDArray[np.float64]) -> Overlap:
    total, squares = ratio.sum(), (ratio**2).sum()
    effective = float(total**2 / squares) if squares > 0 else 0.0
    largest = float(ratio.max())
    warning = ""
    if effective < max(LOW_SHARE * len(ratio), LOW_COUNT):
        warning = (
            f"the logs hold as much about this policy as {effective:.0f} decision points would (of {len(ratio)}): "
            "it does what was rarely done; believe the direct method only as far as its model"
        )
    elif largest > HIGH_WEIGHT * total:
        warning = f"one decision point carries {100 * largest / total:.0f} % of the weight: a probability near 0 was logged"
    return Overlap(name, float(1 - probabilities[:, 0].mean()), effective, largest, warning)
