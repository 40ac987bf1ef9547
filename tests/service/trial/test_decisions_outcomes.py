from datetime import timedelta

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.schema import alerts, outcomes
from surefoot.service.trial.states import CURRENT
from surefoot.service.trial.verification import verify
from tests.service.support.client import LATER, WHEN


def current(trial):
    with trial.database.autocommit() as connection:
        return list(connection.scalars(sa.select(CURRENT.c.outcome)))


def count(trial, table=outcomes):
    with trial.database.autocommit() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table))


def test_the_newest_counts_and_corrections_leave_a_trace(client):
    client.register("p1")
    decision = client.decide().json()["decision_id"]
    assert current(client.trial) == []
    assert client.outcome(decision, 5, "2026-03-01T12:00:00+01:00").json()["results"][0]["status"] == "recorded"
    assert client.outcome(decision, 5, "2026-03-01T11:00:00Z").json()["results"][0]["status"] == "repeated"
    assert (current(client.trial), count(client.trial)) == ([5.0], 1)
    client.outcome(decision, 7.5, "2026-03-01T13:00:00+01:00")
    assert (current(client.trial), count(client.trial)) == ([7.5], 2)
    client.outcome(decision, 6, "2026-03-01T12:30:00+01:00")
    assert (current(client.trial), count(client.trial)) == ([7.5], 3)
    client.outcome(decision, None, "2026-03-01T14:00:00+01:00")
    assert (current(client.trial), count(client.trial)) == ([None], 4)


def test_minus_zero_is_zero(client):
    """SQLite returns 0.0 for -0.0: replay would accuse an honest trial."""
    client.register("p1")
    decision = client.decide().json()["decision_id"]
    assert client.outcome(decision, -0.0, action_prob=-0.0).json()["results"][0]["status"] == "recorded"
    assert client.outcome(decision, 0, action_prob=-0.0).json()["results"][0]["status"] == "repeated"
    assert verify(client.trial.database).discrepancies == []


def test_an_outcome_after_the_window_is_kept_as_late_and_does_not_count(client):
    client.register("p1")
    decision = client.decide().json()["decision_id"]
    client.outcome(decision, 5, "2026-03-03T10:00:00+01:00")
    assert client.outcome(decision, 6, "2026-03-03T10:00:01+01:00").json()["results"][0]["status"] == "late"
    assert (current(client.trial), count(client.trial)) == ([5.0], 2)


def test_an_echoed_probability_is_compared_never_used(client):
    client.register("p1")
    decision = client.decide().json()["decision_id"]
    assert client.outcome(decision, 5, action_prob=0.5).json()["results"][0]["action_prob_agrees"] is True
    assert count(client.trial, alerts) == 0
    assert client.outcome(decision, 6, action_prob=0.9).json()["results"][0]["action_prob_agrees"] is False
    assert count(client.trial, alerts) == 1
    exported = client.get("/api/v1/export/decisions", headers=client.as_role("analyst")).text
    cells = [cell for line in exported.splitlines() for cell in line.split(",")]
    assert "0.5" in cells and "0.9" not in cells


def test_batches_say_what_became_of_each(client):
    client.register("p1")
    good = [client.decide(index=index).json()["decision_id"] for index in range(3)]
    given = [
        {"decision_id": decision, "outcome": value, "timestamp": "2026-03-01T12:00:00Z"}
        for decision, value in zip([*good, "f" * 32], [1, None, -2.5, 3], strict=True)
    ]
    results = client.ask("/outcomes", {"outcomes": given}).json()["results"]
    assert [one["status"] for one in results] == ["recorded"] * 3 + ["unknown_decision"]
    again = client.ask("/outcomes", {"outcomes": given}).json()["results"]
    assert [one["status"] for one in again] == ["repeated"] * 3 + ["unknown_decision"]
    assert (again[3]["message"], again[3]["field"]) == ("there is no such decision", "outcomes.3.decision_id")
    assert count(client.trial) == 3
    assert client.outcome("f" * 32, 1).status_code == 404


def test_an_outcome_that_no_measurement_can_be_is_refused_alone(client):
    client.register("p1")
    decision = client.decide().json()["decision_id"]
    reply = client.outcome(decision, 1e160)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "implausible")
    batch = [{"decision_id": decision, "outcome": value, "timestamp": LATER} for value in (-1e160, 1e9)]
    results = client.ask("/outcomes", {"outcomes": batch}).json()["results"]
    assert [receipt["status"] for receipt in results] == ["implausible", "recorded"] and count(client.trial) == 1


def test_an_outcome_dated_before_its_decision_is_refused(client):
    client.register("p1")
    decision = client.decide().json()["decision_id"]
    reply = client.outcome(decision, 5, "2016-03-01T12:00:00Z")
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "before_decision")
    batch = [
        {"decision_id": decision, "outcome": 5, "timestamp": moment}
        for moment in ("2026-03-01T09:59:59+01:00", "2026-03-01T10:00:00+01:00")
    ]
    results = client.ask("/outcomes", {"outcomes": batch}).json()["results"]
    assert [one["status"] for one in results] == ["before_decision", "recorded"] and count(client.trial) == 1


def test_one_bad_outcome_of_a_batch_is_refused_alone_with_its_position(client):
    client.register("p1")
    decided = client.decide().json()["decision_id"]
    good = {"decision_id": decided, "outcome": 1, "timestamp": WHEN}
    ahead = (now() + timedelta(days=1)).isoformat()
    bad = [
        {**good, "outcome": "many"},
        {**good, "timestamp": ahead},
        {**good, "decision_id": "7"},
        3,
        {**good, "tim": 1},
    ]
    results = client.ask("/outcomes", {"outcomes": [*bad, good]}).json()["results"]
    assert [row["status"] for row in results] == ["refused", "timestamp_in_future", *["refused"] * 3, "recorded"]
    assert [row["field"] for row in results] == [
        "outcomes.0.outcome",
        "outcomes.1.timestamp",
        "outcomes.2.decision_id",
        "outcomes.3",
        "outcomes.4.tim",
        None,
    ]
    assert [row["decision_id"] for row in results] == [decided, decided, None, None, decided, decided]
    assert "finite number" in results[0]["message"] and "ahead" in results[1]["message"]
    assert results[4]["message"].startswith("there is no field 'tim' (did you mean 'timestamp'?)")
    assert client.ask("/outcomes", bad[1]).json()["error"]["code"] == "timestamp_in_future"
    assert client.ask("/outcomes", bad[0]).status_code == 422
