"""Adverse events: recorded once, corrected by addition, erased on request, in the ledger."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.schema import adverse_events, alerts, staff_actions
from surefoot.service.trial.adverse_events import list_events, record_event
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import ask_erasure, confirm_erasure, register_participant
from surefoot.service.trial.verification import verify
from tests.service.support.trials import column


def add(trial, participant="p0", **changes):
    facts = {"happened_at": now() - timedelta(hours=1), "description": "fell", "serious": False, "related": "unrelated"}
    return record_event(trial, participant, **{**facts, "by": "key 0123456789ab", **changes})


def read(trial):
    with trial.database.autocommit() as connection:
        return list_events(connection)


def find_problems(trial):
    return [discrepancy.problem for discrepancy in verify(trial.database).discrepancies]


def test_a_correction_leaves_the_first_record(trial):
    register_participant(trial.database, "p0")
    first = add(trial)
    assert add(trial, description="fell and broke an arm", serious=True, corrects=first) != first
    (event,) = read(trial)
    assert (event["id"], event["description"], event["serious"]) == (first, "fell and broke an arm", True)
    assert [version["description"] for version in event["versions"]] == ["fell", "fell and broke an arm"]
    assert column(trial, alerts.c.kind) == ["adverse-event"], "it became serious"
    assert column(trial, staff_actions.c.action)[-2:] == ["recorded an event", "corrected an event"]
    assert find_problems(trial) == []


def test_the_database_refuses_other_changes_and_replay_finds_them(trial):
    register_participant(trial.database, "p0")
    add(trial)
    for statement in (sa.update(adverse_events).values(serious=True), sa.delete(adverse_events)):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), trial.database.transaction() as connection:
            connection.execute(statement)
    row = {"participant_id": "p0", "happened_at": now(), "serious": False, "related": "unrelated", "description": "x"}
    with trial.database.transaction() as connection:
        connection.execute(sa.insert(adverse_events), {**row, "recorded_at": now(), "recorded_by": "x", "salt": b"x"})
    assert find_problems(trial) == ["was inserted: the ledger does not know it"]


def test_an_erasure_on_request_empties_descriptions_and_adds_up(trial):
    register_participant(trial.database, "p0")
    add(trial)
    code = ask_erasure(trial.database, "p0", reason="asked", by="x").code
    assert confirm_erasure(trial.database, "p0", code, by="x").adverse_events == 1
    (event,) = read(trial)
    assert (event["description"], event["salt"], event["related"]) == ("", None, "unrelated")
    assert find_problems(trial) == []
    with pytest.raises(ApiError, match="nothing is recorded about them"):
        add(trial)


def test_content_that_vanished_without_an_erasure_is_found(trial):
    register_participant(trial.database, "p0")
    add(trial)
    with trial.database.transaction() as connection:
        connection.execute(sa.update(adverse_events).values(description="", salt=None))
    assert find_problems(trial) == ["was emptied without an erasure on record"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"participant": "nobody"}, "no participant 'nobody'"),
        ({"description": " "}, "describe the event"),
        ({"description": "x" * 2001}, "at most 2,000 characters"),
        ({"related": "perhaps"}, "possibly related"),
        ({"happened_at": now() + timedelta(days=400)}, "in the future"),
        ({"corrects": 7}, "no event 7"),
    ],
)
def test_what_cannot_be_is_refused(trial, changes, words):
    register_participant(trial.database, "p0")
    with pytest.raises(ApiError, match=words):
        add(trial, **changes)
    assert read(trial) == []
