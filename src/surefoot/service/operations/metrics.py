"""Metrics in Prometheus' text format, counted in the database: the same from every worker."""

from __future__ import annotations

import time

import sqlalchemy as sa

from surefoot.service.database.schema import alerts, decisions, outcomes, participants, updates
from surefoot.service.messages.outbox import count_undelivered
from surefoot.service.operations.request_counters import RequestCounters
from surefoot.service.trial.policy_versions import LIVE
from surefoot.service.trial.trial import Trial

FRESH_SECONDS = 5.0


class Metrics:
    """Counted at most every few seconds, because anybody may ask."""

    def __init__(self, trial: Trial, counters: RequestCounters) -> None:
        self._trial = trial
        self._counters = counters
        self._text = ""
        self._until = 0.0

    def text(self) -> str:
        if time.monotonic() >= self._until:
            self._text = _count(self._trial)
            self._until = time.monotonic() + FRESH_SECONDS
        return self._text + "\n".join(self._counters.lines()) + "\n"


def _count(trial: Trial) -> str:
    with trial.database.snapshot() as connection:
        sources = connection.execute(sa.select(decisions.c.source, sa.func.count()).group_by(decisions.c.source)).all()
        states = connection.execute(sa.select(updates.c.state, sa.func.count()).group_by(updates.c.state)).all()
        people = connection.scalar(sa.select(sa.func.count()).select_from(participants))
        late = connection.execute(sa.select(outcomes.c.late, sa.func.count()).group_by(outcomes.c.late)).all()
        unclosed = connection.scalar(sa.select(sa.func.count()).where(alerts.c.closed_at.is_(None)))
        live = connection.scalar(LIVE)
        last = connection.scalar(sa.select(decisions.c.received_at).order_by(decisions.c.received_at.desc()).limit(1))
    lines = [
        *_metric("participants", "gauge", "Registered participants.", [("", people)]),
        *_metric("decisions_total", "counter", "Decisions by source.", [(f'{{source="{s}"}}', n) for s, n in sources]),
        *_metric(
            "outcomes_total", "counter", "Outcomes received.", [(f'{{late="{str(bool(x)).lower()}"}}', n) for x, n in late]
        ),
        *_metric("updates_total", "counter", "Updates by state.", [(f'{{state="{s}"}}', n) for s, n in states]),
        *_metric("live_policy", "gauge", "Version of the live policy; 0 in warm-up.", [("", live or 0)]),
        *_metric("open_alerts", "gauge", "Alerts that nobody closed.", [("", unclosed)]),
        *_metric("undelivered_messages", "gauge", "Messages that could not be sent.", [("", count_undelivered(trial))]),
    ]
    if last is not None:
        lines += _metric("last_decision_timestamp_seconds", "gauge", "When.", [("", f"{last.timestamp():.3f}")])
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, words: str, samples: list[tuple[str, object]]) -> list[str]:
    full = f"surefoot_{name}"
    return [f"# HELP {full} {words}", f"# TYPE {full} {kind}", *(f"{full}{labels} {value}" for labels, value in samples)]
