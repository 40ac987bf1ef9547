"""The same solvers on PyTorch arrays, to 1e-8 of NumPy's numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.learning.actor import gain_gradient_curvature, optimise
from surefoot.learning.critics.critic import fit_ridge
from surefoot.learning.filters import Hampel, Kalman
from surefoot.numerics.action_probabilities import mean_of_logistic, probability_of_largest
from surefoot.numerics.arrays import find_engine
from surefoot.numerics.batched_cholesky import Cholesky
from surefoot.policies.features import critic_features, effects, policy_features
from tests.problems import actor_problems, critic_problems, fit_capped, fit_high_breakdown

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is optional: pip install torch==2.13.0 to run these")


def both(function, *arrays, **more):
    """The function's results from NumPy arrays and from the same arrays in PyTorch."""
    convert = {name: torch.asarray(value) if isinstance(value, np.ndarray) else value for name, value in more.items()}
    return function(*arrays, **more), function(*map(torch.asarray, arrays), **convert)


def assert_same(ours, theirs):
    assert isinstance(theirs, torch.Tensor)
    assert_allclose(theirs.numpy(), ours, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("refresh", [False, True])
def test_critics(refresh):
    x, r, v = critic_problems(np.random.default_rng(0), 50)
    x /= np.sqrt((x**2).mean(axis=1, keepdims=True))
    penalty = np.full(x.shape[-1], 1e-3)
    for ours, theirs in (
        both(fit_capped, x, r, v, penalty=penalty, refresh_threshold=refresh),
        both(fit_ridge, x, r, v, penalty=penalty),
    ):
        for field in ("coef", "weights", "threshold", "n_iter", "converged"):
            assert_same(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize("mechanism", ["sensor", "prompted"])
def test_high_breakdown(mechanism):
    logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=150, seed=0)
    logs = sf.simulators.contaminate(logs, mechanism=mechanism, ratio=0.2, strength=5, seed=1).logs
    rows = logs.order.reshape(20, 150)
    state, action, reward = logs.state[rows], logs.action[rows], logs.outcome[rows]
    state[:5, :, 2] = np.round(state[:5, :, 2])  # few-valued for some
    reward[5:10] = np.exp(reward[5:10] / 1500)  # skewed for some
    usable = (np.arange(150) < np.linspace(5, 150, 20)[:, None]).astype(float)
    more = {"state": state, "action": action, "penalty": np.full(8, 1e-3)}
    ours, theirs = both(fit_high_breakdown, critic_features(state, action, 2), reward, usable, **more)
    for field in ("coef", "weights", "threshold", "n_iter", "converged"):
        assert_same(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("actions", [2, 3])
def test_actors(actions, radius):
    z, advantage, kept = actor_problems(np.random.default_rng(1), 30, actions, 50, 1.0)
    ours, theirs = both(optimise, z, advantage, kept, count=np.full(30, 50), penalty=1e-2, radius=radius)
    for field in ("coef", "gain", "multiplier", "converged"):
        assert_same(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize("kind", [sf.simulators.HeartSteps, sf.simulators.ChainWalk])
def test_simulation(kind):
    sim = kind(participants=5)
    logs = sim.collect(sf.policies.coin(2), decision_points=60, seed=0)
    policies = {
        name: sf.method(name).fit(logs).policies_ for name in ("accb", "linucb", "ts")
    } | sf.simulators.reference_policies(sim)
    ours = sim.run(policies, steps=80, keep=60, seed=1)
    theirs = sim.run(policies, steps=80, keep=60, seed=1, engine="torch")
    for name in policies:
        assert_allclose(theirs[name].reward, ours[name].reward, rtol=1e-8)
        assert_allclose(theirs[name].share_treated, ours[name].share_treated)


@pytest.mark.parametrize("name", list(sf.METHODS))
def test_methods(name):
    logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=70, seed=0)
    logs = sf.simulators.contaminate(logs, mechanism="sensor", ratio=0.05, strength=5, seed=1).logs
    ours, theirs = sf.method(name).fit(logs), sf.method(name).fit(logs, engine="torch")
    for result in ("critic_coef_", "weights_", "threshold_", "n_iter_", "scale_"):
        assert_allclose(getattr(theirs, result), getattr(ours, result), rtol=1e-8, atol=1e-8)
    for part, values in ours.policies_.rule.arrays().items():
        assert isinstance(theirs.policies_.rule.arrays()[part], np.ndarray)
        assert_allclose(theirs.policies_.rule.arrays()[part], values, rtol=1e-8, atol=1e-8)


def test_an_engine_that_is_not_there_is_named():
    with pytest.raises(sf.InputError, match="did you mean 'torch'"):
        find_engine("toch")
    if not torch.cuda.is_available():
        with pytest.raises(sf.InputError, match="needs a CUDA device"):
            find_engine("gpu")


def test_probabilities_of_the_largest_effect():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((20, 4, 5))
    covariance = root @ np.swapaxes(root, 1, 2)
    covariance[10:] = 1e-3 * covariance[10:] + np.eye(4) + 1.0
    for size in (1, 2, 4):
        ours, theirs = both(probability_of_largest, rng.standard_normal((20, size)), covariance[:, :size, :size])
        # PyTorch integrates with as many nodes as the hardest problem needs.
        assert_allclose(theirs.numpy(), ours, atol=1e-6)
    assert_same(*both(mean_of_logistic, *(rng.uniform(0.5, 4, 20) for _ in range(5))))


def test_derivatives():
    z, advantage, kept = actor_problems(np.random.default_rng(2), 5, 3, 20, 1.0)
    stakes = advantage * kept[..., None] / 20
    ours, theirs = both(gain_gradient_curvature, 0.1 * np.ones((5, 2, 4)), z, stakes, np.full((5, 4), 0.1))
    for mine, other in zip(ours, theirs, strict=True):
        assert_same(mine, other)


def test_filters_features_and_cholesky():
    rng = np.random.default_rng(3)
    values, present = rng.standard_t(2, (10, 60)), rng.random((10, 60)) < 0.9
    for cleaner in (Hampel().clean_series, Kalman().clean_series):
        assert_same(*both(cleaner, np.where(present, values, 0.0), present))
    state, action = rng.standard_normal((4, 6, 2)), rng.integers(0, 3, (4, 6))
    assert_same(*both(lambda s, a: critic_features(s, a, 3), state, action))
    assert_same(*both(policy_features, state))
    assert_same(*both(lambda w: effects(w, 3), rng.standard_normal((4, 9))))
    root = rng.standard_normal((4, 3, 3))
    matrix = root @ np.swapaxes(root, 1, 2) + np.eye(3)
    assert_same(*both(lambda a, b: Cholesky(a).solve(b), matrix, rng.standard_normal((4, 3))))
