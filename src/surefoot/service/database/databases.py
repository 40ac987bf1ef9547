"""The database: engines for SQLite and PostgreSQL, transactions, faults, migrations."""

import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.errors import InputError
from surefoot.service.database.direct import commit, execute_text
from surefoot.service.database.ledger import CHAIN, LOCK_LEDGER, PENDING, chain, write_pending
from surefoot.service.database.pool import ClosingPool

DEFAULT_URL = "sqlite:///surefoot.db"
NO_TRIAL = (
    "name the trial's with --database or SUREFOOT_DATABASE (quoted: a URL may hold &), or start it with surefoot serve"
)
BUSY_SECONDS = 5
LOOK_MILLISECONDS = 2
"""How long SQLite itself waits for another process that writes, before this one looks again."""
IMMEDIATELY = "BEGIN IMMEDIATE"
READ_COMMITTED = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""What is read after a lock has to be what was committed before it, whatever the server's default is."""
BEGIN_ALONE = f"{READ_COMMITTED}; {LOCK_LEDGER}; "
"""What PostgreSQL gets before the first statement of a transaction that is alone."""
TURN_SECONDS = 20
"""How long a thread waits for the other threads of its process that write to SQLite: one of them may be stuck."""
CONNECTIONS = 10
CLOSING_SECONDS = 1.0
"""What still waits for PostgreSQL when the service ends is given up after this time."""
PRAGMAS = (
    f"busy_timeout = {BUSY_SECONDS * 1000}",
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 4000",  # a checkpoint makes its commit wait: one in 700 decisions, not one in 180
    "secure_delete = ON",  # what is erased is overwritten, not only forgotten
)
"""Of every SQLite connection."""
MIGRATIONS = Path(__file__).parent / "migrations"


class DatabaseMovedError(Exception):
    """The SQLite file that was opened is no longer at its path: what is written to it would be lost."""


DATABASE_FAULTS = (
    sa.exc.OperationalError,
    sa.exc.InterfaceError,
    sa.exc.InternalError,
    sa.exc.TimeoutError,
    DatabaseMovedError,
)
"""The database is away, full, read-only, too slow, or was moved: 503 with Retry-After. Anything else is a 500."""


