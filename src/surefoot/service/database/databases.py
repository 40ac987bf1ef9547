"""The database: engines for SQLite and PostgreSQL, the two kinds of transaction, migrations."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.errors import InputError
from surefoot.service.database.faults import DatabaseMovedError
from surefoot.service.database.ledger import PENDING, write_pending

DEFAULT_URL = "sqlite:///surefoot.db"
NO_TRIAL = (
    "name the trial's with --database or SUREFOOT_DATABASE (quoted: a URL may hold &), or start it with surefoot serve"
)
BUSY_SECONDS = 5
STATEMENT_SECONDS = 8
"""A statement of a request that takes longer is ended by PostgreSQL; exports, backups and migrations have no limit."""
POOL_SECONDS = 5
CONNECTIONS = 10
MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, eq=False)
class Database:
    """One database, and how to read from it and write to it."""

    engine: sa.Engine
    url: str
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _file: tuple[str, tuple[int, int] | None] | None = None
    """Of SQLite: the path, and the file that was there when it was opened."""
    _options: dict[str, Any] = field(default_factory=dict)
    """Of PostgreSQL's engines."""

    @property
    def name(self) -> str:
        """The URL without its password; of a SQLite file its whole path."""
        url = self.engine.url
        return f"sqlite:///{Path(str(url.database)).resolve()}" if self.is_sqlite else url.render_as_string()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def autocommit(self) -> Iterator[sa.Connection]:
        """For single statements that only read: no transaction around them."""
        self._check_file()
        with self._quick.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Several statements that see the database at one moment."""
        self._check_file()
        with self._snapshot.connect() as connection:
            lift_time_limit(connection)
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """One transaction, with what it recorded in the ledger; committed, to the disk, when it ends without an error."""
        self._check_file()
        # SQLite has one writer at a time and lets the others poll; threads of one process wait in line instead.
        with self._turn if self.is_sqlite else nullcontext(), self.engine.begin() as connection:
            connection.info.pop(PENDING, None)
            yield connection
            write_pending(connection)

    @contextmanager
    def driver_transaction(self) -> Iterator[Any]:
        """A transaction of SQLite's own driver, for `SqliteStatement`s; the ledger is the caller's."""
        self._check_file()
        with self._turn, _translate_errors(self.engine):
            driver = self._writer.driver_connection
            try:
                driver.execute("BEGIN IMMEDIATE")
                yield driver
                driver.execute("COMMIT")
            finally:
                driver.rollback()  # nothing after a commit

    def call_driver(self, statement: str, given: Sequence[Any]) -> Any:
        """The value of one statement of PostgreSQL's own driver, a transaction by itself; on the disk when this returns."""
        with _translate_errors(self._direct), closing(self._direct.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            try:
                return driver.execute(statement, given, prepare=True).fetchone()[0]
            finally:
                if driver.closed:
                    connection.invalidate()

    def _check_file(self) -> None:
        """SQLite goes on writing to a file that was renamed or deleted under it."""
        if self._file is not None and _identify(self._file[0]) != self._file[1]:
            raise DatabaseMovedError

    @cached_property
    def _quick(self) -> sa.Engine:
        options = {"begin": ""} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        return self.engine.execution_options(**options)

    @cached_property
    def _snapshot(self) -> sa.Engine:
        options = {"begin": "BEGIN"} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        return self.engine.execution_options(**options)

    @cached_property
    def _writer(self) -> Any:
        """A connection to SQLite that stays, for whoever has the turn."""
        return self.engine.raw_connection()

    @cached_property
    def _direct(self) -> sa.Engine:
        """Connections that commit every statement, in a pool of their own: nothing is set or reset between two calls."""
        options = {**self._options, "isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
        return sa.create_engine(self.engine.url, **options)

    def insert_new(self, table: sa.Table) -> Any:
        """An INSERT that skips rows that exist already."""
        from sqlalchemy.dialects import postgresql, sqlite

        insert = sqlite.insert if self.is_sqlite else postgresql.insert
        return insert(table).on_conflict_do_nothing()

    def close(self) -> None:
        if "_writer" in vars(self):
            self._writer.close()
        if "_direct" in vars(self):
            self._direct.dispose()
        self.engine.dispose()


def connect(url: str | None = None, *, create: bool = True) -> Database:
    """Open a database by URL: `sqlite:///trial.db` or `postgresql://user@host/trial`; by default surefoot.db here."""
    text = url or os.environ.get("SUREFOOT_DATABASE") or DEFAULT_URL
    try:
        parsed = make_url(text)
    except sa.exc.ArgumentError as error:
        raise InputError("the database is not a URL; write sqlite:///trial.db or postgresql://user@host/trial") from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        engine = _sqlite(parsed, create)
        path = str(Path(str(parsed.database)).resolve())
        return Database(engine, text, _file=(path, _identify(path)))
    if kind not in ("postgresql", "postgres"):
        raise InputError(f"there is no support for '{kind}' databases; use sqlite:///… or postgresql://…")
    parsed = parsed.set(drivername="postgresql+psycopg")
    limits = f"-c statement_timeout={1000 * STATEMENT_SECONDS} -c lock_timeout={1000 * STATEMENT_SECONDS}"
    # A statement that comes again and again is planned once, not every time.
    limits += " -c plan_cache_mode=force_generic_plan"
    limits += f" {parsed.query.get('options', '')}"
    options: dict[str, Any] = {
        "pool_size": CONNECTIONS,
        "max_overflow": 0,
        "pool_timeout": POOL_SECONDS,
        "pool_use_lifo": True,  # the connection that knows the statements already
        "hide_parameters": True,
        "connect_args": {"connect_timeout": POOL_SECONDS, "options": limits},
    }
    return Database(sa.create_engine(parsed, **options), text, _options=options)


def _identify(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - at every statement; a Path would cost more than the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _translate_errors(engine: sa.Engine) -> Iterator[None]:
    """A driver's errors become SQLAlchemy's, which everybody else knows."""
    kinds: Any = engine.dialect.loaded_dbapi.Error
    try:
        yield
    except kinds as error:
        raise sa.exc.DBAPIError.instance(None, None, error, kinds, hide_parameters=True) from error


def lift_time_limit(connection: sa.Connection) -> None:
    """Let this transaction's statements take as long as they need."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")


def lock_content(connection: sa.Connection) -> None:
    """Let erasures, withdrawals and the ends of updates take turns until their commits; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7355205)")  # any number but the ledger's


def _sqlite(url: sa.URL, create: bool) -> sa.Engine:
    if not url.database or url.database == ":memory:":
        raise InputError("a trial needs a database that stays: write sqlite:///trial.db")
    path = Path(url.database)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} for the database; make it first")
    if not path.exists() and not create:
        raise InputError(f"there is no database {path.resolve()}; {NO_TRIAL}")
    if not path.exists():
        # The file holds the study's secret.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    # Each thread of the server may wait for its turn with a connection in hand.
    engine = sa.create_engine(url, pool_size=CONNECTIONS, max_overflow=40, hide_parameters=True)

    @sa.event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for setting in (
            f"busy_timeout = {BUSY_SECONDS * 1000}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            # A checkpoint makes its commit wait: one in 700 decisions, not one in 180.
            "wal_autocheckpoint = 4000",
            # What is erased is overwritten, not only forgotten.
            "secure_delete = ON",
        ):
            connection.execute(f"PRAGMA {setting}").close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A transaction that reads first and writes later cannot wait for another writer: writers say so at once.
        how = connection.get_execution_options().get("begin", "BEGIN IMMEDIATE")
        if how:
            connection.exec_driver_sql(how)

    return engine


def _alembic(database: Database) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["database"] = database
    return config


def upgrade(database: Database) -> None:
    """Bring the tables to the newest schema version; nothing happens when they have it."""
    from alembic import command

    try:
        command.upgrade(_alembic(database), "head")
    except sa.exc.OperationalError as error:
        raise InputError(f"the database cannot be reached ({type(error.orig).__name__}); is it running?") from error


def schema_version(database: Database) -> str | None:
    """The schema version of the tables; None for an empty database."""
    from alembic.runtime.migration import MigrationContext

    with database.autocommit() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_schema_version() -> str:
    """The schema version that this release of Surefoot needs."""
    from alembic.script import ScriptDirectory

    return str(ScriptDirectory(str(MIGRATIONS)).get_current_head())


def prepare(database: Database, *, create: bool = True) -> None:
    """Make the tables of an empty database; refuse one of another schema version, which should be backed up first."""
    try:
        version = schema_version(database)
    except sa.exc.OperationalError as error:
        raise InputError(f"the database cannot be reached ({type(error.orig).__name__}); is it running?") from error
    if version is None and not create:
        raise InputError(f"{database.name} holds no trial; {NO_TRIAL}")
    if version is None:
        upgrade(database)
    elif version != newest_schema_version():
        raise InputError(
            f"the database has schema version {version}, this release needs {newest_schema_version()}; "
            "back it up and run surefoot db upgrade"
        )
