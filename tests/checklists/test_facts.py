"""Facts from files: every number is counted again from the raw file, and nothing is said that the files do not hold."""

import csv
import json
from collections import Counter

import pytest
from pyarrow import csv as csv_files

from surefoot import fit_study
from surefoot.checklists import CHECKLISTS, collect_file_facts, load_checklist
from surefoot.datasets import demo_trial
from surefoot.effects import analyse_study
from surefoot.errors import FitWarning, InputError
from surefoot.study import Study

SERVICE_ONLY = {*("deviations", "harms", "flow", "changes", "blinding", "boundaries", "staff", "integrity")}
"""Topics that nothing but a database of the service, or its export, records."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The files of `surefoot demo`, of fewer people."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_trial, "PEOPLE", 12)
        patch.setattr(demo_trial, "DAYS", 12)
        csv_files.write_csv(demo_trial.simulate_logs(3), folder / "logs.csv")
    (folder / "study.toml").write_text(demo_trial.study_text())
    study = Study.load(folder / "study.toml")
    with pytest.warns(FitWarning):
        fit_study(folder / "logs.csv", study, folder / "fitted")
    return folder, study, collect_file_facts(study, "study.toml", folder / "logs.csv", folder / "fitted")


def say(facts, topic):
    return [fact.statement for fact in facts[topic]]


@pytest.mark.parametrize("name", CHECKLISTS)
def test_the_demo_leaves_no_item_unanswered_that_its_files_could_answer(demo, name):
    facts = demo[2]
    unanswered = {topic for item in load_checklist(name).items for topic in item.topics if not facts.get(topic)}
    # The demo has neither a distal outcome nor boundaries, and its study file says so.
    assert unanswered <= SERVICE_ONLY | {"distal", "monitoring"}


def test_every_fact_names_its_source(demo):
    facts = [fact for listed in demo[2].values() for fact in listed]
    assert all(fact.statement and fact.source for fact in facts)
    known = ("study.toml", "logs.csv", "surefoot ", "fitted/manifest.json", "metadata of the installed package")
    assert [fact for fact in facts if not any(source in fact.source for source in known)] == []


def test_counts_are_those_of_the_file(demo):
    folder, _, facts = demo
    rows = list(csv.DictReader((folder / "logs.csv").read_text().splitlines()))
    available = [row for row in rows if row["available"] == "true"]
    assert say(facts, "decision_points") == [f"{len(rows):,} decision points; by participant: median 60, 60 to 60."]
    assert say(facts, "participants")[0] == "12 participants have a decision point."
    assert say(facts, "availability")[0].startswith(f"Available at {len(available)} of {len(rows)} decision points")
    sent = sum(row["sent"] == "1" for row in available)
    assert f"suggestion: {sent} of {len(available)} available decision points" in say(facts, "delivered")[1]
    each = sorted(Counter(row["participant"] for row in rows if row["sent"] == "1").values())
    assert f"{each[0]} to {each[-1]}." in say(facts, "delivered")[2]
    assert say(facts, "randomisation") == [
        f"Probability of suggestion: 0.5 at all {len(available)} available decision points."
    ]
    assert say(facts, "period") == ["Decision points from 2026-03-02 to 2026-03-13 (times with a zone are in UTC)."]


def test_effects_are_those_of_the_command(demo):
    folder, study, facts = demo
    report = analyse_study(study, folder / "logs.csv")
    row = report.table[0]
    assert say(facts, "effects")[0].startswith("average: ") and f"p = {row.p:.3f}" in say(facts, "effects")[0]
    left_out = [
        int(line.split(": ")[1].split()[0]) for line in say(facts, "missing_outcomes") if line.startswith("Left out")
    ]
    assert sum(left_out) == report.quality.rows - report.quality.counted
    assert len(say(facts, "secondary")) == len(report.table) - 1 + len(report.joint)
    assert any("Without the screen it is" in line for line in say(facts, "sensitivity"))
    assert sum("Huber" in line for line in say(facts, "sensitivity")) == 3


def test_a_plan_is_not_told_as_what_happened(demo):
    facts = demo[2]
    assert "so it did not choose their actions" in say(facts, "version")[1]
    assert say(facts, "service_rules")[-1] == "These rules are a plan: the logs do not show whether a service followed them."
    assert say(facts, "updates") == say(facts, "policy_versions") == ["None: the rule stayed the same."]
    assert say(facts, "sources") == ["The same rule decided at every decision point."]


def test_a_study_file_alone_makes_a_protocol():
    text = '[columns]\nparticipant = "id"\ntime = "t"\n[state.mood]\nrange = [0, 10]\n'
    facts = collect_file_facts(Study.parse(text), "study.toml", None)
    assert facts["title"] == [] and facts["service_rules"] == [] and "effects" not in facts
    assert say(facts, "inputs") == ["mood: number, column mood, used by critic and policy; range = [0.0, 10.0]."]
    assert say(facts, "analysis")[0] == "The study file has no [effects] section: this is the default analysis, not a plan."
    assert say(facts, "analysis")[-2:] == [
        "Missing outcomes: complete rows.",
        "95 % intervals by t, with standard errors corrected for few participants.",
    ]
    assert "Analyses do not screen the logs for values that cannot be trusted." in say(facts, "screen")


@pytest.mark.parametrize("effects", ['formula = "weight ~ sent + mood"', 'outcome = "weight"\ncontrols = ["mood"]'])
def test_a_formula_names_the_outcome_as_the_keys_do(effects):
    text = (
        '[columns]\nparticipant = "id"\ntime = "t"\n[state.mood]\n[actions]\ncolumn = "sent"\n[outcome]\ncolumn = "steps"\n'
        f'[effects]\nestimator = "dcee"\n{effects}\n'
    )
    facts = collect_file_facts(Study.parse(text), "study.toml", None)
    assert say(facts, "analysis")[0].startswith("Causal excursion effect on weight by ")
    assert say(facts, "analysis")[-1].endswith("standard errors as published, not corrected for few participants.")
    assert say(facts, "distal") == ["weight."]
    words = collect_file_facts(Study.parse(f'{text}outcome_words = "weight in kg"\n'), "study.toml", None)
    assert say(words, "distal") == ["weight in kg."] and say(words, "outcome")[0] == "Column steps."


def test_a_title_that_nobody_wrote_is_missing(demo):
    study = Study.parse(demo_trial.study_text().replace('title = "Walking suggestions (simulated)"\n', ""))
    assert collect_file_facts(study, "study.toml", None)["title"] == []


def test_a_fit_of_another_study_or_of_other_logs_is_refused(demo, tmp_path):
    folder, study, _ = demo
    other = Study.parse(demo_trial.study_text() + "\n# changed\n")
    with pytest.raises(InputError, match="fitted with another study file"):
        collect_file_facts(other, "study.toml", folder / "logs.csv", folder / "fitted")
    lines = (folder / "logs.csv").read_text().splitlines(keepends=True)
    (tmp_path / "logs.csv").write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match="fitted to other logs"):
        collect_file_facts(study, "study.toml", tmp_path / "logs.csv", folder / "fitted")


def test_an_analysis_that_cannot_be_done_says_why(demo, tmp_path):
    folder, study, _ = demo
    lines = (folder / "logs.csv").read_text().splitlines(keepends=True)
    (tmp_path / "logs.csv").write_text("".join(lines[:41]))
    facts = collect_file_facts(study, "study.toml", tmp_path / "logs.csv")
    assert say(facts, "effects")[0].startswith("Not estimated: ") and "sensitivity" not in facts


def test_several_actions_have_probabilities_of_their_own(tmp_path):
    text = (
        '[columns]\nparticipant = "id"\ntime = "t"\nprobability = "p"\n[state.mood]\n'
        '[actions]\nnames = ["nothing", "walk", "rest"]\n[outcome]\ncolumn = "y"\n'
    )
    rows = ["id,t,p,mood,action,y"]
    for number in range(60):
        action, probability = (("nothing", 0.5), ("walk", 0.3), ("rest", 0.2))[number % 3]
        rows.append(f"{number % 5},{number // 5},{probability},{number % 7},{action},1.{number}")
    (tmp_path / "logs.csv").write_text("\n".join(rows))
    facts = collect_file_facts(Study.parse(text), "study.toml", tmp_path / "logs.csv")
    assert "Probability of rest, where it was drawn: 0.2 at all 20 available decision points." in say(facts, "randomisation")
    assert say(facts, "availability") == ["No column says who was available: every decision point counts as available."]
    assert facts["collection"] == [] and "updates" not in facts


def test_the_manifest_is_quoted(demo):
    folder, _, facts = demo
    manifest = json.loads((folder / "fitted" / "manifest.json").read_text())
    assert f"The fit used {manifest['used']:,} of {manifest['available']:,}" in say(facts, "fit")[0]
    assert manifest["inputs"][0]["sha256"] in say(facts, "version")[0]
    assert f"surefoot {manifest['versions']['surefoot']}" in say(facts, "version")[0]
