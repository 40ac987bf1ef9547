"""Off-policy evaluation: what a policy would have earned, from logs of another.

The estimand is the mean proximal outcome over the available, usable decision points of the logs,

    V(π) = E[ Σ_a π(a | S) · E(R | S, a) ],   S as logged:

a myopic value. That a policy would change later states (fatigue, say) is not in it. People are the units: the intervals
say how far V would move with other people from the same population.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.evaluation.cross_fitting import expected_rewards, folds_of, learned_without
from surefoot.inference.intervals import DRAWS, Interval, PeopleBootstrap, sum_by_participant
from surefoot.learning.methods import Method
from surefoot.policies import policies as reference
from surefoot.policies.policies import Policies, Policy

ESTIMATORS = {
    "ips": "inverse weights",
    "snips": "self-normalised",
    "direct": "direct method",
    "doubly robust": "doubly robust",
}
LOGGED = "as logged"
LOW_SHARE, LOW_TUPLES, HIGH_WEIGHT = 0.1, 100, 0.05
"""Overlap is poor when the effective sample size is below this share or number, or one decision point holds more of the
weight."""

Evaluated = Policy | Policies | Method


@dataclass(frozen=True)
class Value:
    """What one policy is worth by one estimator, and how much more than the logging policy."""

    policy: str
    estimator: str
    value: Interval
    difference: Interval
    """To the mean reward of the logs, paired within people."""


@dataclass(frozen=True)
class Overlap:
    """How far the logs speak about a policy."""

    policy: str
    send_rate: float
    """Mean probability of an action other than nothing."""
    effective_sample_size: float
    """(Σρ)² / Σρ²: as many decision points drawn from the policy itself would tell as much."""
    largest_ratio: float
    warning: str
    """Empty when the overlap is good."""


@dataclass(frozen=True)
class OffPolicy:
    """Values of several policies from the same logs."""

    people: int
    decision_points: int
    cross_fit: str
    critic: str
    values: tuple[Value, ...]
    overlap: tuple[Overlap, ...]

    def value(self, policy: str, estimator: str = "doubly robust") -> Value:
        return next(found for found in self.values if (found.policy, found.estimator) == (policy, estimator))

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row per policy and estimator, in columns policy, estimator, value, standard_error, low, high, difference, …"""
        rows = [
            {
                "policy": found.policy,
                "estimator": found.estimator,
                **found.value._asdict(),
                "difference": found.difference.value,
                "difference_low": found.difference.low,
                "difference_high": found.difference.high,
            }
            for found in self.values
        ]
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        values = [
            {**asdict(found), "value": found.value._asdict(), "difference": found.difference._asdict()}
            for found in self.values
        ]
        return {**asdict(self), "values": values}


