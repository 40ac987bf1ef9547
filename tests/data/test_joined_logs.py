import numpy as np
import pytest
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.data.joined_logs import join_logs


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=40, seed=5)


def test_it_holds_what_both_hold(logs):
    first, later = logs[(logs.time < 25) & (logs.participant != 2)], logs[(logs.time >= 25) | (logs.participant == 2)]
    found = join_logs(first, later)
    assert_array_equal(found.participants, logs.participants)
    assert len(found) == len(logs)
    for name in ("time", "state", "action", "probability", "reward", "participant"):
        assert_array_equal(getattr(found, name)[found.order], getattr(logs, name)[logs.order])


def test_what_was_learned_from_already_is_named(logs):
    again = logs[(logs.participant == 3) & (logs.time >= 38)]
    with pytest.raises(sf.InputError, match=r"2 of the later decision points .* already: participant '3' at 38, '3' at 39;"):
        join_logs(logs, again)


def test_other_columns_are_refused(logs):
    other = sf.simulators.ChainWalk(2).collect(sf.policies.coin(2), decision_points=5, seed=0)
    with pytest.raises(sf.InputError, match="the later logs have other state variables"):
        join_logs(logs, other)
    named = sf.Trajectories.from_arrays(
        np.zeros((1, 2, 3)), np.zeros((1, 2)), np.zeros((1, 2)), participants=["ann"], state_names=logs.state_names
    )
    with pytest.raises(sf.InputError, match="the later logs have other participants"):
        join_logs(logs, named)
