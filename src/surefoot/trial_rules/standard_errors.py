"""Standard errors of a policy's coefficients in closed form: what an update compares with the one before."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.inference.intervals import mean_interval
from surefoot.inference.sandwich import Influences, compute_influences
from surefoot.learning.methods import Method


def find_shared_influences(method: Method) -> Influences | None:
    """Every participant's and row's influence on one policy for all, in closed form; None where there is none."""
    try:
        return compute_influences(method, analytic=True, with_rows=True) if method.pooled_ else None
    except (InputError, np.linalg.LinAlgError):
        # One participant, or a critic without coefficients: a policy is worth having without them.
        return None


def estimate_errors(method: Method, shared: Influences | None) -> list[dict[str, Any]]:
    """Action, feature, value and standard error of every coefficient of the policy; empty where it has none.

    Of one policy for everybody by the sandwich clustered by participant, however few there are; of a policy for each
    participant the mean over people, with the error of a mean. They are half a 95 % interval over 1.96: with Student's t,
    larger where people are few. An error that cannot be had is None.
    """
    part = next((part for part in method.coefficient_parts_ if part.part == "policy"), None)
    if part is None:
        return []
    logs = method.logs_
    seen = {"intercept", *(name for name, is_seen in zip(logs.state_names, part.sees, strict=True) if is_seen)}
    if not method.pooled_:
        present = np.unique(logs.participant_index[logs.usable])
        means = [mean_interval(column[present]) for column in part.values.T]
        coefficients = np.array([mean.value for mean in means])
        half = np.array([mean.high - mean.value for mean in means])
    elif shared is None or shared.policy is None:
        coefficients = part.values[0]
        half = np.full(part.values.shape[1], np.nan)
    else:
        coefficients = part.values[0]
        half = shared.half_width("policy")
    return [
        {"action": action, "feature": feature, "value": float(value), "standard_error": _finite(error / 1.96)}
        for (action, feature), value, error in zip(part.names, coefficients, half, strict=True)
        if feature in seen
    ]


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