def evaluate(
    logs: Trajectories,
    policies: Mapping[str, Evaluated],
    *,
    cross_fit: str | None = None,
    folds: int = 5,
    critic: str = "ridge",
    limited: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> OffPolicy:
    """Values of the policies, of `never`, `always` and of the logging policy.

    A `Method` is learned anew without the fold that judges it, so that its value is honest; `Policies` are taken as they
    are and should come from other logs. `cross_fit` is `person` or `time`; by default `time` when a method learns a policy
    per participant, else `person`. `limited` keeps probabilities within the study's limits: `study.clip_probabilities`.

    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> found = evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
    >>> round(found.value("mostly").value.value), round(found.value("as logged").value.value)
    (1325, 1270)
    """
    rows = np.flatnonzero(logs.usable)
    if not rows.size:
        raise InputError("no decision point is usable (available, with every state variable and the reward)")
    _need_probabilities(logs, rows)
    personal = [name for name, item in policies.items() if isinstance(item, Method) and item.pooling == "person"]
    cross_fit = cross_fit or ("time" if personal else "person")
    if cross_fit == "person" and personal:
        raise InputError(
            f"'{personal[0]}' learns a policy per participant, which cannot be learned from other people; "
            "cross-fit by time, or learn one policy for all (pooling = 'all')"
        )
    fold = folds_of(logs, cross_fit, folds, seed)
    expected = expected_rewards(logs, fold, critic=critic, pooling="all" if cross_fit == "person" else "person")[rows]
    chosen: dict[str, Evaluated] = {
        **policies,
        "never": reference.never(logs.actions),
        "always": reference.always(logs.actions),
    }
    present, participant_index = np.unique(logs.participant_index[rows], return_inverse=True)
    bootstrap = PeopleBootstrap(len(present), draws=draws, seed=seed)
    values: list[Value] = []
    overlaps: list[Overlap] = []
    for name, item in chosen.items():
        probabilities = _probabilities(item, logs, rows, fold)
        if limited is not None and name in policies:
            probabilities = limited(probabilities)
        ratio = probabilities[np.arange(len(rows)), logs.action[rows]] / logs.probability[rows]
        overlaps.append(_overlap(name, probabilities, ratio))
        scores = _scores(probabilities, ratio, expected, logs.action[rows], logs.reward[rows])
        values += _values(name, scores, logs.reward[rows], participant_index, bootstrap)
    values.append(_logged(logs.reward[rows], participant_index, bootstrap))
    return OffPolicy(len(present), len(rows), cross_fit, critic, tuple(values), tuple(overlaps))


def _need_probabilities(logs: Trajectories, rows: NDArray[np.int64]) -> None:
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


def _probabilities(
    item: Evaluated, logs: Trajectories, rows: NDArray[np.int64], fold: NDArray[np.int64]
) -> NDArray[np.float64]:
    """π(a | s) of every usable row, (rows, actions)."""
    if isinstance(item, Policy):
        found = item.probabilities(logs.state[rows])
    elif isinstance(item, Policies):
        found = item.probabilities(logs.participant[rows], logs.state[rows])
    else:
        found = np.empty((len(rows), logs.actions))
        for part, learned in learned_without(item, logs, fold):
            held_out = fold[rows] == part
            found[held_out] = learned.probabilities(logs.participant[rows[held_out]], logs.state[rows[held_out]])
    if found.shape[1] != logs.actions:
        raise InputError(f"a policy over {found.shape[1]} actions cannot be judged by logs with {logs.actions}")
    return found


def _scores(
    probabilities: NDArray[np.float64],
    ratio: NDArray[np.float64],
    expected: NDArray[np.float64],
    action: NDArray[np.int64],
    reward: NDArray[np.float64],
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """For every estimator the numerator and denominator of each decision point; the value is the ratio of their sums.

    ρ = π(a | s) / b(a | s):  ips Σρr / Σ1,  snips Σρr / Σρ,  direct Σ_a π q̂,  doubly robust Σ_a π q̂ + ρ (r − q̂(s, a)).
    """
    ones = np.ones_like(reward)
    direct = (probabilities * expected).sum(axis=1)
    surprise = reward - expected[np.arange(len(action)), action]
    return {
        "ips": (ratio * reward, ones),
        "snips": (ratio * reward, ratio),
        "direct": (direct, ones),
        "doubly robust": (direct + ratio * surprise, ones),
    }


def _values(
    name: str,
    scores: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    reward: NDArray[np.float64],
    participant_index: NDArray[np.int64],
    bootstrap: PeopleBootstrap,
) -> list[Value]:
    people = bootstrap.people
    logged, count = (
        sum_by_participant(participant_index, people, reward),
        sum_by_participant(participant_index, people, np.ones_like(reward)),
    )
    found = []
    for estimator, (top, bottom) in scores.items():
        tops, bottoms = (
            sum_by_participant(participant_index, people, top),
            sum_by_participant(participant_index, people, bottom),
        )
        value, difference = bootstrap.ratio(tops, bottoms), bootstrap.difference(tops, bottoms, logged, count)
        if (
            estimator == "direct"
        ):  # Resampling people with q̂ held would say nothing about the error of q̂, which is most of it.
            value, difference = (Interval(part.value, np.nan, np.nan, np.nan) for part in (value, difference))
        found.append(Value(name, estimator, value, difference))
    return found


def _logged(reward: NDArray[np.float64], participant_index: NDArray[np.int64], bootstrap: PeopleBootstrap) -> Value:
    people = bootstrap.people
    value = bootstrap.ratio(
        sum_by_participant(participant_index, people, reward),
        sum_by_participant(participant_index, people, np.ones_like(reward)),
    )
    return Value(LOGGED, "doubly robust", value, Interval(0.0, 0.0, 0.0, 0.0))


def _overlap(name: str, probabilities: NDArray[np.float64], ratio: NDArray[np.float64]) -> Overlap:
    total, squares = ratio.sum(), (ratio**2).sum()
    effective = float(total**2 / squares) if squares > 0 else 0.0
    largest = float(ratio.max())
    warning = ""
    if effective < max(LOW_SHARE * len(ratio), LOW_TUPLES):
        warning = (
            f"the logs hold as much about this policy as {effective:.0f} decision points would (of {len(ratio)}): "
            "it does what was rarely done; believe the direct method only as far as its model"
        )
    elif largest > HIGH_WEIGHT * total:
        warning = f"one decision point carries {100 * largest / total:.0f} % of the weight: a probability near 0 was logged"
    return Overlap(name, float(1 - probabilities[:, 0].mean()), effective, largest, warning)
