import numpy as np
import pytest

from surefoot.numerics.random_streams import streams


def draw(seed, ids, purpose="bootstrap"):
    return [tuple(rng.integers(1000, size=4)) for rng in streams(seed, purpose, ids)]


@pytest.mark.parametrize("ids", [["anna", "ben", "cleo"], [7, 3, 5], np.array(["a", "b", "c"]), [-1, -2, 2**70]])
def test_the_same_id_has_the_same_numbers_in_any_company(ids):
    everybody = draw(0, ids)
    assert len(set(everybody)) == 3
    assert draw(0, ids[::-1]) == everybody[::-1]
    assert draw(0, ids[2:]) == everybody[2:]
    assert draw(1, ids) != everybody
    assert draw(0, ids, "outliers") != everybody


def test_a_number_gives_the_stream_of_that_position():
    root = np.random.SeedSequence(5)
    expected = np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(3, 11))).integers(1000, size=4)
    assert draw(5, [11]) == [tuple(expected)]
