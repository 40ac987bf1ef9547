import time
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.numerics.arrays import NUMPY
from surefoot.simulators.gymnasium_envs import ParticipantEnv
from tests.rehearsal.pilots import HEARTSTEPS, STUDY, make_frame, read_frame

FIELDS = ("states", "available", "actions", "probability", "rewards", "reported")
COIN = sf.policies.coin(2)
study = sf.Study.parse(STUDY)


@pytest.fixture(scope="module")
def model():
    return sf.rehearsal.fit_pilot(read_frame(make_frame(), study), study)


def test_the_kind_of_outcome_is_found_and_only_what_moves_responds(model):
    assert model.outcome.family == "zeros"
    assert model.state_names == ("mood", "place=home", "place=work", "weekend", "alone", "dose")
    assert model.effects.response[0, 1:4].tolist() == [0, 0, 0]
    assert "outcome='zeros'" in repr(model)


def test_what_a_rehearsal_leaves_out_is_said(model):
    assert model.list_limits(30) == [
        "Prompts are taken not to change 'place': people have the levels that they had in the pilot."
    ]
    assert model.list_limits(31)[1:] == [
        "The trial lasts 31 days, and half of the people were observed for 30 or fewer: after their last day they begin "
        "again with their first."
    ]


def test_several_actions_are_said_to_act_alike():
    simulator = sf.simulators.HeartSteps(participants=8)
    logs = simulator.collect(sf.policies.coin(2), decision_points=20, seed=0)
    rng = np.random.default_rng(0)
    action = np.where(logs.action > 0, 1 + (rng.random(len(logs)) < 0.5), 0)
    names = ("nothing", "walk", "stretch")
    three = sf.Trajectories.from_arrays(
        *(values.reshape(8, 20, *values.shape[1:]) for values in (logs.state, action, logs.outcome)),
        probability=np.where(action == 0, 0.5, 0.25).reshape(8, 20),
        state_names=logs.state_names,
        actions=names,
    )
    study = sf.Study.parse(HEARTSTEPS + "[actions]\nnames = ['nothing', 'walk', 'stretch']\n")
    limits = sf.rehearsal.fit_pilot(three, study, per_day=5).list_limits(4)
    assert limits == [
        "All actions but 'nothing' are taken to have the same effect: this rehearsal cannot say which of them to send."
    ]


@pytest.mark.parametrize("environment", [sf.rehearsal.PILOT_EFFECT, sf.rehearsal.Environment(pilot=True, carry_over="none")])
def test_with_the_pilots_own_prompts_everybody_lives_through_the_pilot_again(model, environment):
    """Nothing is counted twice: what the effects take out of the pilot they put in again."""
    simulation = model.in_environment(environment).start(seed=1)
    for t in range(90):
        simulation.step(model.people.sent[None, :, t].astype(int), np.full((1, 30), 0.5))
    known = ~np.isnan(model.people.outcome)
    assert_allclose(simulation.rewards[0][known], model.people.outcome[known], atol=1.0)  # rounded by chance
    assert (simulation.rewards[0][known] == 0).tolist() == (model.people.outcome[known] == 0).tolist()
    assert_array_equal(np.isnan(simulation.reported[0]), ~known)
    assert_array_equal(simulation.available[0], model.people.available)
    mood = simulation.states[0, ..., 0]
    assert_array_equal(np.isnan(mood), np.isnan(model.people.states[0]))
    assert np.nanquantile(np.abs(mood - model.people.states[0]), 0.99) < 0.03
    assert_array_equal(simulation.states[0, ..., 1:5], np.moveaxis(model.people.states[1:], 0, -1))


def test_pieces_equal_the_whole_to_the_bit(model):
    whole = model.start(seed=[3, 4]).advance(COIN, 60)
    pieces = model.start(seed=[3, 4])
    for _ in range(12):
        pieces.advance(COIN, 5)
    for name in FIELDS:
        assert_array_equal(getattr(pieces, name), getattr(whole, name))
    collected = model.collect(COIN, decision_points=60, seed=3)
    assert_array_equal(collected.outcome, whole.logs(0).outcome)


def test_a_person_is_the_same_in_any_company(model):
    few, many = model.draw_people(3, seed=5), model.draw_people(20, seed=5)
    one, other = (people.collect(COIN, decision_points=20, seed=1) for people in (few, many))
    assert_array_equal(one.outcome, other.outcome[:60])
    assert_array_equal(one.state, other.state[:60])
    part = many.of(slice(1, 3), NUMPY)
    assert_array_equal(part.person, many.person[1:3])
    assert_array_equal(part.deviation, many.deviation[:, 1:3])


def test_replicates_with_people_of_their_own_equal_each_alone(model):
    together = model.draw_people(6, seed=[7, 8]).start(seed=[1, 2]).advance(COIN, 15)
    for replicate in range(2):
        alone = model.draw_people(6, seed=7 + replicate).start(seed=1 + replicate).advance(COIN, 15)
        for name in FIELDS:
            assert_array_equal(getattr(together, name)[replicate], getattr(alone, name)[0])
    with pytest.raises(sf.InputError, match="give one for each replicate: 2"):
        model.draw_people(6, seed=[7, 8]).start(seed=1)


def test_derived_states_are_those_of_the_logs(model):
    simulation = model.draw_people(4, seed=1).start(seed=1).advance(COIN, 12)
    dose = np.zeros((4, 12))
    for t in range(1, 12):
        dose[:, t] = 0.9 * dose[:, t - 1] + (simulation.actions[0, :, t - 1] > 0)
    assert_allclose(simulation.states[0, ..., 5], dose)


