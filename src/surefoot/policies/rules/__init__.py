"""Decision rules: how a policy turns a state into probabilities. Adding one is a subclass of `DecisionRule` under
`register_rule`."""

from surefoot.policies.rules.boltzmann import Boltzmann
from surefoot.policies.rules.confidence_bounds import Pessimistic, UpperConfidence
from surefoot.policies.rules.decision_rule import RULES, Chooser, DecisionRule, find_rule, register_rule
from surefoot.policies.rules.fixed import Fixed
from surefoot.policies.rules.posterior_sampling import PosteriorSampling, SmoothAllocation

__all__ = [
    "RULES",
    "Boltzmann",
    "Chooser",
    "DecisionRule",
    "Fixed",
    "Pessimistic",
    "PosteriorSampling",
    "SmoothAllocation",
    "UpperConfidence",
    "find_rule",
    "register_rule",
]
