"""A participant can leave: at once, with the reason on record, and nothing about them is recorded or learned any more."""

import pytest

from surefoot.service.database.schema import decisions, outcomes, participant_events
from surefoot.service.trial.participants import set_pause, withdraw
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay, verify
from surefoot.service.updates.updates import begin_update, run_update
from surefoot.study import Study
from tests.service.support.trials import STUDY, column, fill


def test_after_a_withdrawal_nothing_is_decided_or_recorded(client):
    client.register("p0", "p1")
    first = client.decide("p0")
    left = {"reason": "moved away"}
    assert client.ask("/participants/p0/withdraw", left, role="admin").json() == {"participant_id": "p0", "withdrawn": True}
    client.ask("/participants/p0/withdraw", {"reason": "again"}, role="admin")
    refused = client.decide("p0", 1)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "withdrawn")
    assert client.decide("p0").json() == first.json(), "a retry of what was answered gets its answer"
    late = client.outcome(first.json()["decision_id"], 1.0)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "withdrawn")
    batch = {"outcomes": [{"decision_id": first.json()["decision_id"], "outcome": 1, "timestamp": "2026-03-01T11:00:00Z"}]}
    assert client.ask("/outcomes", batch).json()["results"][0]["status"] == "withdrawn"
    assert column(client.trial, outcomes.c.id) == [] and len(column(client.trial, decisions.c.id)) == 1
    assert client.decide("p1").status_code == 200
    assert column(client.trial, participant_events.c.reason) == ["moved away"]
    assert client.ask("/participants/p0/resume", left, role="admin").json()["error"]["code"] == "withdrawn"
    assert client.ask("/participants/p9/withdraw", left, role="admin").status_code == 404
    assert client.ask("/participants/p1/withdraw", left, role="analyst").status_code == 403
    assert verify(client.trial.database).discrepancies == [] == replay(client.trial.database).differences


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("setting", "people"), [("", {"p0"}), ("learn_from_withdrawn = true\n", {"p0", "p1"})])
def test_who_withdrew_is_learned_from_only_if_the_study_says_so(url, setting, people):
    trial = open_trial(Study.parse(STUDY.replace("[trial]\n", f"[trial]\n{setting}")), url)
    fill(trial, points=40)
    withdraw(trial, "p1", reason="no time", by="key abc")
    assert run_update(trial, begin_update(trial, "test")) == "done"
    (live, _) = trial.policies.live()
    assert set(trial.policies.get(live).policies.participants) == people
    trial.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_pause_ends_with_the_withdrawal(trial):
    fill(trial, people=1, points=2)
    set_pause(trial, "p0", paused=True, reason="ill", by="x")
    withdraw(trial, "p0", reason="left", by="x")
    with pytest.raises(Exception, match="withdrawn"):
        set_pause(trial, "p0", paused=False, reason="back", by="x")
    assert column(trial, participant_events.c.kind) == ["paused", "withdrawn"]
