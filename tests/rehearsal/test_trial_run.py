"""Trials run on simulated people: against closed forms, and the same whatever runs beside them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from surefoot import InputError, Study
from surefoot.rehearsal import trial_run
from surefoot.rehearsal.plan import Candidate, TrialDesign
from surefoot.rehearsal.trial_run import DECIDERS, Attendance, run_trials
from surefoot.simulators import HeartSteps
from surefoot.trial_rules.proposals import propose_policy
from surefoot.trial_rules.randomisation import draw_uniform, random_key

TEXT = """[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "ro-saccb"
pooling = "all"
[probability_limits]
minimum = 0.1
maximum = 0.9
[trial]
warm_up_decision_points = 30
warm_up_probability = 0.4
"""
STUDY = Study.parse(TEXT)
METHOD = Candidate.with_method(STUDY, "ro-saccb")
SMALL = TrialDesign(participants=4, days=15, per_day=2, update_every=3)


def run(candidate=METHOD, design=SMALL, seeds=(1,), **more):
    return run_trials(HeartSteps(design.participants), candidate, design, seeds=list(seeds), **more)


def shares(record, source):
    return (record.source == DECIDERS.index(source)).mean()


def test_a_coin_sends_with_its_probability_and_its_draws_are_the_services():
    secret = bytes(range(32))
    (record,) = run(Candidate.fixed(STUDY, 0.3), secrets=[secret])
    logs = record.logs
    drawn = [draw_uniform(secret, random_key(one, time)) for one, time in zip(logs.participant, logs.time, strict=True)]
    assert_array_equal(logs.action, np.array(drawn) >= 0.7)
    assert_array_equal(logs.probability, np.where(logs.action, 0.3, 0.7))
    assert shares(record, "fixed") == 1 and record.updates == []
    many = run(Candidate.fixed(STUDY, 0.3), seeds=range(30))
    assert np.mean([one.logs.action.mean() for one in many]) == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / 3600))


def test_warm_up_lasts_until_the_first_update_with_enough_decision_points():
    """Pooled, 8 a day: 24 after the update of day 2, 48 after that of day 5; day 6 is the first under a policy."""
    (record,) = run()
    assert [(update.day, update.state) for update in record.updates][:2] == [(2, "waiting"), (5, "done")]
    assert_array_equal(record.source == DECIDERS.index("warm-up"), record.day < 6)
    assert set(record.logs.probability[record.day < 6].round(9)) == {0.4, 0.6}
    assert [update.day for update in record.updates] == [2, 5, 8, 11], "nobody decides after the last day"


def test_look_ahead_candidates_learn_where_days_begin_at_a_clock_time():
    text = TEXT.replace('name = "ro-saccb"', 'name = "hb-ahead"') + 'day_boundary = "04:00"\n'
    (record,) = run(Candidate.with_method(Study.parse(text), "hb-ahead"), SMALL.model_copy(update={"screen": False}))
    assert record.updates[-1].state in ("done", "refused"), "the first may have too few decision points"
    assert not any("timestamps" in (update.message or "") for update in record.updates)
    assert record.logs.time.dtype.kind == "M"
    assert_array_equal(record.own_day, np.tile(np.arange(30) // 2, 4))


def test_zeros_after_nothing_hold_rehearsed_updates_unless_they_are_real(monkeypatch):
    """A watch that is put on when it buzzes says 0 at two of five decision points without a prompt."""

    def propose(study, measured, *given, **more):
        logs = measured.logs
        unworn = (logs.action == 0) & (logs.time % 5 < 2)
        spoilt = replace(measured, logs=logs.with_values(outcome=np.where(unworn, 0.0, logs.outcome)))
        return propose_policy(study, spoilt, *given, **more)

    monkeypatch.setattr(trial_run, "propose_policy", propose)
    design = SMALL.model_copy(update={"participants": 8, "screen": False})
    (held,) = run(design=design)
    assert {update.state for update in held.updates if update.day >= 5} == {"refused"}
    assert all("values by action" in update.refused_by for update in held.updates if update.day >= 5)
    real = Study.parse(TEXT.replace("[method]", '[outcome]\nzero = "real"\n[method]'))
    (learned,) = run(Candidate.with_method(real, "ro-saccb"), design)
    assert not any("values by action" in update.refused_by for update in learned.updates)


def test_a_trial_is_the_same_whatever_runs_beside_it():
    design = SMALL.model_copy(update={"entry_days": 3, "drop_out": 0.3, "drop_out_burden": 0.2, "outcome_delay": 1})
    together = run(design=design, seeds=[5, 6])
    for seed, one in zip([5, 6], together, strict=True):
        (alone,) = run(design=design, seeds=[seed])
        for name in ("day", "source", "outcome", "left"):
            assert_array_equal(getattr(alone, name), getattr(one, name))
        for name in ("state", "action", "probability", "outcome", "time"):
            assert_array_equal(getattr(alone.logs, name), getattr(one.logs, name))
    assert len({one.logs.action.tobytes() for one in together}) == 2


def test_two_candidates_meet_the_same_chance():
    never, always = (run(Candidate.fixed(STUDY, send))[0] for send in (0.0, 1.0))
    assert_array_equal(never.logs.state[:, 0], always.logs.state[:, 0])  # the weather
    assert never.logs.action.sum() == 0 and always.logs.action.all()


def test_late_outcomes_are_missing_at_the_end_and_too_late_ones_never_count():
    (record,) = run(Candidate.fixed(STUDY, 0.5), SMALL.model_copy(update={"outcome_delay": 3}))
    last = record.logs.time >= SMALL.decision_points - 3
    assert_array_equal(np.isnan(record.logs.outcome), last)
    assert_array_equal(record.logs.outcome[~last], record.outcome[~last])
    strict = Study.parse(TEXT + "outcome_hours = 7\n")  # From 8:00 to 14:00 counts, from 20:00 to 8:00 does not.
    (record,) = run(Candidate.fixed(strict, 0.5), SMALL.model_copy(update={"outcome_delay": 1, "per_day": 3}))
    assert_array_equal(np.isnan(record.logs.outcome), record.logs.time % 3 == 2)


def test_limits_on_prompts_hold_and_count_as_unavailable():
    limited = Study.parse(TEXT + "[trial.dose]\nprompts_per_day = 1\n")
    (record,) = run(Candidate.fixed(limited, 1.0))
    assert_array_equal(record.logs.action, record.logs.time % 2 == 0), "the second is within 24 hours of the first"
    assert_array_equal(record.logs.available, record.logs.time % 2 == 0)
    assert_array_equal(record.source == DECIDERS.index("unavailable"), record.logs.time % 2 == 1)


def test_a_stale_policy_gives_way_to_the_fallback():
    brief = Study.parse(TEXT + "policy_days = 1\nfallback_probability = 0.2\n")
    (record,) = run(Candidate.with_method(brief, "ro-saccb"))
    stale = (record.day >= 6) & ((record.day % 3 == 2) | ((record.day % 3 == 1) & (record.logs.time % 2 == 1)))
    stale |= (record.day % 3 == 1) & (record.day >= 6)  # 3:00 to 8:00 of the next day is more than a day
    assert_array_equal(record.source == DECIDERS.index("fallback"), stale)
    assert set(record.logs.probability[stale].round(9)) == {0.2, 0.8}


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 7), st.integers(0, 40), st.integers(1, 10))
def test_cohorts_enter_together_and_evenly(participants, cohort, entry_days, days):
    design = TrialDesign(participants=participants, cohort=cohort, entry_days=entry_days, days=days)
    entries = np.array(design.entries)
    assert entries[0] == 0 and (np.diff(entries) >= 0).all() and entries[-1] <= entry_days
    assert all(len(set(entries[first : first + cohort])) == 1 for first in range(0, participants, cohort))
    assert entries[-1] == (entry_days if participants > cohort else 0)
    assert design.calendar_days == entries[-1] + days


@pytest.mark.parametrize("burden", [0.0, 0.5])
def test_people_leave_at_the_rate_of_the_design(burden):
    """Without prompts 30 % leave; with a constant burden b the share is 1 − 0.7^exp(β b)."""
    design = TrialDesign(participants=200, days=10, per_day=1, drop_out=0.3, drop_out_burden=burden)
    people = Attendance(design, range(20))
    people._burden += 1.5
    for day in range(10):
        people.end_day(day, people.list_active(day))
    expected = 1 - 0.7 ** np.exp(1.5 * burden)
    gone = ~np.isnan(people.left)
    assert gone.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 4000))
    assert np.nanmax(people.left) <= 8, "after the last day nobody can leave"


def test_whoever_leaves_gives_no_more_rows():
    design = TrialDesign(participants=4, days=15, per_day=2, drop_out=0.8, entry_days=6)
    for record in run(Candidate.fixed(STUDY, 0.5), design, seeds=range(3)):
        points = np.bincount(record.logs.participant_index, minlength=4)
        assert_array_equal(points, np.where(np.isnan(record.left), 30, 2 * (record.left + 1)))
        assert_array_equal(record.day - record.own_day, np.array(design.entries)[record.logs.participant_index])


@pytest.mark.parametrize(
    ("text", "design", "message"),
    [
        (TEXT, {"participants": 5}, "the simulator has 4 people, the design 5"),
        (TEXT + "day_boundary = 3\n", {}, "per_day is 2, but the study's trial.day_boundary is 3"),
        (TEXT + "decision_gap_minutes = 1000\n", {}, "take fewer a day"),
        (TEXT.replace("[state.fatigue]", "[state.other]"), {}, "name the same ones in the same order"),
    ],
)
def test_a_design_that_the_study_cannot_be_run_by_is_refused(text, design, message):
    with pytest.raises(InputError, match=message):
        run_trials(HeartSteps(4), Candidate.fixed(Study.parse(text), 0.5), SMALL.model_copy(update=design), seeds=[1])
