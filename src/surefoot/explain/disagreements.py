"""Where a policy moves against the effect that its critic expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.explain.coefficients import Coefficient, Coefficients
from surefoot.explain.response import Curve
from surefoot.inference.intervals import Interval


@dataclass(frozen=True)
class Disagreement:
    """A feature whose effect surely has one sign while the policy answers to it with the other.

    Attributes
    ----------
    action
        Its name.
    feature
        Its name.
    effect
        What the critic expects the action to gain more per unit of the feature.
    before
        The probability of the action where the feature is low.
    after
        The probability of the action as the feature grows.
    """

    action: str
    feature: str
    effect: Interval
    before: float
    after: float


def find_disagreements(
    coefficients: Coefficients, curves: tuple[Curve, ...], action_names: tuple[str, ...]
) -> tuple[Disagreement, ...]:
    """Effects whose interval excludes zero, and whose sign is not that of the policy's coefficient (or, without one, of
    what the policy does)."""
    rows = {(row.part, row.action, row.feature): row for row in coefficients.rows}
    found = []
    for (part, action, feature), effect in rows.items():
        if part != "critic" or action == action_names[0] or not effect.interval.excludes_zero:
            continue
        before, after = _follow_feature(feature, curves, action_names.index(action))
        own = rows.get(("policy", action, feature))
        if _direction(own, after - before) * effect.interval.value < 0:
            found.append(Disagreement(action, feature, effect.interval, before, after))
    return tuple(found)


def _direction(own: Coefficient | None, change: float) -> float:
    return own.interval.value if own is not None else 0.0 if np.isnan(change) else change


def _follow_feature(feature: str, curves: tuple[Curve, ...], code: int) -> tuple[float, float]:
    """The probability of an action at the ends of a variable, or at the reference and the level of a category."""
    for curve in curves:
        at = curve.probability[:, code]
        if curve.variable == feature:
            return float(at[0]), float(at[-1])
        for place, setting in enumerate(curve.settings):
            if f"{curve.variable}={setting.label}" == feature and not any(curve.settings[0].columns):
                return float(at[0]), float(at[place])
    return np.nan, np.nan
