"""The outbox: what is to be told waits in the database until it was handed over, so that a crash loses nothing.

Alerts and updates are found in their own tables: nothing that decides, records or learns waits for a message.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.schema import alerts, messages, updates
from surefoot.service.messages.channels import Channel, DeliveryError, Message
from surefoot.service.messages.digest import write_digest
from surefoot.service.trial.alerts import MEANINGS
from surefoot.service.trial.trial import Trial

NEWS = timedelta(days=1)
"""What is older is no news: it is on the dashboard."""
LEASE = timedelta(seconds=60)
HOUR = timedelta(hours=1)
ATTEMPTS = 12


def collect_messages(trial: Trial, channels: list[Channel], at: datetime) -> None:
    """Put what is new into the outbox, once for every channel."""
    with trial.database.autocommit() as connection:
        raised = connection.execute(sa.select(alerts).where(alerts.c.raised_at > at - NEWS)).all()
        ended = connection.execute(sa.select(updates).where(updates.c.finished_at > at - NEWS)).all()
        recent = sa.select(messages.c.channel, messages.c.occasion).where(messages.c.created_at > at - 2 * NEWS)
        known = {tuple(row) for row in connection.execute(recent)}
    news = {
        f"alert:{alert.id}": (alert.kind, MEANINGS.get(alert.kind, "Something needs to be looked at.")) for alert in raised
    }
    news |= {f"update:{update.id}": ("update ended", f"Update {update.id} ended: {update.state}.") for update in ended}
    day = _digest_day(trial, at)
    if day is not None and any((channel.name, f"digest:{day}") not in known for channel in channels):
        news[f"digest:{day}"] = ("digest", write_digest(trial, at))
    new = [
        make_row(trial, channel.name, occasion, kind, text, at)
        for occasion, (kind, text) in news.items()
        for channel in channels
        if (channel.name, occasion) not in known
    ]
    if new:
        with trial.database.transaction() as connection:
            connection.execute(trial.database.insert_new(messages), new)


def _digest_day(trial: Trial, at: datetime) -> str | None:
    """The day whose digest is due."""
    when = trial.settings.alerts.digest_at
    local = at.astimezone(trial.settings.zone)
    return local.date().isoformat() if when is not None and local.time() >= when else None


def make_row(trial: Trial, channel: str, occasion: str, kind: str, text: str, at: datetime) -> dict[str, Any]:
    """A message of the outbox."""
    where = trial.settings.alerts.dashboard_url
    lines = [text, "", f"Time: {at:%Y-%m-%d %H:%M} UTC", f"Dashboard: {where}" if where else "Look at the dashboard."]
    message = {"kind": kind, "title": f"[{trial.settings.title}] {kind}", "text": "\n".join(lines) + "\n"}
    times = {"created_at": at, "due_at": at, "attempts": 0}
    return {"channel": channel, "occasion": occasion, "kind": kind, "content": json.dumps(message), **times}


def deliver_messages(trial: Trial, channel: Channel, at: datetime) -> int:
    """Hand over what is due, within the hour's limit; the last message that it allows tells all the rest. How many left."""
    by_channel = messages.c.channel == channel.name
    sent = messages.c.sent_at
    with trial.database.autocommit() as connection:
        open_ones = sa.select(messages).where(
            by_channel, sent.is_(None), messages.c.due_at <= at, messages.c.attempts < ATTEMPTS
        )
        waiting: list[Any] = list(connection.execute(open_ones.order_by(messages.c.id)))
        used = (
            connection.scalar(sa.select(sa.func.count(messages.c.delivery.distinct())).where(by_channel, sent > at - HOUR))
            or 0
        )
    left = trial.settings.alerts.max_per_hour - used
    if left <= 0 or not waiting:
        return 0
    groups = [[message] for message in waiting[: left - 1]] + [waiting[left - 1 :]]
    left_with = [_hand_over(trial, channel, group, at) for group in groups if group]
    return sum(left_with)


def _hand_over(trial: Trial, channel: Channel, group: list[Any], at: datetime) -> int:
    """Send one message for a group of them; 1 when it left. Only one worker gets each of them."""
    mine = [row for row in group if _claim(trial, row, at)]
    if not mine:
        return 0
    try:
        channel.send(_combine(trial, mine))
    except DeliveryError as error:
        wait = min(timedelta(seconds=30 * 2 ** mine[0].attempts), HOUR)
        _update(trial, mine, {"error": str(error), "due_at": at + wait})
        return 0
    _update(trial, mine, {"error": None, "sent_at": at, "delivery": mine[0].id})
    return 1


def _claim(trial: Trial, row: Any, at: datetime) -> bool:
    seen = sa.and_(messages.c.id == row.id, messages.c.due_at == row.due_at, messages.c.sent_at.is_(None))
    taken = sa.update(messages).where(seen).values(due_at=at + LEASE, attempts=messages.c.attempts + 1)
    with trial.database.transaction() as connection:
        return bool(connection.execute(taken).rowcount)


def _update(trial: Trial, rows: list[Any], values: dict[str, Any]) -> None:
    with trial.database.transaction() as connection:
        connection.execute(sa.update(messages).where(messages.c.id.in_([row.id for row in rows])).values(**values))


def _combine(trial: Trial, rows: list[Any]) -> Message:
    contents = [json.loads(row.content) for row in rows]
    first = Message(f"{trial.study_id[:12]}-{rows[0].id}", at=rows[0].created_at.isoformat(), **contents[0])
    if len(rows) == 1:
        return first
    several = {"kind": "several", "title": f"[{trial.settings.title}] {len(rows)} messages"}
    return Message(**{**asdict(first), **several, "text": "\n".join(content["text"] for content in contents)})


def list_messages(trial: Trial, newest: int = 20) -> list[dict[str, Any]]:
    """The newest messages, with what became of them."""
    columns = [column for column in messages.c if column.name != "content"]
    with trial.database.autocommit() as connection:
        rows = connection.execute(sa.select(*columns).order_by(messages.c.id.desc()).limit(newest)).mappings().all()
    return [dict(row) for row in rows]


def count_undelivered(trial: Trial) -> int:
    """Messages that could not be handed over at least once and still wait, or were given up."""
    failed = sa.select(sa.func.count()).where(messages.c.sent_at.is_(None), messages.c.error.is_not(None))
    with trial.database.autocommit() as connection:
        return int(connection.scalar(failed) or 0)


def add_test_messages(trial: Trial, channels: list[Channel], at: datetime) -> None:
    """A message by every channel that says that messages arrive."""
    text = "This is a test: messages of the trial arrive here."
    rows = [make_row(trial, channel.name, f"test:{at.isoformat()}", "test", text, at) for channel in channels]
    if rows:
        with trial.database.transaction() as connection:
            connection.execute(trial.database.insert_new(messages), rows)
