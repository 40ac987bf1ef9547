"""Whether a state variable was known only after the decision, or a column holds a code for missing values."""

from __future__ import annotations

from surefoot.data.suspect_columns import find_suspicions
from surefoot.log_checks.check import Check
from surefoot.study import Study, StudyLogs


def check_columns(read: StudyLogs, study: Study | None) -> Check:
    """Look for columns that give the action or the outcome away, and for repeated lonely values."""
    scaling = None if study is None else study.scaling
    suspicions = find_suspicions(read.logs, scaling=scaling, raw_reward=read.raw_reward)
    if not suspicions:
        return Check("suspect columns", "fine", "no column gives the action or the reward away or repeats a lonely value")
    verdict = "unsafe" if any(suspicion.leaks for suspicion in suspicions) else "look"
    reason = "; ".join(f"{suspicion.column} {suspicion.what}" for suspicion in suspicions)
    remedy = "; ".join(dict.fromkeys(suspicion.remedy for suspicion in suspicions))
    return Check("suspect columns", verdict, reason, remedy, {"columns": [suspicion.column for suspicion in suspicions]})
