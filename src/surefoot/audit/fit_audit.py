"""The audit of a fitted method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.audit.checks import judge, order_advice
from surefoot.audit.findings import AuditFindings
from surefoot.audit.measures import Measures
from surefoot.audit.standing_still import check_standing_still
from surefoot.errors import InputError
from surefoot.learning.methods import Method
from surefoot.log_checks import check_logs
from surefoot.reports.summaries import ShownResult
from surefoot.screening.screen import Screen
from surefoot.study import Study, StudyLogs

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False, repr=False)
class Audit(AuditFindings, ShownResult):
    """What a fit left out, and the verdict of every check.

    Attributes
    ----------
    checks
        One question each, with verdict, reason and remedy.
    sensitivity
        The same method with its limit elsewhere, and without.
    left_out
        Parts of the audit that were left out because the critic has many coefficients, in sentences.
    """

    page_title: ClassVar[str] = "Audit"

    def print_summary(self, console: Console) -> None:
        from surefoot.audit.summary import print_audit

        print_audit(self, console)

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.audit.page import render_page

        return render_page(self, title=title, source=source)

    def __repr__(self) -> str:
        totals = self.totals()
        unfine = [f"{check.name} ({check.verdict})" for check in self.checks if check.verdict != "fine"]
        return (
            f"<Audit: {self.verdict}; {totals['people']} people, {totals['used']} decision points used, "
            f"{totals['removed']} removed; {', '.join(unfine) or 'nothing to look at'}>"
        )


def audit(
    fitted: Method,
    *,
    raw_reward: ArrayLike | None = None,
    implausible: Mapping[str, NDArray[np.int64]] | None = None,
    study: Study | None = None,
    screen: Screen | None = None,
) -> Audit:
    """Audit a fitted method.

    Parameters
    ----------
    fitted
        A method after `fit`.
    raw_reward
        The reward of every row before a transform, in which shares of the total are counted; from `study.read`.
    implausible
        For each column how many of every participant's values were outside the plausible range; from `study.read`.
    study
        Says how states were scaled and the reward transformed, so that values and effects are named in their own units.
    screen
        What was marked missing before the fit; from `study.read`.

    Returns
    -------
    Audit
        Verdict, checks, tables and page.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> audit(sf.method("ro-accb").fit(logs)).verdict
    'fine'
    """
    if not isinstance(fitted, Method):
        raise InputError(
            f"audit takes a fitted method, not {type(fitted).__name__}; fit one first: surefoot.method('ro-accb').fit(logs)"
        )
    measures = Measures.of(fitted, None if raw_reward is None else np.asarray(raw_reward, dtype=np.float64), study)
    people = len(fitted.logs_.participants)
    counts = {name: np.asarray(values, dtype=np.int64) for name, values in (implausible or {}).items()}
    for name, values in counts.items():
        if values.shape != (people,):
            raise InputError(f"implausible['{name}'] has shape {values.shape}; give one count for each of {people} people")
    sensitivity = measures.sensitivity()
    read = StudyLogs(fitted.logs_, measures.raw_reward, counts, np.arange(len(fitted.logs_)), screen)
    still = check_standing_still(fitted.logs_, measures.raw_reward)
    checks = order_advice(check_logs(read, study), (*judge(measures, sensitivity), still))
    return Audit(measures, counts, checks, sensitivity)
