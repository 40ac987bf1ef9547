"""A participant's standing: paused or not, the last decision point, the prompts of the last week.

Read inside the transaction that records the next decision, with the participant locked: asking twice does not draw twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from surefoot.service.database.schema import decisions, participant_events, participants
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.trial import Trial
from surefoot.study import TrialSection

WEEK, DAY = timedelta(days=7), timedelta(days=1)
PAUSED, RESUMED, WITHDRAWN = "paused", "resumed", "withdrawn"
DOSE = "dose: "
"""How the reason begins when a limit on prompts made a decision point unavailable."""


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


def find_standings(trial: Trial, connection: sa.Connection, ids: Collection[str]) -> dict[str, Standing]:
    """The standing of every participant that is registered, each locked until the transaction ends."""
    own = sa.select(participants.c.id).where(participants.c.id.in_(ids)).order_by(participants.c.id)
    known = list(connection.scalars(own if trial.database.is_sqlite else own.with_for_update(key_share=True)))
    last = _find_last(connection, known)
    statuses = find_statuses(connection, known)
    prompts = _find_prompts(connection, known) if trial.settings.dose.is_limited else {}
    return {
        one: Standing(
            paused="the study"
            if statuses.get(None) == PAUSED
            else "the participant"
            if statuses.get(one) == PAUSED
            else None,
            withdrawn=statuses.get(one) == WITHDRAWN,
            last_idx=last[one][0] if one in last else None,
            last_at=last[one][1] if one in last else None,
            prompts=prompts.get(one, []),
        )
        for one in known
    }


def _find_last(connection: sa.Connection, ids: Collection[str]) -> dict[str, tuple[int, datetime]]:
    newest = (
        sa.select(decisions.c.participant_id, sa.func.max(decisions.c.decision_idx).label("decision_idx"))
        .where(decisions.c.participant_id.in_(ids))
        .group_by(decisions.c.participant_id)
        .subquery()
    )
    same = sa.and_(decisions.c.participant_id == newest.c.participant_id, decisions.c.decision_idx == newest.c.decision_idx)
    columns = (decisions.c.participant_id, decisions.c.decision_idx, decisions.c.decided_at)
    rows = connection.execute(sa.select(*columns).join_from(newest, decisions, same))
    return {row.participant_id: (row.decision_idx, row.decided_at) for row in rows}


def find_statuses(connection: sa.Connection, ids: Collection[str]) -> dict[str | None, str]:
    """Whether the study (None) and these participants are paused or withdrawn: the newest event of each says so."""
    events = sa.select(participant_events.c.participant_id, participant_events.c.kind).where(
        participant_events.c.kind.in_((PAUSED, RESUMED, WITHDRAWN)),
        sa.or_(participant_events.c.participant_id.is_(None), participant_events.c.participant_id.in_(ids)),
    )
    rows = connection.execute(events.order_by(participant_events.c.id))
    return {row.participant_id: row.kind for row in rows}


def _find_prompts(connection: sa.Connection, ids: Collection[str]) -> dict[str, list[datetime]]:
    sent = sa.select(decisions.c.participant_id, decisions.c.decided_at).where(
        decisions.c.participant_id.in_(ids), decisions.c.action > 0
    )
    found: dict[str, list[datetime]] = {}
    for row in connection.execute(sent.order_by(decisions.c.decision_idx.desc()).limit(5000 * max(1, len(ids)))):
        found.setdefault(row.participant_id, []).append(row.decided_at)
    return found


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
    dose = settings.dose
    for limit, span, words in ((dose.prompts_per_day, DAY, "24 hours"), (dose.prompts_per_week, WEEK, "7 days")):
        if limit is not None and sum(moment - span < sent <= moment for sent in standing.prompts) >= limit:
            return f"{DOSE}{limit} prompts in {words}"
    gap = timedelta(minutes=dose.minimum_gap_minutes)
    if any(timedelta(0) <= moment - sent < gap for sent in standing.prompts):
        return f"{DOSE}a prompt less than {dose.minimum_gap_minutes:g} minutes ago"
    return None
