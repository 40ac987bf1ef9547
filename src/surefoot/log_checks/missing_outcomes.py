"""Whether outcomes go missing more often after one action than after another.

Effects compare the outcomes that are there. Where an action decides which ones are, they compare different moments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, difference_interval, sum_by_participant
from surefoot.log_checks.check import Check, find_worst
from surefoot.reports.numbers import format_interval, format_percent
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
        difference, p_value = _compare_shares(logs, missing, treated, nothing)
        differences[name] = difference
        verdicts.append(_judge(difference, p_value))
    verdict = find_worst(verdicts)
    numbers = {
        "shares": shares,
        "differences": {name: difference._asdict() for name, difference in differences.items()},
    }
    if verdict == "fine":
        return Check("missing outcomes by action", verdict, reason, "", numbers)
    worst = max(differences, key=lambda name: abs(differences[name].value))
    reason += f" (difference {_points(differences[worst])} percentage points)"
    if study is not None and study.effects.missing_as is not None:
        reason += "; [effects] missing_as gives a missing outcome a value, so that effects rest on that value"
        verdict = "look"
    remedy = (
        "find out why, and make recording independent of the prompt; until then do not rely on effects, values or "
        "policies: they compare different moments after different actions"
    )
    return Check("missing outcomes by action", verdict, reason, remedy, numbers)


def _compare_shares(
    logs: Trajectories, missing: NDArray[np.bool_], treated: NDArray[np.bool_], nothing: NDArray[np.bool_]
) -> tuple[Interval, float]:
    """The share missing after treatment less that after nothing, with an interval over people, and its p-value.

    The p-value is that of randomisation: where losses ignore the action, Σ (1{A = a} − p)(missing − mean) has mean 0 and
    variance Σ p(1 − p)(missing − mean)², however losses cluster in people or time.
    """
    people = len(logs.participants)
    counts = [
        sum_by_participant(logs.participant_index, people, rows)
        for rows in (missing & treated, treated, missing & nothing, nothing)
    ]
    compared = treated | nothing
    probability = np.full(len(logs), treated.sum() / compared.sum())
    if logs.actions == 2 and not np.isnan(logs.probability[compared]).any():
        probability = np.where(treated, logs.probability, 1 - logs.probability)
    centred = missing[compared] - missing[compared].mean()
    surprise = ((treated - probability)[compared] * centred).sum()
    variance = (probability * (1 - probability))[compared] @ centred**2
    p_value = 2 * ndtr(-abs(surprise) / np.sqrt(variance)) if variance > 0 else 1.0
    return difference_interval(*counts), float(p_value)


def _judge(difference: Interval, p_value: float) -> str:
    size = abs(difference.value)
    if size >= UNSAFE_DIFFERENCE and p_value < SURE:
        return "unsafe"
    return "look" if size >= LOOK_DIFFERENCE and (difference.excludes_zero or p_value < SURE) else "fine"


def _points(difference: Interval) -> str:
    scaled = Interval(*(100 * part for part in difference))
    return f"{scaled.value:+.1f}, 95 % interval {format_interval(scaled)}".replace("-", "−")
