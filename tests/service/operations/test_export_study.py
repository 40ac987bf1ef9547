"""The study that goes with an export says how the trial chose its actions."""

import json
from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.datasets.demo_trial import study_text
from surefoot.service.database.schema import activations, policies
from surefoot.service.operations.export import describe_collection, export_decisions, write_study_text
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide, record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.study import CollectionSection, Study
from surefoot.study.collection_section import CONSEQUENCES
from tests.service.support.client import request
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, fill, update

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
CLOCK = STUDY.replace("[trial]\n", '[trial]\nday_boundary = "04:00"\ntime_zone = "Europe/Zurich"\npolicy_days = 2\n')
CLOCK += "[screen]\non = false\n"


@pytest.fixture
def clock(monkeypatch, tmp_path):
    return Clock(monkeypatch, tmp_path)


def run_days(trial, clock, begin, days):
    """Ten decision points a day of two participants, in two states that come again and again."""
    for day in range(begin, begin + days):
        for point in range(10):
            clock.set(BEGIN + timedelta(days=day, hours=point))
            for participant in ("p0", "p1"):
                register_participant(trial.database, participant)
                context = {"weather": 1.0 - 2 * (point % 2), "engagement": 0.0, "place": "home"}
                moment = clock.moment.isoformat()
                asked = request(participant, 10 * day + point, timestamp=moment, context=context)
                answer = json.loads(decide(trial, DecisionRequest.model_validate(asked)))
                steps = context["weather"] * (1 + answer["action"]) + 0.1 * (point % 3) + 0.01 * day
                told = Outcome(decision_id=answer["decision_id"], outcome=steps, timestamp=clock.moment)
                record_outcomes(trial, [told])


@pytest.mark.parametrize(("pooling", "policy"), [("person", "own"), ("all", "pooled")])
def test_the_policies_of_a_trial_and_the_times_at_which_they_changed(url, clock, tmp_path, pooling, policy):
    trial = open_trial(Study.parse(CLOCK.replace('pooling = "person"', f'pooling = "{pooling}"')), url)
    run_days(trial, clock, 0, 3)
    assert describe_collection(trial) == CollectionSection(policy="fixed")
    clock.set(BEGIN + timedelta(days=2, hours=18))
    assert update(trial)[0] == "done"
    run_days(trial, clock, 3, 4)
    collection = describe_collection(trial)
    # At 03:00 UTC it is 04:00 in Zurich; two days later the policy is stale.
    assert collection == CollectionSection(policy=policy, updates=("2026-03-05T04:00:00", "2026-03-07T04:00:00"))
    (tmp_path / "decisions.study.toml").write_text(write_study_text(trial))
    export_decisions(trial, tmp_path / "decisions.csv", "csv")
    study = Study.load(tmp_path / "decisions.study.toml")
    assert study.collection == collection
    assert study.collection.describe(study.read(tmp_path / "decisions.csv").logs) == [CONSEQUENCES[policy]]
    trial.close()


def test_decision_points_that_are_counted_have_no_times_of_updates(trial):
    fill(trial, points=40)
    assert update(trial)[0] == "done"
    assert describe_collection(trial) == CollectionSection(policy="own")


def test_a_policy_from_before_the_first_decision_changes_nothing(trial, url, tmp_path):
    source = open_trial(trial.study, f"sqlite:///{tmp_path}/pilot.db")
    fill(source, points=40)
    update(source)
    with source.database.autocommit() as connection:
        content = connection.scalar(sa.select(policies.c.content))
    source.close()
    with trial.database.transaction() as connection:
        row = {"id": 1, "study_id": trial.study_id, "created_at": BEGIN, "accepted": True, "content": content}
        connection.execute(sa.insert(policies).values(row))
        connection.execute(sa.insert(activations).values(policy_id=1, activated_at=BEGIN, activated_by="test"))
    fill(trial, points=3)
    assert describe_collection(trial) == CollectionSection(policy="fixed")


def test_the_trials_collection_replaces_that_of_earlier_logs_and_nothing_else(url):
    text = study_text().replace('policy = "fixed"', 'policy = "pooled"\nupdates = [\n  "2026-01-01T04:00:00",\n]')
    trial = open_trial(Study.parse(text), url)
    written = write_study_text(trial)
    assert written.count("[collection]") == 1 and Study.parse(written).collection == CollectionSection(policy="fixed")
    assert "# State: what was known before the decision.\n\n[state.temperature]" in written
    trial.close()


@pytest.mark.parametrize("spelling", ["", 'collection = { policy = "own" }\n', 'collection.policy = "own"\n'])
def test_every_spelling_gives_a_file_that_can_be_used(url, spelling):
    trial = open_trial(Study.parse(spelling + STUDY), url)
    written = write_study_text(trial)
    if spelling:
        assert written.endswith('\n[collection]\npolicy = "fixed"\n') and "in place of its own" in written
    else:
        assert Study.parse(written).collection.policy == "fixed"
    trial.close()


def test_a_study_made_in_python_gets_the_table_only(url):
    given = Study.parse(STUDY).model_dump(by_alias=True)
    trial = open_trial(Study.model_validate(given), url)
    assert write_study_text(trial).endswith('[collection]\npolicy = "fixed"\n')
    trial.close()


def test_the_route_gives_the_file(client):
    reply = client.get("/api/v1/export/study", headers=client.as_role("analyst"))
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("application/toml")
    assert Study.parse(reply.text).collection.policy == "fixed"
