"""What the database knows about the decision points of a batch, by one query for all of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from surefoot.service.database.schema import activations, decisions, participant_events, participants

PAUSED = "paused"
RESUMED = "resumed"
WITHDRAWN = "withdrawn"
Point = tuple[str, int]
"""A participant and a decision_idx."""
ONE: Any = sa.literal_column("1")


def read_points(connection: sa.Connection, points: Collection[Point]) -> dict[Point, dict[str, Any]]:
    """Of every decision point one row: who is known, what came last, what was answered before, and which policy is live."""
    ordered = list(dict.fromkeys(points))
    if connection.dialect.name == "postgresql":
        ids, indices = map(list, zip(*ordered, strict=True))
        given: dict[str, Any] = {"ids": ids, "indices": indices}
    else:
        given = {"points": json.dumps(ordered)}
    return index_points(map(dict, connection.execute(QUERIES[connection.dialect.name], given).mappings()))


def index_points(rows: Iterable[dict[str, Any]]) -> dict[Point, dict[str, Any]]:
    """What `QUERIES` found, by decision point."""
    return {(row["participant_id"], row["decision_idx"]): row for row in rows}


def find_prompts(connection: sa.Connection, ids: Collection[str]) -> dict[str, list[datetime]]:
    """When anything was sent to these participants, by the decision points' own time, the newest first."""
    sent = sa.select(decisions.c.participant_id, decisions.c.decided_at).where(
        decisions.c.participant_id.in_(ids), decisions.c.action > 0
    )
    found: dict[str, list[datetime]] = {}
    for row in connection.execute(sent.order_by(decisions.c.decision_idx.desc()).limit(5000 * max(1, len(ids)))):
        found.setdefault(row.participant_id, []).append(row.decided_at)
    return found


def _unpack_for_sqlite() -> tuple[Any, Any, Any]:
    each = sa.func.json_each(sa.bindparam("points", type_=sa.Text)).table_valued("value", name="asked")
    participant = sa.func.json_extract(each.c.value, sa.literal_column("'$[0]'"), type_=sa.Text)
    return each, participant, sa.func.json_extract(each.c.value, sa.literal_column("'$[1]'"), type_=sa.Integer)


def _unpack_for_postgresql() -> tuple[Any, Any, Any]:
    ids = sa.bindparam("ids", type_=postgresql.ARRAY(sa.Text))
    indices = sa.bindparam("indices", type_=postgresql.ARRAY(sa.Integer))
    columns = (sa.column("participant_id", sa.Text), sa.column("decision_idx", sa.Integer))
    each = sa.func.unnest(ids, indices).table_valued(*columns, name="asked").render_derived()
    return each, each.c.participant_id, each.c.decision_idx


def _make_query(asked: Any, participant: Any, index: Any) -> sa.Select[Any]:
    earlier = decisions.alias("earlier")
    stored = decisions.alias("stored")
    own = earlier.c.participant_id == participant
    its = participant_events.c.participant_id == participant
    nobodys = participant_events.c.participant_id.is_(None)
    newest = sa.select(sa.func.max(participant_events.c.id))
    kind = participant_events.c.kind
    event = sa.select(kind).where(sa.or_(kind == PAUSED, kind == RESUMED, kind == WITHDRAWN))
    event = event.order_by(participant_events.c.id.desc()).limit(ONE)
    live = sa.select(activations).order_by(activations.c.id.desc()).limit(ONE)
    point = sa.and_(stored.c.participant_id == participant, stored.c.decision_idx == index)
    return sa.select(
        participant.label("participant_id"),
        index.label("decision_idx"),
        participants.c.id.label("known"),
        sa.select(sa.func.max(earlier.c.decision_idx)).where(own).scalar_subquery().label("last_idx"),
        sa.select(earlier.c.decided_at)
        .where(own)
        .order_by(earlier.c.decision_idx.desc())
        .limit(ONE)
        .scalar_subquery()
        .label("last_at"),
        event.where(its).scalar_subquery().label("own_event"),
        event.where(nobodys).scalar_subquery().label("study_event"),
        newest.where(its).scalar_subquery().label("own_event_id"),
        newest.where(nobodys).scalar_subquery().label("study_event_id"),
        sa.select(sa.func.max(activations.c.id)).scalar_subquery().label("activation_id"),
        live.with_only_columns(activations.c.policy_id).scalar_subquery().label("live_id"),
        live.with_only_columns(activations.c.activated_at).scalar_subquery().label("live_since"),
        *(stored.c[name] for name in STORED),
    ).select_from(asked.outerjoin(participants, participants.c.id == participant).outerjoin(stored, point))


STORED = ("decided_at", "available", "availability_reasons", "source", "fallback_reasons", "context", "reply", "salt")
"""What a retry is compared with; all null where the decision point is new."""
TOKENS = ("last_idx", "own_event_id", "study_event_id", "activation_id")
"""While these stay the same, so does everything else that is found of a participant whose decision point is new."""
QUERIES = {"sqlite": _make_query(*_unpack_for_sqlite()), "postgresql": _make_query(*_unpack_for_postgresql())}
"""Made once: every execution finds its compiled form."""
