"""What would make an excursion effect wrong in silence: refused, with the row and the remedy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from surefoot.effects.estimators import Estimator
from surefoot.effects.terms import INTERCEPT
from surefoot.effects.trial_rows import TrialRows
from surefoot.errors import InputError

AFTERWARDS = 1e-6
"""A variable that was known before a randomised decision differs between the arms by chance only; a p-value below this is
not chance."""

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
    _check_known_before(points.counted_only)


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


def _check_known_before(points: TrialRows) -> None:
    """What was there before a randomised decision cannot depend on it.

    For a variable m known before, the participants' sums of w (1{A = k} − p̃_k)(m − m̄) are 0 on average: a t test.
    """
    starts, weight = np.flatnonzero(np.diff(points.person, prepend=-1)), points.weight
    variables = dict(zip(points.control_names, points.controls, strict=True))
    variables |= dict(zip(points.moderator_names, points.moderators, strict=True))
    tests = max(len(variables) - 1, 1) * (len(points.action_names) - 1)
    for code in range(1, len(points.action_names)):
        pull = weight * ((points.action == code) - points.numerator[code])
        for name, values in variables.items():
            if np.ptp(values) == 0:
                continue
            sums = np.add.reduceat(pull * (values - values.mean()), starts)
            if tests * _t_test(sums) < AFTERWARDS:
                raise InputError(
                    f"'{name}' differs between treated and untreated rows more than randomisation allows "
                    f"(p < {AFTERWARDS:g}): it is known only after the decision, or the probabilities are not those that "
                    "were used; name a variable that was known before",
                    column=name,
                )


def _t_test(values: NDArray[np.float64]) -> float:
    """p-value of the mean being 0."""
    spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(2 * stdtr(len(values) - 1, -abs(values.mean()) / spread)) if spread > 0 else 1.0
