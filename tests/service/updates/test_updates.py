# ruff: noqa: S608 - the SQL is our own

import json
import os
import signal
import time
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from surefoot import FitWarning, Study
from surefoot.fitting import fit_study
from surefoot.fitting.parts import fit_part
from surefoot.service.database.clock import now
from surefoot.service.database.schema import activations, alerts
from surefoot.service.database.schema import updates as update_rows
from surefoot.service.trial import decisions as deciding
from surefoot.service.trial import states
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
from surefoot.service.updates import updates
from surefoot.trial_rules import proposals
from tests.service.support.trials import STUDY, answer, column, fill, moment, update

OF_P0 = "decision_id IN (SELECT id FROM decisions WHERE participant_id = 'p0')"
ALTERATIONS = {
    "outcomes changed": f"UPDATE outcomes SET outcome = -outcome WHERE {OF_P0}",
    "outcomes corrected": (
        "INSERT INTO outcomes "
        "SELECT 1000 + id, decision_id, 'x' || id, -outcome, observed_at + 1, received_at, 0, NULL, salt "
        f"FROM outcomes WHERE {OF_P0}"
    ),
    "outcomes moved": (
        "UPDATE outcomes SET decision_id = (SELECT id FROM decisions WHERE participant_id = 'p1' AND decision_idx = 4) "
        f"WHERE {OF_P0}"
    ),
    "contexts changed": "UPDATE decisions SET context = replace(context, ':', ': ') WHERE participant_id = 'p0'",
}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("statement", ALTERATIONS.values(), ids=ALTERATIONS)
def test_an_update_learns_from_evidence_only(trial, statement):
    """Somebody may put the rows back before the next replay."""
    fill(trial, points=40)
    assert update(trial)[0] == "done" and column(trial, alerts.c.kind) == []
    with trial.database.transaction() as connection:
        for table in ("decisions", "outcomes"):
            connection.exec_driver_sql(f"DROP TRIGGER {table}_no_update")
        assert connection.exec_driver_sql(statement).rowcount
    assert update(trial)[0] == "done"
    honest, altered = (json.loads(text) for text in column(trial, update_rows.c.learned_from))
    assert set(honest) == {"p0", "p1"} and altered == {"p1": honest["p1"]}
    assert column(trial, alerts.c.kind) == ["replay"]
    assert "rows that are not as they were recorded, and left out" in column(trial, alerts.c.message)[0]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_clock_that_is_set_during_a_fit_makes_no_policy_stale(trial, monkeypatch):
    fill(trial, points=30)
    propose = updates.propose_policy

    def set_clock(*given, **options):
        monkeypatch.setattr(updates, "now", lambda: now() - timedelta(days=400))
        return propose(*given, **options)

    monkeypatch.setattr(updates, "propose_policy", set_clock)
    trial.watch.find_jump(now())
    assert update(trial)[0] == "done"
    assert answer(trial)["source"] == "policy"


def test_a_study_waits_then_learns_and_the_policy_decides(trial):
    assert update(trial)[0] == "waiting"
    fill(trial, points=10)
    assert update(trial)[0] == "waiting"
    assert answer(trial, index=10)["source"] == "warm-up"
    fill(trial, points=25, first=11)
    state, status = update(trial)
    assert state == "done" and all(finding["passed"] for finding in status["findings"])
    decided = answer(trial, index=1001)
    assert (decided["source"], decided["policy_id"]) == ("policy", status["policy_id"])
    assert 0.1 <= decided["action_prob"][1] <= 0.9
    result = replay(trial.database)
    assert result.decisions == 72 and result.differences == []


def test_the_policy_is_the_one_that_the_library_fits_to_the_export(trial, study, tmp_path):
    from surefoot.service.operations.export import export_decisions

    fill(trial, points=40)
    update(trial)
    export_decisions(trial, tmp_path / "decisions.csv", "csv")
    with pytest.warns(FitWarning, match="leaks: 'weather'"):  # Most of these made-up outcomes is the weather.
        fitted = fit_study(tmp_path / "decisions.csv", study)
    live = trial.policies.get(trial.policies.live()[0]).policies
    np.testing.assert_array_equal(live.rule.coef, fitted.policies.rule.coef)
    state = np.array([[0.5, -1.0, 1.0]])
    given = answer(trial)["action_prob"]
    np.testing.assert_array_equal(given, study.clip_probabilities(fitted.policies.probabilities(["p0"], state))[0])


