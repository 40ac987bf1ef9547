"""A database of an earlier schema version keeps every row through the upgrade, replays, and begins its ledger."""

import json

import pytest
import sqlalchemy as sa

from surefoot.service.access import keys
from surefoot.service.database import databases
from surefoot.service.database.schema import ledger
from surefoot.service.operations.seal import make_seal
from surefoot.service.operations.verification import verify
from surefoot.service.trial.alerts import close_alert, raise_alert
from surefoot.service.trial.pauses import set_pause
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import open_trial
from tests.service.support.trials import answer, fill, make_earlier, update


def rows(database, tables):
    """Every row of every table, as the database holds it; only the columns that are there."""
    found = {}
    with database.snapshot() as connection:
        for name, columns in tables.items():
            query = sa.text(f"SELECT {', '.join(columns)} FROM {name}")  # noqa: S608 - our own names
            found[name] = sorted(repr(tuple(row)) for row in connection.execute(query))
    return found


@pytest.mark.parametrize("version", ["0001", "0003"])
def test_every_row_survives_the_upgrade_and_replays(empty, study, tmp_path, version):
    trial = open_trial(study, f"sqlite:///{tmp_path}/now.db")
    fill(trial, points=40)
    update(trial)
    answer(trial)
    revoked = keys.create_key(trial.database, "app")
    keys.revoke_key(trial.database, revoked)
    set_pause(trial, "p1", paused=True, reason="ill", by="key abc")
    with trial.database.transaction() as connection:
        for occasion in ("first", "second"):
            raise_alert(trial.database, connection, kind="no-data", occasion=occasion, message="silence")
    close_alert(trial.database, 1, "key abc")
    tables = make_earlier(version, trial.database, empty)
    trial.close()
    with empty.transaction() as connection:
        if version == "0001":
            connection.exec_driver_sql("""UPDATE updates SET findings = replace(findings, '"check": ', '"rail": ')""")
    before = rows(empty, tables)
    databases.upgrade(empty)
    after = rows(empty, tables)
    assert {name: found for name, found in after.items() if name != "updates"} == {
        name: found for name, found in before.items() if name != "updates"
    }
    assert after["updates"] == [text.replace('"rail"', '"check"') for text in before["updates"]]
    assert '"check": "finite"' in after["updates"][0]
    result = replay(empty)
    assert result.decisions == 81 and result.differences == []
    checked = verify(empty)
    assert checked.discrepancies == [] and checked.entries["decision"] == 81
    with empty.autocommit() as connection:
        first = json.loads(connection.scalar(sa.select(ledger.c.entries).where(ledger.c.position == 1)))
    later = {"alert": 2, "alert closed": 1}
    assert later.items() <= checked.entries.items()
    there = {kind: number for kind, number in checked.entries.items() if kind not in later}
    there["participant event"] = checked.entries["participant event"]
    assert first[0] == ["genesis", ["0004", there]]
    assert (there["key"], there["key revoked"], there["participant event"]) == (1, 1, int(version == "0003"))
    seal = make_seal(empty)
    goes_on = open_trial(study, empty.url)
    answer(goes_on, index=1001)
    goes_on.close()
    assert verify(empty, [seal]).discrepancies == []
