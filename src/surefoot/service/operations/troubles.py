"""Troubles: conditions under which the overview is red, whether or not somebody closed the alert about them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.schema import alerts, messages
from surefoot.service.messages import ATTEMPTS
from surefoot.service.trial.alerts import find_severity
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_status
from surefoot.service.trial.trial import Trial

SILENT_AFTER = timedelta(days=2)
"""A participant without any contact for this long is called."""
LOST_FOR = timedelta(days=7)
"""How long a message that was given up keeps the overview red."""
NAMED = 5
"""Silent participants whom the overview names."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong, in words for the whole team, and the page that says more."""

    words: str
    page: str


def find_troubles(trial: Trial, at: datetime, people: Iterable[Mapping[str, Any]]) -> list[Trouble]:
    """All of them, the most serious first; `people` as the page of participants lists them."""
    troubles = [*_find_red_alerts(trial), *_find_failing_messages(trial, at)]
    if find_status(trial, None) != PAUSED:
        troubles += _find_silence(at, people)
    return troubles


def _find_red_alerts(trial: Trial) -> list[Trouble]:
    with trial.database.autocommit() as connection:
        kinds = list(connection.scalars(sa.select(alerts.c.kind).where(alerts.c.closed_at.is_(None))))
    red = sum(find_severity(kind) == "red" for kind in kinds)
    return [Trouble(f"{red} red alert{'s are' if red > 1 else ' is'} open", "/alerts")] if red else []


def _find_failing_messages(trial: Trial, at: datetime) -> list[Trouble]:
    """A channel fails while its newest messages do not leave, and for a week after it lost one."""
    failed = sa.select(messages).where(messages.c.sent_at.is_(None), messages.c.error.is_not(None))
    sent = sa.select(messages.c.channel, sa.func.max(messages.c.sent_at).label("sent_at")).group_by(messages.c.channel)
    with trial.database.autocommit() as connection:
        last_sent = {row.channel: row.sent_at for row in connection.execute(sent)}
        rows = connection.execute(failed.order_by(messages.c.id)).all()
    waiting: dict[str, list[Any]] = {}
    for row in rows:
        last = last_sent.get(row.channel)
        was_lost = row.attempts >= ATTEMPTS and at - row.created_at < LOST_FOR
        if was_lost or last is None or row.created_at > last:
            waiting.setdefault(row.channel, []).append(row)
    return [
        Trouble(f"{len(failing)} message{'s' if len(failing) > 1 else ''} by {channel} did not reach the team", "/alerts")
        for channel, failing in waiting.items()
    ]


def _find_silence(at: datetime, people: Iterable[Mapping[str, Any]]) -> list[Trouble]:
    silent = [
        person["id"]
        for person in people
        if person["status"] not in (PAUSED, WITHDRAWN)
        and at - (person["last_contact"] or person["registered_at"]) > SILENT_AFTER
    ]
    if not silent:
        return []
    named = ", ".join(silent[:NAMED]) + (f" and {len(silent) - NAMED} others" if len(silent) > NAMED else "")
    verb = "participants have" if len(silent) > 1 else "participant has"
    return [Trouble(f"{len(silent)} {verb} been silent for more than {SILENT_AFTER.days} days: {named}", "/participants")]
