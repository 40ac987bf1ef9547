"""Monitoring: log lines, counters and metrics in Prometheus' text format, and readiness.

Logs and metrics never hold a state, a key or anything that a client sent.
"""

import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database, newest_schema_version, schema_version
from surefoot.service.database.ledger import set_job
from surefoot.service.database.schema import activations, alerts, decisions, outcomes, participants, updates
from surefoot.service.messages import UNDELIVERED
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import LIVE, Trial

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""Of the request that is being answered; also in its reply, as X-Request-Id."""


class LineFormatter(logging.Formatter):
    """`2026-03-01T09:30:00.123Z ERROR surefoot.service [4f1c…] message`, or one JSON object a line."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        content = {"time": moment, "level": record.levelname, "logger": record.name}
        content |= {"request_id": request_id.get(), "message": super().format(record)}
        if self._form == "json":
            return json.dumps(content, ensure_ascii=False)
        return "{time} {level} {logger} [{request_id}] {message}".format(**content)


def make_log_settings(form: str, level: str) -> dict[str, Any]:
    """Settings for `logging.config.dictConfig`; a level above info leaves out the line for every request."""
    logger = {"level": level.upper(), "handlers": ["stderr"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"{__name__}.LineFormatter", "form": form}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}},
        "loggers": {"surefoot": logger, "uvicorn": logger},
    }


WORKER_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that prometheus-client reads when it is imported."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends in seconds, as Prometheus' histograms have them."""
FRESH_SECONDS = 5.0
_number = sa.func.count()
_late = sa.case((outcomes.c.late, "true"), else_="false").label("late")
_live = sa.func.coalesce(LIVE.with_only_columns(activations.c.policy_id).scalar_subquery(), 0)
METRICS: tuple[tuple[str, str, str, sa.Select[Any]], ...] = (
    ("participants", "gauge", "Registered participants.", sa.select(_number).select_from(participants)),
    ("decisions_total", "counter", "Decisions by source.", sa.select(decisions.c.source, _number).group_by("source")),
    ("outcomes_total", "counter", "Outcomes received.", sa.select(_late, _number).group_by(_late)),
    ("updates_total", "counter", "Updates by state.", sa.select(updates.c.state, _number).group_by("state")),
    ("live_policy", "gauge", "Version of the live policy; 0 in warm-up.", sa.select(_live)),
    ("open_alerts", "gauge", "Alerts that nobody closed.", sa.select(_number).where(alerts.c.closed_at.is_(None))),
    ("undelivered_messages", "gauge", "Messages that could not be sent.", UNDELIVERED),
    ("last_decision_timestamp_seconds", "gauge", "When.", sa.select(sa.func.max(decisions.c.received_at))),
)
"""Name, kind and description of every count, and its query: a number, or one for each value of its first column."""


def _write_metric(name: str, kind: str, words: str, samples: Iterable[tuple[str, object]]) -> list[str]:
    head = [f"# HELP surefoot_{name} {words}", f"# TYPE surefoot_{name} {kind}"]
    return [*head, *(f"surefoot_{name}{labels} {value}" for labels, value in samples)]


class Metrics:
    """Counts of requests, of all workers together, and of the database; of the latter at most every few seconds, because
    anybody may ask.

    Where PROMETHEUS_MULTIPROC_DIR names a folder, as `surefoot serve` does, workers count in files there, and any of them
    answers for all. `study` distinguishes several studies of one server.
    """

    def __init__(self, trial: Trial, study: str = "") -> None:
        self._trial = trial
        self._study = study
        self._lines: list[str] = []
        self._until = 0.0
        self._registry = CollectorRegistry()
        labels = ("study", "route", "status")
        self._answers = Counter("surefoot_requests", "Requests by route and status.", labels, registry=self._registry)
        self._seconds = Histogram(
            "surefoot_request_seconds", "How long requests took.", labels[:1], registry=self._registry, buckets=BUCKETS
        ).labels(study)
        self._known: dict[tuple[str, int], Counter] = {}

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """One request; `route` is the pattern of the path, so that ids are not counted apart."""
        counter = self._known.get((route, status))
        if counter is None:
            counter = self._known[route, status] = self._answers.labels(self._study, route, status)
        counter.inc()
        self._seconds.observe(seconds)

    def text(self) -> str:
        """In Prometheus' text format."""
        if time.monotonic() >= self._until:
            self._lines = self._read_counts()
            self._until = time.monotonic() + FRESH_SECONDS
        return "\n".join(self._lines) + "\n" + generate_latest(self).decode()

    def collect(self) -> Iterator[Metric]:
        """The counts of requests of this study, for `generate_latest`."""
        folder = os.environ.get(WORKER_FOLDER)
        workers = self._registry if folder is None else MultiProcessCollector(None, folder)  # type: ignore[no-untyped-call]
        for metric in workers.collect():  # type: ignore[no-untyped-call, unused-ignore]
            metric.samples = [
                sample._replace(labels={name: label for name, label in sample.labels.items() if name != "study" or label})
                for sample in metric.samples
                if sample.labels.get("study") == self._study and not sample.name.endswith("_created")
            ]
            yield metric

    def _read_counts(self) -> list[str]:
        lines = []
        with self._trial.database.snapshot() as connection:
            for name, kind, words, query in METRICS:
                result = connection.execute(query)
                label = next(iter(result.keys()))
                samples = []
                for *values, number in result:
                    shown = f"{number.timestamp():.3f}" if isinstance(number, datetime) else number
                    samples.append((f'{{{label}="{values[0]}"}}' if values else "", shown))
                if samples != [("", None)]:  # no decision yet
                    lines += _write_metric(name, kind, words, samples)
        return lines


ROOM = 1_000_000
"""Bytes that a group of decisions may need: the row of readiness alone would still fit on a disk that is full for them."""


def write_readiness(database: Database) -> None:
    """Write one row to the disk by the connection of decisions; raises what the database raises when it is full, read-only
    or away."""
    if database.is_sqlite and shutil.disk_usage(Path(str(database.engine.url.database)).parent).free < ROOM:
        raise ApiError(503, "disk_full", "the database's disk is full; make space")
    with database.decision_transaction() as connection:
        if schema_version(database, connection) != newest_schema_version():
            raise ApiError(503, "old_database", "the database has another schema version; run surefoot db upgrade")
        set_job(connection, "readiness", now())
