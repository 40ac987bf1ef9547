"""The sample behind an effect: missing and extreme outcomes under each action, and the effective share of the rows."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.analysis import INTERCEPT
from surefoot.effects.estimators import estimate_wcls, fit_least_squares
from surefoot.effects.excursion_batch import ExcursionBatch
from surefoot.errors import InputError
from surefoot.inference.intervals import Interval, t_interval
from surefoot.numerics.masked_quantiles import MAD_TO_STANDARD_DEVIATION
from surefoot.reports.numbers import format_interval, format_number

TAIL = 3.0
"""An outcome is extreme beyond this many robust standard deviations (1.4826 MAD) of a fit that does not know the action."""


@dataclass(frozen=True)
class ShareByAction:
    """How often something happens under each action, and the excursion effect of treatment on it."""

    rows: dict[str, int]
    happened: dict[str, int]
    effect: Interval | None
    """First treatment against nothing; None where it never or always happens."""

    @property
    def shares(self) -> dict[str, float]:
        return {action: self.happened[action] / rows if rows else np.nan for action, rows in self.rows.items()}

    def __str__(self) -> str:
        by_action = ", ".join(f"{100 * share:.1f} % under {action}" for action, share in self.shares.items())
        if self.effect is None:
            return by_action
        return f"{by_action}; effect of treatment {format_number(self.effect.value)} ({format_interval(self.effect)})"


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
    """(Σw)²/(n Σw²): the share of rows that, with equal weights, would be as informative."""

    def describe(self) -> list[str]:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        lines = [
            f"Counted: {self.counted:,} of {self.rows:,} rows" + (f" ({reasons})" if reasons else "")
            + f", {self.people_counted} of {self.people} participants.",
            f"Missing outcomes: {self.missing}.",
        ]  # fmt: skip
        if self.tail is not None:
            lines.append(f"Extreme outcomes (beyond {TAIL:g} robust standard deviations): {self.tail}.")
        return [*lines, f"Effective share of the sample: {100 * self.effective_share:.0f} %."]


def assess_sample(batch: ExcursionBatch) -> SampleQuality:
    """Count rows, missing outcomes and extreme outcomes."""
    possible = batch.available & batch.later & (batch.future > 0)
    counted = batch.counted_only
    weight = counted.weight
    tail = None
    if len(np.unique(counted.outcome[:1000])) > 2:
        residual = counted.outcome - fit_least_squares(counted.controls, counted.outcome) @ counted.controls
        distance = np.abs(residual - np.median(residual))
        extreme = distance > TAIL * MAD_TO_STANDARD_DEVIATION * np.median(distance)
        tail = _count_by_action(counted, np.ones(len(counted), dtype=bool), extreme)
    return SampleQuality(
        rows=len(batch),
        counted=len(counted),
        people=len(batch.order.participants),
        people_counted=len(np.unique(counted.person)),
        reasons={name: int(applies.sum()) for name, applies in batch.reasons.items()},
        missing=_count_by_action(batch, possible, ~batch.observed),
        tail=tail,
        effective_share=float(weight.sum() ** 2 / (len(weight) * (weight**2).sum())),
    )


def _count_by_action(batch: ExcursionBatch, among: NDArray[np.bool_], happened: NDArray[np.bool_]) -> ShareByAction:
    actions = list(enumerate(batch.action_names))
    rows = {name: int((among & (batch.action == code)).sum()) for code, name in actions}
    count = {name: int((among & happened & (batch.action == code)).sum()) for code, name in actions}
    outcome = np.where(among, happened.astype(np.float64), np.nan)
    average = np.ones((1, len(batch)))
    other = replace(batch, outcome=outcome, moderators=average, moderator_names=(INTERCEPT,))
    effect = None
    if np.ptp(other.counted_only.outcome) > 0:
        try:
            estimate = estimate_wcls(other)
        except InputError:  # Too few participants have a complete row.
            return ShareByAction(rows, count, None)
        first = estimate.controls
        error = np.sqrt(estimate.corrected[first, first])
        effect = t_interval(estimate.theta[first], error, estimate.degrees)
    return ShareByAction(rows, count, effect)
