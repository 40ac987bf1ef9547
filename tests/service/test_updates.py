import json
import os
import signal
import time

import numpy as np
import pytest
import sqlalchemy as sa

from surefoot import Study
from surefoot.fitting import fit_study
from surefoot.service.database.schema import activations, alerts, policies
from surefoot.service.database.schema import updates as update_rows
from surefoot.service.trial.api_errors import Refusal
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.replay import replay
from surefoot.service.trial.trial import open_service
from surefoot.service.updates import queries, updates
from tests.service.client import request
from tests.service.conftest import STUDY
from tests.service.trials import fill


def update(service):
    update_id = updates.begin(service, "test")
    return updates.run(service, update_id), queries.update_status(service, update_id)


def column(service, one):
    with service.database.looking() as connection:
        return list(connection.scalars(sa.select(one)))


def answer(service, participant="p0", index=1000, **changes):
    return json.loads(decide(service, DecisionRequest.model_validate(request(participant, index, **changes))))


def test_a_study_waits_then_learns_and_the_policy_decides(service):
    assert update(service)[0] == "waiting"
    fill(service, points=10)
    assert update(service)[0] == "waiting"
    assert answer(service)["source"] == "warm-up"
    fill(service, points=25, first=10)
    state, status = update(service)
    assert state == "done" and [finding["passed"] for finding in status["findings"]] == [True] * 4
    decided = answer(service, index=1001)
    assert (decided["source"], decided["policy_id"]) == ("policy", status["policy_id"])
    assert 0.1 <= decided["action_prob"][1] <= 0.9
    result = replay(service.database)
    assert result.decisions == 72 and result.differences == []


def test_the_policy_is_the_one_that_the_library_fits_to_the_export(service, study, tmp_path):
    from surefoot.service.operations.export import export_decisions

    fill(service, points=40)
    update(service)
    (tmp_path / "decisions.csv").write_bytes(export_decisions(service, "csv").content)
    fitted = fit_study(tmp_path / "decisions.csv", study)
    live = service.policies.get(service.policies.live()[0]).policies
    np.testing.assert_array_equal(live.rule.coef, fitted.policies.rule.coef)
    state = np.array([[0.5, -1.0, 1.0]])
    given = answer(service)["action_prob"]
    np.testing.assert_array_equal(given, study.limited(fitted.policies.probabilities(["p0"], state))[0])


def test_who_has_too_few_complete_decision_points_stays_in_warm_up(service):
    fill(service, people=1, points=40)
    service.policies.live()
    from surefoot.service.trial.participants import register

    register(service.database, "new")
    assert update(service)[0] == "done"
    assert answer(service, "p0")["source"] == "policy"
    assert answer(service, "new")["source"] == "warm-up"


def test_missing_context_and_stale_policies_fall_back(service, monkeypatch):
    from datetime import timedelta

    from surefoot.service.trial import decisions as deciding

    fill(service, people=1, points=40)
    update(service)
    assert answer(service, context={"weather": 0.1})["reasons"] == ["missing: engagement", "missing: place"]
    real = deciding.now
    monkeypatch.setattr(deciding, "now", lambda: real() + timedelta(days=15))
    stale = answer(service, index=1001)
    assert stale["source"] == "fallback" and stale["reasons"][0].startswith("stale policy")
    assert replay(service.database).differences == []


@pytest.mark.parametrize("changed", ["", "[state.engagement]\nscaling = { centre = 1.0 }\n"])
def test_a_policy_for_another_state_falls_back(service, url, changed):
    fill(service, people=1, points=40)
    update(service)
    other = open_service(Study.parse(STUDY.replace("[state.engagement]\n", changed)), url)
    decided = answer(other, context={"weather": 0.1, "place": "home", **({"engagement": 1.0} if changed else {})})
    assert decided["source"] == "fallback" and "other variables" in decided["reasons"][0]
    with pytest.raises(Refusal, match="other variables"):
        queries.activate_policy(other, service.policies.live()[0], "test")
    assert replay(service.database).differences == []
    other.close()


