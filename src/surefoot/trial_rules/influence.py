"""How much of a new policy hangs on one decision point, or on one participant: refitted without those that matter most.

Where one policy serves everybody, first-order influences in closed form say what matters, and refits are made only of what
may come near the limit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.inference.sandwich import Influences
from surefoot.learning.methods import Method
from surefoot.policies.features import policy_features
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.trial_rules.choices import fixed_probabilities

Floats = NDArray[np.float64]
CANDIDATES = 3
"""Decision points, and participants, that are left out in turn."""
NEAR = 0.25
"""A change that is estimated above this share of what is allowed is refitted."""
FEW_ROWS = 500
"""With fewer rows first-order estimates are too rough to rely on: twice as many candidates, by two orders, are refitted."""


@dataclass(frozen=True)
class Influence:
    """What leaving something out would change."""

    what: str
    """Which decision point, or which participant."""
    change: float
    """Mean change of the probabilities; with a policy for each participant, of the one who changes most."""
    refitted: bool = True
    """False: estimated to first order, and far below the limit."""


def cook_distances(data: Trajectories, weights: Floats, *, pooled: bool) -> Floats:
    """Cook's distance rᵢ² hᵢ / (1 − hᵢ)² of every row in a least-squares fit of the reward on [1, s] × [1, actions].

    NaN where a row was not used, or was removed as an outlier. Only an order of candidates: what is reported is refitted.
    """
    used = weights > 0
    distances = np.full(len(data), np.nan)
    groups = (
        [np.flatnonzero(used)]
        if pooled
        else [np.flatnonzero(used & (data.participant_index == number)) for number in range(len(data.participants))]
    )
    for rows in groups:
        if not rows.size:
            continue
        state = np.column_stack([np.ones(rows.size), data.state[rows]])
        design = np.hstack(
            [state, *(state * (data.action[rows] == code)[:, None] for code in range(1, len(data.action_names)))]
        )
        counts = np.sqrt(weights[rows])  # What is forgotten has less influence.
        left, values, _ = np.linalg.svd(design * counts[:, None], full_matrices=False)
        left = left[:, values > 1e-10 * values[0]]
        reward = data.reward[rows] * counts
        residual = reward - left @ (left.T @ reward)
        leverage = np.minimum((left**2).sum(axis=1), 1 - 1e-9)
        distances[rows] = residual**2 * leverage / (1 - leverage) ** 2 + leverage
    return distances


def find_influences(
    study: Study,
    logs: StudyLogs,
    method: Method,
    policies: Policies,
    own: Influences | None,
    allowed: float,
    label: Callable[[int], str],
) -> list[Influence]:
    """The influence of the most influential rows and, where participants share a policy, participants.

    `own` are the influences of participants and rows on a shared policy, `label` names a row of the input. Changes that are
    estimated far below `allowed` are not refitted.
    """
    if not policies.serves_anybody:
        return _find_own_influences(study, logs, method, policies, label)
    data = logs.logs
    closed = _estimate_changes(method, own)
    few = int(method.used_.sum()) < FEW_ROWS
    orders = [] if closed is None else [closed]
    orders += [_sum_distances(method)] if few or closed is None else []
    near = NEAR * allowed if len(orders) == 1 and closed is not None else -np.inf
    count = 2 * CANDIDATES if few else CANDIDATES
    influences = []
    for row in _list_largest([rows for rows, _ in orders], count):
        name = label(int(logs.row[row]))
        others = np.arange(len(data)) != row
        influences.append(_measure(study, logs, policies, name, orders[0][0][row], near, others))
    if len(data.participants) > CANDIDATES:
        for number in _list_largest([people for _, people in orders], count):
            name = f"participant {data.participants[number]}"
            others = data.participant_index != number
            influences.append(_measure(study, logs, policies, name, orders[0][1][number], near, others))
    return influences


def _list_largest(orders: Sequence[Floats], count: int) -> list[int]:
    """Places of the largest by any of the orders, without those that are not known."""
    places: dict[int, None] = {}
    for changes in orders:
        known = np.where(np.isnan(changes), -1.0, changes)
        # Only the largest need an order.
        candidates = np.argpartition(known, -min(count, len(known)))[-count:]
        largest = candidates[np.argsort(known[candidates], kind="stable")[::-1]]
        places |= {int(row): None for row in largest if not np.isnan(changes[row])}
    return list(places)


def _measure(
    study: Study,
    logs: StudyLogs,
    policies: Policies,
    name: str,
    estimate: float,
    near: float,
    kept: NDArray[np.bool_],
) -> Influence:
    """The influence of what is not kept: estimated, and refitted where the estimate is above `near`."""
    if estimate <= near:
        return Influence(name, float(estimate), refitted=False)
    return Influence(name, compare_policies(study, logs, policies, _refit(study, logs.logs[kept])))


def _refit(study: Study, some: Trajectories) -> Policies | None:
    """The policy without what is left out; None where nothing is left to learn from."""
    if not some.usable.any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # That too little is left is what the comparison shows.
        refitted: Policies = study.method().fit_some(some).policies_
        return refitted


def _decide_in_warm_up(study: Study) -> Floats:
    """The probabilities before there is a policy."""
    return np.array(fixed_probabilities(study, (study.trial or TrialSection()).warm_up_probability))


def _sum_distances(method: Method) -> tuple[Floats, Floats]:
    """Cook's distance of every row, and the sum of each participant's."""
    logs = method.logs_
    rows = cook_distances(logs, np.nan_to_num(method.weights_), pooled=method.policies_.participants is None)
    return rows, np.bincount(logs.participant_index, np.nan_to_num(rows), len(logs.participants)).astype(np.float64)


def _estimate_changes(method: Method, own: Influences | None) -> tuple[Floats, Floats] | None:
    """About the largest mean change of a probability without each row, and without each participant.

    A logit that moves by δ moves a probability by at most |δ| / 4 (two actions) or |δ| / 2; the mean of |δ| is at most its
    root mean square, √(Δθᵀ Σ Δθ). None where there is no closed form.
    """
    logs = method.logs_
    if own is None or own.policy is None or own.rows is None:
        return None
    used, moves = own.rows
    seen = policy_features(logs.state[used] * method.policy_sees_)
    metric = seen.T @ seen / len(used)
    steepest = 4 if logs.actions == 2 else 2
    rows, people = (np.full(size, np.nan) for size in (len(logs), len(logs.participants)))
    rows[used] = _size(moves, metric) / steepest
    people[np.unique(logs.participant_index[used])] = _size(own.policy, metric) / steepest
    return rows, people


def _size(moves: Floats, metric: Floats) -> Floats:
    """√(Σ_a Δθ_aᵀ Σ Δθ_a) of every row; what cannot be told counts as beyond any limit."""
    steps = moves.reshape(len(moves), -1, len(metric))
    return np.asarray(np.nan_to_num(np.sqrt(((steps @ metric) * steps).sum(axis=(1, 2))), nan=np.inf))


def _find_own_influences(
    study: Study, logs: StudyLogs, method: Method, policies: Policies, label: Callable[[int], str]
) -> list[Influence]:
    """The influence of rows where everybody has a policy of their own: each of the candidates refitted, all at once."""
    data = logs.logs
    distances = cook_distances(data, np.nan_to_num(method.weights_), pooled=False)
    distances[~policies.covers(data.participant)] = np.nan
    candidates = _list_largest([distances], CANDIDATES)
    if not candidates:
        return []
    of_participant = [np.flatnonzero(data.participant_index == data.participant_index[row]) for row in candidates]
    left = [rows[rows != row] for rows, row in zip(of_participant, candidates, strict=True)]
    chosen = np.concatenate(left)
    index = np.repeat(np.arange(len(left)), [len(rows) for rows in left])
    columns = ("time", "state", "available", "action", "probability", "reward")
    values = {name: getattr(data, name)[chosen] for name in columns}
    without = _refit(study, replace(data, participants=np.arange(len(left)), participant_index=index, **values))
    influences = []
    for number, (row, rows) in enumerate(zip(candidates, of_participant, strict=True)):
        states = data.state[rows[data.available[rows] & ~np.isnan(data.state[rows]).any(axis=1)]]
        before = study.clip_probabilities(policies[data.participant[row]].rule.probabilities(states))
        if without is None:
            after = _decide_in_warm_up(study)
        else:
            after = study.clip_probabilities(without.rule[number].probabilities(states))
        influences.append(Influence(label(int(logs.row[row])), float(np.abs(before - after).max(axis=1).mean())))
    return influences


def compare_policies(study: Study, logs: StudyLogs, policies: Policies, without: Policies | None) -> float:
    """The mean change of the probabilities; with a policy for each participant, of the one who changes most.

    Without any policy (None) the warm-up decides.
    """
    data = logs.logs
    chosen = data.available & ~np.isnan(data.state).any(axis=1)
    for compared in (policies, without):
        if compared is not None:
            chosen &= compared.covers(data.participant)  # Somebody new may not have a policy yet.
    if not chosen.any():
        return 0.0
    people = data.participant[chosen]
    states = data.state[chosen]
    before = study.clip_probabilities(policies.probabilities(people, states))
    later = None if without is None else study.clip_probabilities(without.probabilities(people, states))
    after = _decide_in_warm_up(study) if later is None else later
    moved = np.abs(before - after).max(axis=1)
    if policies.participants is None:
        return float(moved.mean())
    totals, counts = (np.bincount(data.participant_index[chosen], values) for values in (moved, np.ones(len(moved))))
    return float((totals / np.maximum(counts, 1)).max())
