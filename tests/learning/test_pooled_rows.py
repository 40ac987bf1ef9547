"""A pooled fit by passes over files is that in memory."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.learning import penalty_units
from surefoot.learning.methods import can_stream, fit_pooled, pooled_fit, write_logs
from surefoot.learning.pooled_rows import PooledRows
from surefoot.numerics import streamed_arrays


def make_logs(people, points, actions=3):
    rng = np.random.default_rng(7)
    state, action = rng.normal(size=(people, points, 2)), rng.integers(actions, size=(people, points))
    state[..., 1] = np.exp(state[..., 1])
    reward = state[..., 0] * (action == 1) + state[..., 1] * (action == 2) + rng.normal(size=action.shape)
    reward[rng.random(action.shape) < 0.05] += 30
    reward[:, 3] = np.nan
    return sf.Trajectories.from_arrays(state, action, reward, actions=actions)


def write_rows(method, logs, pieces=3):
    rows = PooledRows(logs.participants, np.diff(logs.starts), part_rows=len(logs) // 3)
    for part in range(pieces):
        write_logs(method, logs[logs.participant % pieces == part], rows)
    return rows


@pytest.mark.parametrize(
    "parameters",
    [
        {"critic": "capped", "policy_variables": ("s1",)},
        {"critic": "capped", "refresh_threshold": True, "forgetting": 0.98},
        {"critic": "high-breakdown", "critic_variables": ("s2",)},
    ],
    ids=str,
)
def test_it_equals_the_fit_in_memory(parameters, monkeypatch):
    """Three actions, a skewed variable, policies that see less than the critic and critics that see less."""
    monkeypatch.setattr(streamed_arrays, "BLOCK_ROWS", 100)
    monkeypatch.setattr(penalty_units, "MOST_ROWS", 200)
    logs, method = make_logs(7, 31), sf.method("accb", pooling="all", **parameters)
    found = fit_pooled(method, write_rows(method, logs)).describe_rows(logs)
    whole = sf.method("accb", pooling="all", **parameters).fit(logs).fitted_
    assert whole.removed.any()
    for name in ("critic_coef", "coef", "weights", "residuals", "threshold", "scale", "penalty"):
        assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_memory_is_that_of_blocks_and_a_few_columns(monkeypatch):
    """A fit in memory takes some 60 columns."""
    monkeypatch.setattr(streamed_arrays, "BLOCK_ROWS", 1024)
    monkeypatch.setattr(pooled_fit, "keep_freed_memory", lambda: None)  # It takes 32 MiB that it never touches.
    logs, method = make_logs(40, 1500, actions=2), sf.method("ro-linucb", pooling="all")
    rows = write_rows(method, logs)
    tracemalloc.start()
    fit_pooled(method, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 8 * len(logs)


def test_some_fits_stay_in_memory():
    assert can_stream(sf.method("hb-accb", pooling="partial"))
    assert not can_stream(sf.method("hb-ahead")), "what followed each decision point"
    assert not can_stream(sf.method("ro-ts", pooling="partial", random_walk="estimate")), "when each was"
    assert not can_stream(sf.method("accb", pooling="all", critic="random-forest")), "all at once"
