"""Standard errors of a policy's coefficients in closed form: what an update compares with the one before."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from surefoot.inference.intervals import mean_interval
from surefoot.inference.sandwich import compute_influences
from surefoot.learning.methods import Method

log = logging.getLogger("surefoot.trial_rules")


def estimate_errors(method: Method) -> list[dict[str, Any]]:
    """Action, feature, value and standard error of every coefficient of the policy; empty where it has none.

    Of one policy for everybody by the sandwich clustered by participant, however few there are; of a policy for each
    participant the mean over people, with the error of a mean. They are half a 95 % interval over 1.96: with Student's t,
    larger where people are few. An error that cannot be had is None.
    """
    try:
        return _estimate(method)
    except Exception as error:
        # A policy is worth having without them.
        log.error("the standard errors failed with %s", type(error).__name__)
        return []


def _estimate(method: Method) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part, names, values, sees in method.coefficient_parts_:
        if part != "policy":
            continue
        logs = method.logs_
        seen = {"intercept", *(name for name, there in zip(logs.state_names, sees, strict=True) if there)}
        if method.pooled_:
            found, half = values[0], compute_influences(method, analytic=True).half_width(part)
        else:
            present = np.unique(logs.participant_index[logs.usable])
            means = [mean_interval(values[present, place]) for place in range(values.shape[1])]
            found, half = np.array([one.value for one in means]), np.array([one.high - one.value for one in means])
        for place, (action, feature) in enumerate(names):
            if feature in seen:
                error = float(half[place]) / 1.96 if np.isfinite(half[place]) else None
                row = {"action": action, "feature": feature, "value": float(found[place]), "standard_error": error}
                rows.append(row)
    return rows
