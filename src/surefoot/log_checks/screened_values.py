"""Which values the screen marked missing, and whether that depends on the action."""

from __future__ import annotations

import numpy as np

from surefoot.log_checks.check import Check
from surefoot.reports.numbers import format_percent
from surefoot.screening.screen import NOT_DIRT, Screen
from surefoot.study import Study, StudyLogs

FLAGGED_LOOK = 0.05
"""A larger share of flagged decision points needs an explanation."""


def check_screen(read: StudyLogs, study: Study | None) -> Check:
    """Report the share of decision points with a value marked missing, and compare it between the actions."""
    if read.screen is None:
        return Check("screen", "fine", "the logs are not screened")
    screen = read.screen
    share = find_marked_share(screen)
    reason = (
        f"the screen marked values of {format_percent(share)} of the available decision points as missing "
        f"({describe_flags(screen) or 'nothing'})"
    )
    verdict = screen.verdict
    remedy = ""
    if verdict != "fine":
        reason += f"; {next(part for part in screen.treatment if part.verdict == verdict).describe()}"
    elif share > FLAGGED_LOOK:
        verdict = "look"
    if verdict == "look":
        remedy = "surefoot screen --html shows who and when; call those who do not wear the device, and repair stuck devices"
    elif verdict == "unsafe":
        remedy = (
            f"{NOT_DIRT}. Effects estimated from the remaining values are biased; find out why, and make recording "
            "independent of the prompt"
        )
    numbers = {
        "share": share,
        "counts": screen.counts(),
        "treatment": [difference.to_dict() for difference in screen.treatment],
    }
    return Check("screen", verdict, reason, remedy, numbers)


def find_marked_share(screen: Screen) -> float:
    """Share of the available decision points with a value that the screen marked missing."""
    marked = np.zeros(len(screen.logs), dtype=bool)
    marked[screen.flags.row[screen.marks]] = True
    return float(marked[screen.logs.available].mean()) if screen.logs.available.any() else 0.0


def describe_flags(screen: Screen) -> str:
    """Counts by column and reason, with those after each action; empty without any. Values that a detector never marks
    (a level shift, a wrong time) are left out.

    `'steps' not worn 30 (nothing 12, send 18)`.
    """
    always_reported = {reason for detector in screen.screener.detectors for reason in detector.reported}
    words = []
    for row in screen.list_counts():
        if row["reason"] in always_reported:
            continue
        after = ", ".join(f"{arm} {count:,}" for arm, count in row["after"].items())
        words.append(f"'{row['column']}' {row['reason']} {row['values']:,} ({after})")
    return "; ".join(words)
