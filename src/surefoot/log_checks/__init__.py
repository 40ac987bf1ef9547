"""Checks of logs: are rows, actions, probabilities and outcomes what the study says they are?

`check_logs` runs all of them. Audits, effects, values, fits, rehearsals and sample sizes show what it finds.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.log_checks.check import Check
from surefoot.log_checks.columns import check_columns, check_identities, check_leaks, check_ranges, check_units
from surefoot.log_checks.outcomes_by_action import check_missing_outcomes, check_pile_values, check_screen
from surefoot.log_checks.probabilities import check_balance, check_mean_weights
from surefoot.screening.screen import VERDICTS, find_worst
from surefoot.study import Study, StudyLogs

__all__ = ["CHECKS", "SCREEN_CHECKS", "Check", "check_logs", "find_worst", "list_warnings"]

LogCheck = Callable[[StudyLogs, Study | None], Check]

CHECKS: tuple[LogCheck, ...] = (
    check_identities,
    check_mean_weights,
    check_balance,
    check_missing_outcomes,
    check_pile_values,
    check_units,
    check_leaks,
    check_columns,
    check_ranges,
    check_screen,
)
"""Checks in the order of the reports. A check sees the logs as they are analysed, and the study if there is one."""

SCREEN_CHECKS: tuple[LogCheck, ...] = (check_identities, check_pile_values, check_units)
"""Checks of rows and values that no detector of the screen judges; `surefoot screen` shows them with its flags."""


def check_logs(
    logs: StudyLogs | Trajectories, study: Study | None = None, *, checks: Sequence[LogCheck] = CHECKS
) -> tuple[Check, ...]:
    """Run every check of logs.

    Parameters
    ----------
    logs
        From `study.read`, or trajectories.
    study
        Defines scaling and outcomes, so that messages show values in their own units.
    checks
        The checks to run; all unless given.

    Returns
    -------
    tuple of Check
        The result of every check, fine or not.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> {check.verdict for check in check_logs(logs)}
    {'fine'}
    """
    if isinstance(logs, Trajectories):
        logs = StudyLogs(logs, logs.outcome, {}, np.arange(len(logs)))
    return tuple(check(logs, study) for check in checks)


def list_warnings(checks: Iterable[Check]) -> list[str]:
    """The checks that are not fine, as `verdict: name: reason; remedy`, the worst first."""
    warnings = [check for check in checks if check.verdict != "fine"]
    return [f"{check.verdict}: {check}" for check in sorted(warnings, key=lambda check: -VERDICTS.index(check.verdict))]
