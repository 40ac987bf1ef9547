"""Methods: the types of method, and the compositions of parts that have a name."""

from dataclasses import fields
from typing import Any

from surefoot.errors import InputError, did_you_mean
from surefoot.learning.methods.actor_critic import ACCB, SACCB
from surefoot.learning.methods.composition import Method
from surefoot.learning.methods.critic_result import CriticResult
from surefoot.learning.methods.linucb import LinUCB
from surefoot.learning.methods.pessimist import Pessimist
from surefoot.learning.methods.posterior_sampling import PosteriorSampler

__all__ = [
    "ACCB",
    "METHODS",
    "SACCB",
    "CriticResult",
    "LinUCB",
    "Method",
    "Pessimist",
    "PosteriorSampler",
    "method",
]

AHEAD = {"pooling": "all", "horizon": "long-run"}
METHODS: dict[str, tuple[type[Method], dict[str, str]]] = {
    f"{prefix}{name}": (kind, parameters)
    for prefix, parameters in (
        *(("", {}), ("filter-", {"filter": "hampel"}), ("ro-", {"critic": "capped"})),
        ("hb-", {"critic": "high-breakdown"}),
    )
    for name, kind in (("linucb", LinUCB), ("accb", ACCB), ("saccb", SACCB))
} | {
    "ahead": (Pessimist, AHEAD),
    "ro-ahead": (Pessimist, {**AHEAD, "critic": "capped"}),
    "hb-ahead": (Pessimist, {**AHEAD, "critic": "high-breakdown"}),
    "ts": (PosteriorSampler, {}),
    "ro-ts": (PosteriorSampler, {"critic": "capped"}),
    "hb-ts": (PosteriorSampler, {"critic": "high-breakdown"}),
}
"""The paper's nine methods by name, then three with the high-breakdown critic, three that look ahead, for everybody
together, and three that sample from the posterior."""


def method(name: str, **parameters: Any) -> Method:
    """One of the methods, not yet fitted.

    Parameters
    ----------
    name
        One of `METHODS`.
    **parameters
        Of its class, such as `ACCB`.

    Returns
    -------
    Method

    Examples
    --------
    >>> method("ro-accb", tau=2.0).critic
    'capped'
    """
    if name not in METHODS:
        raise InputError(f"there is no method '{name}'{did_you_mean(name, METHODS)}; choose from {list(METHODS)}")
    kind, preset = METHODS[name]
    valid = [field.name for field in fields(kind)]
    for parameter in parameters:
        if parameter not in valid:
            raise InputError(f"{name} has no parameter '{parameter}'{did_you_mean(parameter, valid)}; it has {valid}")
    made = kind(**{**preset, **parameters})
    made.check_parameters()
    return made