def test_who_has_too_few_complete_decision_points_stays_in_warm_up(trial):
    fill(trial, people=1, points=40)
    trial.policies.live()
    from surefoot.service.trial.participants import register_participant

    register_participant(trial.database, "new")
    assert update(trial)[0] == "done"
    assert answer(trial, "p0")["source"] == "policy"
    assert answer(trial, "new")["source"] == "warm-up"


def test_with_partial_pooling_a_new_participant_has_a_policy_from_the_first_day(url):
    from surefoot.service.trial.participants import register_participant

    partial = Study.parse(STUDY.replace('pooling = "person"', 'pooling = "partial"'))
    trial = open_trial(partial, url)
    fill(trial, people=6, points=20)
    register_participant(trial.database, "new")
    state, status = update(trial)
    assert state == "done", status
    decided = answer(trial, "new")
    assert decided["source"] == "policy" and 0.1 <= decided["action_prob"][1] <= 0.9
    live = trial.policies.get(trial.policies.live()[0])
    assert live.covers("anybody") and live.policies.anybody is not None
    assert replay(trial.database).differences == []
    trial.close()


@pytest.mark.parametrize(
    "deciding_days, updating_days", [(15, 0), (0, 30)], ids=["old", "activated by a clock that was ahead"]
)
def test_missing_context_and_stale_policies_fall_back(trial, monkeypatch, deciding_days, updating_days):
    fill(trial, people=1, points=40)
    monkeypatch.setattr(updates, "now", lambda: now() + timedelta(days=updating_days))
    update(trial)
    assert answer(trial, context={"weather": 0.1})["reasons"] == ["missing: engagement", "missing: place"]
    monkeypatch.setattr(deciding, "now", lambda: now() + timedelta(days=deciding_days))
    stale = answer(trial, index=1001)
    assert stale["source"] == "fallback" and stale["reasons"] == [f"stale policy: {trial.policies.live()[0]}"]
    assert replay(trial.database).differences == []


@pytest.mark.parametrize("changed", ["", "[state.engagement]\nscaling = { centre = 1.0 }\n"])
def test_a_policy_for_another_state_falls_back(trial, url, changed):
    fill(trial, people=1, points=40)
    update(trial)
    other = open_trial(Study.parse(STUDY.replace("[state.engagement]\n", changed)), url)
    decided = answer(other, context={"weather": 0.1, "place": "home", **({"engagement": 1.0} if changed else {})})
    assert decided["source"] == "fallback" and "other variables" in decided["reasons"][0]
    with pytest.raises(ApiError, match="other variables"):
        updates.activate_policy(other, trial.policies.live()[0], "test")
    assert replay(trial.database).differences == []
    other.close()


def test_a_failure_is_recorded_without_its_words(trial, monkeypatch):
    fill(trial, people=1, points=40)

    def fails(study, logs):
        raise RuntimeError("participant p0 said 17")

    monkeypatch.setattr(proposals, "fit_part", fails)
    update_id = updates.begin_update(trial, "test")
    with pytest.raises(RuntimeError):
        updates.run_update(trial, update_id)
    status = updates.update_status(trial, update_id)
    assert (status["state"], status["message"]) == ("failed", "the fit failed with RuntimeError")
    monkeypatch.undo()
    assert update(trial)[0] == "done"


