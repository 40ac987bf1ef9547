"""A rehearsal against the trial that followed."""

import json

import pyarrow as pa
import pytest
from pyarrow import csv

import surefoot as sf
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.trial_files import write_trial
from surefoot.rehearsal.trial_run import run_trials
from tests.cli.typed import type_command

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.mood]
range = [0, 10]
[outcome]
range = [0, 100]
[method]
name = "saccb"
pooling = "all"
[probability_limits]
minimum = 0.2
maximum = 0.8
"""
PLAN = """
trials = 10
environment = [{ effect = 0.3 }]
[design]
participants = 12
days = 6
per_day = 3
update_every = 2
screen = false
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("score")
    study = sf.Study.parse(STUDY)
    plan = RehearsalPlan.parse(PLAN)
    sf.rehearsal.rehearse(None, study, plan, folder=folder / "rehearsal", jobs=1).save(folder / "rehearsal")
    (folder / "study.toml").write_text(STUDY)
    people = sf.rehearsal.from_study(study, participants=12, seed=0, per_day=3)
    trial = people.in_environment(sf.rehearsal.Environment(effect=0.3)).draw_people(12, seed=99)
    (record,) = run_trials(trial, sf.rehearsal.Candidate.with_method(study, "saccb"), plan.design, seeds=[99])
    decisions = write_trial(record, study.with_trial_columns(), folder / "export")
    frame = csv.read_csv(decisions)
    position = frame.column_names.index("outcome")
    worse = frame.set_column(position, "outcome", pa.array([10.0] * 100 + [11.0] * (len(frame) - 100)))
    csv.write_csv(worse, folder / "worse.csv")
    updates = (folder / "export" / "decisions.updates.csv").read_text()
    (folder / "worse.updates.csv").write_text(updates.replace('"done"', '"refused"'))
    return folder


def test_a_trial_of_the_same_people_is_as_rehearsed(folder):
    score = sf.rehearsal.score_rehearsal(folder / "rehearsal", folder / "export", folder / "study.toml")
    assert [number.name for number in score.numbers] == [
        "mean outcome", "share prompted", "effect of a prompt",
        "updates that passed the checks", "updates refused", "updates failed",
    ]  # fmt: skip
    assert score.verdict == "as rehearsed"
    assert (score.environment, score.candidate) == ("effect 0.3", "saccb")
    assert score.numbers[0].low < score.numbers[0].happened < score.numbers[0].high
    assert len(score.to_frame()) == 6
    assert "95 % of trials" in score.summary()


def test_what_differs_is_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    shown = type_command("rehearse", "--score", "rehearsal", "worse.csv", "--json", "--html", "page.html")
    data = json.loads(shown.stdout)
    assert data["verdict"].startswith("not as rehearsed: mean outcome lower")
    assert data["verdict"].endswith("updates that passed the checks lower, updates refused higher")
    assert "not as rehearsed" in (folder / "page.html").read_text()


def test_a_candidate_that_was_not_rehearsed_is_refused(folder):
    with pytest.raises(sf.InputError, match=r"no candidate 'sacb' \(did you mean 'saccb'"):
        sf.rehearsal.score_rehearsal(folder / "rehearsal", folder / "export", folder / "study.toml", candidate="sacb")
