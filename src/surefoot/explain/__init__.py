"""Explanation of a fitted policy: what it does, whether that agrees with the effects, and its coefficients."""

from surefoot.explain.coefficients import Coefficient, Coefficients, Difference
from surefoot.explain.explanation import Card, Explanation, explain
from surefoot.explain.response import ActionConsequence, Curve, Disagreement, Importance, TimeCourse

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
