"""Off-policy evaluation: what a policy would have earned, from logs of another."""

from surefoot.evaluation.estimators import ESTIMATORS, Estimator, JudgedPolicy, find_estimator, register_estimator
from surefoot.evaluation.off_policy import evaluate
from surefoot.evaluation.values import LOGGED, LongRunValue, OffPolicy, Overlap, Value

__all__ = [
    "ESTIMATORS",
    "LOGGED",
    "Estimator",
    "JudgedPolicy",
    "LongRunValue",
    "OffPolicy",
    "Overlap",
    "Value",
    "evaluate",
    "find_estimator",
    "register_estimator",
]
