import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.database.pipeline import UNANSWERED
from surefoot.service.database.schema import APPEND_ONLY, metadata, participants


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


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_in_a_pipeline_the_cause_of_a_failure_is_told_and_nothing_stays(trial):
    twice = sa.insert(participants).execution_options(**UNANSWERED)
    row = {"id": "p1", "registered_at": now()}
    with pytest.raises(sa.exc.IntegrityError), trial.database.transaction(pipelined=True) as connection:
        connection.execute(twice, row)
        connection.execute(twice, row)
        connection.execute(sa.select(participants)).all()
    with pytest.raises(sa.exc.IntegrityError), trial.database.transaction(pipelined=True) as connection:
        connection.execute(twice, row)
        connection.execute(twice, row)
    with trial.database.transaction(pipelined=True) as connection:
        assert connection.execute(sa.select(participants)).all() == []
        connection.execute(twice, row)
    with trial.database.autocommit() as connection:
        assert connection.scalar(sa.select(participants.c.id)) == "p1"
