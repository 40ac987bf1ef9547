"""What a simulated pilot is compared with the real one by: numbers of many studies at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PilotRecords:
    """Studies side by side: arrays (studies, people, decision points), NaN where missing or beyond the end."""

    present: Marks
    available: Marks
    reward: Floats
    states: Mapping[str, Floats]
    """By column."""
    artefacts: Mapping[str, Marks]
    slot: NDArray[np.int64]
    zero: float
    """The reward of an outcome of 0."""

    @property
    def lost(self) -> Marks:
        return self.present & np.isnan(self.reward)


@dataclass(frozen=True)
class Statistic:
    """One number of a study, and how far off it may be without mattering."""

    name: str
    compute: Callable[[PilotRecords], Floats]
    """(studies,)."""
    tolerance: float
    relative: bool = True
    """Whether the tolerance is a share of the observed number."""


def mean(values: Floats) -> Floats:
    """Over all decision points, (studies,); NaN where there is none."""
    known = ~np.isnan(values)
    count = known.sum(axis=(1, 2))
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=(1, 2)) / np.maximum(count, 1), np.nan)


def spread_within(values: Floats) -> Floats:
    """√ of the mean variance within people."""
    return np.asarray(np.sqrt(mean((values - _own_mean(values)) ** 2)))


def spread_between(values: Floats) -> Floats:
    """Standard deviation of people's means."""
    own = _own_mean(values)
    away = own - mean(own)[:, None, None]
    count = (~np.isnan(own)).sum(axis=(1, 2))
    return np.asarray(np.sqrt(mean(away**2) * count / np.maximum(count - 1, 1)))


def autocorrelation(values: Floats) -> Floats:
    """Of deviations from people's means, from one decision point to the next."""
    away = values - _own_mean(values)
    before, after = away[..., :-1], away[..., 1:]
    both = ~np.isnan(before) & ~np.isnan(after)
    product, first, second = (np.where(both, part, 0.0).sum(axis=(1, 2)) for part in (before * after, before**2, after**2))
    return np.asarray(product / np.maximum(np.sqrt(first * second), 1e-300))


def time_of_day(values: Floats, slot: NDArray[np.int64]) -> Floats:
    """Standard deviation of the means of the day's decision points."""
    means = np.array([mean(np.where(slot == one, values, np.nan)) for one in range(int(slot.max()) + 1)])
    return np.asarray(np.sqrt(mean(((means - means.mean(axis=0)) ** 2).T[:, None])))


def trend(values: Floats) -> Floats:
    """The mean of the last third of the decision points less that of the first."""
    third = max(1, values.shape[-1] // 3)
    return mean(values[..., -third:]) - mean(values[..., :third])


def share(marks: Marks, among: Marks) -> Floats:
    """Of decision points."""
    return np.asarray((marks & among).sum(axis=(1, 2)) / np.maximum(among.sum(axis=(1, 2)), 1))


def run_length(marks: Marks) -> Floats:
    """The mean length of runs; 0 without any."""
    begins = marks.copy()
    begins[..., 1:] &= ~marks[..., :-1]
    return np.asarray(marks.sum(axis=(1, 2)) / np.maximum(begins.sum(axis=(1, 2)), 1))


def _own_mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    count = known.sum(axis=-1, keepdims=True)
    return np.where(count > 1, np.where(known, values, 0.0).sum(axis=-1, keepdims=True) / np.maximum(count, 1), np.nan)


def list_statistics(pilot: PilotRecords, per_day: int) -> list[Statistic]:
    """Those that say something about this pilot."""
    found = _of_outcome(pilot, per_day)
    for name in pilot.states:
        found += _of_state(name, pilot)
    if not pilot.available[pilot.present].all():
        found += [
            Statistic("availability: share", lambda one: share(one.available, one.present), 0.02, relative=False),
            Statistic("availability: length of gaps", lambda one: run_length(one.present & ~one.available), 0.15),
        ]
    found.append(Statistic("complete decision points: share", _complete, 0.03, relative=False))
    for name in pilot.artefacts:
        found += _of_artefact(name)
    return found


def _of_artefact(name: str) -> list[Statistic]:
    return [
        Statistic(f"{name}: share", lambda one: share(one.artefacts[name], one.present), 0.02, relative=False),
        Statistic(f"{name}: length of runs", lambda one: run_length(one.artefacts[name]), 0.25),
    ]


def _of_outcome(pilot: PilotRecords, per_day: int) -> list[Statistic]:
    whole = float(np.nanstd(pilot.reward))
    found = [
        Statistic("outcome: mean", lambda one: mean(one.reward), 0.05 * whole, relative=False),
        Statistic("outcome: spread within people", lambda one: spread_within(one.reward), 0.1),
        Statistic("outcome: spread between people", lambda one: spread_between(one.reward), 0.2),
        Statistic("outcome: autocorrelation", lambda one: autocorrelation(one.reward), 0.05, relative=False),
        Statistic("outcome: change over the study", lambda one: trend(one.reward), 0.1 * whole, relative=False),
    ]
    if (pilot.reward == pilot.zero).any():
        zeros = Statistic(
            "outcome: zeros", lambda one: share(one.reward == one.zero, ~np.isnan(one.reward)), 0.02, relative=False
        )
        found.insert(1, zeros)
    if per_day > 1:
        shown = Statistic(
            "outcome: time of day", lambda one: time_of_day(one.reward, one.slot), 0.05 * whole, relative=False
        )
        found.append(shown)
    if pilot.lost.any():
        found += [
            Statistic("outcome: missing", lambda one: share(one.lost, one.present), 0.02, relative=False),
            Statistic("outcome: length of missing runs", lambda one: run_length(one.lost), 0.25),
        ]
    return found


def _of_state(name: str, pilot: PilotRecords) -> list[Statistic]:
    whole = float(np.nanstd(pilot.states[name]))
    if not whole > 0:
        return []

    def values(one: PilotRecords) -> Floats:
        return one.states[name]

    def missing(one: PilotRecords) -> Marks:
        return one.present & np.isnan(values(one))

    found = [
        Statistic(f"{name}: mean", lambda one: mean(values(one)), 0.1 * whole, relative=False),
        Statistic(f"{name}: spread within people", lambda one: spread_within(values(one)), 0.1),
        Statistic(f"{name}: spread between people", lambda one: spread_between(values(one)), 0.1 * whole, relative=False),
        Statistic(f"{name}: autocorrelation", lambda one: autocorrelation(values(one)), 0.1, relative=False),
    ]
    if missing(pilot).any():
        found += [
            Statistic(f"{name}: missing", lambda one: share(missing(one), one.present), 0.02, relative=False),
            Statistic(f"{name}: length of missing runs", lambda one: run_length(missing(one)), 0.25),
        ]
    return found


def _complete(one: PilotRecords) -> Floats:
    whole = one.present & ~np.isnan(one.reward)
    for values in one.states.values():
        whole = whole & ~np.isnan(values)
    return share(whole, one.present)
