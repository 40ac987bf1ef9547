"""Monitoring: log lines, counters and metrics in Prometheus' text format, and readiness.

Logs and metrics never hold a state, a key or anything that a client sent.
"""

import json
import logging
import os
import time
from bisect import bisect_left
from collections import Counter
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import insert_new
from surefoot.service.database.schema import alerts, decisions, outcomes, participants, scheduled, updates
from surefoot.service.messages import count_undelivered
from surefoot.service.trial.trial import LIVE, Trial

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""Of the request that is being answered; also in its reply, as X-Request-Id."""


class TextFormatter(logging.Formatter):
    """`2026-03-01T09:30:00.123Z ERROR surefoot.service [4f1c…] message`."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_moment(record)} {record.levelname} {record.name} [{request_id.get()}] {super().format(record)}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "request_id": request_id.get(),
            "message": super().format(record),
        }
        return json.dumps(content, ensure_ascii=False)


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


FORMATTERS = {"text": TextFormatter, "json": JsonFormatter}
LEVELS = ("debug", "info", "warning", "error")


def make_log_settings(form: str = "text", level: str = "info", *, access: bool = True) -> dict[str, Any]:
    """Settings for `logging.config.dictConfig`; `access` adds a line for every request."""
    upper = level.upper()
    loggers = {name: {"level": upper, "handlers": ["stderr"], "propagate": False} for name in ("surefoot", "uvicorn")}
    loggers["surefoot.access"] = {"level": upper if access else "WARNING", "handlers": [], "propagate": True}
    formatter = f"{FORMATTERS[form].__module__}.{FORMATTERS[form].__qualname__}"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}},
        "loggers": loggers,
    }


BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends in seconds, as Prometheus' histograms have them."""


class RequestCounters:
    """Written by the worker's one event loop only, so that nothing needs a lock."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, route: str, status: int, seconds: float) -> None:
        """One request; `route` is the pattern of the path, so that ids are not counted apart."""
        self._answers[route, status] += 1
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def lines(self) -> list[str]:
        """In Prometheus' text format; counters of several workers are told apart by their process.

        >>> counters = RequestCounters()
        >>> counters.count("/healthz", 200, 0.004)
        >>> [line.split("}")[-1] for line in counters.lines() if "requests_total{" in line]
        [' 1']
        """
        worker = f'worker="{os.getpid()}"'
        lines = ["# HELP surefoot_requests_total Requests by route and status.", "# TYPE surefoot_requests_total counter"]
        for (route, status), number in sorted(self._answers.items()):
            lines.append(f'surefoot_requests_total{{{worker},route="{route}",status="{status}"}} {number}')
        name = "surefoot_request_seconds"
        lines += [f"# HELP {name} How long requests took.", f"# TYPE {name} histogram"]
        total = 0
        for end, number in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += number
            lines.append(f'{name}_bucket{{{worker},le="{end}"}} {total}')
        return [*lines, f"{name}_sum{{{worker}}} {self._seconds:.6f}", f"{name}_count{{{worker}}} {total}"]


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


JOB = "readiness"


def write_readiness(database: Database) -> None:
    """Write one row to the disk; raises what the database raises when it is full, read-only or away."""
    with database.transaction() as connection:
        changed = connection.execute(sa.update(scheduled).where(scheduled.c.job == JOB).values(taken_at=now()))
        if not changed.rowcount:
            connection.execute(insert_new(connection, scheduled), {"job": JOB, "taken_at": now()})
