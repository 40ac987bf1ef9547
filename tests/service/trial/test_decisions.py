import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from surefoot.service.database.schema import decisions
from surefoot.service.trial import decisions as decisions_module
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import register_participant, set_pause, withdraw
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay, verify
from tests.service.support.client import CONTEXT, WHEN
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import answer, column


def rows(trial, table=decisions):
    with trial.database.autocommit() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def test_a_decision_is_recorded_as_it_was_answered(client):
    client.register("p1")
    reply = client.decide()
    assert reply.status_code == 200
    (row,) = rows(client.trial)
    assert reply.text == row["reply"]
    answer = reply.json()
    assert answer["source"] == "warm-up" and answer["action_prob"] == [0.5, 0.5] and answer["policy_id"] is None
    assert answer["action_name"] == ("nothing", "send")[answer["action"]]
    assert (row["action"], row["probability"]) == (answer["action"], 0.5)
    assert json.loads(row["context"]) == CONTEXT
    assert json.loads(row["state"]) == [0.5, -1.0, 1.0]
    assert row["action"] == int(row["uniform"] >= 0.5)


def test_a_retry_gets_the_same_bytes_and_another_request_409(client):
    client.register("p1")
    first = client.decide()
    assert client.decide().content == first.content
    assert client.decide(timestamp="2026-03-01T09:00:00Z").content == first.content
    for change in (
        {"context": {**CONTEXT, "weather": 0.6}},
        {"availability": False, "reasons": ["driving"]},
        {"timestamp": "2026-03-01T10:00:01+01:00"},
    ):
        reply = client.decide(**change)
        assert reply.status_code == 409 and reply.json()["error"]["code"] == "decided_otherwise"
    assert len(rows(client.trial)) == 1


def test_a_number_may_be_written_in_two_ways_in_a_retry(client):
    client.register("p1")
    first = client.decide(context={**CONTEXT, "weather": 1})
    assert client.decide(context={**CONTEXT, "weather": 1.0}).content == first.content
    assert client.decide(context={**CONTEXT, "weather": True}).status_code == 409


def test_an_app_that_was_installed_again_learns_where_it_stands(client):
    def ask(participant):
        return client.get(f"/api/v1/participants/{participant}/next", headers=client.as_role("app"))

    assert ask("p1").json()["error"]["code"] == "unknown_participant"
    client.register("p1")
    nothing = {"last_decision_idx": None, "last_timestamp": None, "next_decision_idx": 0, "not_before": None}
    assert ask("p1").json() == {"participant_id": "p1", **nothing, "paused": False, "withdrawn": False}
    client.decide(index=4, timestamp=WHEN)
    set_pause(client.trial, None, paused=True, reason="a fault", by="test")
    standing = ask("p1").json()
    assert (standing["last_decision_idx"], standing["next_decision_idx"], standing["paused"]) == (4, 5, True)
    assert datetime.fromisoformat(standing["last_timestamp"]) == datetime.fromisoformat(WHEN)
    assert standing["not_before"] >= standing["last_timestamp"]


def test_a_misspelt_context_variable_is_named_in_the_answer_and_in_every_retry(client):
    client.register("p1")
    assert client.decide().json()["warnings"] == []
    context = {"wether": 1.0, "engagement": 0.5, "place": "home", "xq": 1}
    first = client.decide(index=1, context=context)
    assert first.json()["warnings"] == [
        "context.wether is not a state variable of the study (did you mean 'weather'?); it was not used",
        "context.xq is not a state variable of the study; it was not used",
    ]
    assert first.json()["source"] == "fallback"
    assert client.decide(index=1, context=context).content == first.content
    away = client.decide(index=2, context={"wether": 1.0}, availability=False, reasons=["driving"]).json()
    assert len(away["warnings"]) == 1, "also where nothing depends on it"
    assert replay(client.trial.database).differences == [] == verify(client.trial.database).discrepancies


def test_unavailable_is_nothing_for_certain_with_a_row_and_reasons(client):
    client.register("p1")
    answer = client.decide(availability=False, reasons=["driving", "asleep"], context={}).json()
    assert (answer["action"], answer["action_prob"], answer["source"]) == (0, [1.0, 0.0], "unavailable")
    (row,) = rows(client.trial)
    assert json.loads(row["availability_reasons"]) == ["driving", "asleep"] and not row["available"]
    assert client.decide(index=1, availability=False).status_code == 422


@pytest.mark.parametrize(
    ("context", "reasons"),
    [
        ({}, ["missing: weather", "missing: engagement", "missing: place"]),
        ({**CONTEXT, "weather": None}, ["missing: weather"]),
        ({**CONTEXT, "weather": 11}, ["implausible: weather"]),
        ({**CONTEXT, "engagement": 1e308}, ["implausible: engagement"]),
        ({**CONTEXT, "place": "moon"}, ["implausible: place"]),
        ({**CONTEXT, "mood": 3}, ["unknown: mood"]),
    ],
)
def test_a_wanting_context_is_decided_by_the_fallback(client, context, reasons):
    client.register("p1")
    answer = client.decide(context=context).json()
    assert (answer["source"], answer["reasons"], answer["action_prob"]) == ("fallback", reasons, [0.75, 0.25])
    (row,) = rows(client.trial)
    assert json.loads(row["fallback_reasons"]) == reasons and json.loads(row["context"]) == context


