"""Connections to PostgreSQL: durable commits, and an end to every wait, whatever the server or the network does."""

import time
from typing import Any
from weakref import WeakSet

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from surefoot.service.database.pool import ClosingPool

STATEMENT_SECONDS = 8
"""A statement of a request that takes longer is ended by the server; exports, backups and migrations have no such limit."""
SILENT_SECONDS = 10
"""A connection is closed when the server sends nothing for this long, or, by the server, when the service does not."""
LONG_SECONDS = 3600
"""The same for exports, backups and migrations."""
POOL_SECONDS = 5
CONNECTIONS = 10


class WatchedConnection(psycopg.Connection[Any]):
    """A connection whose every wait ends.

    Keepalives notice a machine that is gone. They do not notice a proxy, or a frozen server, that keeps the connection open
    and passes nothing on; only a limit on the answer does.
    """

    silent_seconds: float = SILENT_SECONDS

    def wait(self, gen: PQGen[Any], *settings: Any, **options: Any) -> Any:
        """Wait for the server, as psycopg does at every statement, commit and rollback."""
        return super().wait(self._watch(gen), *settings, **options)

    def _watch(self, gen: PQGen[Any]) -> PQGen[Any]:
        began = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                # psycopg looks ten times a second whether it was interrupted; then nothing is ready.
                if ready == Ready.NONE and time.monotonic() - began > self.silent_seconds:
                    self.close()
                    raise psycopg.OperationalError("the server does not answer")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def create_engine(url: sa.URL) -> tuple[sa.Engine, WeakSet[WatchedConnection]]:
    """An engine, and the connections that it has opened."""
    milliseconds = 1000 * SILENT_SECONDS
    settings = {
        "statement_timeout": 1000 * STATEMENT_SECONDS,
        "lock_timeout": 1000 * STATEMENT_SECONDS,
        # When a connection is lost in the middle of a transaction, its locks go with it.
        "idle_in_transaction_session_timeout": milliseconds,
        "tcp_user_timeout": milliseconds,
        "tcp_keepalives_idle": SILENT_SECONDS,
        "tcp_keepalives_interval": 2,
        "tcp_keepalives_count": 3,
        "plan_cache_mode": "force_generic_plan",  # a statement that comes again and again is planned once
    }
    # What is answered is on the disk, whatever the server, the role or the URL says.
    durable = "-c synchronous_commit=on"
    options = " ".join([*(f"-c {name}={value}" for name, value in settings.items()), *_list_options(url), durable])
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        poolclass=ClosingPool,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=POOL_SECONDS,
        pool_use_lifo=True,  # the connection that has prepared the statements already
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",  # transactions begin as `databases` says
        connect_args={
            "connect_timeout": POOL_SECONDS,
            "prepare_threshold": None,  # with its own prepared statements the driver would drop those of `direct`
            "keepalives": 1,
            "keepalives_idle": SILENT_SECONDS,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": milliseconds,
            "options": options,
        },
    )
    opened: WeakSet[WatchedConnection] = WeakSet()

    @sa.event.listens_for(engine, "do_connect")
    def _connect(dialect: Any, record: Any, arguments: Any, options: Any) -> WatchedConnection:
        connection = WatchedConnection.connect(*arguments, **options)
        connection.silent_seconds = SILENT_SECONDS
        opened.add(connection)
        return connection

    @sa.event.listens_for(engine, "checkin")
    def _limit_again(connection: Any, record: Any) -> None:
        if connection is not None:
            connection.silent_seconds = SILENT_SECONDS

    return engine, opened


def _list_options(url: sa.URL) -> list[str]:
    """Options that the URL itself gives."""
    options = url.query.get("options", ())
    return [options] if isinstance(options, str) else list(options)


def lift_limits(connection: sa.Connection) -> None:
    """Let this transaction's statements, and the pauses between them, take as long as they need."""
    # The last one also closes the connection of a reader that was held up while the server had rows to send.
    limits = ("statement_timeout", "idle_in_transaction_session_timeout", "tcp_user_timeout")
    connection.exec_driver_sql("; ".join(f"SET LOCAL {limit} = 0" for limit in limits))
    driver: Any = connection.connection.driver_connection
    driver.silent_seconds = LONG_SECONDS