def test_outcomes_are_whole_and_none_is_negative(model):
    simulation = model.draw_people(20, seed=1).start(seed=1).advance(COIN, 60)
    assert (simulation.rewards >= 0).all()
    assert_array_equal(simulation.rewards, np.round(simulation.rewards))
    assert (simulation.actions[~simulation.available] == 0).all()
    assert_array_equal(simulation.states[0, 0, :, 3], (np.arange(60) // 3) % 7 >= 5)
    assert set(np.unique(simulation.states[..., 4])) == {0.0, 1.0}
    assert (simulation.states[..., 1] + simulation.states[..., 2]).max() == 1


def test_it_is_an_environment(model):
    env = ParticipantEnv(model, participant=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        check_env(env, skip_render_check=True)
    env.reset(seed=1)
    reported = [env.step(1)[4]["reported"] for _ in range(200)]
    assert 0 < np.mean(reported) < 1


def test_a_hundred_trials_take_little_time(model):
    trials = model.draw_people(50, seed=list(range(20)))
    began = time.process_time()
    trials.start(seed=list(range(20))).advance(COIN, 210)
    assert time.process_time() - began < 1.0  # 100 trials: docs/rehearsal.md


def test_pilots_that_say_nothing_are_refused():
    rng = np.random.default_rng(0)
    plain = sf.Study.parse(HEARTSTEPS)

    def logs(people=4, outcome=None, probability=0.5):
        shape = (people, 30)
        outcome = rng.standard_normal(shape) if outcome is None else np.full(shape, outcome)
        return sf.Trajectories.from_arrays(
            rng.standard_normal((*shape, 3)),
            rng.integers(0, 2, shape),
            outcome,
            probability=np.full(shape, probability),
            state_names=("weather", "engagement", "fatigue"),
        )

    for pilot, words in (
        (logs(people=1), r"one participant does not say how people differ.*from_study"),
        (logs(probability=np.nan), "probabilities are missing; log them"),
        (logs(outcome=2.0), r"outcome is always 2.*from_study"),
        (logs(outcome=np.nan), "outcome is always missing"),
    ):
        with pytest.raises(sf.InputError, match=words):
            sf.rehearsal.fit_pilot(pilot, plain)
    with pytest.warns(sf.FitWarning, match="4 participants say little"):
        sf.rehearsal.fit_pilot(logs(), plain)
    with pytest.raises(sf.InputError, match="a pilot is what"):
        sf.rehearsal.fit_pilot("pilot.csv", plain)


def test_without_a_pilot_the_study_says_enough():
    text = STUDY.replace('column = "outcome"', 'column = "outcome"\nrange = [0, 120]').replace(
        "[state.mood]", "[state.mood]\nrange = [0, 10]"
    )
    made = sf.rehearsal.from_study(sf.Study.parse(text), participants=200, seed=1, availability=0.8, missing=0.1)
    simulation = made.start(seed=1).advance(COIN, 100)
    assert_allclose(simulation.rewards.mean(), 60, atol=3)
    assert_allclose(simulation.rewards.std(), 20, rtol=0.1)
    assert_allclose(simulation.rewards.mean(axis=2).var() / simulation.rewards.var(), 0.3, atol=0.08)
    assert_allclose(simulation.available.mean(), 0.8, atol=0.04)
    assert_allclose(np.isnan(simulation.reported).mean(), 0.1, atol=0.03)
    mood = simulation.states[..., 0]
    assert mood.min() >= 0 and mood.max() <= 10
    assert_allclose(np.nanmean(mood), 5, atol=0.3)
    assert_allclose(simulation.states[..., 1].mean(), 1 / 3, atol=0.08)
    with pytest.raises(sf.InputError, match="does not say how the outcome varies"):
        sf.rehearsal.from_study(study, seed=1)
    with pytest.raises(sf.InputError, match="sd must be above 0"):
        sf.rehearsal.from_study(study, seed=1, mean=0, sd=0)


def test_several_actions_are_simulated():
    several = sf.Study.parse(STUDY.replace("[actions]", '[actions]\nnames = ["nothing", "walk", "stretch"]'))
    frame = make_frame(10, 60)
    frame["action"] = np.where(frame["action"] > 0, 1 + np.arange(600) % 2, 0)
    frame["probability"] = np.where(frame["action"] > 0, 0.25, 0.5)
    found = sf.rehearsal.fit_pilot(read_frame(frame, several), several)
    logs = found.collect(sf.policies.coin(3), decision_points=20, seed=1)
    assert set(np.unique(logs.action)) == {0, 1, 2}


def test_clock_times_are_slots_of_the_day():
    day = np.datetime64("2026-01-05", "s") + np.arange(20).repeat(3) * np.timedelta64(86400, "s")
    clock = np.tile([8 * 3600, 12 * 3600 + 900, 20 * 3600], 20)
    frame = make_frame(6, 60, seed=2)
    frame["time"] = np.tile(day + clock.astype("timedelta64[s]"), 6)
    stamped = sf.Study.parse(STUDY.replace("day_boundary = 3", 'day_boundary = "04:00"'))
    found = sf.rehearsal.fit_pilot(read_frame(frame, stamped), stamped)
    assert found.per_day == 3
    counted = sf.rehearsal.fit_pilot(read_frame(make_frame(6, 60, seed=2), study), study)
    assert_allclose(found.effects.now, counted.effects.now)
