import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from surefoot.service.database import databases
from surefoot.service.database.schema import APPEND_ONLY, metadata


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
