"""Groups of a study: numbers by hand, effects of subsets, and warnings about small ones."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot import InputError, Study
from surefoot.effects import analyse_study, wcls
from tests.effects.trials import make_trial

STUDY = """
[columns]
participant = "person"
time = "t"
available = "available"
probability = "taken"
[state.x]
[state.at]
kind = "category"
levels = ["elsewhere", "home"]
[actions]
column = "sent"
[outcome]
column = "y"
[effects]
controls = ["x", "at"]
"""
GROUPS = '[groups]\nsex = "sex"\nplace = "at"\n'
ROLES = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    frame = make_trial(5)
    frame["at"] = np.where(frame["home"] == 1, "home", "elsewhere")
    people = frame["person"].unique()
    sex = dict(zip(people, np.resize(["woman", "man", "woman"], len(people)), strict=True))
    frame["sex"] = frame["person"].map(sex)
    frame.loc[frame["person"] == people[0], "sex"] = None
    path = tmp_path_factory.mktemp("trial") / "logs.csv"
    frame.drop(columns=["p", "home"]).to_csv(path, index=False)
    return path, frame


@pytest.fixture(scope="module")
def report(logs):
    return analyse_study(Study.parse(STUDY + GROUPS), logs[0])


def test_levels_in_their_order_with_people_of_unknown_group_last(report, logs):
    frame = logs[1]
    assert [group.label for group in report.groups] == [
        "sex: man", "sex: woman", "sex: not known", "place: elsewhere", "place: home",
    ]  # fmt: skip
    man = report.groups[0]
    rows = frame[(frame["sex"] == "man") & (frame["available"] == 1)]
    assert man.people == rows["person"].nunique()
    assert man.decision_points == len(rows)
    assert man.prompts.value == pytest.approx((rows["sent"] > 0).mean())
    assert man.outcome.value == pytest.approx(rows["y"].mean())
    assert man.missing.value == pytest.approx(rows["y"].isna().mean())
    assert man.outcome.low < man.outcome.value < man.outcome.high


@pytest.mark.parametrize(("label", "column", "level"), [("sex: man", "sex", "man"), ("place: home", "at", "home")])
def test_the_effect_of_a_group_is_that_of_its_rows(report, logs, label, column, level):
    frame = logs[1]
    part = frame[frame[column] == level]
    controls = ["x"] if column == "at" else ["x", "home"]
    by_hand = wcls(part, controls=controls, available="available", probability_of="sending", **ROLES)
    (group,) = [group for group in report.groups if group.label == label]
    (row,) = group.effects
    assert_allclose([row.estimate, row.standard_error], [by_hand.params[0], by_hand.bse[0]], rtol=1e-8)


def test_small_groups_are_named_in_text_page_and_numbers(report):
    unknown = report.groups[2]
    assert unknown.people == 1 and unknown.is_small and unknown.effects == ()
    text = " ".join(report.summary().split())
    assert "Small, with fewer than 10 people: sex: not known" in text
    assert "No effect for sex: not known: " in text
    assert "1 (small)" in text
    assert "<h2>Groups</h2>" in report.to_html()
    numbers = json.loads(json.dumps(report.to_dict()["groups"]))
    assert [group["small"] for group in numbers] == [False, False, True, False, False]
    assert numbers[0]["effects"][0]["analysis"] == "sex: man"


def test_a_study_without_groups_says_nothing(logs):
    report = analyse_study(Study.parse(STUDY), logs[0])
    assert report.groups == ()
    assert "<h2>Groups</h2>" not in report.to_html()
    assert "one by one" not in report.summary()


def test_groups_that_change_within_people_have_no_effect_on_later_outcomes(logs):
    later = STUDY.replace('controls = ["x", "at"]', 'controls = ["x", "at"]\nlags = [1]')
    report = analyse_study(Study.parse(later + GROUPS), logs[0])
    by_label = {group.label: group for group in report.groups}
    assert "changes within participants" in by_label["place: home"].refusal
    assert len(by_label["sex: man"].effects) == 1


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ('sex = "sxe"', r"groups\.sex: .*there is no column 'sxe' \(did you mean 'sex'\?\)"),
        ('person = "t"', r"groups\.person: column 't' has \d+ different values; name a column with at most 12"),
    ],
)
def test_columns_that_cannot_be_groups_are_refused_with_the_key(logs, groups, message):
    with pytest.raises(InputError, match=message):
        analyse_study(Study.parse(STUDY + f"[groups]\n{groups}\n"), logs[0])


@pytest.mark.parametrize(
    ("column", "message"), [("y", "'y' is the outcome"), ("sent", "'sent' is the action"), ("dose", "derived")]
)
def test_what_follows_the_decision_is_no_group(column, message):
    text = STUDY + f'[state.dose]\nderived = "dose"\n[groups]\nkind = "{column}"\n'
    with pytest.raises(InputError, match=f"groups.kind.*{message}"):
        Study.parse(text)


def test_whole_numbers_may_be_levels(tmp_path):
    frame = make_trial(5)
    frame["at"] = "home"
    frame.loc[frame["home"] == 0, "at"] = "elsewhere"
    frame["sex"] = pd.Categorical(frame["person"]).codes % 2
    frame.drop(columns=["p", "home"]).to_csv(tmp_path / "logs.csv", index=False)
    report = analyse_study(Study.parse(STUDY + GROUPS), tmp_path / "logs.csv")
    assert [group.level for group in report.groups][:2] == ["0", "1"]


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_after_a_pooled_bandit_effects_of_groups_have_adaptive_errors(tmp_path):
    text = """
[columns]
participant = "person"
time = "point"
available = "available"
probability = "probability"
[state.place]
kind = "category"
levels = ["elsewhere", "home"]
[outcome]
column = "y"
range = [0, 100]
[method]
name = "ts"
pooling = "all"
[probability_limits]
minimum = 0.02
maximum = 0.98
[trial]
day_boundary = 5
[trial.guard_rails]
max_influence = 1
max_send_rate_change = 1
[groups]
place = "place"
"""
    study = Study.parse(text)
    people = sf.rehearsal.from_study(study, participants=12, seed=1)
    design = sf.rehearsal.TrialDesign(participants=12, days=8, per_day=5, update_every=2)
    (record,) = sf.rehearsal.run_trials(people, sf.rehearsal.Candidate("ts", study), design, seeds=[1])
    report = analyse_study(study, sf.rehearsal.write_trial(record, study, tmp_path))
    assert report.errors == "adaptive"
    rows = [row for group in report.groups for row in group.effects]
    assert [row.label for row in rows] == ["place: elsewhere: average", "place: home: average"]
    assert all(row.standard_error == row.adaptive_error != row.usual_error for row in rows)
