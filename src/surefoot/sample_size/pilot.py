"""What a pilot says about the numbers that a sample size rests on, with intervals over people."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.inference.intervals import Interval, ratio_interval, sum_by_participant
from surefoot.log_checks import check_logs, list_warnings
from surefoot.reports.numbers import format_interval, format_value
from surefoot.reports.summaries import Overview, Shown, to_plain

if TYPE_CHECKING:
    from surefoot.study import Study, StudyLogs

CAUTIOUS = {"availability": "low", "baseline": "low", "sd": "high", "effect_sd": "high"}
"""The end of an interval that asks for more people."""

Floats = NDArray[np.float64]
EXACT = 1e-10  # Residuals smaller than this share of the largest outcome are rounding.


@dataclass(frozen=True, repr=False)
class Pilot(Shown):
    """Estimates from a pilot for a sample size, by the names of the arguments of `continuous` and `binary`."""

    people: int
    """Participants of the pilot."""
    decision_points: int
    """Rows that were used."""
    estimates: dict[str, Interval]
    """By the names of the arguments of `continuous` and `binary`."""
    warnings: tuple[str, ...] = ()
    """Why the pilot's logs may not be what they are said to be."""
    outcome: str = "the outcome"
    """What the outcome is counted in, as the study transforms it."""

    def _overview(self) -> Overview:
        rows = [[name, format_value(interval), format_interval(interval)] for name, interval in self.estimates.items()]
        heading = f"Pilot: {self.people:,} people, {self.decision_points:,} decision points"
        facts = {"outcome": self.outcome, "warnings": str(len(self.warnings))}
        return Overview(heading, facts, [["", "estimate", "95 % interval"], *rows])

    @property
    def values(self) -> dict[str, float]:
        return {name: interval.value for name, interval in self.estimates.items()}

    @property
    def cautious(self) -> dict[str, float]:
        """Of every interval the end that asks for more people."""
        ends = {name: float(getattr(interval, CAUTIOUS[name])) for name, interval in self.estimates.items()}
        return {name: self.estimates[name].value if np.isnan(end) else end for name, end in ends.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dict(to_plain(self))


def estimate_nuisance(study: "Study", read: "StudyLogs | Trajectories", *, binary: bool = False) -> Pilot:
    """Estimate from a pilot the quantities that a sample size needs in addition to the effect.

    Parameters
    ----------
    study
        Of the pilot; its `[effects]` names the controls.
    read
        The logs of the pilot, from `study.read` or as trajectories.
    binary
        Whether the outcome is 0 or 1.

    Returns
    -------
    Pilot
        Availability and, for a continuous outcome, its standard deviation given the controls and σ_b; for a binary one its
        probability without treatment.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> study = sf.Study.parse('[columns]\\nparticipant = "participant"\\ntime = "time"\\n[state.weather]\\n')
    >>> sorted(estimate_nuisance(study, logs).estimates)
    ['availability', 'effect_sd', 'sd']
    """
    logs = read if isinstance(read, Trajectories) else read.logs
    people = len(logs.participants)

    def find_ratio(top: Floats, bottom: Floats) -> Interval:
        return ratio_interval(*(sum_by_participant(logs.participant_index, people, values) for values in (top, bottom)))

    every = np.ones(len(logs))
    estimates = {"availability": find_ratio(logs.available.astype(np.float64), every)}
    controls = [column for name in study.effects.controls if name in study.state for column in study.state_columns[name]]
    design = np.column_stack([every, *(logs.state[:, logs.state_names.index(name)] for name in controls)])
    rows = logs.available & ~np.isnan(logs.outcome) & ~np.isnan(design).any(axis=1)
    if np.isnan(logs.probability[rows]).any():
        raise InputError("the pilot's randomisation probabilities are missing; log them, or state actions.probabilities")
    treated = logs.action > 0
    _check_rows(logs, rows, treated)
    logs.check_probabilities()
    if binary:
        if not np.isin(logs.outcome[rows], (0.0, 1.0)).all():
            raise InputError("the pilot's outcome is not 0 or 1 everywhere; choose a continuous outcome")
        weight = np.where(rows & ~treated, 1 / logs.probability, 0.0)
        estimates["baseline"] = find_ratio(weight * np.nan_to_num(logs.outcome), weight)
    else:
        probability = np.where(treated, logs.probability, 1 - logs.probability)
        centred = np.where(rows, treated - np.nan_to_num(probability), 0.0)
        features = np.column_stack([np.nan_to_num(design), centred]) * rows[:, None]
        outcome = np.where(rows, logs.outcome, 0.0)
        residual = outcome - features @ np.linalg.lstsq(features, outcome, rcond=None)[0]
        if np.abs(residual).max() <= EXACT * np.abs(outcome).max():
            raise InputError(
                "controls and treatment explain the pilot's outcome exactly, so it says nothing about the spread; give a "
                "longer pilot, or name fewer controls in [effects]"
            )
        estimates["sd"] = _take_root(find_ratio(residual**2 * rows, rows.astype(np.float64)))
        estimates["effect_sd"] = _take_root(_find_effect_variance(logs, centred, residual))
    warnings = tuple(list_warnings(check_logs(read, study)))
    return Pilot(people, len(logs), estimates, warnings, str(study.outcome_unit))


def _check_rows(logs: Trajectories, rows: NDArray[np.bool_], treated: NDArray[np.bool_]) -> None:
    """Refuse a pilot whose rows say nothing about the spread of outcomes or of effects."""
    people = len(np.unique(logs.participant_index[rows]))
    if people < 3:
        raise InputError(f"a pilot needs at least three participants with an outcome; this one has {people}")
    outcome = logs.outcome[rows]
    if np.ptp(outcome) == 0:
        raise InputError(
            f"the pilot's outcome is always {outcome[0]:g}, so its spread cannot be learned; name the column that "
            "varies as [outcome] column, or give the numbers yourself and leave --pilot out"
        )
    if len(np.unique(treated[rows])) < 2:
        happened = "at every" if treated[rows].any() else "at no"
        raise InputError(
            f"the pilot sent something {happened} decision point that counts, so nothing about the effect's spread can be "
            "learned; include decision points of both kinds"
        )


def _find_effect_variance(logs: Trajectories, centred: Floats, residual: Floats) -> Interval:
    """Of people's own effects, beyond their error."""
    index = logs.participant_index
    people = len(logs.participants)
    bottom = sum_by_participant(index, people, centred**2)
    seen = bottom > 0
    bottom = np.where(seen, bottom, 1.0)
    effects = sum_by_participant(index, people, centred * residual) / bottom
    errors = sum_by_participant(index, people, (centred * (residual - centred * effects[index])) ** 2) / bottom**2
    count = seen.sum()
    beyond = np.where(seen, (effects - effects[seen].mean()) ** 2 * count / (count - 1) - errors, 0.0)
    return ratio_interval(beyond, seen.astype(np.float64))


def _take_root(squared: Interval) -> Interval:
    """A standard deviation from a variance and its interval; what falls below 0 is 0."""
    value, low, high = (float(np.sqrt(max(end, 0.0))) for end in (squared.value, squared.low, squared.high))
    return Interval(value, squared.standard_error / (2 * value) if value > 0 else np.nan, low, high)