def test_one_update_at_a_time_and_a_dead_one_does_not_block(trial):
    first = updates.begin_update(trial, "test")
    with pytest.raises(updates.UpdateRunningError):
        updates.begin_update(trial, "test")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with trial.database.transaction() as connection:
        connection.execute(sa.update(update_rows).values(process=child))
    second = updates.begin_update(trial, "test")
    assert updates.update_status(trial, first)["state"] == "interrupted"
    # The dead one comes back to life: nothing of it may go live.
    fill(trial, people=1, points=40)
    assert updates.run_update(trial, second) == "done"
    live = trial.policies.live()
    with pytest.raises(ValueError, match="presumed dead"):
        updates.run_update(trial, first)
    assert trial.policies.live() == live


def test_roll_back_is_one_call_that_leaves_a_trace(trial):
    fill(trial, people=1, points=40)
    update(trial)
    first = trial.policies.live()[0]
    fill(trial, people=1, points=20, first=40, seed=1)
    update(trial)
    second = trial.policies.live()[0]
    assert second != first
    assert updates.activate_policy(trial, first, "test") == {"policy_id": first, "previous_policy_id": second}
    assert answer(trial)["policy_id"] == first
    assert column(trial, activations.c.policy_id) == [first, second, first]
    listed = updates.list_policies(trial)
    assert [(one["id"], one["live"]) for one in listed] == [(second, False), (first, True)]
    assert {"participant_id": "p0", "action": "send", "feature": "weather"}.items() <= listed[0]["coefficients"][0].items()


@pytest.mark.parametrize("long_ago", [updates.DEAD_AFTER * 1.1, timedelta(days=-400)], ids=["late", "by a clock ahead"])
def test_an_update_on_another_machine_lives_as_long_as_its_heartbeat(trial, long_ago):
    """Its process cannot be asked, so only the heartbeat tells."""
    first = updates.begin_update(trial, "test")
    elsewhere = sa.update(update_rows).values(host="another machine", process=1)
    for age, dead in ((updates.DEAD_AFTER - timedelta(seconds=5), False), (long_ago, True)):
        with trial.database.transaction() as connection:
            connection.execute(elsewhere.values(beat_at=now() - age))
        if dead:
            updates.begin_update(trial, "test")
        else:
            with pytest.raises(updates.UpdateRunningError):
                updates.begin_update(trial, "test")
    assert updates.update_status(trial, first)["state"] == "interrupted"


def test_an_update_over_http_runs_beside_and_survives_a_kill(client):
    fill(client.trial, points=40)
    reply = client.ask("/updates", {}, role="admin")
    assert reply.status_code == 202
    assert client.ask("/updates", {}, role="admin").json()["error"]["code"] == "update_running"
    update_id = reply.json()["id"]
    assert client.decide("p0", 999, timestamp=moment(80)).json()["source"] == "warm-up"

    def wait(update_id, until):
        for _ in range(1200):
            status = client.get(f"/api/v1/updates/{update_id}", headers=client.as_role("admin")).json()
            if until(status):
                return status
            time.sleep(0.05)
        raise AssertionError(status)

    # Killed as soon as the child shows its own process id.
    deadline = time.monotonic() + 60
    while (process := column(client.trial, update_rows.c.process)[0]) == os.getpid():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    killed = wait(update_id, lambda status: status["finished_at"] is not None)
    assert killed["state"] in ("interrupted", "done")
    if killed["state"] == "interrupted":
        assert client.trial.policies.live() is None
    again = client.ask("/updates", {}, role="admin").json()["id"]
    assert wait(again, lambda status: status["finished_at"] is not None)["state"] == "done"
    assert client.decide("p0", 1000, timestamp=moment(82)).json()["source"] == "policy"


def test_intervals_come_from_the_fit_and_are_never_worth_a_policy(study, trial, monkeypatch):
    fill(trial, points=40)
    with trial.database.snapshot() as connection:
        fitted = fit_part(study, states.make_study_logs(study, states.read_rows(connection))).method
    intervals = updates.coefficient_intervals(fitted)
    assert len(intervals["rows"]) == 4 and all(row["low"] <= row["value"] <= row["high"] for row in intervals["rows"])
    monkeypatch.setattr(updates, "estimate_coefficients", lambda *given, **more: 1 / 0)
    assert updates.coefficient_intervals(fitted) == {}
