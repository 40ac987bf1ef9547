"""The numbers of a trial, against literal loops."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.effects.study_effects import estimate_primary_effect, plan_primary_effect
from surefoot.rehearsal import TrialDesign
from surefoot.rehearsal.trial_blocks import analyse_trial, summarise_trial
from surefoot.rehearsal.trial_run import DECIDERS, UpdateRecord, run_trials
from tests.rehearsal.trial_records import make_record

STUDY = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n[effects]\ncontrols = ["s1"]'


def summarise(record, never, coin, harm=0.1):
    return summarise_trial(record, coin, never, harm=harm, per_day=3)


def test_the_numbers_of_a_trial_are_those_of_literal_loops():
    rng = np.random.default_rng(0)
    lengths = [12, 12, 9, 12, 4, 12, 12]
    record, outcome, sent, source = make_record(rng, lengths=lengths)
    never, coin = (outcome + rng.normal(0.2, 0.3, outcome.shape) for _ in range(2))
    found = summarise(record, never, coin)
    means, shares, against, over = [], [], [], []
    for person, length in enumerate(lengths):
        own = [outcome[person, t] for t in range(length)]
        means.append(sum(own) / length)
        known = [sent[person, t] for t in range(length) if not np.isnan(sent[person, t])]
        shares.append(sum(known) / len(known))
        against.append(sum(own[t] - never[person, t] for t in range(length)) / length)
        over.append(sum(own[t] - coin[person, t] for t in range(length)) / length)
    assert found["outcome"] == pytest.approx(np.mean(means))
    assert found["lower_quarter"] == pytest.approx(np.quantile(means, 0.25))
    assert (found["sent"], found["sent_low"], found["sent_high"]) == pytest.approx(
        (np.mean(shares), np.quantile(shares, 0.1), np.quantile(shares, 0.9))
    )
    assert found["over_never"] == pytest.approx(np.mean(against))
    assert found["over_coin"] == pytest.approx(np.mean(over))
    assert found["harmed"] == sum(one < -0.1 for one in against) / 7
    assert 0 < found["harmed"] < 1
    first_day = [outcome[person, t] for person in range(7) for t in range(3)]
    assert found["outcome_by_day"][0] == pytest.approx(np.mean(first_day))
    last = [outcome[person, t] for person, length in enumerate(lengths) for t in range(9, 12) if t < length]
    assert found["outcome_by_day"][3] == pytest.approx(np.mean(last))
    free = [source[i, t] for i, length in enumerate(lengths) for t in range(length) if source[i, t] >= 0]
    assert found["fallback"] == pytest.approx(np.mean([one == DECIDERS.index("fallback") for one in free]))


def test_a_trial_is_not_harmed_by_itself():
    record, outcome, *_ = make_record(np.random.default_rng(1))
    found = summarise(record, outcome, outcome)
    assert (found["over_never"], found["over_coin"], found["harmed"]) == (0, 0, 0)


def test_the_primary_analysis_is_that_of_the_study_on_the_logs():
    study = sf.Study.parse(STUDY)
    record, *_ = make_record(np.random.default_rng(2), people=12, points=20, per_day=5)
    found = analyse_trial(study, record, *plan_primary_effect(study)[:2])
    direct = sf.effects.wcls(
        record.logs.to_frame("pyarrow"), participant="participant", time="time", outcome="outcome", treatment="action",
        probability="probability", probability_of="action taken", available="available", controls=["s1"],
    )  # fmt: skip
    assert (found["estimate"], found["standard_error"], found["p_value"]) == pytest.approx(
        (direct.params[0], direct.bse[0], direct.pvalues[0])
    )
    assert found["effective_share"] == 1.0
    assert found["no_analysis"] == ""


def test_what_cannot_be_analysed_says_why():
    study = sf.Study.parse(STUDY)
    record, *_ = make_record(np.random.default_rng(3))
    certain = replace(record.measured, probability=np.ones(len(record.measured)))
    never = replace(record, reported=replace(record.reported, logs=certain))
    analysis = analyse_trial(study, never, *plan_primary_effect(study)[:2])
    assert np.isnan(analysis["p_value"])
    assert "nothing to compare" in analysis["no_analysis"]
    assert "logs" not in vars(never), "such logs need no screen"


def test_a_primary_analysis_of_something_else_is_replaced_and_said():
    study = sf.Study.parse(STUDY + '\noutcome = "weight"\nestimator = "dcee"')
    analysis, estimator, note = plan_primary_effect(study)
    assert (analysis.outcome, estimator) == ("outcome", "wcls")
    assert note.startswith("The primary analysis (dcee of weight)")


def test_logs_in_memory_are_analysed_as_those_of_a_file(tmp_path):
    from pyarrow import csv

    text = STUDY.replace('time = "time"', 'time = "time"\navailable = "available"\nprobability = "probability"')
    study = sf.Study.parse(text.replace("[state.s1]", "[state.s1]\nscaling = { centre = 2.0, scale = 3.0 }"))
    record, *_ = make_record(np.random.default_rng(4), people=12, points=20, per_day=5)
    csv.write_csv(record.logs.to_frame("pyarrow"), tmp_path / "logs.csv")
    row = sf.effects.analyse_study(study, tmp_path / "logs.csv").table[0]
    logs = study.read(tmp_path / "logs.csv").logs
    found = estimate_primary_effect(study, logs, *plan_primary_effect(study)[:2])
    assert (found.params[0], found.bse[0]) == pytest.approx((row.estimate, row.standard_error))


def test_updates_are_counted_by_how_they_ended():
    record, outcome, *_ = make_record(np.random.default_rng(1))
    states = ("done", "waiting", "done", "refused")
    updates = [UpdateRecord(day, state, ("rate",) if state == "refused" else (), None) for day, state in enumerate(states)]
    found = summarise(replace(record, updates=updates), outcome, outcome)
    assert [found[f"updates_{state}"] for state in ("done", "refused", "waiting", "failed")] == [2, 1, 1, 0]
    assert found["refused_by"] == ["rate"]


def test_logs_of_a_trial_hold_the_probabilities_that_were_used_whatever_the_design_of_the_pilot_was():
    study = sf.Study.parse(
        '[columns]\nparticipant = "p"\ntime = "t"\n[state.weather]\n[state.engagement]\n[state.fatigue]\n'
        "[actions]\nprobabilities = [0.4, 0.6]"
    )
    design = TrialDesign(participants=3, days=2, per_day=3)
    candidate = sf.rehearsal.Candidate.fixed(study, 0.3)
    logs = run_trials(sf.simulators.HeartSteps(3), candidate, design, seeds=[1])[0].logs
    np.testing.assert_allclose(logs.probability, np.where(logs.action == 1, 0.3, 0.7))
