"""Policies: what decides, its rules, its features and its files."""

from surefoot.policies.policies import Policies, Policy, always, coin, fixed, load, never

__all__ = ["Policies", "Policy", "always", "coin", "fixed", "load", "never"]
