"""Off-policy evaluation: the value of a policy, estimated from logs of another."""

from surefoot.evaluation.estimators import ESTIMATORS, Estimator, JudgedPolicy, find_estimator, register_estimator
from surefoot.evaluation.off_policy import evaluate, score_method
from surefoot.evaluation.values import LOGGED, Contrast, LongRunValue, OffPolicy, Overlap, Value

__all__ = [
    "ESTIMATORS",
    "LOGGED",
    "Contrast",
    "Estimator",
    "JudgedPolicy",
    "LongRunValue",
    "OffPolicy",
    "Overlap",
    "Value",
    "evaluate",
    "find_estimator",
    "register_estimator",
    "score_method",
]


def __dir__() -> list[str]:
    return __all__
