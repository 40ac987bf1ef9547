import json

import pytest
import sqlalchemy as sa

from surefoot.service.database import schema
from surefoot.service.database.clock import now
from surefoot.service.database.schema import activations, decisions, participant_events
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.participants import set_pause
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay, verify
from surefoot.study import Study
from tests.service.support.client import request
from tests.service.support.trials import STUDY, answer, erase, fill, moment, update


def test_replay_finds_what_was_tampered_with(trial):
    fill(trial, points=40)
    update(trial)
    answer(trial)
    assert replay(trial.database).differences == []
    changes = {"action": 0, "uniform": 0.9999, "state": "[0.5, -1.0, 0.0]", "probabilities": "[0.4, 0.6]"}
    with trial.database.transaction() as connection:
        if trial.database.is_sqlite:
            connection.exec_driver_sql("DROP TRIGGER decisions_no_update")
        else:
            connection.exec_driver_sql("ALTER TABLE decisions DISABLE TRIGGER ALL")
        for index, (name, value) in enumerate(changes.items()):
            row = sa.and_(decisions.c.participant_id == "p1", decisions.c.decision_idx == index)
            connection.execute(sa.update(decisions).where(row).values({name: value}))
        connection.execute(sa.update(decisions).where(decisions.c.decision_idx == 1000).values(uniform=0.5))
    found = {(one.participant_id, one.decision_idx): one.check for one in replay(trial.database).differences}
    assert {("p1", 1), ("p1", 2), ("p1", 3), ("p0", 1000)} <= set(found)


PAUSE = {"kind": "paused", "reason": "x", "happened_at": now(), "done_by": "x"}
STEERING_ROWS = {
    "an older policy": (activations, {"policy_id": 1, "activated_at": now(), "activated_by": "x"}),
    "a pause of the study": (participant_events, {**PAUSE, "participant_id": None}),
    "a pause": (participant_events, {**PAUSE, "participant_id": "p0"}),
    "a resumption": (participant_events, {**PAUSE, "participant_id": "p1", "kind": "resumed"}),
}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("table", "row"), STEERING_ROWS.values(), ids=STEERING_ROWS)
def test_a_row_that_steered_a_decision_and_was_removed_again_is_noticed(trial, table, row):
    """Every row fits the ledger again, and so does the draw: but not who decided."""
    fill(trial, points=40)
    assert [update(trial)[0], update(trial)[0]] == ["done", "done"]
    set_pause(trial, "p1", paused=True, reason="ill", by="test")
    answer(trial, "p0")
    answer(trial, "p1")
    with trial.database.transaction() as connection:
        key = connection.execute(sa.insert(table), row).inserted_primary_key[0]
    answer(trial, "p0", 1001)
    answer(trial, "p1", 1001)
    with trial.database.transaction() as connection:
        connection.exec_driver_sql(f"DROP TRIGGER {table.name}_no_delete")
        connection.execute(sa.delete(table).where(table.c.id == key))
    assert [row.subject for row in verify(trial.database).discrepancies] == [f"trigger {table.name}_no_delete"]
    differences = {(difference.decision_idx, difference.check) for difference in replay(trial.database).differences}
    assert (1001, "source") in differences and {index for index, _ in differences} == {1001}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_every_kind_of_decision_is_chosen_again_also_after_an_erasure(trial):
    """Pauses that come and go, a policy, limits on prompts, clocks that jump, contexts with holes."""
    fill(trial, points=40)
    answer(trial, "p1", 100, context={"weather": 1.0})
    assert update(trial)[0] == "done"
    for index, (paused, subject) in enumerate(((True, None), (False, None), (True, "p0"), (False, "p0"))):
        set_pause(trial, subject, paused=paused, reason="x", by="test")
        answer(trial, "p0", 200 + index)
    answer(trial, "p1", 300, timestamp=moment(2000))
    limits = "\n[trial.dose]\nprompts_per_day = 1\nminimum_gap_minutes = 60\n"
    limited = open_trial(Study.parse(STUDY + limits), trial.database.url)
    for index in range(6):
        answer(limited, "p0", 400 + index)
    with trial.database.autocommit() as connection:
        rows = connection.execute(sa.select(decisions.c.source, decisions.c.fallback_reasons)).all()
    assert {row.source for row in rows} == {"policy", "warm-up", "fallback", "unavailable"}
    words = {json.loads(row.fallback_reasons)[0].split(":")[0] for row in rows if row.fallback_reasons != "[]"}
    assert words == {"dose", "missing", "clock", "paused"}
    assert replay(trial.database).differences == []
    erase(trial)
    assert replay(trial.database).differences == []
    limited.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_replies_that_an_earlier_release_wrote_in_another_form_are_replayed(trial, monkeypatch):
    write = schema.make_reply
    monkeypatch.setattr(schema, "make_reply", lambda *given: json.dumps(json.loads(write(*given)), indent=2, sort_keys=True))
    asked = DecisionRequest.model_validate(
        request("p0", 3, timestamp=moment(7), availability=False, reasons=["driving", "asleep"])
    )
    fill(trial, points=3)
    with monkeypatch.context() as before:
        before.setattr(schema, "to_json", json.dumps)
        reply = decide(trial, asked)
    assert decide(trial, asked) == reply, "a retry at a server of another release"
    assert replay(trial.database).differences == []


def test_posterior_sampling_stays_within_the_limits_and_is_replayed(tmp_path):
    """Three actions, whose probabilities are a quadrature's."""
    text = STUDY.replace('name = "ro-accb"', 'name = "ts"') + '[actions]\nnames = ["nothing", "walk", "stretch"]\n'
    trial = open_trial(Study.parse(text), f"sqlite:///{tmp_path}/trial.db")
    fill(trial, points=40)
    assert update(trial)[0] == "done"
    found = [
        answer(trial, index=1000 + k, context={"weather": k - 2.5, "engagement": 1.0, "place": "home"}) for k in range(6)
    ]
    assert {one["source"] for one in found} == {"policy"}
    sent = [1 - one["action_prob"][0] for one in found]
    assert all(0.1 - 1e-12 <= one <= 0.9 + 1e-12 for one in sent)
    assert min(sent) < 0.3 and max(sent) > 0.8
    assert replay(trial.database).differences == []
    trial.close()
