"""Policies: what decides, its rules, its features and its files."""

from surefoot.policies.constant_policies import always, baselines, coin, fixed, never
from surefoot.policies.policies import Policies, Policy, load

__all__ = ["Policies", "Policy", "always", "baselines", "coin", "fixed", "load", "never"]
