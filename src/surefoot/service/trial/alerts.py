"""Alerts: what the trial team must know, once for each occasion."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta

import sqlalchemy as sa

from surefoot.service.access.staff_trail import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_new_recorded, record
from surefoot.service.database.schema import alerts, decisions, keys
from surefoot.service.trial.trial import Trial

MINIMUM_DECISIONS = 20
"""A share of fewer decision points raises no alert."""
KEY_WARNING_DAYS = 14
WARNINGS_NAMED = 5
MEANINGS = {
    "no-data": "No decision was asked for in a long time.",
    "fallbacks": "The fallback makes too many of the decisions.",
    "policy-check": "An update was refused by a policy check; the policy before it stays live.",
    "update": "An update failed or was interrupted.",
    "probability": "A client believes other probabilities than were drawn with.",
    "key-expiry": "Keys will soon expire; make new ones.",
    "context": "An app sends context variables that the study does not know.",
}
"""What an alert of each kind means. Its own message may name participants, and stays on the dashboard."""


def raise_alert(database: Database, connection: sa.Connection, *, kind: str, occasion: str, message: str) -> None:
    """Add an alert unless this occasion has one."""
    row = {"occasion": occasion, "kind": kind, "message": message, "raised_at": now()}
    insert_new_recorded(connection, "alert", database.insert_new(alerts), [row], "occasion")


def close_alert(database: Database, alert_id: int, by: str) -> bool:
    """Mark an alert as dealt with; False when there is none."""
    moment = now()
    open_one = sa.update(alerts).where(alerts.c.id == alert_id, alerts.c.closed_at.is_(None)).values(closed_at=moment)
    with database.transaction() as connection:
        occasion = connection.scalar(open_one.returning(alerts.c.occasion))
        if occasion is None:
            return False
        record(connection, "alert closed", [{"id": alert_id, "occasion": occasion, "closed_at": moment}])
        record_action(connection, by, "closed an alert", f"alert {alert_id}")
        return True


def raise_periodic_alerts(trial: Trial, at: datetime) -> None:
    """Raise the alerts that no single request would, at most once a day each."""
    due = [_no_data_alert(trial, at), _fallback_alert(trial, at), _key_alert(trial, at), _context_alert(trial, at)]
    day = at.astimezone(trial.settings.zone).date().isoformat()
    with trial.database.transaction() as connection:
        for kind, message in (alert for alert in due if alert is not None):
            raise_alert(trial.database, connection, kind=kind, occasion=f"{kind}:{day}", message=message)


def _no_data_alert(trial: Trial, at: datetime) -> tuple[str, str] | None:
    hours = trial.settings.alerts.no_data_hours
    with trial.database.autocommit() as connection:
        # What a clock that was once ahead has dated into the future is no news.
        past = sa.select(decisions.c.received_at).where(decisions.c.received_at <= at)
        last = connection.scalar(past.order_by(decisions.c.received_at.desc()).limit(1))
    # A study without any decision has not begun.
    if last is None or at - last <= timedelta(hours=hours):
        return None
    return "no-data", f"no decision was asked for in the last {hours:g} hours; the last was at {last:%Y-%m-%d %H:%M} UTC"


def _key_alert(trial: Trial, at: datetime) -> tuple[str, str] | None:
    """Keys that end soon: an app whose key has ended gets no decisions."""
    soon = sa.select(keys.c.prefix).where(
        keys.c.revoked_at.is_(None), keys.c.expires_at > at, keys.c.expires_at < at + timedelta(days=KEY_WARNING_DAYS)
    )
    with trial.database.autocommit() as connection:
        prefixes = list(connection.scalars(soon.order_by(keys.c.expires_at)))
    if not prefixes:
        return None
    words = f"key {', '.join(prefixes)} {'ends' if len(prefixes) == 1 else 'end'} within {KEY_WARNING_DAYS} days"
    return "key-expiry", f"{words}; make new ones with surefoot keys create"


def _fallback_alert(trial: Trial, at: datetime) -> tuple[str, str] | None:
    recent = sa.select(decisions.c.source, sa.func.count().label("number")).where(
        decisions.c.received_at > at - timedelta(hours=24), decisions.c.available
    )
    with trial.database.autocommit() as connection:
        counts = {row.source: row.number for row in connection.execute(recent.group_by(decisions.c.source))}
    total = sum(counts.values())
    fallbacks = counts.get("fallback", 0)
    if total < MINIMUM_DECISIONS or fallbacks / total <= trial.settings.alerts.max_fallback_share:
        return None
    return "fallbacks", f"{fallbacks} of {total} decisions of the last 24 hours were made by the fallback"


def count_warnings(trial: Trial, at: datetime) -> Counter[str]:
    """How often each warning stood in an answer of the last 24 hours."""
    answers = sa.select(decisions.c.reply).where(
        decisions.c.received_at > at - timedelta(hours=24), decisions.c.reply.contains('"warnings": ["', autoescape=True)
    )
    with trial.database.autocommit() as connection:
        return Counter(warning for reply in connection.scalars(answers) for warning in json.loads(reply)["warnings"])


def _context_alert(trial: Trial, at: datetime) -> tuple[str, str] | None:
    warnings = count_warnings(trial, at)
    if not warnings:
        return None
    listed = "; ".join(f"{warning} ({number:,} decisions)" for warning, number in warnings.most_common(WARNINGS_NAMED))
    return "context", f"{listed}; mend the app or the study"
