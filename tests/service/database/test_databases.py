import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.database.schema import adverse_events, metadata, participants


def test_the_tables_are_what_the_code_thinks(empty):
    databases.upgrade(empty)
    databases.upgrade(empty)
    with empty.snapshot() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert databases.schema_version(empty) == databases.newest_schema_version()


def test_an_older_database_is_refused_with_the_remedy(empty):
    databases.upgrade(empty)
    with empty.transaction() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(ValueError, match="surefoot db upgrade"):
        databases.prepare(empty)


def test_what_sqlite_has_committed_is_on_the_disk_and_what_it_erased_is_not(tmp_path, monkeypatch):
    quick = "synchronous = OFF"  # added for tests only, twice where a worker also tests the client
    assert quick in databases.PRAGMAS
    monkeypatch.setattr(databases, "PRAGMAS", tuple(setting for setting in databases.PRAGMAS if setting != quick))
    database = databases.connect(f"sqlite:///{tmp_path}/trial.db")
    expected = {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1, "foreign_keys": 1}
    with database.autocommit() as connection:
        assert {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in expected} == expected
    database.close()


def test_a_transaction_happens_whole_or_not_at_all(trial):
    row = {"id": "p1", "registered_at": now()}
    with pytest.raises(sa.exc.IntegrityError), trial.database.transaction() as connection:
        connection.execute(sa.insert(participants), row)
        connection.execute(sa.insert(participants), row)
    with trial.database.transaction() as connection:
        assert connection.execute(sa.select(participants)).all() == []
        connection.execute(sa.insert(participants), row)
    with trial.database.autocommit() as connection:
        assert connection.execute(sa.select(participants)).mappings().all() == [row]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("alone", [False, True])
def test_what_is_read_after_a_lock_is_what_was_committed_before_it(trial, alone):
    """Whatever isolation the server has by default: a snapshot from before the lock would miss the last outcome."""
    name = trial.database.engine.url.database
    with trial.database.engine.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    other = databases.connect(trial.database.url)
    with other.transaction(alone=alone) as connection:
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
    other.close()


def write_nothing(database):
    with database.transaction():
        pass


def test_sqlites_writers_look_often_for_a_gap_that_another_process_leaves(tmp_path, monkeypatch):
    """SQLite itself looks ten times a second; beside a busy worker the other one answered 503."""
    url = f"sqlite:///{tmp_path}/trial.db"
    busy = databases.connect(url)
    waiting = databases.connect(url)
    looks = []
    with waiting.autocommit() as connection:
        connection.connection.driver_connection.set_trace_callback(looks.append)
    with ThreadPoolExecutor(1) as pool:
        with busy.transaction():
            turn = pool.submit(write_nothing, waiting)
            time.sleep(0.3)
        turn.result()
    assert sum(look == "BEGIN IMMEDIATE" for look in looks) > 8
    monkeypatch.setattr(databases, "BUSY_SECONDS", 0.1)
    with busy.transaction(), pytest.raises(databases.DATABASE_FAULTS, match="locked"), waiting.transaction():
        pass
    with waiting.autocommit() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 5000
    for database in (busy, waiting):
        database.close()


def test_a_connection_that_comes_back_after_the_end_is_closed(empty):
    """A job that waits for a frozen database outlives the application that started it."""
    with empty.autocommit() as connection:
        driver = connection.connection.driver_connection
        empty.close()
    with pytest.raises(Exception, match="closed"):
        driver.execute("SELECT 1")
    with empty.autocommit() as connection:
        assert connection.scalar(sa.select(1)) == 1
    empty.close()


def test_a_connection_that_is_opened_while_the_database_closes_is_closed_too(empty):
    """A thread had asked the pool, which was closed before the connection was ready."""
    closed = []

    @sa.event.listens_for(empty.engine, "connect", insert=True)
    def close_first(*_):
        if not closed:
            closed.append(True)
            empty.close()

    with empty.autocommit() as connection:
        driver = connection.connection.driver_connection
        assert connection.scalar(sa.select(1)) == 1
    with pytest.raises(Exception, match="closed"):
        driver.execute("SELECT 1")


def test_a_postgresql_that_is_not_there_is_the_databases_fault():
    away = databases.connect("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(sa.exc.OperationalError), away.transaction():
        pass
    away.close()


def test_a_migration_that_fails_changes_nothing(empty, later_migration):
    databases.upgrade(empty)
    before = databases.schema_version(empty)
    later_migration("op.add_column('alerts', sa.Column('remark', sa.Text))\n    op.execute('SELECT nonsense')")
    with pytest.raises((sa.exc.DBAPIError, ValueError)):
        databases.upgrade(empty)
    assert databases.schema_version(empty) == before
    with empty.snapshot() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_first_schema_can_be_upgraded(empty):
    """The tables are today's then, and the database guards the new one."""
    databases.upgrade(empty)
    with empty.transaction() as connection:
        for statement in (
            "ALTER TABLE alerts DROP COLUMN times",
            "DROP TABLE adverse_events",
            "DROP TABLE sign_ins",
            "ALTER TABLE erasures DROP COLUMN adverse_events",
            "UPDATE alembic_version SET version_num = '0001'",
        ):
            connection.exec_driver_sql(statement)
    databases.upgrade(empty)
    row = {"participant_id": "p0", "happened_at": now(), "serious": False, "related": "unrelated", "description": "x"}
    with empty.transaction() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        connection.execute(sa.insert(participants), {"id": "p0", "registered_at": now()})
        connection.execute(sa.insert(adverse_events), {**row, "recorded_at": now(), "recorded_by": "x", "salt": b"x"})
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), empty.transaction() as connection:
        connection.execute(sa.delete(adverse_events))
