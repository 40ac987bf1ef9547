import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.covariance import MinCovDet

import surefoot as sf
from surefoot.learning.critics.state_outliers import _concentrate, _join_one, state_outlyingness

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((20, 210, 1))
HOUR = RNG.uniform(0, 2 * np.pi, (20, 210, 1))
DAY = np.broadcast_to(np.linspace(0, 1, 210)[None, :, None], (20, 210, 1))

CLEAN = {
    "normal": RNG.standard_normal((20, 210, 3)),
    "eight variables": RNG.standard_normal((20, 210, 8)),
    "correlated": np.concatenate([NORMAL, NORMAL + 0.1 * RNG.standard_normal(NORMAL.shape)], axis=2),
    "collinear": np.concatenate([NORMAL, 2 * NORMAL + 1, -NORMAL], axis=2),
    "constant": np.ones((20, 210, 2)),
    "one constant": np.concatenate([NORMAL, np.ones_like(NORMAL)], axis=2),
    "rare yes": np.concatenate([NORMAL, RNG.random(NORMAL.shape) < 0.05], axis=2),
    "yes or no": (RNG.random((20, 210, 3)) < 0.5).astype(float),
    "weekday": RNG.integers(0, 7, (20, 210, 1)).astype(float),
    "counts": RNG.poisson(3, (20, 210, 2)).astype(float),
    "many zeros": np.where(RNG.random((20, 210, 2)) < 0.4, 0.0, RNG.lognormal(sigma=0.8, size=(20, 210, 2))),
    "skewed": RNG.lognormal(size=(20, 210, 3)),
    "hour on a circle": np.concatenate([np.sin(HOUR), np.cos(HOUR)], axis=2),
    "time and its square": np.concatenate([DAY, DAY**2], axis=2),
}


def far(state, present=None):
    return state_outlyingness(state, np.ones(state.shape[:2], dtype=bool) if present is None else present) > 1


@pytest.mark.parametrize("name", list(CLEAN))
def test_clean_states_are_kept(name):
    assert far(CLEAN[name]).mean() < 0.01


@pytest.mark.parametrize("ratio", [0.04, 0.3])
def test_sensor_outliers_are_found_and_little_else(ratio):
    logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=210, seed=1)
    dirty = sf.simulators.contaminate(logs, mechanism="sensor", ratio=ratio, strength=5, seed=2)
    rows = logs.order.reshape(30, 210)
    found, touched = far(dirty.logs.state[rows]), dirty.touched[rows]
    assert found[touched].mean() > 0.98
    assert found[~touched].mean() < 0.005


def test_a_fifth_of_the_states_may_be_a_far_cluster():
    """Where the starts differ: correlated states and a cluster off their axis, against scikit-learn's random-start MCD."""
    rng = np.random.default_rng(3)
    state = rng.standard_normal((10, 150, 4)) @ np.linalg.cholesky(0.8 * np.ones((4, 4)) + 0.2 * np.eye(4)).T
    state[:, :30] += np.array([6.0, -6.0, 6.0, -6.0])
    found = far(state)
    assert found[:, :30].all()
    assert found[:, 30:].mean() < 0.01
    for participant in range(10):
        distances = MinCovDet(random_state=0).fit(state[participant]).dist_
        assert distances[found[participant]].min() > distances[~found[participant]].max()


def test_few_rows_are_not_judged_and_padding_is_nobody():
    state = np.random.default_rng(4).standard_normal((6, 64, 3))
    state[:, 3] = 50.0
    lengths = np.array([0, 1, 5, 9, 10, 40])
    present = np.arange(64) < lengths[:, None]
    found = far(np.where(present[..., None], state, 0.0), present)
    assert not found[~present].any()
    assert_array_equal(found.sum(axis=1), [0, 0, 0, 0, 1, 1])


def test_units_of_a_variable_do_not_matter():
    state = np.random.default_rng(5).standard_t(2, (10, 128, 3))
    assert_array_equal(far(state), far(state * np.array([2.0**10, 0.5, 2.0**-20])))


def literal_half(z):
    """The half with the smallest covariance determinant, for one participant, concentrated from the three starts."""
    size = min((len(z) + z.shape[1] + 1) // 2, len(z))

    def half(distances):
        return distances <= np.sort(distances)[size - 1]

    def distances(centre, covariance):
        away = z - centre
        return np.einsum("ti,ij,tj->t", away, np.linalg.inv(covariance), away)

    def shape(rows):
        return rows.mean(axis=0), np.cov(rows.T, bias=True)

    norm = (z**2).sum(axis=1)
    starts = [norm, *(distances(0.0, shape(bounded)[1]) for bounded in (np.tanh(z), z / np.sqrt(norm)[:, None]))]
    found = []
    for start in starts:
        kept = half(start)
        for _ in range(2):
            kept = half(distances(*shape(z[kept])))
        found.append((np.linalg.slogdet(shape(z[kept])[1])[1], kept))
    best = min(found, key=lambda one: one[0])[1]
    for _ in range(4):
        best = half(distances(*shape(z[best])))
    return best


def test_the_concentrated_half_is_the_literal_one():
    """Two fifths in a heap of their own, in different places for everybody, so that starts lead to different halves."""
    rng = np.random.default_rng(8)
    z = rng.standard_normal((60, 40, 3)) @ rng.standard_normal((60, 3, 3))
    z[:, :16] = 0.3 * z[:, :16] + 3 * rng.standard_normal((60, 1, 3))
    found = _concentrate(_join_one(np.swapaxes(z, 1, 2)), np.ones((60, 40), dtype=bool))
    for one in range(60):
        assert_array_equal(found[one], literal_half(z[one]))


def test_rows_that_are_absent_or_too_few_are_not_out_at_all():
    state = np.random.default_rng(9).standard_normal((2, 40, 2))
    present = np.ones((2, 40), dtype=bool)
    present[0, 30:], present[1, 9:] = False, False
    found = state_outlyingness(state, present)
    assert (found[0, 30:] == 0).all() and (found[1] == 0).all() and (found[0, :30] > 0).any()
