"""Logging: every line with its time, level and request id; as text or JSON; never a state, a key or what a client sent."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

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
