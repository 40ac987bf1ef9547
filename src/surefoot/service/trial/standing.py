"""A participant's standing: paused or not, the last decision point, the prompts of the last week.

What it was when the next decision is recorded: asking twice does not draw twice (see `point_records`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.schema import participant_events
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.point_query import PAUSED, RESUMED, WITHDRAWN, Point, find_prompts
from surefoot.service.trial.trial import Trial
from surefoot.study import TrialSection
from surefoot.trial_rules.choices import find_dose_stop


@dataclass(frozen=True)
class Standing:
    """What the service knows of a participant before the next decision point."""

    paused: str | None = None
    """Who is paused, `the study` or `the participant`; None when nobody is."""
    withdrawn: bool = False
    last_idx: int | None = None
    last_at: datetime | None = None
    prompts: list[datetime] = field(default_factory=list)
    """When anything was sent in the last week before the last decision point, by the decision points' own time."""


def find_standings(trial: Trial, found: Mapping[Point, Any]) -> dict[str, Standing]:
    """The standing of every participant that is registered, from what is known of their decision points."""
    known = {row["participant_id"]: row for row in found.values() if row["known"] is not None}
    prompts = {}
    if trial.settings.dose.is_limited:
        with trial.database.autocommit() as connection:
            prompts = find_prompts(connection, known)
    return {
        one: Standing(
            paused=_find_pause(row),
            withdrawn=row["own_event"] == WITHDRAWN,
            last_idx=row["last_idx"],
            last_at=row["last_at"],
            prompts=prompts.get(one, []),
        )
        for one, row in known.items()
    }


def _find_pause(row: Any) -> str | None:
    if row["study_event"] == PAUSED:
        return "the study"
    return "the participant" if row["own_event"] == PAUSED else None


def find_statuses(connection: sa.Connection, ids: Collection[str]) -> dict[str | None, str]:
    """Whether the study (None) and these participants are paused or withdrawn: the newest event of each says so."""
    events = sa.select(participant_events.c.participant_id, participant_events.c.kind).where(
        participant_events.c.kind.in_((PAUSED, RESUMED, WITHDRAWN)),
        sa.or_(participant_events.c.participant_id.is_(None), participant_events.c.participant_id.in_(ids)),
    )
    rows = connection.execute(events.order_by(participant_events.c.id))
    return {row.participant_id: row.kind for row in rows}


def check_consent(standing: Standing) -> None:
    """Refuse a decision point of somebody who has left: nothing about them is recorded any more."""
    if standing.withdrawn:
        raise ApiError(409, "withdrawn", "the participant has withdrawn; send nothing, and ask no more", "participant_id")


def check_order(settings: TrialSection, standing: Standing, decision_idx: int, moment: datetime) -> None:
    """Refuse a decision point that comes after a later one, or sooner than the study's design has them."""
    if standing.last_idx is None or standing.last_at is None:
        return
    if decision_idx < standing.last_idx:
        message = f"decision points come in order: decision {standing.last_idx} was asked for already"
        raise ApiError(409, "out_of_order", message, "decision_idx")
    gap = timedelta(minutes=settings.decision_gap_minutes)
    if gap and moment - standing.last_at < gap:
        message = f"decision points of a participant are at least {settings.decision_gap_minutes:g} minutes apart"
        raise ApiError(409, "too_soon", message, "timestamp")


def find_stop(settings: TrialSection, standing: Standing, moment: datetime) -> str | None:
    """Why nothing may be sent now, whatever a policy says; None when something may."""
    if standing.paused is not None:
        return f"paused: {standing.paused}"
    return find_dose_stop(settings.dose, standing.prompts, moment) if settings.dose.is_limited else None
