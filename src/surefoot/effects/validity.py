"""What would make an excursion effect wrong in silence: refused, with the row and the remedy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.data.mean_weights import MeanWeights
from surefoot.effects.estimators import Estimator
from surefoot.effects.terms import INTERCEPT
from surefoot.effects.trial_rows import TrialRows
from surefoot.errors import InputError
from surefoot.inference.balance import FALSE_ALARMS, find_imbalances

CERTAIN = 1e-10
"""In standard deviations of the outcome: a standard error below this is rounding."""


def check_validity(points: TrialRows, estimator: Estimator) -> None:
    """Refuse what the estimator cannot answer."""
    counted = points.counted
    if not counted.any():
        why = ", ".join(f"{applies.sum()} {name}" for name, applies in points.reasons.items())
        raise InputError(f"no row counts ({why}); look at these columns first")
    arms = np.unique(points.action[counted])
    if len(arms) < len(points.action_names):
        absent = [name for code, name in enumerate(points.action_names) if code not in arms]
        raise InputError(f"no row with {absent} counts, so there is nothing to compare; include rows of every action")
    outcome, column = points.outcome, points.analysis.outcome
    if np.ptp(outcome[counted]) == 0:
        raise InputError(
            f"the outcome '{column}' is {outcome[counted][0]:g} in every row that counts, so there is no effect to "
            "estimate; check the column, its range and its missing values",
            column=column,
        )
    if estimator.binary:
        wrong = counted & ~np.isin(outcome, (0.0, 1.0))
        remedy = "a relative risk needs 0 or 1 (or choose the estimator 'wcls')"
        points.order.refuse(wrong, column, "the outcome is {:g}", remedy, outcome)
    if estimator.distal:
        _check_distal(points)
    _check_numerator(points.counted_only)


def check_uncertainty(points: TrialRows, errors: NDArray[np.float64]) -> None:
    """Refuse an effect without a standard error: participants who all show one effect say nothing about its spread."""
    counted = points.counted_only
    largest = np.tile(np.abs(counted.moderators).max(axis=1), len(counted.action_names) - 1)
    if not (errors * largest > CERTAIN * counted.outcome.std()).all():
        raise InputError(
            f"the {len(np.unique(counted.person))} participants that count show exactly the same effect, so its uncertainty "
            f"cannot be estimated; check the column '{counted.analysis.outcome}', or wait for more decision points"
        )


def _check_distal(points: TrialRows) -> None:
    if points.analysis.lag:
        raise InputError("a distal outcome has no lag; leave lag at 0")
    first = np.flatnonzero(np.diff(points.person, prepend=-1))
    values = points.outcome
    same = values == values[first][points.person]
    differs = ~(same | (np.isnan(values) & np.isnan(values[first][points.person])))
    remedy = "a distal outcome is one number for a participant, repeated on every row"
    points.order.refuse(differs, points.analysis.outcome, "{:g} differs from the participant's first row", remedy, values)


def _check_numerator(points: TrialRows) -> None:
    """Rows with the same moderators must have the same p̃: else the weights change what is estimated."""
    name = points.analysis.numerator
    if not isinstance(name, str):
        return
    rows = np.lexsort(points.moderators)
    same = (np.diff(points.moderators[:, rows]) == 0).all(axis=0)
    where = np.zeros(len(points), dtype=bool)
    where[rows[1:][same & (np.abs(np.diff(points.numerator[1, rows])) > 1e-9)]] = True
    among = [term for term in points.moderator_names if term != INTERCEPT]
    what = f"the numerator is {{:g}} where another row with the same moderators {among} has another value"
    remedy = "a numerator may depend on the moderators only: add what it depends on to them, or give a number"
    points.order.refuse(where, name, what, remedy, points.numerator[1])


def check_randomisation(points: TrialRows) -> None:
    """Refuse probabilities that were not used, and moderators or controls that follow the action."""
    rows = np.flatnonzero(points.available)
    action, person = points.action[rows], points.person[rows]
    probabilities = points.probabilities[:, rows]
    column = "', '".join(points.analysis.probability_columns) or "probability"
    reading = points.analysis.probability_of or "sending"
    names = points.action_names
    problem = MeanWeights.of_rows(action, probabilities.T, person, actions=names, given=reading, column=column).problem()
    if problem is not None:
        raise InputError(problem, column=column)
    variables = dict(zip(points.control_names, points.controls[:, rows], strict=True))
    variables |= dict(zip(points.moderator_names, points.moderators[:, rows], strict=True))
    for code in range(1, len(names)):
        # Where an action's probability is known only when it was taken, the other rows cannot be compared.
        if np.isnan(probabilities[code]).any():
            continue
        for imbalance in find_imbalances(action == code, probabilities[code], variables, person):
            if imbalance.is_unsafe:
                raise InputError(
                    f"'{imbalance.variable}' differs between rows with and without '{names[code]}' more than randomisation "
                    f"allows (p < {FALSE_ALARMS:g}): it is known only after the decision, or the probabilities are not "
                    "those that were used; name a variable that was known before, or give the probabilities that were used",
                    column=imbalance.variable,
                )
