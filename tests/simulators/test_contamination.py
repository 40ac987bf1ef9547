import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

import surefoot as sf
from surefoot.simulators import contaminate

LOGS = sf.simulators.HeartSteps(participants=5).collect(sf.policies.coin(2), decision_points=100, seed=0)


def sizes(participant):
    rows = LOGS.participant_index == participant
    return np.abs(np.column_stack([LOGS.state, LOGS.outcome])[rows]).mean(axis=0)


def test_sensor_moves_every_value_by_its_own_size():
    dirty = contaminate(LOGS, mechanism="sensor", ratio=0.04, strength=5, seed=1)
    assert_array_equal(np.bincount(LOGS.participant_index[dirty.touched]), [4] * 5)
    moved = np.column_stack([dirty.logs.state - LOGS.state, dirty.logs.outcome - LOGS.outcome])
    assert_array_equal(moved[~dirty.touched], 0)
    for participant in range(5):
        own = moved[dirty.touched & (LOGS.participant_index == participant)]
        assert_allclose(np.abs(own), np.broadcast_to(5 * sizes(participant), own.shape), rtol=1e-9)
    signs = np.sign(moved[contaminate(LOGS, mechanism="sensor", ratio=0.04, strength=5, seed=1).touched])
    assert 0.25 < (signs > 0).mean() < 0.75


def test_prompted_raises_the_reward_of_prompted_tuples_only():
    dirty = contaminate(LOGS, mechanism="prompted", ratio=0.1, strength=3, seed=2)
    assert (LOGS.action[dirty.touched] == 1).all()
    assert_array_equal(np.bincount(LOGS.participant_index[dirty.touched]), [10] * 5)
    assert_array_equal(dirty.logs.state, LOGS.state)
    for participant in range(5):
        own = dirty.touched & (LOGS.participant_index == participant)
        assert_allclose((dirty.logs.outcome - LOGS.outcome)[own], 3 * sizes(participant)[-1], rtol=1e-9)
    everything = contaminate(LOGS, mechanism="prompted", ratio=1.0, strength=3, seed=2)
    assert_array_equal(everything.touched, LOGS.action == 1)


def test_careless_draws_states_from_their_range_and_leaves_rewards_right():
    dirty = contaminate(LOGS, mechanism="careless", ratio=0.3, seed=2)
    assert_array_equal(np.bincount(LOGS.participant_index[dirty.touched]), [30] * 5)
    assert_array_equal(dirty.logs.outcome, LOGS.outcome)
    assert_array_equal(dirty.logs.state[~dirty.touched], LOGS.state[~dirty.touched])
    assert (dirty.logs.state[dirty.touched] != LOGS.state[dirty.touched]).all()
    drawn = []
    for participant in range(5):
        own = LOGS.state[LOGS.participant_index == participant]
        least, greatest = own.min(axis=0), own.max(axis=0)
        drawn.append(
            (dirty.logs.state[dirty.touched & (LOGS.participant_index == participant)] - least) / (greatest - least)
        )
    assert kstest(np.concatenate(drawn).ravel(), "uniform").pvalue > 0.01


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["sensor", "prompted", "careless"]), st.integers(0, 1000))
def test_more_outliers_contain_fewer(one, other, mechanism, seed):
    less, more = (contaminate(LOGS, mechanism=mechanism, ratio=r, strength=5, seed=seed) for r in sorted((one, other)))
    assert (more.touched | ~less.touched).all()
    assert_array_equal(more.logs.outcome[less.touched], less.logs.outcome[less.touched])
    assert_array_equal(more.logs.state[less.touched], less.logs.state[less.touched])


@pytest.mark.parametrize("nothing", [{"ratio": 0.0}, {"strength": 0.0}])
def test_none_or_weightless_outliers_change_nothing(nothing):
    dirty = contaminate(LOGS, mechanism="sensor", **{"ratio": 0.1, "strength": 5.0, **nothing}, seed=3)
    assert_array_equal(dirty.logs.outcome, LOGS.outcome)
    assert_array_equal(dirty.logs.state, LOGS.state)


def test_the_same_people_are_touched_whoever_else_is_there():
    few = sf.simulators.HeartSteps(participants=2).collect(sf.policies.coin(2), decision_points=100, seed=0)
    alone = contaminate(few, mechanism="sensor", ratio=0.1, strength=5, seed=4)
    together = contaminate(LOGS, mechanism="sensor", ratio=0.1, strength=5, seed=4)
    assert_array_equal(alone.logs.state, together.logs.state[LOGS.participant_index < 2])


def test_missing_values_stay_missing():
    outcome = LOGS.outcome.copy()
    outcome[:150] = np.nan
    state = LOGS.state.copy()
    state[::7, 0] = np.nan
    state[LOGS.participant_index == 2, 1] = np.nan
    logs = LOGS.with_values(outcome=outcome, state=state)
    for mechanism in ("sensor", "prompted", "careless"):
        dirty = contaminate(logs, mechanism=mechanism, ratio=0.5, strength=5, seed=5)
        assert_array_equal(np.isnan(dirty.logs.outcome), np.isnan(outcome))
        assert_array_equal(np.isnan(dirty.logs.state), np.isnan(state))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mechanism": "sensors"}, "did you mean 'sensor'"),
        ({"ratio": 1.2}, "between 0 and 1"),
        ({"strength": np.inf}, "finite"),
        ({"strength": -1}, "at least 0"),
    ],
)
def test_wrong_arguments_are_refused(wrong, words):
    with pytest.raises(sf.InputError, match=words):
        contaminate(LOGS, **{"mechanism": "sensor", "seed": 0, **wrong})
