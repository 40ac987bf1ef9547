"""Two workers decide for the same participants: what one of them remembers never decides against what the database holds."""

import pytest
import sqlalchemy as sa

from surefoot.service.database.schema import decisions
from surefoot.service.operations.verification import verify
from surefoot.service.trial import point_records
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.pauses import set_pause, withdraw
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import open_trial
from tests.service.support.trials import answer, column


@pytest.fixture
def workers(trial):
    other = open_trial(trial.study, trial.database.url)
    register_participant(trial.database, "p0")
    answer(trial, "p0", 0)
    yield trial, other
    other.close()


def test_what_another_worker_decided_counts(workers):
    one, other = workers
    decided = answer(other, "p0", 3)
    assert answer(one, "p0", 3) == decided, "a retry at another worker"
    answer(other, "p0", 5)
    with pytest.raises(ApiError, match="decision 5 was asked for already"):
        answer(one, "p0", 4)
    answer(one, "p0", 6)
    with pytest.raises(ApiError, match="another timestamp"):
        answer(other, "p0", 6, context={})
    assert sorted(column(one, decisions.c.decision_idx)) == [0, 3, 5, 6]
    assert replay(one.database).differences == [] and verify(one.database).discrepancies == []


def test_what_staff_did_through_another_worker_counts_at_once(workers):
    one, other = workers
    set_pause(other, "p0", paused=True, reason="ill", by="key abc")
    assert answer(one, "p0", 1)["reasons"] == ["paused: the participant"]
    set_pause(other, "p0", paused=False, reason="well", by="key abc")
    set_pause(other, None, paused=True, reason="the board asked", by="key abc")
    assert answer(one, "p0", 2)["reasons"] == ["paused: the study"]
    set_pause(other, None, paused=False, reason="checked", by="key abc")
    assert answer(one, "p0", 3)["source"] == "warm-up"
    withdraw(other, "p0", reason="moved", by="key abc")
    with pytest.raises(ApiError, match="has withdrawn"):
        answer(one, "p0", 4)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_nothing_is_read_for_a_participant_that_is_remembered(workers, monkeypatch):
    one, _ = workers
    with monkeypatch.context() as patch:
        patch.setattr(one.points, "_read", None)
        answer(one, "p0", 1)
    set_pause(one, None, paused=True, reason="the board asked", by="key abc")
    assert answer(one, "p0", 2)["source"] == "unavailable"
    monkeypatch.setattr(point_records, "REMEMBERED", 0)
    register_participant(one.database, "p1")
    answer(one, "p1", 0)
    answer(one, "p0", 3)
    assert list(one.points._known) == ["p0"], "the memory is bounded"


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_when_others_are_always_first_nothing_is_recorded_and_it_ends(workers, monkeypatch):
    one, _ = workers
    monkeypatch.setattr(one.points, "_add_if_unchanged", lambda decided: False)
    with pytest.raises(sa.exc.TimeoutError):
        answer(one, "p0", 1)
    assert column(one, decisions.c.decision_idx) == [0]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("step", ["_read", "_add_if_unchanged"])
def test_a_connection_that_ends_in_the_middle_of_a_decision_is_503(client, monkeypatch, step):
    client.register("p1")
    points, database = client.trial.points, client.trial.database
    original = getattr(points, step)

    def call_other(statement):
        with database.autocommit() as connection:
            return connection.scalar(sa.text(statement))

    calls = [call_other, lambda statement: database.call_driver(statement, ())]
    use, end = calls if step == "_read" else reversed(calls)

    def fail(given):
        assert end(f"SELECT pg_terminate_backend({use('SELECT pg_backend_pid()')})")
        return original(given)

    with monkeypatch.context() as patch:
        patch.setattr(points, step, fail)
        reply = client.decide("p1")
    assert (reply.status_code, reply.headers.get("retry-after") is not None) == (503, True), reply.text
    assert column(client.trial, decisions.c.id) == [], "nothing was recorded"
    assert client.decide("p1").status_code == 200