@dataclass(frozen=True, eq=False)
class Database:
    """One database, and how to read from it and write to it."""

    engine: sa.Engine
    url: str
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _file: tuple[str, tuple[int, int] | None] | None = None
    """Of SQLite: the path, and the file that was there when it was opened."""
    _opened: Collection[Any] = ()
    """Of PostgreSQL: connections of the driver."""
    _kept: list[sa.Connection] = field(default_factory=list)
    """The connection for decisions, while none is under way."""

    @property
    def name(self) -> str:
        """The URL without its password; of a SQLite file its whole path."""
        url = self.engine.url
        return f"sqlite:///{Path(str(url.database)).resolve()}" if self.is_sqlite else url.render_as_string()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def autocommit(self, within: sa.Connection | None = None) -> Iterator[sa.Connection]:
        """For single statements that only read: no transaction around them.

        A function that is called `within` a transaction uses its connection: one that waits for a second connection can
        wait for transactions that wait for it.
        """
        if within is not None:
            yield within
            return
        self._check_file()
        with self.engine.execution_options(begin="").connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self, *, unlimited: bool = False) -> Iterator[sa.Connection]:
        """Several statements that see the database at one moment; `unlimited` ones may take as long as they need."""
        self._check_file()
        begin = "BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ"
        with self.engine.execution_options(begin=begin).connect() as connection:
            if unlimited:
                lift_time_limit(connection)
            yield connection

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[sa.Connection]:
        """One transaction, with what it recorded in the ledger; committed, to the disk, when it ends without an error.

        While a transaction that is `alone` lasts, no other one adds to the ledger: what it has read stays true. SQLite's
        transactions always are.
        """
        self._check_file()
        engine = self.engine.execution_options(begin=BEGIN_ALONE) if alone and not self.is_sqlite else self.engine
        # SQLite has one writer at a time and lets the others poll; threads of one process wait in line instead.
        with self._take_turn() if self.is_sqlite else nullcontext(), engine.begin() as connection:
            connection.info.pop(PENDING, None)
            yield connection
            write_pending(connection, locked=alone or self.is_sqlite)

    @contextmanager
    def decision_transaction(self, *, begun: bool = True) -> Iterator[sa.Connection]:
        """A transaction that is alone, in a third of the time: for direct statements, on a connection that is kept.

        PostgreSQL gets `BEGIN_ALONE` with the first of them unless it has `begun`, and may have got COMMIT with the last.
        """
        self._check_file()
        with self._take_turn() if self.is_sqlite else nullcontext():
            try:
                connection = self._kept.pop()
            except IndexError:
                connection = self.engine.execution_options(begin="").connect()
            try:
                if self.is_sqlite:
                    _wait_to_write(connection)
                elif begun:
                    execute_text(connection, BEGIN_ALONE)
                yield connection
                commit(connection)
            except BaseException:
                connection.close()
                raise
            if self._kept:
                connection.close()
            else:
                self._kept.append(connection)

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise sa.exc.TimeoutError
        try:
            yield
        finally:
            self._turn.release()

    def _check_file(self) -> None:
        """SQLite goes on writing to a file that was renamed or deleted under it."""
        if self._file is not None and _identify(self._file[0]) != self._file[1]:
            raise DatabaseMovedError

    def close(self) -> None:
        """Close connections; one that is in use is closed when it comes back, or when the server stays silent."""
        self.engine.dispose()
        while self._kept:
            self._kept.pop().close()
        for connection in list(self._opened):
            connection.silent_seconds = CLOSING_SECONDS


def connect(url: str | None = None, *, create: bool = True) -> Database:
    """Open a database by URL: `sqlite:///trial.db` or `postgresql://user@host/trial`; by default surefoot.db here."""
    text = url or os.environ.get("SUREFOOT_DATABASE") or DEFAULT_URL
    parsed = _parse_url(text)
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        path = _open_file(parsed.database, create)
        # Each thread of the server may wait for its turn with a connection in hand.
        engine = sa.create_engine(
            parsed,
            poolclass=ClosingPool,
            pool_size=CONNECTIONS,
            max_overflow=40,
            hide_parameters=True,
            paramstyle="named",  # as direct statements give their parameters
        )
        # A transaction that reads first and writes later cannot wait for another writer: writers say so at once.
        _listen(engine, IMMEDIATELY)
        return Database(engine, text, _file=(path, _identify(path)))
    if kind not in ("postgresql", "postgres"):
        raise InputError(f"there is no support for '{kind}' databases; use sqlite:///… or postgresql://…")
    from surefoot.service.database import postgresql

    engine, opened = postgresql.create_engine(parsed)
    _listen(engine, READ_COMMITTED)
    return Database(engine, text, _opened=opened)


def identify(url: str) -> object:
    """The same for two URLs of one database, however they are spelt."""
    parsed = _parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Path(str(parsed.database)).resolve()
    return parsed.host or "localhost", parsed.port or 5432, parsed.database or parsed.username


def _parse_url(text: str) -> sa.URL:
    try:
        return make_url(text)
    except sa.exc.ArgumentError as error:
        raise InputError("the database is not a URL; write sqlite:///trial.db or postgresql://user@host/trial") from error


def _open_file(name: str | None, create: bool) -> str:
    """The path of a SQLite file, which is made if it is not there."""
    if not name or name == ":memory:":
        raise InputError("a trial needs a database that stays: write sqlite:///trial.db")
    path = Path(name)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} for the database; make it first")
    if not path.exists() and not create:
        raise InputError(f"there is no database {path.resolve()}; {NO_TRIAL}")
    if not path.exists():
        # The file holds the study's secret.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return str(path.resolve())


