"""Intervals of a policy's coefficients, computed with the policy and kept with its update."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from surefoot.explain.coefficients import estimate_coefficients
from surefoot.learning.methods import Method

DRAWS = 100
log = logging.getLogger("surefoot.service")


def coefficient_intervals(method: Method) -> dict[str, Any]:
    """The policy's coefficients with 95 % intervals and where these come from; empty where they cannot be had."""
    try:
        estimates = estimate_coefficients(method, draws=DRAWS, seed=0)
    except Exception as error:
        # A policy is worth having without them.
        log.error("the intervals failed with %s", type(error).__name__)
        return {}
    rows = [_row(row) for row in estimates.rows if row.part == "policy"]
    return {"rows": rows, "how": estimates.how} if rows else {}


def _row(one: Any) -> dict[str, Any]:
    ends = [float(end) if np.isfinite(end) else None for end in (one.interval.low, one.interval.high)]
    note = "" if one.people_above is None else f"own interval above 0: {one.people_above} people, below: {one.people_below}"
    value = float(one.interval.value)
    return {"action": one.action, "feature": one.feature, "value": value, "low": ends[0], "high": ends[1], "note": note}
