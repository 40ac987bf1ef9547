"""A database of the first schema version keeps every row through the upgrade, and its decisions replay."""

import json

import sqlalchemy as sa
from alembic import command

from surefoot.service.database import databases
from surefoot.service.database.schema import ledger, metadata
from surefoot.service.operations.verification import verify
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import open_trial
from tests.service.support.trials import answer, fill, update


def rows(database, tables):
    """Every row of every table, as the database holds it; only the columns that are there."""
    found = {}
    with database.snapshot() as connection:
        for name, columns in tables.items():
            query = sa.text(f"SELECT {', '.join(columns)} FROM {name}")  # noqa: S608 - our own names
            found[name] = sorted(repr(tuple(row)) for row in connection.execute(query))
    return found


def first_version(source, target):
    """Fill a database of schema version 0001 with what another one holds."""
    command.upgrade(databases._alembic(target), "0001")
    old = sa.MetaData()
    old.reflect(target.engine)
    tables = {
        table.name: [column.name for column in table.c] for table in old.sorted_tables if table.name in metadata.tables
    }
    with source.snapshot() as reading, target.transaction() as writing:
        for name, columns in tables.items():
            found = reading.execute(sa.text(f"SELECT {', '.join(columns)} FROM {name}")).mappings().all()  # noqa: S608
            if found:
                writing.execute(sa.insert(old.tables[name]), [dict(row) for row in found])
    return tables


def test_every_row_survives_the_upgrade_and_replays(empty, study, tmp_path):
    trial = open_trial(study, f"sqlite:///{tmp_path}/now.db")
    fill(trial, points=40)
    update(trial)
    answer(trial)
    tables = first_version(trial.database, empty)
    trial.close()
    with empty.transaction() as connection:
        connection.exec_driver_sql("""UPDATE updates SET findings = replace(findings, '"check": ', '"rail": ')""")
    before = rows(empty, tables)
    databases.upgrade(empty)
    after = rows(empty, tables)
    assert {name: found for name, found in after.items() if name != "updates"} == {
        name: found for name, found in before.items() if name != "updates"
    }
    assert [text.replace('"check"', '"rail"') for text in after["updates"]] == before["updates"]
    assert '"check": "finite"' in after["updates"][0]
    result = replay(empty)
    assert result.decisions == 81 and result.differences == []
    checked = verify(empty)
    assert checked.discrepancies == [] and checked.entries["decision"] == 81
    with empty.autocommit() as connection:
        first = json.loads(connection.scalar(sa.select(ledger.c.entries).where(ledger.c.position == 1)))
    assert first[0] == ["genesis", ["0004", dict(checked.entries) | {"key revoked": 0, "participant event": 0, "key": 0}]]