def _identify(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - at every statement; a Path would cost more than the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _listen(engine: sa.Engine, default: str) -> None:
    """Set up connections; begin transactions by the statement in the execution option `begin`, an empty one begins none."""

    @sa.event.listens_for(engine, "connect")
    def _settle(connection: Any, record: Any) -> None:
        if engine.dialect.name == "sqlite":
            connection.isolation_level = None
            connection.create_function(CHAIN, 2, chain, deterministic=True)
            for setting in PRAGMAS:
                connection.execute(f"PRAGMA {setting}").close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        statement = connection.get_execution_options().get("begin", default)
        if statement == IMMEDIATELY:
            _wait_to_write(connection)
        elif statement:
            execute_text(connection, statement)


def _wait_to_write(connection: sa.Connection) -> None:
    """Begin a transaction that writes to SQLite, as soon as another process leaves a gap.

    SQLite looks less and less often, in the end ten times a second: beside a busy process it might never see a gap.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    driver: Any = connection.connection.driver_connection
    driver.execute(f"PRAGMA busy_timeout = {LOOK_MILLISECONDS}").close()
    try:
        while True:
            try:
                connection.exec_driver_sql(IMMEDIATELY)
                return
            except sa.exc.OperationalError as error:
                is_busy = isinstance(error.orig, sqlite3.Error) and error.orig.sqlite_errorcode == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > deadline:
                    raise
    finally:
        driver.execute(f"PRAGMA {PRAGMAS[0]}").close()


def lift_time_limit(connection: sa.Connection) -> None:
    """Let this transaction's statements take as long as they need."""
    if connection.dialect.name == "postgresql":
        from surefoot.service.database import postgresql

        postgresql.lift_limits(connection)


def lock_ledger(connection: sa.Connection) -> None:
    """Keep others from adding to the ledger until the end of the transaction."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(LOCK_LEDGER)


def lock_content(connection: sa.Connection) -> None:
    """Let erasures, withdrawals and the ends of updates take turns until their commits."""
    _lock(connection, 7355205)


def lock_sign_ins(connection: sa.Connection) -> None:
    """Let attempts to sign in take turns, so that all are counted."""
    _lock(connection, 7355206)


def _lock(connection: sa.Connection, number: int) -> None:
    """Until the end of the transaction; any number but the ledger's. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({number})")


def upgrade(database: Database) -> None:
    """Bring the tables to the newest schema version; nothing happens when they have it."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["database"] = database
    with _refuse_unreachable():
        command.upgrade(config, "head")


def schema_version(database: Database, within: sa.Connection | None = None) -> str | None:
    """The schema version of the tables; None for an empty database."""
    from alembic.runtime.migration import MigrationContext

    with database.autocommit(within) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_schema_version() -> str:
    """The schema version that this release of Surefoot needs."""
    return _read_head(MIGRATIONS)


@cache
def _read_head(folder: Path) -> str:
    from alembic.script import ScriptDirectory

    return str(ScriptDirectory(str(folder)).get_current_head())


def prepare(database: Database, *, create: bool = True) -> None:
    """Make the tables of an empty database; refuse one of another schema version, which should be backed up first."""
    with _refuse_unreachable():
        version = schema_version(database)
    if version is None and not create:
        raise InputError(f"{database.name} holds no trial; {NO_TRIAL}")
    needed = newest_schema_version()
    if version is None:
        upgrade(database)
    elif version != needed:
        words = f"the database has schema version {version}, this release needs {needed}"
        raise InputError(f"{words}; back it up with surefoot backup and run surefoot db upgrade")


@contextmanager
def _refuse_unreachable() -> Iterator[None]:
    try:
        yield
    except sa.exc.OperationalError as error:
        raise InputError(f"the database cannot be reached ({type(error.orig).__name__}); is it running?") from error
