"""Tables, indexes and triggers are those of the release, on both databases; the service's role cannot change them."""

# ruff: noqa: S608 - the SQL is our own

from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.service.database import databases
from surefoot.service.database.schema import APPEND_ONLY
from surefoot.service.database.schema_objects import find_schema_differences
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay, verify
from tests.service.support.trials import erase, fill, update

ROLES = Path(__file__).parents[3] / "deploy" / "postgresql-roles.sql"


def list_differences(database):
    with database.snapshot() as connection:
        return [": ".join(difference) for difference in find_schema_differences(connection)]


def test_a_new_database_has_the_objects_of_the_release(trial):
    assert list_differences(trial.database) == []


CHANGES = {
    "DROP TRIGGER decisions_no_update ON decisions": "trigger decisions_no_update: was dropped: this release has it",
    "ALTER TABLE ledger DISABLE TRIGGER ledger_no_delete": (
        "trigger ledger_no_delete: was changed: this release has it otherwise"
    ),
    "CREATE RULE quiet AS ON INSERT TO alerts DO INSTEAD NOTHING": (
        "rule alerts.quiet: was added: this release does not have it"
    ),
    "ALTER TABLE outcomes ENABLE ROW LEVEL SECURITY": "row security outcomes: was added: this release does not have it",
    "DROP INDEX ix_decisions_received_at": "index ix_decisions_received_at: was dropped: this release has it",
    "ALTER TABLE keys ALTER COLUMN role DROP NOT NULL": "column keys.role: was changed: this release has it otherwise",
    "ALTER SEQUENCE activations_id_seq INCREMENT BY -1 MINVALUE -9": (
        "sequence activations.id: was changed: this release has it otherwise"
    ),
    "ALTER TABLE activations ALTER COLUMN id SET DEFAULT -nextval('activations_id_seq')": (
        "column activations.id: was changed: this release has it otherwise"
    ),
    "ALTER TABLE decisions DROP CONSTRAINT uq_decisions_point": (
        "constraint decisions.uq_decisions_point: was dropped: this release has it"
    ),
}


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_every_change_of_a_postgresql_schema_is_named(trial):
    for statement, named in CHANGES.items():
        with trial.database.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql(statement)
            differences = [": ".join(difference) for difference in find_schema_differences(connection)]
            connection.exec_driver_sql("ROLLBACK")
        assert named in differences, statement
    replaced = (
        "CREATE OR REPLACE FUNCTION surefoot_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"
    )
    with trial.database.transaction() as connection:
        connection.exec_driver_sql(replaced)
    assert list_differences(trial.database) == ["function surefoot_append_only: was changed: this release has it otherwise"]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_the_services_role_serves_and_cannot_touch_the_triggers(url, study):
    with sa.create_engine(make_url(url), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool).connect() as owner:
        owner.exec_driver_sql(ROLES.read_text(encoding="utf-8").replace("%", "%%"))
    trial = open_trial(study, make_url(url).set(username="surefoot_service").render_as_string(hide_password=False))
    fill(trial, points=30)
    assert update(trial)[0] == "done"
    erase(trial)
    assert replay(trial.database).differences == [] == verify(trial.database).discrepancies
    statements = [statement for statement in CHANGES if "RULE" not in statement]
    statements += [f"UPDATE {table.name} SET {table.primary_key.columns[0].name} = NULL" for table in APPEND_ONLY]
    for statement in (*statements, "TRUNCATE decisions", "DELETE FROM ledger", "SET session_replication_role = replica"):
        with (
            pytest.raises(sa.exc.DBAPIError, match=r"permission denied|must be owner"),
            trial.database.transaction() as connection,
        ):
            connection.exec_driver_sql(statement)
    assert databases.schema_version(trial.database) == databases.newest_schema_version()
    trial.close()
