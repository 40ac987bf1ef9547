"""How a study reads states, kept with the policies that were fitted under it: raw values keep their meaning."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.policies.policies import Policies
    from surefoot.study.model import Study


def describe_reading(study: Study) -> dict[str, Any]:
    """The study's SHA-256, its limits, and the kind, levels and scaling of every state variable, as JSON has them."""
    limits = study.probability_limits
    return {
        "study_sha256": hashlib.sha256(study.text.encode()).hexdigest(),
        "probability_limits": [limits.minimum, limits.maximum],
        "state": {
            name: {
                "kind": variable.kind,
                "levels": list(variable.levels),
                "scaling": [variable.scaling.centre, variable.scaling.scale] if variable.scaling else None,
            }
            for name, variable in study.state.items()
        },
    }


def check_policies(study: Study, policies: Policies, source: str) -> None:
    """Refuse policies that were fitted to other state variables or actions, or read them otherwise."""
    if policies.made_for is None:
        raise InputError(f"{source}: does not say how its states are to be read; fit it again with surefoot fit")
    ours, theirs = describe_reading(study)["state"], policies.made_for["state"]
    for name in dict.fromkeys((*ours, *theirs)):
        if name not in ours or name not in theirs:
            where = "the study has" if name not in ours else "the policies have"
            raise InputError(f"{source}: {where} no state variable '{name}'; use the study that they were fitted with")
        for what in ("kind", "levels", "scaling"):
            if ours[name][what] != theirs[name][what]:
                raise InputError(
                    f"{source}: state variable '{name}' has {what} {theirs[name][what]} in the policies, "
                    f"{ours[name][what]} in the study; use the study that the policies were fitted with"
                )
    check_names(study, policies, source)


def check_names(study: Study, policies: Policies, source: str) -> None:
    """Refuse policies whose actions or state variables have other names, or another order."""
    if policies.action_names != study.actions.names:
        raise InputError(f"{source}: its actions are {list(policies.action_names)}, the study's {list(study.actions.names)}")
    if policies.state_names != study.state_names:
        raise InputError(f"{source}: its variables are {list(policies.state_names)}, the study's {list(study.state_names)}")
