"""Queries about updates and policy versions, and the activation of one."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from surefoot.service.access.staff_trail import record_action
from surefoot.service.database.schema import activations, policies, updates
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import LIVE, Trial, list_coefficients
from surefoot.service.updates.updates import activate

STATUS = sa.select(updates, policies.c.id.label("policy_id")).select_from(
    updates.outerjoin(policies, policies.c.update_id == updates.c.id)
)


def update_status(trial: Trial, update_id: int) -> dict[str, Any]:
    """One update: its progress, its result, what the policy checks found."""
    with trial.database.autocommit() as connection:
        row = connection.execute(STATUS.where(updates.c.id == update_id)).mappings().first()
    if row is None:
        raise ApiError(404, "unknown_update", "there is no such update", "update_id")
    return _describe_update(row)


def list_updates(trial: Trial, newest: int = 50) -> list[dict[str, Any]]:
    """The newest updates first."""
    with trial.database.autocommit() as connection:
        rows = connection.execute(STATUS.order_by(updates.c.id.desc()).limit(newest)).mappings().all()
    return [_describe_update(row) for row in rows]


def _describe_update(row: Any) -> dict[str, Any]:
    names = ("id", "state", "started_by", "created_at", "finished_at", "policy_id", "message")
    return {
        **{name: row[name] for name in names},
        "findings": json.loads(row["findings"]),
        "result": json.loads(row["result"]),
    }


def list_policies(trial: Trial) -> list[dict[str, Any]]:
    """All versions, newest first, with their list_coefficients and when they were live."""
    columns = (policies.c.id, policies.c.created_at, policies.c.update_id, policies.c.accepted)
    with trial.database.snapshot() as connection:
        rows = connection.execute(sa.select(*columns).order_by(policies.c.id.desc())).mappings().all()
        history = connection.execute(sa.select(activations).order_by(activations.c.id)).mappings().all()
        live = connection.scalar(LIVE)
    return [_describe_policy(trial, row, history, live) for row in rows]


def _describe_policy(trial: Trial, row: Any, history: Any, live: int | None) -> dict[str, Any]:
    version = trial.policies.get(row["id"])
    made = None if version is None else version.policies
    return {
        **row,
        "live": row["id"] == live,
        "activations": [
            {"at": event["activated_at"], "by": event["activated_by"]}
            for event in history
            if event["policy_id"] == row["id"]
        ],
        "method": "unreadable" if made is None else made.rule.name,
        "states": [] if made is None else list(made.state_names),
        "actions": [] if made is None else list(made.action_names),
        "people": None if made is None or made.participants is None else len(made.participants),
        "coefficients": [] if made is None else list_coefficients(made),
    }


def activate_policy(trial: Trial, policy_id: int, by: str) -> dict[str, Any]:
    """Make a version live, newer or older than the one that is: one call rolls back."""
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
