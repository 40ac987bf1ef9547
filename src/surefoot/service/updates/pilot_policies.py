"""A trial that starts from the policies of a pilot: a fitted folder becomes the first policy version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.fitting import FittedStudy
from surefoot.service.access.staff_trail import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import policies
from surefoot.service.trial.trial import Trial, policies_to_text
from surefoot.service.updates.updates import activate
from surefoot.study.policy_reading import check_policies


@dataclass(frozen=True)
class PilotPolicies:
    """What was loaded."""

    policy_id: int
    live: bool
    participants: int | None
    """None: one policy for everyone."""
    serves_anybody: bool
    """Whether people who are not among them have a policy too."""


def load_pilot_policies(trial: Trial, folder: Path, by: str) -> PilotPolicies:
    """Make a fitted folder the trial's first policy version; live at once unless the study's activation is manual."""
    fitted = FittedStudy.load(folder).policies
    check_policies(trial.study, fitted, str(folder))
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
