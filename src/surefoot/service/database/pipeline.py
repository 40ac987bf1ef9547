"""PostgreSQL's pipeline: statements whose result nobody looks at are sent without a wait after each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa

UNANSWERED = {"surefoot_unanswered": True}
"""Execution options of such a statement. What is wrong with it shows at the next statement that is waited for, at the latest
at the commit."""


PIPELINE = "surefoot_pipeline"
"""Where a connection keeps its pipeline, in its `info`."""


def execute_in_pipeline(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
    """Execute a statement for SQLAlchemy; in a pipeline, wait for its rows unless it is `UNANSWERED`."""
    if not cursor.connection.pgconn.pipeline_status:
        cursor.execute(statement, parameters)
        return True
    pipeline = context.root_connection.info[PIPELINE]
    try:
        cursor.execute(statement, parameters)
        if not UNANSWERED.keys() & context.execution_options.keys():
            pipeline.sync()
    except Exception:
        # The statements after the one that failed are answered "aborted", which would hide the cause.
        with suppress(Exception):
            pipeline.sync()
        raise
    return True


@contextmanager
def open_pipeline(connection: sa.Connection) -> Iterator[None]:
    """Send statements that are `UNANSWERED` without a wait, until the block ends."""
    import psycopg

    driver: Any = connection.connection.driver_connection
    # Kept here: a connection that was lost cannot be asked for it.
    info = connection.info
    try:
        with driver.pipeline() as info[PIPELINE]:
            yield
    except psycopg.Error as error:
        # A database that went away shows here past SQLAlchemy, whose errors everybody else knows.
        raise sa.exc.OperationalError("pipeline", None, error) from error
    finally:
        info.pop(PIPELINE, None)
