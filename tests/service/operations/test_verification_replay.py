import sqlalchemy as sa

from surefoot.service.database.schema import decisions
from surefoot.service.operations.verification import replay
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, answer, fill, update


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
