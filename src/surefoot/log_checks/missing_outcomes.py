"""Whether outcomes go missing more often after one action than after another.

Effects compare the outcomes that are there. Where an action decides which ones are, they compare different moments.
"""

from __future__ import annotations

import numpy as np

from surefoot.log_checks.check import Check, find_worst
from surefoot.log_checks.shares_by_action import ShareDifference, compare_shares
from surefoot.reports.numbers import format_percent
from surefoot.study import Study, StudyLogs

UNSAFE_DIFFERENCE = 0.05
"""Five in a hundred outcomes more missing after one action can move an effect as much as the prompt does."""
LOOK_DIFFERENCE = 0.01
"""One in a hundred is too little to move an effect."""
SURE = 0.001
"""The p-value below which a difference is not chance: every update and every analysis looks."""


def check_missing_outcomes(read: StudyLogs, study: Study | None) -> Check:
    """Compare the share of missing outcomes after each action with the share after nothing."""
    logs = read.logs
    missing = np.isnan(logs.reward)
    nothing = logs.available & (logs.action == 0)
    shares = {
        name: float(missing[rows].mean())
        for code, name in enumerate(logs.action_names)
        if (rows := logs.available & (logs.action == code)).any()
    }
    words = ", ".join(f"{format_percent(share)} after '{name}'" for name, share in shares.items())
    reason = f"outcomes are missing: {words}" if missing[logs.available].any() else "no outcome is missing"
    differences = {}
    verdicts = ["fine"]
    for code, name in enumerate(logs.action_names[1:], start=1):
        treated = logs.available & (logs.action == code)
        if not (nothing.any() and treated.any() and (missing & (nothing | treated)).any()):
            continue
        differences[name] = compare_shares(logs, missing, treated, nothing)
        verdicts.append(_judge(differences[name]))
    verdict = find_worst(verdicts)
    numbers = {
        "shares": shares,
        "differences": {name: difference.interval._asdict() for name, difference in differences.items()},
    }
    if verdict == "fine":
        return Check("missing outcomes by action", verdict, reason, "", numbers)
    worst = max(differences, key=lambda name: abs(differences[name].interval.value))
    reason += f" (difference {differences[worst].describe()})"
    if study is not None and study.effects.missing_as is not None:
        reason += "; [effects] missing_as gives a missing outcome a value, so that effects rest on that value"
        verdict = "look"
    remedy = (
        "find out why, and make recording independent of the prompt; until then do not rely on effects, values or "
        "policies: they compare different moments after different actions"
    )
    return Check("missing outcomes by action", verdict, reason, remedy, numbers)


def _judge(difference: ShareDifference) -> str:
    size = abs(difference.interval.value)
    sure = difference.p_value < SURE
    if size >= UNSAFE_DIFFERENCE and sure:
        return "unsafe"
    return "look" if size >= LOOK_DIFFERENCE and (difference.interval.excludes_zero or sure) else "fine"
