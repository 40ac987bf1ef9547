"""Whose the rows are, and whether each is a decision point."""

from __future__ import annotations

from surefoot.data.suspect_columns import list_doubts
from surefoot.log_checks.check import Check, find_worst
from surefoot.study import Study, StudyLogs

NAME = "participants and availability"


def check_identities(read: StudyLogs, study: Study | None) -> Check:
    """Look for ids that are one participant, ids that number the rows, and a column of availability that nobody named."""
    logs = read.logs
    doubts = list_doubts(logs.participants, len(logs), logs.names)
    if not doubts:
        return Check(NAME, "fine", "ids differ in more than case and blanks, and no column of availability is left unnamed")
    verdicts, reasons, remedies = zip(*doubts, strict=True)
    return Check(NAME, find_worst(verdicts), "; ".join(reasons), "; ".join(dict.fromkeys(remedies)))
