"""What there is to say about a policy, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.audit import Audit
from surefoot.explain.coefficients import Coefficients
from surefoot.explain.consequences import ActionConsequence
from surefoot.explain.differences import Difference
from surefoot.explain.disagreements import Disagreement
from surefoot.explain.response import Curve, Importance, list_seen
from surefoot.explain.time_courses import TimeCourse
from surefoot.explain.variables import Variable
from surefoot.inference.intervals import FEW_PEOPLE
from surefoot.inference.sandwich import MOST_REFITTED, count_coefficients, takes_refits
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
    left_out
        Parts of the explanation that were left out because the policy has many coefficients, in sentences.
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

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the explanation that were left out because the policy has many coefficients, in sentences."""
        return tuple(_list_omissions(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        rates = dict(zip(map(str, self.fitted.logs_.participants.tolist()), self.send_rates.tolist(), strict=True))
        return {
            "method": type(self.fitted).__name__,
            "parameters": self.fitted.get_params(deep=False),
            "audit": None if self.audit is None else self.audit.verdict,
            "left_out": list(self.left_out),
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


def _list_omissions(explained: ExplainedPolicy) -> Iterator[str]:
    fitted, people = explained.fitted, explained.people
    seen = len(list_seen(fitted, explained.variables))
    without_curve = seen - len(explained.curves)
    if without_curve:
        yield (
            f"No response curves of {without_curve} of {seen} state variables: they are traced for the "
            f"{len(explained.curves)} that move the policy most."
        )
        if fitted.coef_ is None:
            yield "Whether policy and effect disagree is told for the variables with a curve only."
    for curve in explained.curves:
        if curve.rare:
            yield f"No probabilities at the {curve.rare} rarest levels of {curve.variable}: {len(curve.settings)} are shown."
    coefficients = count_coefficients(fitted)
    if not fitted.pooled_:
        unaffordable = explained.coefficients.unaffordable
        if unaffordable:
            yield (
                f"No intervals of their own for {unaffordable} people: fits to drawn decision points with {coefficients} "
                "coefficients each take long. To have them, use surefoot explain --everybody or most_people=None."
            )
        return
    if people < FEW_PEOPLE and not takes_refits(fitted):
        yield (
            f"No fits without each of the {people} people (the jackknife): the critic has {coefficients} coefficients, more "
            f"than {MOST_REFITTED}. Intervals come from the analytic sandwich, which is rougher for so few people."
        )
    features = int(fitted.policy_sees_.sum()) + 1
    if fitted.coef_ is not None and people <= features:
        yield (
            "No intervals of the policy's coefficients and no bands around its curves: they need more people than the "
            f"policy has coefficients for an action, and there are {people} people and {features} coefficients."
        )


def _curve_to_dict(curve: Curve) -> dict[str, Any]:
    changes = [[change._asdict() for change in row] for row in curve.changes]
    named = {"grid": curve.grid.tolist(), "labels": list(curve.labels)}
    rest = {name: part for name, part in vars(curve).items() if name not in ("settings", "changes")}
    return {**_arrays_to_lists(rest), **named, "changes": changes}


def _arrays_to_lists(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in fields.items()}
