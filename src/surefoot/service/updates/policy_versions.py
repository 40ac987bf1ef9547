"""Policy versions: all of them with their coefficients, the activation of one, and the policies of a pilot as the first."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.fitting import FittedStudy
from surefoot.service.access import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import activations, policies
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import LIVE, Trial, list_coefficients, policies_to_text
from surefoot.service.updates.updates import activate


def list_versions(trial: Trial) -> list[dict[str, Any]]:
    """All versions, newest first, with their activations; without their content, which is large."""
    columns = (policies.c.id, policies.c.created_at, policies.c.update_id, policies.c.accepted)
    with trial.database.snapshot() as connection:
        rows = connection.execute(sa.select(*columns).order_by(policies.c.id.desc())).mappings().all()
        events = connection.execute(sa.select(activations).order_by(activations.c.id)).mappings().all()
    live = events[-1]["policy_id"] if events else None
    return [
        {**row, "live": row["id"] == live, "events": [event for event in events if event["policy_id"] == row["id"]]}
        for row in rows
    ]


def list_policies(trial: Trial) -> list[dict[str, Any]]:
    """All versions with their coefficients, as the API describes them."""
    listed = []
    for row in list_versions(trial):
        version = trial.policies.get(row["id"])
        fitted = None if version is None else version.policies
        people = None if fitted is None or fitted.participants is None else len(fitted.participants)
        description = {
            "activations": [{"at": event["activated_at"], "by": event["activated_by"]} for event in row["events"]],
            "method": "unreadable" if fitted is None else fitted.rule.name,
            "states": [] if fitted is None else list(fitted.state_names),
            "actions": [] if fitted is None else list(fitted.action_names),
            "people": people,
            "coefficients": [] if fitted is None else list_coefficients(fitted),
        }
        listed.append({**row, **description})
    return listed


def activate_policy(trial: Trial, policy_id: int, by: str) -> dict[str, Any]:
    """Make a version live, newer or older than the live one: one call rolls back."""
    version = trial.policies.get(policy_id)
    with trial.database.autocommit() as connection:
        accepted = connection.scalar(sa.select(policies.c.accepted).where(policies.c.id == policy_id))
    if accepted is None:
        raise ApiError(404, "unknown_policy", "there is no such policy", "policy_id")
    if not accepted:
        raise ApiError(409, "refused_by_policy_check", "a policy check refused this policy; it cannot go live", "policy_id")
    if version is None or not trial.can_use(version):
        raise ApiError(409, "other_study", "this policy was made for other variables or actions", "policy_id")
    with trial.database.transaction() as connection:
        previous = connection.scalar(LIVE)
        activate(connection, policy_id, by)
        record_action(connection, by, "activated", f"policy {policy_id}", f"before: policy {previous or '–'}")
    return {"policy_id": policy_id, "previous_policy_id": previous}


@dataclass(frozen=True)
class PilotPolicies:
    """The policies of a pilot as the trial's first version."""

    policy_id: int
    live: bool
    participants: int | None
    """None: one policy for everyone."""
    serves_anybody: bool
    """Whether people who are not among them have a policy too."""


def load_pilot_policies(trial: Trial, folder: Path, by: str) -> PilotPolicies:
    """Make a fitted folder the trial's first policy version; live at once unless the study's activation is manual."""
    fitted = FittedStudy.load(folder).policies
    trial.study.check_policies(fitted, str(folder), from_fit=True)
    live = trial.settings.activation == "automatic"
    with trial.database.transaction() as connection:
        newest = connection.scalar(sa.select(sa.func.max(policies.c.id)))
        if newest is not None:
            raise InputError(f"the trial has policy {newest} already; pilot policies are for its start")
        row = {"update_id": None, "study_id": trial.study_id, "created_at": now(), "accepted": True}
        policy_id = insert_recorded(connection, "policy", {**row, "content": policies_to_text(fitted)})
        record_action(connection, by, "loaded policies", f"policy {policy_id}")
        if live:
            activate(connection, policy_id, by)
    people = None if fitted.participants is None else len(fitted.participants)
    return PilotPolicies(policy_id, live, people, fitted.serves_anybody)
