"""Facts for checklists from a trial of the service: no topic that the database could answer stays open."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.checklists import CHECKLISTS, collect_file_facts, load_checklist
from surefoot.service.database.clock import now
from surefoot.service.database.schema import decisions, outcomes, staff_actions
from surefoot.service.operations.export import EXPORTS, write_policies_text, write_study_text
from surefoot.service.operations.trial_facts import collect_closed_facts, collect_trial_facts
from surefoot.service.trial.adverse_events import record_event
from surefoot.service.trial.participants import withdraw
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, column, fill, update

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
SERVED = STUDY.replace('"person"', '"all"').replace("[trial]\n", '[trial]\ntitle = "Walks"\n', 1)
SERVED += '[effects]\nmoderators = ["engagement"]\n[monitoring]\nburden = 4\n'
BY_ACTION = {"effects", "secondary", "sensitivity", "missing_outcomes", "checks"}


@pytest.fixture
def served(url):
    trial = open_trial(Study.parse(SERVED), url)
    fill(trial, people=8, points=30)
    assert update(trial)[0] == "done"
    fill(trial, people=8, points=15, first=30)
    facts = {"happened_at": now() - timedelta(minutes=1), "serious": True, "related": "related", "by": "x"}
    record_event(trial, "p1", description="A fall of somebody", **facts)
    withdraw(trial, "p2", reason="moved away", by="x")
    yield trial
    trial.close()


def say(facts, topic):
    return [fact.statement for fact in facts[topic]]


def test_the_closed_part_leaves_no_item_unanswered_that_the_ledger_could_answer(served):
    facts = collect_closed_facts(served, "study.toml", reason="the trial has ended", by="x")
    topics = {topic for name in CHECKLISTS for item in load_checklist(name).items for topic in item.topics}
    assert {topic for topic in topics if not facts.get(topic)} == {"distal"}, "the study has no distal outcome"
    assert all(fact.statement and fact.source for listed in facts.values() for fact in listed)
    assert "saw outcomes by action: the trial has ended." in say(facts, "blinding")[0]
    assert say(facts, "collection")[-1].endswith("policies learned from the data of several participants during the study.")
    assert "Standard errors: adaptive." in say(facts, "effects")


def test_counts_are_those_of_the_tables(served):
    facts = collect_trial_facts(served, "study.toml")
    with served.database.autocommit() as connection:
        counted = sa.select(decisions.c.source, sa.func.count()).group_by(decisions.c.source)
        sources = dict(map(tuple, connection.execute(counted)))
        known = sa.select(sa.func.count()).select_from(decisions).where(decisions.c.available)
        known = known.where(decisions.c.id.not_in(sa.select(outcomes.c.decision_id)))
        missing = connection.scalar(known)
        available = connection.scalar(sa.select(sa.func.count()).where(decisions.c.available))
    for source, count in sources.items():
        assert any(line.startswith(f"{source}: {count:,} of 360 decision points") for line in say(facts, "sources"))
    assert f"steps: missing at {missing} of {available} available decision points" in " ".join(say(facts, "data_quality"))
    assert say(facts, "participants")[0] == "Registered: 8."
    assert {"Withdrawn: 1.", "Reason of being withdrawn: moved away (1)."} <= set(say(facts, "flow"))
    assert {"Adverse events: 1.", "Serious: 1."} <= set(say(facts, "harms"))
    assert say(facts, "integrity")[0] == "360 draws recomputed from their keys, 0 differ."
    assert "Updates that ended as done: 1." in say(facts, "updates")
    assert say(facts, "policy_versions")[0] == "Policy versions learned or loaded: 1."
    assert "The study file was the same throughout." in say(facts, "changes")
    today = now().astimezone(served.settings.zone)
    assert say(facts, "period")[1].startswith(f"Participants were registered from {today:%Y-%m-%d} to ")


def test_the_open_part_holds_nothing_by_action_and_leaves_no_trace(served):
    facts = collect_trial_facts(served, "study.toml")
    assert not [topic for topic in BY_ACTION if facts.get(topic)]
    assert "unblinded" not in column(served, staff_actions.c.action)
    text = str(facts)
    assert "A fall of somebody" not in text, "an appendix is published: events are counted, not told"


def test_another_study_file_is_named(served, url):
    changed = open_trial(Study.parse(SERVED + "# amended\n"), url)
    facts = collect_trial_facts(changed, "study.toml")
    assert "No decision was made under the study file of this appendix." in say(facts, "changes")
    changed.close()


def test_a_trial_without_decisions_says_so(url):
    trial = open_trial(Study.parse(SERVED), url)
    facts = collect_closed_facts(trial, "study.toml", reason="rehearsal", by="x")
    assert "decision_points" not in facts and facts["sources"] == []
    assert say(facts, "updates") == ["No update ran."] and say(facts, "policy_versions")[1] == "No policy version went live."
    trial.close()


def test_an_export_answers_what_it_holds(served, tmp_path):
    for kind in ("learned", "decisions", "updates"):
        name = "decisions.csv" if kind == "decisions" else f"decisions.{kind}.csv"
        EXPORTS[kind](served, tmp_path / name, "csv")
    (tmp_path / "decisions.policies.json").write_text(write_policies_text(served))
    study = Study.parse(write_study_text(served))
    facts = collect_file_facts(study, "decisions.study.toml", tmp_path / "decisions.csv")
    held = collect_trial_facts(served, "study.toml")
    assert set(say(facts, "sources")) <= set(say(held, "sources")) and facts["sources"]
    assert {"Decisions by the fallback: 0.", "Outcomes that came too late: 0."} <= set(say(facts, "deviations"))
    assert say(facts, "updates") == ["Updates that ended as done: 1."]
    assert say(facts, "policy_versions")[0].startswith("Policy versions learned or loaded: 1. Activations: 1, from ")
    assert "These rules are a plan" not in str(facts["service_rules"])
