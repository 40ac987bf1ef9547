import inspect

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.engine import make_url

from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.database.schema import APPEND_ONLY, metadata, participants
from surefoot.service.database.sqlite_statements import SqliteStatement


def test_the_tables_are_what_the_code_thinks(empty):
    databases.upgrade(empty)
    databases.upgrade(empty)
    with empty.snapshot() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert databases.schema_version(empty) == databases.newest_schema_version()
    assert set(APPEND_ONLY) <= set(metadata.tables)


def test_an_older_database_is_refused_with_the_remedy(empty):
    databases.upgrade(empty)
    with empty.transaction() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(ValueError, match="surefoot db upgrade"):
        databases.prepare(empty)


def test_what_sqlite_has_committed_is_on_the_disk_and_what_it_erased_is_not(tmp_path):
    engine = inspect.unwrap(databases._sqlite)(make_url(f"sqlite:///{tmp_path}/trial.db"), True)
    expected = {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1, "foreign_keys": 1}
    with engine.connect() as connection:
        assert {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in expected} == expected
    engine.dispose()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_transaction_of_sqlites_driver_happens_whole_or_not_at_all(trial):
    insert, select = SqliteStatement(sa.insert(participants)), SqliteStatement(sa.select(participants))
    row = {"id": "p1", "registered_at": now()}
    with pytest.raises(sa.exc.IntegrityError), trial.database.driver_transaction() as driver:
        insert.write(driver, [row])
        insert.write(driver, [row])
    with trial.database.driver_transaction() as driver:
        assert select.fetch(driver, {}) == []
        insert.write(driver, [row])
    with trial.database.autocommit() as connection:
        assert connection.execute(sa.select(participants)).mappings().all() == [row]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_call_of_postgresqls_driver_is_a_transaction_and_outlives_a_lost_connection(trial):
    call = trial.database.call_driver
    register = "INSERT INTO participants VALUES (%s, 1) RETURNING id"
    with pytest.raises(sa.exc.OperationalError):
        call("SELECT pg_terminate_backend(pg_backend_pid())", ())
    assert call(register, ["p1"]) == "p1", "the next call has another connection"
    with pytest.raises(sa.exc.IntegrityError):
        call(register, ["p1"])
    with trial.database.autocommit() as connection:
        assert connection.scalar(sa.select(participants.c.id)) == "p1"


def test_a_postgresql_that_is_not_there_is_the_databases_fault():
    away = databases.connect("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(sa.exc.OperationalError):
        away.call_driver("SELECT 1", ())
    away.close()


def test_a_migration_that_fails_changes_nothing(empty, later_migration):
    databases.upgrade(empty)
    later_migration("op.add_column('alerts', sa.Column('remark', sa.Text))\n    op.execute('SELECT nonsense')")
    with pytest.raises((sa.exc.DBAPIError, ValueError)):
        databases.upgrade(empty)
    assert databases.schema_version(empty) == "0001"
    with empty.snapshot() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
