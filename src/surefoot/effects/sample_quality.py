"""What stands beside every effect: what is missing or extreme under each action, and how much of the sample speaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.estimators import estimate_wcls, least_squares
from surefoot.effects.terms import INTERCEPT
from surefoot.effects.trial_rows import TrialRows
from surefoot.errors import InputError
from surefoot.inference.intervals import Interval, t_interval

TAIL = 3.0
"""An outcome is extreme beyond this many robust standard deviations (1.4826 MAD) of a fit that does not know the action."""
NORMAL_MAD = 1.4826


@dataclass(frozen=True)
class ShareByAction:
    """How often something happens under each action, and the excursion effect of treatment on it."""

    rows: dict[str, int]
    """Of each action: how many there are."""
    happened: dict[str, int]
    effect: Interval | None
    """First treatment against nothing; None where it never or always happens."""

    @property
    def shares(self) -> dict[str, float]:
        return {action: self.happened[action] / rows if rows else np.nan for action, rows in self.rows.items()}


@dataclass(frozen=True)
class SampleQuality:
    """Counts and shares that a reader needs before believing an effect."""

    rows: int
    counted: int
    people: int
    people_counted: int
    reasons: dict[str, int]
    """Why the other rows did not count."""
    missing: ShareByAction
    tail: ShareByAction | None
    """None for outcomes that are 0 or 1."""
    effective_share: float
    """(Σw)²/(n Σw²): as many rows, with equal weights, would tell as much."""


def assess_sample(points: TrialRows) -> SampleQuality:
    """Counts, missing outcomes, extreme outcomes and effective share."""
    possible = points.available & points.later & (points.future > 0)
    counted = points.counted_only
    weight = counted.weight
    return SampleQuality(
        rows=len(points),
        counted=len(counted),
        people=len(points.order.participants),
        people_counted=len(np.unique(counted.person)),
        reasons={name: int(applies.sum()) for name, applies in points.reasons.items()},
        missing=_share(points, possible, ~points.observed),
        tail=_tail(points) if len(np.unique(counted.outcome[:1000])) > 2 else None,
        effective_share=float(weight.sum() ** 2 / (len(weight) * (weight**2).sum())),
    )


def _share(points: TrialRows, among: NDArray[np.bool_], happened: NDArray[np.bool_]) -> ShareByAction:
    codes = range(len(points.action_names))
    rows = {points.action_names[k]: int((among & (points.action == k)).sum()) for k in codes}
    count = {points.action_names[k]: int((among & happened & (points.action == k)).sum()) for k in codes}
    return ShareByAction(rows, count, _effect_on(points, np.where(among, happened.astype(np.float64), np.nan)))


def _effect_on(points: TrialRows, outcome: NDArray[np.float64]) -> Interval | None:
    """The average excursion effect on another outcome of the same rows; None where it does not vary."""
    alone = np.ones((1, len(points)))
    other = replace(points, outcome=outcome, moderators=alone, moderator_names=(INTERCEPT,))
    if np.ptp(other.counted_only.outcome) == 0:
        return None
    try:
        found = estimate_wcls(other)
    except InputError:  # Too few participants have a complete row.
        return None
    first = found.controls
    return t_interval(found.root.theta[first], np.sqrt(found.root.corrected[first, first]), found.degrees)


def _tail(points: TrialRows) -> ShareByAction:
    rows = points.counted_only
    blind = least_squares(rows.controls, rows.outcome)
    residual = rows.outcome - blind @ rows.controls
    distance = np.abs(residual - np.median(residual))
    spread = NORMAL_MAD * np.median(distance)
    return _share(rows, np.ones(len(rows), dtype=bool), distance > TAIL * spread)
