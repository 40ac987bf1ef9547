"""Methods as the paper has them, so that its experiments do not depend on the package's defaults."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from surefoot.learning.methods import Method, method

PENALTIES = {"penalty_units": "absolute", "critic_penalty": 1e-3, "actor_penalty": 1e-3}
"""Absolute penalties of 1e-3; the paper does not give its own."""


def make_method(name: str, **parameters: Any) -> Method:
    """A method with the penalties of the experiments.

    >>> make_method("ro-accb", tau=2.0).actor_penalty
    0.001
    """
    own = {field.name for field in fields(method(name))}
    return method(name, **{**{key: value for key, value in PENALTIES.items() if key in own}, **parameters})
