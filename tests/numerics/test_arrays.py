from dataclasses import dataclass

import numpy as np
from numpy.testing import assert_array_equal

from surefoot.numerics.arrays import Array, PerParticipant, contiguous, empty_columns
from surefoot.policies.features import critic_features, policy_features


def test_columns_lie_side_by_side():
    state, action = np.random.default_rng(0).standard_normal((3, 5, 2)), np.ones((3, 5))
    for features in (critic_features(state, action, 2), policy_features(state), empty_columns(state, 4)):
        assert features.shape[:2] == (3, 5)
        assert features.strides[1] == features.itemsize
    assert empty_columns(state[0], 4).shape == (5, 4)
    assert empty_columns(state[0, 0], 4).shape == (4,)


def test_a_layout_is_a_copy_of_the_same_numbers():
    values = np.arange(24.0).reshape(2, 3, 4)
    found = contiguous(values.transpose(2, 0, 1))
    assert_array_equal(found, values.transpose(2, 0, 1))
    assert found.flags.c_contiguous
    assert not np.shares_memory(found, values)


@dataclass(frozen=True)
class Both(PerParticipant):
    first: Array
    second: Array


def test_parts_of_people_are_taken_and_recorded():
    everyone = Both(np.zeros(4), np.zeros((4, 2)))
    some = Both(np.arange(4.0), np.arange(8.0).reshape(4, 2)).of(np.array([False, True, False, True]))
    everyone.record(np.array([0, 2]), some)
    assert_array_equal(everyone.first, [1, 0, 3, 0])
    assert_array_equal(everyone.second, [[2, 3], [0, 0], [6, 7], [0, 0]])
