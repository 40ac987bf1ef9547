"""Policy drift: how far the policy moved from version to version, in its coefficients and in what it would send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from surefoot.policies.policies import Policies
from surefoot.service.dashboard import policy_views
from surefoot.service.dashboard.charts import ShownCoefficient
from surefoot.service.database.schema import decisions
from surefoot.service.trial.trial import Trial

LOOK_BACK = timedelta(days=28)
MOST_POINTS = 2000
"""Decision points of these days on which versions are compared, the newest."""
VERSIONS = 24
"""On one page."""
MOST_SETTINGS = 4
"""Levels of one category among the typical states."""


@dataclass(frozen=True)
class VersionDrift:
    """One version beside the one before it, on the same states."""

    id: int
    created_at: datetime
    live_since: datetime | None
    """When it last went live; None for one that never did."""
    is_live: bool
    accepted: bool
    problem: str
    """Why it cannot be compared; empty when it can."""
    send: tuple[float, float, float] | None
    """Mean probability of sending anything, and the probabilities that 10 % and 90 % of the decision points stay below."""
    moved: float | None
    """Mean absolute change of that probability from the version before."""
    typical: list[float]
    """Of every typical state, the mean over participants."""
    coefficients: list[ShownCoefficient]


@dataclass(frozen=True)
class Drift:
    """Versions, the oldest first, on the states of the last weeks."""

    versions: list[VersionDrift]
    points: int
    people: int
    typical: list[str]
    """Names of the typical states."""
    earlier: int | None
    """The oldest version shown, when there are older ones."""

    @property
    def terms(self) -> list[tuple[str, str]]:
        """(action, feature) of every coefficient that any version has."""
        return list(dict.fromkeys((row.action, row.feature) for version in self.versions for row in version.coefficients))


def find_drift(trial: Trial, at: datetime, before: int | None = None) -> Drift:
    """The newest versions, or those below a number."""
    entries = [policy for policy in policy_views.list_policies(trial) if before is None or policy["id"] < before]
    shown = list(reversed(entries[:VERSIONS]))
    people, states = _read_states(trial, at)
    labels, typical = _find_typical_states(trial, states)
    versions: list[VersionDrift] = []
    last: NDArray[np.float64] | None = None
    for entry in shown:
        version = trial.policies.read(entry["id"])
        made = None if version is None else version.policies
        usable = version is not None and trial.can_use(version)
        problem = "" if usable else "cannot be read" if version is None else "made for other variables or actions"
        send = None if made is None or not usable else _send_probabilities(trial, made, people, states)
        moved = None if send is None or last is None or not len(send) else float(np.abs(send - last).mean())
        settings = [] if made is None or not usable else _average_typical(trial, made, people, typical)
        rows, _ = policy_views.list_estimates(trial, entry["update_id"], made)
        live = entry["events"][-1]["activated_at"] if entry["events"] else None
        facts = (entry["id"], entry["created_at"], live, entry["live"], entry["accepted"], problem)
        versions.append(VersionDrift(*facts, _summarise(send), moved, settings, rows))
        last = send if send is not None else last
    has_earlier = len(entries) > len(shown)
    return Drift(versions, len(states), len(set(people.tolist())), labels, shown[0]["id"] if shown and has_earlier else None)


def _summarise(send: NDArray[np.float64] | None) -> tuple[float, float, float] | None:
    if send is None or not len(send):
        return None
    low, high = np.quantile(send, (0.1, 0.9))
    return float(send.mean()), float(low), float(high)


def _read_states(trial: Trial, at: datetime) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Participants and complete states of the available decision points of the last weeks."""
    wanted = (
        sa.select(decisions.c.participant_id, decisions.c.state)
        .where(decisions.c.available, decisions.c.salt.is_not(None), decisions.c.decided_at >= at - LOOK_BACK)
        .order_by(decisions.c.received_at.desc(), decisions.c.id)
        .limit(MOST_POINTS)
    )
    with trial.database.autocommit() as connection:
        rows = [(row.participant_id, json.loads(row.state)) for row in connection.execute(wanted)]
    width = len(trial.study.state_names)
    # A state recorded under an earlier study may be shorter.
    complete = [(participant, state) for participant, state in rows if len(state) == width and None not in state]
    people = np.array([participant for participant, _ in complete], dtype=str)
    return people, np.array([state for _, state in complete], dtype=np.float64).reshape(-1, width)


def _send_probabilities(
    trial: Trial, made: Policies, people: NDArray[Any], states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of sending anything, within the study's limits; the warm-up's for people whom the version has no rule for."""
    send = np.full(len(people), trial.settings.warm_up_probability)
    known = made.covers(people)
    if known.any():
        send[known] = 1 - trial.study.clip_probabilities(made.probabilities(people[known], states[known]))[:, 0]
    return send


def _find_typical_states(trial: Trial, states: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64]]:
    """The state nearest to the medians, and that state with one variable at a time put low, high, or to each level."""
    if not len(states):
        return [], states
    spread = np.maximum(states.std(axis=0), 1e-9)
    middle = states[np.abs((states - np.median(states, axis=0)) / spread).sum(axis=1).argmin()]
    labels = ["the middle of the logged states"]
    typical = [middle]
    names = trial.study.state_names
    for variable, settings in trial.study.state.items():
        places = [names.index(column) for column in trial.study.columns_of(variable)]
        listed = settings.variable_kind.list_settings(states[:, places])
        for setting in listed[:MOST_SETTINGS] if listed[0].label else (listed[0], listed[-1]):
            put = middle.copy()
            put[places] = setting.columns
            labels.append(f"{variable} {setting.label or format(setting.shown, '.3g').replace('-', '−')}")
            typical.append(put)
    return labels, np.array(typical)


def _average_typical(trial: Trial, made: Policies, people: NDArray[Any], typical: NDArray[np.float64]) -> list[float]:
    everybody = np.unique(people)
    return [
        float(_send_probabilities(trial, made, everybody, np.broadcast_to(state, (len(everybody), len(state)))).mean())
        for state in typical
    ]


def list_cells(drift: Drift) -> list[Sequence[Any]]:
    """A row for every coefficient of every version; one without any has a row too."""
    rows: list[Sequence[Any]] = []
    for version in drift.versions:
        facts = (
            version.id,
            version.created_at,
            version.live_since,
            version.accepted,
            version.problem,
            *(version.send or (None,) * 3),
            version.moved,
        )
        rows += [(*facts, row.action, row.feature, row.value, row.low, row.high) for row in version.coefficients]
        rows += [] if version.coefficients else [(*facts, *(None,) * 5)]
    return rows


COLUMNS = (
    *("version", "made at", "last went live at", "accepted", "problem", "mean probability of sending"),
    *("10 % stay below", "90 % stay below", "moved", "action", "feature", "coefficient", "low", "high"),
)
