"""Checks of what went into the fit.

Every limit is beside its check; docs/audit.md says why it is where it is.
"""

from __future__ import annotations

import numpy as np

from surefoot.audit.measures import Measures
from surefoot.log_checks.check import Check
from surefoot.reports.numbers import format_percent

MISSING_LOOK, MISSING_UNSAFE = 0.10, 0.40
"""Share of available decision points that no fit can use."""


def check_missing(measures: Measures) -> Check:
    """Whether so much is missing that the reason for it matters."""
    logs, people = measures.fitted.logs_, len(measures.fitted.logs_.participants)
    unusable = logs.available & ~measures.used
    share = float(unusable.sum() / max(logs.available.sum(), 1))
    empty = int((measures.total(measures.used) == 0).sum())
    verdict = "unsafe" if share > MISSING_UNSAFE else "look" if share > MISSING_LOOK or empty else "fine"
    gaps = {name: int((logs.available & np.isnan(logs.state[:, j])).sum()) for j, name in enumerate(logs.state_names)}
    gaps[logs.names.reward] = int((logs.available & np.isnan(logs.reward)).sum())
    most = max(gaps, key=lambda name: gaps[name])
    reason = f"{format_percent(share)} of {int(logs.available.sum())} available decision points have a missing value"
    if share > 0:
        reason += f", most often '{most}' ({gaps[most]})"
    if empty:
        reason += f"; {empty} of {people} people have no usable decision point"
    remedy = f"find out why '{most}' is missing; a variable that is often missing is better left out of the state"
    return Check("missing values", verdict, reason, remedy if verdict != "fine" else "", {"share": share, "by_column": gaps})
