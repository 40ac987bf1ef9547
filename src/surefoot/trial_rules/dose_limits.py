"""Limits on prompts: beyond them nothing may be sent, whatever a policy says."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from surefoot.study.trial_section import Dose

WEEK = timedelta(days=7)
DAY = timedelta(days=1)
DOSE = "dose: "
"""How the reason begins when a limit on prompts made a decision point unavailable."""
WITHIN = 0
NEVER = np.iinfo(np.int64).max
"""No limit is reached; the age of a prompt that was not sent."""


def find_dose_stop(dose: Dose, prompts: Iterable[datetime], moment: datetime) -> str | None:
    """Why nothing may be sent to a participant now, who was sent something at `prompts`; None when something may."""
    ages = np.array([count_microseconds(moment - sent) for sent in prompts], dtype=np.int64)
    return describe_limits(dose)[int(find_reached_limits(dose, ages[:, None])[0])]


def describe_limits(dose: Dose) -> tuple[str | None, ...]:
    """Why nothing may be sent, by what `find_reached_limits` finds."""
    return (
        None,
        f"{DOSE}{dose.prompts_per_day} prompts in 24 hours",
        f"{DOSE}{dose.prompts_per_week} prompts in 7 days",
        f"{DOSE}a prompt less than {dose.minimum_gap_minutes:g} minutes ago",
    )


def find_reached_limits(dose: Dose, ages: NDArray[np.int64]) -> NDArray[np.int64]:
    """(people,): 0, or which limit is reached: 1 in a day, 2 in a week, 3 the gap; the first that is.

    `ages` (prompts, people) are the microseconds since each prompt, `NEVER` where there was none.
    """
    reached = np.zeros(ages.shape[1], dtype=np.int64)
    past = ages >= 0
    if dose.minimum_gap_minutes:
        gap = count_microseconds(timedelta(minutes=dose.minimum_gap_minutes))
        reached[(past & (ages < gap)).any(axis=0)] = 3
    for code, limit, span in ((2, dose.prompts_per_week, WEEK), (1, dose.prompts_per_day, DAY)):
        if limit is not None:
            reached[(past & (ages < count_microseconds(span))).sum(axis=0) >= limit] = code
    return reached


def count_microseconds(span: timedelta) -> int:
    """A span of time as a whole number, so that comparing two is exact."""
    return span // timedelta(microseconds=1)
