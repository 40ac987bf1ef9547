"""Checks of what went into the fit.

Every limit is beside its check; docs/audit.md says why it is where it is.
"""

from __future__ import annotations

import numpy as np

from surefoot.audit.measures import Measures
from surefoot.audit.verdicts import Check
from surefoot.data.suspect_columns import find_suspicions
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


def check_columns(measures: Measures) -> Check:
    """Whether a state variable was known only afterwards, or a column holds a code for missing values."""
    scaling = None if measures.study is None else measures.study.scaling
    found = find_suspicions(measures.fitted.logs_, scaling=scaling, raw_reward=measures.raw_reward)
    if not found:
        return Check("suspect columns", "fine", "no column gives the action or the reward away or repeats a lonely value")
    verdict = "unsafe" if any(one.leaks for one in found) else "look"
    reason = "; ".join(f"{one.column} {one.what}" for one in found)
    remedy = "; ".join(dict.fromkeys(one.remedy for one in found))
    return Check("suspect columns", verdict, reason, remedy, {"columns": [one.column for one in found]})
