import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.simulators import ChainWalk, Course, HeartSteps
from surefoot.simulators.dynamics import Dynamics

COIN, NEVER, ALWAYS = sf.policies.coin(2), sf.policies.never(2), sf.policies.always(2)
FIELDS = ("states", "available", "actions", "probability", "rewards", "reported")


class Patchy(Dynamics):
    """A walk that is seen, available and reported only at times, and that a prompt pushes up by 1."""

    state_names = ("place", "other")
    initial_numbers, step_numbers = 2, 2

    def __init__(self, people):
        self.participants = np.arange(people)

    def draw(self, rng, shape):
        return rng.random(shape)

    def begin(self, numbers):
        return np.concatenate([np.zeros((1, *numbers.shape[1:])), numbers])

    def advance(self, state, action, numbers):
        place = state[0] + action
        return np.concatenate([place[None], numbers]), place + 0.0 * action

    def visible(self, state):
        return np.stack([state[0], np.where(state[1] < 0.3, np.nan, state[1])])

    def available(self, state):
        return state[2] > 0.4

    def report(self, state, reward):
        return np.where(state[1] < 0.1, np.nan, reward)


@pytest.mark.parametrize("simulator", [HeartSteps(6), HeartSteps(6, spread=1.0), ChainWalk(6)])
def test_pieces_under_one_policy_equal_the_whole_to_the_bit(simulator):
    whole = simulator.collect(COIN, decision_points=210, seed=3)
    course = simulator.start(seed=3)
    for _ in range(42):
        course.advance(COIN, 5)
    pieces = course.logs()
    for name in ("state", "action", "probability", "reward", "time"):
        assert_array_equal(getattr(pieces, name), getattr(whole, name))


@settings(max_examples=15, deadline=None)
@given(pieces=st.lists(st.integers(1, 9), min_size=1, max_size=6), held=st.sampled_from([1, 40, 2**22]))
def test_what_is_held_and_how_it_is_cut_change_nothing(pieces, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surefoot.simulators.course.HELD_CELLS", held)
        cut = Patchy(3)
        course = Course(cut, [5, 6])
        for piece in pieces:
            course.advance(COIN, piece)
    whole = Course(Patchy(3), [5, 6]).advance(COIN, sum(pieces))
    for name in FIELDS:
        assert_array_equal(getattr(course, name), getattr(whole, name))


def test_a_course_goes_on_under_another_policy_with_the_same_chance():
    simulator = HeartSteps(4)
    coin, other = (simulator.start(seed=9).advance(COIN, 30).advance(later, 20) for later in (COIN, ALWAYS))
    assert_array_equal(coin.states[:, :, :31], other.states[:, :, :31])
    assert (other.actions[:, :, 30:] == 1).all()
    # Weather does not feel the action: the same numbers came to both.
    assert_array_equal(coin.states[..., 0], other.states[..., 0])


def test_replicates_in_one_batch_equal_each_alone():
    simulator = HeartSteps(5, spread=1.0)
    fitted = [sf.method("accb").fit(simulator.collect(COIN, decision_points=40, seed=k)).policies_ for k in range(2)]
    policies = [fitted[0], NEVER, fitted[1]]
    together = simulator.start(seed=[11, 12, 13]).advance(policies, 30)
    for replicate, policy in enumerate(policies):
        alone = simulator.start(seed=11 + replicate).advance(policy, 30)
        for name in FIELDS:
            assert_array_equal(getattr(together, name)[replicate], getattr(alone, name)[0])
        assert_array_equal(together.logs(replicate).reward, alone.logs().reward)


def test_who_is_not_in_the_study_stays_where_they_are():
    simulator = HeartSteps(3)
    whole = simulator.start(seed=4).advance(ALWAYS, 10)
    staggered = simulator.start(seed=4)
    ones = np.ones((1, 3))
    for day in range(12):
        active = np.array([[day < 10, 1 <= day < 11, 2 <= day < 12]])
        earned = staggered.step(ones.astype(int), ones, active=active)
        assert_array_equal(np.isnan(earned), ~active)
    assert_array_equal(staggered.time, [[10, 10, 10]])
    for name in FIELDS:
        assert_array_equal(getattr(staggered, name), getattr(whole, name))
    late = simulator.start(seed=4)
    late.step(ones.astype(int), ones, active=np.array([[True, False, True]]))
    assert len(late.logs()) == 2


def test_nobody_unavailable_is_treated_and_the_fallback_decides_without_a_state():
    course = Course(Patchy(400), 1).advance(
        sf.method("accb", pooling="all").fit(logs_of_two_states()).policies_, 30, fallback=0.25
    )
    unavailable = ~course.available
    assert 0.35 < unavailable.mean() < 0.45
    assert (course.actions[unavailable] == 0).all()
    assert (course.probability[unavailable] == 1).all()
    blind = course.available & np.isnan(course.states).any(axis=-1)
    sent = course.actions[blind] == 1
    assert abs(sent.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / blind.sum())
    assert_array_equal(course.probability[blind], np.where(sent, 0.25, 0.75))
    assert not np.isnan(course.rewards).any()
    lost = np.isnan(course.reported)
    assert 0.08 < lost.mean() < 0.12
    assert_array_equal(course.reported[~lost], course.rewards[~lost])


def logs_of_two_states():
    rng = np.random.default_rng(0)
    state, action = rng.random((1, 200, 2)), rng.integers(0, 2, (1, 200))
    return sf.Trajectories.from_arrays(
        state, action, rng.random((1, 200)), probability=np.full((1, 200), 0.5), state_names=Patchy.state_names
    )


def test_a_policy_that_looks_at_nothing_needs_no_fallback():
    course = Course(Patchy(200), 2).advance(sf.policies.fixed([0.1, 0.9]), 10, fallback=0.0)
    assert set(np.unique(course.probability[course.available])) == {0.1, 0.9}


def test_wrong_arguments_are_refused():
    simulator = HeartSteps(2)
    for call, words in (
        (lambda: simulator.start(seed=[]), "0 seeds"),
        (lambda: simulator.start(seed=1).advance(COIN, 0), "at least 1"),
        (lambda: simulator.start(seed=[1, 2]).advance([COIN], 3), "1 policies for 2 replicates"),
    ):
        with pytest.raises(sf.InputError, match=words):
            call()
