"""What there is to say about a policy, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.audit import Audit
from surefoot.explain.coefficients import Coefficients
from surefoot.explain.consequences import ActionConsequence
from surefoot.explain.differences import Difference
from surefoot.explain.disagreements import Disagreement
from surefoot.explain.response import Curve, Importance
from surefoot.explain.time_courses import TimeCourse
from surefoot.explain.variables import Variable
from surefoot.learning.methods import Method
from surefoot.reports.reward_units import RewardUnit
from surefoot.study import Study


@dataclass(frozen=True, eq=False)
class ExplainedPolicy:
    """Everything that a policy card shows.

    Attributes
    ----------
    curves
        How the probability of every action answers to each state variable that the policy sees.
    disagreements
        Features whose effect and whose part in the policy have opposite signs.
    coefficients
        Of critic and policy, with intervals, and everybody's own.
    importances
        Shares of the variance of the policy's logit.
    courses
        How many people would be treated when.
    send_rates
        Each participant's mean probability of being sent something; NaN without usable decision points.
    consequences
        What each action does now and later; empty with an immediate horizon.
    differences
        How people differ, and how far everybody was drawn towards all; empty without partial pooling.
    """

    fitted: Method
    study: Study | None
    audit: Audit | None
    variables: tuple[Variable, ...]
    coefficients: Coefficients
    curves: tuple[Curve, ...]
    disagreements: tuple[Disagreement, ...]
    importances: tuple[Importance, ...]
    courses: tuple[TimeCourse, ...]
    send_rates: NDArray[np.float64]
    send_rate: float
    logged_rate: float
    consequences: tuple[ActionConsequence, ...]
    differences: tuple[Difference, ...]

    @property
    def people(self) -> int:
        """People with a usable decision point."""
        return int((~np.isnan(self.send_rates)).sum())

    @property
    def method_name(self) -> str:
        return type(self.fitted).__name__ if self.study is None else self.study.method_name

    @property
    def unit(self) -> RewardUnit:
        """What the fitted reward is counted in."""
        return RewardUnit(self.fitted.logs_.names.reward) if self.study is None else self.study.reward_unit

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        rates = dict(zip(map(str, self.fitted.logs_.participants.tolist()), self.send_rates.tolist(), strict=True))
        return {
            "method": type(self.fitted).__name__,
            "parameters": self.fitted.get_params(deep=False),
            "audit": None if self.audit is None else self.audit.verdict,
            "send_rate": self.send_rate,
            "logged_rate": self.logged_rate,
            "curves": [_curve_to_dict(curve) for curve in self.curves],
            "disagreements": [{**asdict(one), "effect": one.effect._asdict()} for one in self.disagreements],
            "intervals": self.coefficients.how,
            "coefficients": [{**asdict(row), "interval": row.interval._asdict()} for row in self.coefficients.rows],
            "importances": [asdict(item) for item in self.importances],
            "courses": [_arrays_to_lists(vars(course)) for course in self.courses],
            "send_rates": rates,
            "consequences": [found.to_dict() for found in self.consequences],
            "differences": [found.to_dict() for found in self.differences],
        }


def _curve_to_dict(curve: Curve) -> dict[str, Any]:
    changes = [[change._asdict() for change in row] for row in curve.changes]
    named = {"grid": curve.grid.tolist(), "labels": list(curve.labels)}
    rest = {name: part for name, part in vars(curve).items() if name not in ("settings", "changes")}
    return {**_arrays_to_lists(rest), **named, "changes": changes}


def _arrays_to_lists(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in fields.items()}
