"""Explaining a fitted policy: what it does, whether that agrees with the effects, and its coefficients with intervals."""

from surefoot.explain.coefficients import Coefficient, Coefficients
from surefoot.explain.consequences import ActionConsequence
from surefoot.explain.differences import Difference
from surefoot.explain.disagreements import Disagreement
from surefoot.explain.explanation import Explanation, explain
from surefoot.explain.policy_card import Card
from surefoot.explain.response import Curve, Importance
from surefoot.explain.time_courses import TimeCourse

__all__ = [
    "ActionConsequence",
    "Card",
    "Coefficient",
    "Coefficients",
    "Curve",
    "Difference",
    "Disagreement",
    "Explanation",
    "Importance",
    "TimeCourse",
    "explain",
]


def __dir__() -> list[str]:
    return __all__