@pytest.mark.parametrize(
    ("old", "new", "rail"),
    [
        ("max_send_rate_change = 0.8", "max_send_rate_change = 0.0", "send rate"),
        ("max_removed = 0.5", "max_removed = 0.0", "removed"),
    ],
)
def test_a_guard_rail_leaves_the_old_policy_live_and_raises_an_alert(service, url, old, new, rail):
    fill(service, people=1, points=40)
    update(service)
    live = service.policies.live()
    strict = open_service(Study.parse(STUDY.replace(old, new)), url)
    fill(strict, people=1, points=20, first=40, seed=1, effect=-5.0)
    state, status = update(strict)
    assert state == "refused" and rail in [finding["rail"] for finding in status["findings"] if not finding["passed"]]
    assert service.policies.live() == live
    assert column(service, alerts.c.kind) == ["guard-rail"]
    with pytest.raises(Refusal, match="guard rail"):
        queries.activate_policy(service, status["policy_id"], "test")
    strict.close()


def test_numbers_that_are_not_finite_never_become_a_policy(service, monkeypatch):
    fill(service, people=1, points=40)
    real = updates.fit_part

    def spoiled(study, logs):
        fit = real(study, logs)
        fit.policies.rule.coef[0, 0, 0] = np.nan
        return fit

    monkeypatch.setattr(updates, "fit_part", spoiled)
    state, status = update(service)
    assert state == "refused" and not status["findings"][0]["passed"]
    assert service.policies.live() is None and column(service, policies.c.id) == []


def test_a_failure_is_recorded_without_its_words(service, monkeypatch):
    fill(service, people=1, points=40)

    def fails(study, logs):
        raise RuntimeError("participant p0 said 17")

    monkeypatch.setattr(updates, "fit_part", fails)
    update_id = updates.begin(service, "test")
    with pytest.raises(RuntimeError):
        updates.run(service, update_id)
    status = queries.update_status(service, update_id)
    assert (status["state"], status["message"]) == ("failed", "the fit failed with RuntimeError")
    monkeypatch.undo()
    assert update(service)[0] == "done"


def test_one_update_at_a_time_and_a_dead_one_does_not_block(service):
    first = updates.begin(service, "test")
    with pytest.raises(updates.UpdateRunningError):
        updates.begin(service, "test")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with service.database.writing() as connection:
        connection.execute(sa.update(update_rows).values(process=child))
    second = updates.begin(service, "test")
    assert queries.update_status(service, first)["state"] == "interrupted"
    # The dead one comes back to life: nothing of it may go live.
    fill(service, people=1, points=40)
    assert updates.run(service, second) == "done"
    live = service.policies.live()
    with pytest.raises(ValueError, match="taken for dead"):
        updates.run(service, first)
    assert service.policies.live() == live


def test_roll_back_is_one_call_that_leaves_a_trace(service):
    fill(service, people=1, points=40)
    update(service)
    first = service.policies.live()[0]
    fill(service, people=1, points=20, first=40, seed=1)
    update(service)
    second = service.policies.live()[0]
    assert second != first
    assert queries.activate_policy(service, first, "test") == {"policy_id": first, "previous_policy_id": second}
    assert answer(service)["policy_id"] == first
    assert column(service, activations.c.policy_id) == [first, second, first]
    listed = queries.policy_list(service)
    assert [(one["id"], one["live"]) for one in listed] == [(second, False), (first, True)]
    assert {"participant_id": "p0", "action": "send", "feature": "weather"}.items() <= listed[0]["coefficients"][0].items()


def test_an_update_over_http_runs_beside_and_survives_a_kill(client):
    fill(client.service, points=40)
    reply = client.ask("/updates", {}, role="admin")
    assert reply.status_code == 202
    assert client.ask("/updates", {}, role="admin").json()["error"]["code"] == "update_running"
    update_id = reply.json()["id"]
    assert client.decide("p0", 999).json()["source"] == "warm-up"

    def wait(update_id, until):
        for _ in range(300):
            status = client.get(f"/api/v1/updates/{update_id}", headers=client.as_role("admin")).json()
            if until(status):
                return status
            time.sleep(0.05)
        raise AssertionError(status)

    # Killed as soon as the child shows its own process id.
    deadline = time.monotonic() + 20
    while (process := column(client.service, update_rows.c.process)[0]) == os.getpid() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    killed = wait(update_id, lambda status: status["finished_at"] is not None)
    assert killed["state"] in ("interrupted", "done")
    if killed["state"] == "interrupted":
        assert client.service.policies.live() is None
    again = client.ask("/updates", {}, role="admin").json()["id"]
    assert wait(again, lambda status: status["finished_at"] is not None)["state"] == "done"
    assert client.decide("p0", 1000).json()["source"] == "policy"
