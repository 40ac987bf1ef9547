"""How much of a new policy hangs on one decision point, or on one participant: refitted without those that matter most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs

CANDIDATES = 3
"""Decision points, and participants, that are left out in turn."""


@dataclass(frozen=True)
class Influence:
    """What leaving something out would change."""

    what: str
    """Which decision point, or which participant."""
    change: float
    """Mean change of the probabilities; with a policy for each participant, of the one who changes most."""


def cook_distances(logs: StudyLogs, weights: NDArray[np.float64], *, pooled: bool) -> NDArray[np.float64]:
    """Cook's distance rᵢ² hᵢ / (1 − hᵢ)² of every row in a least-squares fit of the reward on [1, s] × [1, actions].

    NaN where a row was not used, or was removed as an outlier. Only an order of candidates: what is reported is refitted.
    """
    data = logs.logs
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
        left, values, _ = np.linalg.svd(design, full_matrices=False)
        left = left[:, values > 1e-10 * values[0]]
        reward = data.reward[rows]
        residual = reward - left @ (left.T @ reward)
        leverage = np.minimum((left**2).sum(axis=1), 1 - 1e-9)
        distances[rows] = residual**2 * leverage / (1 - leverage) ** 2 + leverage
    return distances


def find_influences(
    study: Study,
    logs: StudyLogs,
    weights: NDArray[np.float64],
    policies: Policies,
    refit: Callable[[NDArray[np.bool_]], Policies],
    label: Callable[[int], str],
) -> list[Influence]:
    """The influence of the most influential rows and, where participants share a policy, participants.

    `refit` fits to some of the rows; `label` names a row of the input.
    """
    distances = cook_distances(logs, weights, pooled=policies.participants is None)
    order = np.argsort(np.where(np.isnan(distances), -1.0, distances))[::-1][:CANDIDATES]
    influences = []
    for place in order[~np.isnan(distances[order])]:
        without = refit(np.arange(len(logs.row)) != place)
        influences.append(Influence(label(int(logs.row[place])), _change(study, logs, policies, without)))
    if policies.serves_anybody and len(logs.logs.participants) > CANDIDATES:
        people = np.bincount(logs.logs.participant_index, np.nan_to_num(distances), minlength=len(logs.logs.participants))
        for number in np.argsort(people)[::-1][:CANDIDATES]:
            without = refit(logs.logs.participant_index != number)
            name = f"participant {logs.logs.participants[number]}"
            influences.append(Influence(name, _change(study, logs, policies, without)))
    return influences


def _change(study: Study, logs: StudyLogs, policies: Policies, without: Policies) -> float:
    data = logs.logs
    chosen = data.available & ~np.isnan(data.state).any(axis=1)
    for one in (policies, without):
        if one.participants is not None:
            chosen &= np.isin(data.participant, one.participants)
    if not chosen.any():
        return 0.0
    people, states = data.participant[chosen], data.state[chosen]
    before, after = (study.clip_probabilities(one.probabilities(people, states)) for one in (policies, without))
    moved = np.abs(before - after).max(axis=1)
    if policies.participants is None:
        return float(moved.mean())
    totals, counts = (np.bincount(data.participant_index[chosen], values) for values in (moved, np.ones(len(moved))))
    return float((totals / np.maximum(counts, 1)).max())
