"""What long-run values need of the logs, at its limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.long_run import PAIRS_PER_COEFFICIENT, LongRunLogs
from surefoot.learning.critics import Capped, Ridge


def make_logs(people=4, points=30, *, gap=1, variables=2, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, points, variables))
    action = np.resize([0, 1], (people, points))
    reward = 1 + state[..., 0] + 0.5 * action + 0.1 * rng.standard_normal((people, points))
    time = np.tile(gap * np.arange(points), (people, 1))
    return sf.Trajectories.from_arrays(scale * state, action, reward, time=time, probability=np.full((people, points), 0.5))


def test_decision_points_further_apart_than_the_gap_do_not_follow_each_other():
    logs = make_logs(gap=3)
    for gap in (1, 2):
        with pytest.raises(sf.InputError, match="is never followed by a decision point with a known state"):
            LongRunLogs.of_logs(logs, Ridge(), max_gap=gap)
    found = LongRunLogs.of_logs(logs, Ridge(), max_gap=3)
    assert len(found.rows) == 4 * 29
    assert (logs.time[found.following] - logs.time[found.rows] == 3).all()
    values = evaluate(logs, {}, long_run=True, max_gap=3).long_run
    assert [row.policy for row in values] == ["never", "always"]
    with pytest.raises(sf.InputError, match="never followed"):
        evaluate(logs, {}, long_run=True)


def test_nights_are_known_where_the_day_is():
    logs = make_logs(points=40)
    assert LongRunLogs.of_logs(logs, Ridge()).nuisances.shape[1] == 0
    night = LongRunLogs.of_logs(logs, Ridge(), day_boundary=5).nuisances
    assert night.shape == (160, 1) and night.sum() == 4 * 7
    assert [row.value.value for row in evaluate(logs, {}, long_run=True, day_boundary=5).long_run] != [
        row.value.value for row in evaluate(logs, {}, long_run=True).long_run
    ]


def test_so_many_pairs_and_two_people_are_enough():
    """Two state variables and two actions have six coefficients: thirty pairs."""
    assert PAIRS_PER_COEFFICIENT == 5
    assert len(LongRunLogs.of_logs(make_logs(2, 16), Ridge()).rows) == 30
    with pytest.raises(sf.InputError, match=r"28 consecutive decision points with outcomes are too few.*at least 30 are"):
        LongRunLogs.of_logs(make_logs(2, 15), Ridge())
    with pytest.raises(sf.InputError, match="of 2 people or more"):
        LongRunLogs.of_logs(make_logs(1, 60), Ridge())


def test_an_action_that_nothing_follows_is_named():
    logs = make_logs()
    never = sf.Trajectories.from_arrays(
        logs.state.reshape(4, 30, 2), np.zeros((4, 30)), logs.reward.reshape(4, 30), probability=np.ones((4, 30))
    )
    with pytest.raises(sf.InputError, match="action 'send' is never followed by a decision point"):
        LongRunLogs.of_logs(never, Ridge())


def test_values_do_not_depend_on_the_units_of_states_and_constant_ones_are_left_out():
    small, large = (LongRunLogs.of_logs(make_logs(scale=scale), Ridge()) for scale in (1e-3, 1e3))
    assert small.varying.tolist() == [True, True]
    chances = np.tile([0.4, 0.6], (len(small.rows), 1))
    assert_allclose(small.solve(chances).value, large.solve(chances).value, rtol=1e-9)
    logs = make_logs()
    constant = np.column_stack([logs.state, np.full(len(logs), 7.0)]).reshape(4, 30, 3)
    wide = sf.Trajectories.from_arrays(constant, logs.action.reshape(4, 30), logs.reward.reshape(4, 30))
    found = LongRunLogs.of_logs(wide, Ridge())
    assert found.varying.tolist() == [True, True, False]
    assert_allclose(found.solve(chances).value, LongRunLogs.of_logs(logs, Ridge()).solve(chances).value, rtol=1e-9)


def test_a_state_that_repeats_another_is_refused():
    logs = make_logs()
    twice = np.column_stack([logs.state, logs.state[:, 0]]).reshape(4, 30, 3)
    wide = sf.Trajectories.from_arrays(twice, logs.action.reshape(4, 30), logs.reward.reshape(4, 30))
    found = LongRunLogs.of_logs(wide, Ridge())
    with pytest.raises(sf.InputError, match="a state is a combination of others"):
        found.solve(np.tile([0.5, 0.5], (len(found.rows), 1)))


def test_rows_without_an_outcome_or_a_known_next_state_are_left_out():
    logs = make_logs()
    reward, state = logs.reward.copy(), logs.state.copy()
    reward[logs.order[3]], state[logs.order[10], 0] = np.nan, np.nan
    found = LongRunLogs.of_logs(logs.with_values(reward=reward, state=state), Ridge())
    gone = set(range(29)) - {int(np.flatnonzero(logs.order == row)[0]) for row in found.rows}
    assert gone == {3, 9, 10}


def test_what_the_critic_removes_is_left_out():
    logs = make_logs()
    reward = logs.reward.copy()
    reward[logs.order[5]] = 1e4
    found = LongRunLogs.of_logs(logs.with_values(reward=reward), Capped())
    assert logs.order[5] not in found.rows and logs.order[5] in LongRunLogs.of_logs(logs, Ridge()).rows
    assert len(found.rows) > 0.8 * 4 * 29
