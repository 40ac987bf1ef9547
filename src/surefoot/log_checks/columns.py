"""Whether a column holds a code for missing values."""

from __future__ import annotations

from surefoot.data.suspect_columns import find_suspect_codes
from surefoot.log_checks.check import Check
from surefoot.study import Study, StudyLogs


def check_columns(read: StudyLogs, study: Study | None) -> Check:
    """Look for values that recur and stand apart."""
    scaling = None if study is None else study.scaling
    suspicions = find_suspect_codes(read.logs, scaling=scaling, raw_reward=read.raw_reward)
    if not suspicions:
        return Check("suspect columns", "fine", "no column repeats a value that stands apart")
    reason = "; ".join(f"{suspicion.column} {suspicion.what}" for suspicion in suspicions)
    remedy = "; ".join(dict.fromkeys(suspicion.remedy for suspicion in suspicions))
    return Check("suspect columns", "look", reason, remedy, {"columns": [suspicion.column for suspicion in suspicions]})
