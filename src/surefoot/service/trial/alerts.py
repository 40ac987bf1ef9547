"""Alerts for the trial team, once for each occasion, the state of the trial as a whole, and counts for a safety board."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.service.access import BY_PROVIDER, record_action
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_new_recorded, record
from surefoot.service.database.schema import alerts, decisions, erasures, keys, participant_events, participants, updates
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_statuses
from surefoot.service.trial.trial import Trial
from surefoot.service.trial.upkeep import Trouble, find_upkeep_troubles

MINIMUM_DECISIONS = 20
"""A share of fewer decision points raises no alert."""
KEY_WARNING_DAYS = 14
WARNINGS_NAMED = 5
REASONS = 50
"""The newest reasons that a safety board sees."""
SEVERITIES = {
    "red": "act now: randomisation is wrong or lost, or prompts may harm",
    "yellow": "look today: learning is held, or prompts are too many",
    "green": "for information",
}
"""The most serious first."""


@dataclass(frozen=True)
class AlertKind:
    """How serious an alert is, and what it means. Its message may name participants, and stays on the dashboard."""

    severity: str
    meaning: str


KINDS = {
    "no-data": AlertKind("red", "No decision was asked for in a long time."),
    "fallbacks": AlertKind("yellow", "Too many decisions are made without the policy."),
    "policy-check": AlertKind("yellow", "An update was held back, or left newcomers out: somebody should look at it."),
    "update": AlertKind("yellow", "An update failed or was interrupted."),
    "probability": AlertKind("red", "A client believes other probabilities than were drawn with."),
    "key-expiry": AlertKind("green", "Keys will soon expire; make new ones."),
    "draws": AlertKind("red", "Actions were not drawn with the recorded probabilities."),
    "harm": AlertKind("red", "The boundary for harm was crossed."),
    "burden": AlertKind("yellow", "The boundary for the number of prompts was crossed."),
    "futility": AlertKind("green", "The boundary for futility was crossed."),
    "context": AlertKind("yellow", "An app sends values that the study does not know."),
    "adverse-event": AlertKind("red", "A serious adverse event was recorded."),
    "clock": AlertKind("yellow", "The server's clock was set, or the service was off for hours; check the clock."),
    "silence": AlertKind("yellow", "Participants have been silent for days."),
    "messages": AlertKind("yellow", "Messages to the team could not be delivered."),
    "backup": AlertKind("red", "A backup is late or failed."),
    "seal": AlertKind("yellow", "A seal is late."),
    "disk": AlertKind("red", "A disk is almost full."),
    "replay": AlertKind("red", "A replay or an update found decisions or rows that are not as they were recorded."),
    "retention": AlertKind("yellow", "Much old content is due to be erased; the service waits a day before it does."),
}


MEANINGS = {kind: alert.meaning for kind, alert in KINDS.items()}
"""In plain words, for everybody on the team."""


def find_severity(kind: str) -> str:
    """The severity of an alert or message; of a message that is no alert, such as a digest, green."""
    return KINDS[kind].severity if kind in KINDS else "green"


def raise_alert(connection: sa.Connection, *, kind: str, occasion: str, message: str) -> None:
    """Add an alert unless this occasion has one."""
    row = {"occasion": occasion, "kind": kind, "message": message, "raised_at": now()}
    insert_new_recorded(connection, "alert", [row], "occasion")


def count_alert(connection: sa.Connection, *, kind: str, message: str, at: datetime, times: int = 1) -> None:
    """Raise an alert that may repeat itself: one a day (UTC) with a count; after it was closed, another one."""
    today = f"{kind}:{at:%Y-%m-%d}"
    number = sa.select(sa.func.count()).where(
        alerts.c.occasion.startswith(f"{today} ", autoescape=True), alerts.c.closed_at.is_not(None)
    )
    occasion = f"{today} {connection.scalar(number) or 0}"
    row = {"occasion": occasion, "kind": kind, "message": message, "raised_at": now(), "times": 0}
    insert_new_recorded(connection, "alert", [row], "occasion")
    connection.execute(sa.update(alerts).where(alerts.c.occasion == occasion).values(times=alerts.c.times + times))


def close_alert(database: Database, alert_id: int, by: str) -> bool:
    """Mark an alert as dealt with; False when there is none."""
    moment = now()
    closing = sa.update(alerts).where(alerts.c.id == alert_id, alerts.c.closed_at.is_(None)).values(closed_at=moment)
    with database.transaction() as connection:
        occasion = connection.scalar(closing.returning(alerts.c.occasion))
        if occasion is None:
            return False
        record(connection, "alert closed", [{"id": alert_id, "occasion": occasion, "closed_at": moment}])
        record_action(connection, by, "closed an alert", f"alert {alert_id}")
        return True


def raise_periodic_alerts(trial: Trial, at: datetime) -> None:
    """Raise the alerts that no single request would, at most once a day each."""
    with trial.database.autocommit() as connection:
        troubles = list(find_troubles(trial, connection, at))
    day = at.astimezone(trial.settings.zone).date().isoformat()
    with trial.database.transaction() as connection:
        for trouble in troubles:
            if trouble.is_new:
                raise_alert(connection, kind=trouble.kind, occasion=f"{trouble.kind}:{day}", message=trouble.message)


def find_troubles(trial: Trial, connection: sa.Connection, at: datetime) -> Iterator[Trouble]:
    """What is not as it should be at this moment."""
    settings = trial.settings.alerts
    received = decisions.c.received_at
    # Decisions that a clock ahead of time dated into the future are no news; a study without any has not begun.
    last = connection.scalar(sa.select(sa.func.max(received)).where(received <= at))
    if last is not None and at - last > timedelta(hours=settings.no_data_hours):
        words = f"no decision was asked for in the last {settings.no_data_hours:g} hours"
        local = f"{last.astimezone(trial.settings.zone):%Y-%m-%d %H:%M} {trial.settings.time_zone}"
        yield Trouble("no-data", f"{words}; the last was at {local}")
    recent = sa.select(decisions.c.source).where(received > at - timedelta(hours=24), decisions.c.available)
    sources = Counter(connection.scalars(recent))
    total = sources.total()
    if total >= MINIMUM_DECISIONS and sources["fallback"] / total > settings.max_fallback_share:
        words = f"{sources['fallback']} of {total} decisions of the last 24 hours were made by the fallback"
        yield Trouble("fallbacks", words)
    # An app whose key has ended gets no decisions.
    expires = keys.c.expires_at
    lasting = (keys.c.revoked_at.is_(None), ~keys.c.label.endswith(BY_PROVIDER))
    soon = (*lasting, expires > at, expires < at + timedelta(days=KEY_WARNING_DAYS))
    if prefixes := list(connection.scalars(sa.select(keys.c.prefix).where(*soon).order_by(expires))):
        words = f"key {', '.join(prefixes)} {'ends' if len(prefixes) == 1 else 'end'} within {KEY_WARNING_DAYS} days"
        yield Trouble("key-expiry", f"{words}; make new ones with surefoot keys create")
    if warnings := count_warnings(trial, at).most_common(WARNINGS_NAMED):
        listed = "; ".join(f"{warning} ({number:,} decisions)" for warning, number in warnings)
        yield Trouble("context", f"{listed}; mend the app or the study")
    yield from find_upkeep_troubles(trial, connection, at)


@dataclass(frozen=True)
class TrialState:
    """The state of the whole trial: green only while nothing is wrong and nothing waits for a person."""

    severity: str
    """Of the most serious reason."""
    reasons: list[tuple[str, str, str]]
    """Severity, kind and words, the most serious first; open alerts and troubles of this moment, one of each kind."""


def assess_trial(trial: Trial, at: datetime) -> TrialState:
    """What is wrong now, and what was wrong and is not yet dealt with."""
    unclosed = sa.select(alerts).where(alerts.c.closed_at.is_(None)).order_by(alerts.c.id)
    with trial.database.snapshot() as connection:
        messages = {}
        for row in connection.execute(unclosed):
            messages[row.kind] = row.message + (f" ({row.times:,} times)" if (row.times or 1) > 1 else "")
        messages |= {trouble.kind: trouble.message for trouble in find_troubles(trial, connection, at)}
    order = list(SEVERITIES)
    reasons = [(find_severity(kind), kind, message) for kind, message in messages.items()]
    reasons.sort(key=lambda reason: order.index(reason[0]))
    return TrialState(reasons[0][0] if reasons else order[-1], reasons)


def count_warnings(trial: Trial, at: datetime) -> Counter[str]:
    """How often each warning was part of a reply in the last 24 hours."""
    replies = sa.select(decisions.c.reply).where(
        decisions.c.received_at > at - timedelta(hours=24), decisions.c.reply.contains('"warnings":["', autoescape=True)
    )
    with trial.database.autocommit() as connection:
        return Counter(warning for reply in connection.scalars(replies) for warning in json.loads(reply)["warnings"])


def count_safety(trial: Trial, at: datetime) -> dict[str, Any]:
    """Counts for a safety board: over the whole study, nothing by arm, nothing that names a participant."""
    day = decisions.c.received_at > at - timedelta(days=1)
    events = sa.select(participant_events.c.kind, participant_events.c.reason).where(
        participant_events.c.kind.in_((PAUSED, WITHDRAWN))
    )
    with trial.database.snapshot() as connection:

        def count(*conditions: Any, of: Any = decisions.c.id) -> int:
            return int(connection.scalar(sa.select(sa.func.count(sa.distinct(of))).where(*conditions)) or 0)

        statuses = find_statuses(connection)
        study_status = statuses.pop(None, None)
        newest = connection.execute(events.order_by(participant_events.c.id.desc()).limit(REASONS))
        return {
            "at": at,
            "participants": count(of=participants.c.id),
            "withdrawn": sum(status == WITHDRAWN for status in statuses.values()),
            "paused": sum(status == PAUSED for status in statuses.values()),
            "erased": count(of=erasures.c.participant_id),
            "study_paused": study_status == PAUSED,
            "decisions": count(),
            "available": count(decisions.c.available),
            "decisions_last_day": count(day),
            "fallbacks_last_day": count(day, decisions.c.source == "fallback"),
            "most_prompts_in_a_day": _count_most_prompts(connection, at),
            "open_alerts": count(alerts.c.closed_at.is_(None), of=alerts.c.id),
            "refused_updates": count(updates.c.state == "refused", of=updates.c.id),
            "reasons": [f"{row.kind}: {row.reason}" for row in newest],
        }


def _count_most_prompts(connection: sa.Connection, at: datetime) -> int:
    """The most that any one participant was sent in one of the last seven days, by the decision points' own time."""
    decided = decisions.c.decided_at
    sent = sa.select(decisions.c.participant_id, decided).where(decisions.c.action > 0, decided <= at)
    recent = connection.execute(sent.where(decided > at - timedelta(days=7)))
    days = Counter((row.participant_id, (at - row.decided_at) // timedelta(days=1)) for row in recent)
    return max(days.values(), default=0)