def test_who_is_not_registered_is_told_so(client):
    reply = client.decide("stranger")
    assert reply.status_code == 404
    assert reply.json()["error"] | {"message": ""} == {
        "code": "unknown_participant",
        "message": "",
        "field": "participant_id",
    }
    client.register("stranger", "stranger")
    assert client.decide("stranger").status_code == 200


def test_rows_cannot_be_changed_or_deleted(client):
    client.register("p1")
    client.decide()
    for statement in (sa.update(decisions).values(action=1), sa.delete(decisions)):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), client.trial.database.transaction() as connection:
            connection.execute(statement)
    assert rows(client.trial)[0]["decided_at"].isoformat() == "2026-03-01T09:00:00+00:00"
    assert WHEN.startswith("2026-03-01T10")


def test_a_retry_after_the_clock_went_back_gets_its_answer(client, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    client.register("p1")
    clock.set(BEGIN + timedelta(hours=1))
    asked = {"timestamp": (BEGIN + timedelta(hours=1)).isoformat()}
    first = client.decide(**asked)
    assert first.status_code == 200
    clock.set(BEGIN)
    assert client.decide(**asked).content == first.content
    assert client.decide(index=1, **asked).json()["error"]["code"] == "timestamp_in_future"
    assert client.decide(**asked, context={}).status_code == 409


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"weather": "mild"}, "context.weather is a number, or null"),
        ({"weather": "0.5"}, "context.weather is a number, or null"),
        ({"engagement": True}, "context.engagement is a number, or null"),
        ({"place": 1}, "context.place is one of its levels as text, or null"),
    ],
)
def test_a_value_of_another_type_is_refused_not_implausible(client, value, words):
    client.register("p1")
    reply = client.decide(context={**CONTEXT, **value})
    (name,) = value
    assert reply.status_code == 422
    assert reply.json()["error"] == {"code": "wrong_type", "message": words, "field": f"context.{name}"}
    assert rows(client.trial) == []


@pytest.fixture
def workers(trial):
    other = open_trial(trial.study, trial.database.url)
    register_participant(trial.database, "p0")
    answer(trial, "p0", 0)
    yield trial, other
    other.close()


def test_what_another_worker_decided_counts(workers):
    trial, other = workers
    decided = answer(other, "p0", 3)
    assert answer(trial, "p0", 3) == decided, "a retry at another worker"
    answer(other, "p0", 5)
    with pytest.raises(ApiError, match="decision 5 was asked for already"):
        answer(trial, "p0", 4)
    answer(trial, "p0", 6)
    with pytest.raises(ApiError, match="another timestamp"):
        answer(other, "p0", 6, context={})
    assert sorted(column(trial, decisions.c.decision_idx)) == [0, 3, 5, 6]
    assert replay(trial.database).differences == [] and verify(trial.database).discrepancies == []


def test_workers_that_decide_at_the_same_moment_take_turns(workers, monkeypatch):
    """Without turns both would read that the point is new, and the second would fail when it adds the point again."""
    read_points = decisions_module.read_points

    def read_slowly(connection, points, **options):
        known = read_points(connection, points, **options)
        time.sleep(0.3)
        return known

    monkeypatch.setattr(decisions_module, "read_points", read_slowly)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda trial: answer(trial, "p0", 1), workers)
    assert first == second
    assert sorted(column(workers[0], decisions.c.decision_idx)) == [0, 1]


def test_what_staff_did_through_another_worker_counts_at_once(workers):
    trial, other = workers
    set_pause(other, "p0", paused=True, reason="ill", by="key abc")
    assert answer(trial, "p0", 1)["reasons"] == ["paused: the participant"]
    set_pause(other, "p0", paused=False, reason="well", by="key abc")
    set_pause(other, None, paused=True, reason="the board asked", by="key abc")
    assert answer(trial, "p0", 2)["reasons"] == ["paused: the study"]
    set_pause(other, None, paused=False, reason="checked", by="key abc")
    assert answer(trial, "p0", 3)["source"] == "warm-up"
    withdraw(other, "p0", reason="moved", by="key abc")
    with pytest.raises(ApiError, match="has withdrawn"):
        answer(trial, "p0", 4)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("step", ["read_points", "insert_decisions"])
def test_a_connection_that_ends_in_the_middle_of_a_decision_is_503(client, monkeypatch, step):
    client.register("p1")
    original = getattr(decisions_module, step)

    def end_connection(connection, *arguments, **options):
        process = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        with client.trial.database.autocommit() as other:
            assert other.scalar(sa.text(f"SELECT pg_terminate_backend({process})"))
        return original(connection, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(decisions_module, step, end_connection)
        reply = client.decide("p1")
    assert (reply.status_code, reply.headers.get("retry-after") is not None) == (503, True), reply.text
    assert column(client.trial, decisions.c.id) == [], "nothing was recorded"
    assert client.decide("p1").status_code == 200
