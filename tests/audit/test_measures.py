"""The numbers behind an audit, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy import stats

import surefoot as sf
from surefoot.audit.measures import Measures, find_audited
from surefoot.inference.sandwich import compute_influences
from surefoot.numerics.fences import medcouple, skewness
from surefoot.policies.features import critic_features, effects, policy_features


def literal_medcouple(values):
    """The definition of Brys, Hubert and Struyf, pair by pair."""
    ordered, middle = sorted(values, reverse=True), np.median(values)
    above, below = [v for v in ordered if v >= middle], [v for v in ordered if v <= middle]
    ties, kernel = ordered.count(middle), []
    for i, x in enumerate(above):
        for j, y in enumerate(below):
            if x == y:
                kernel.append(np.sign(ties - 1 - (i - (len(above) - ties)) - j))
            else:
                kernel.append(((x - middle) - (middle - y)) / (x - y))
    return np.median(kernel)


@given(arrays(float, st.integers(1, 25), elements=st.integers(-6, 6).map(float)))
def test_medcouple_is_its_definition(values):
    assert_allclose(medcouple(values), literal_medcouple(values.tolist()), atol=1e-12)
    assert_allclose(medcouple(-values), -medcouple(values), atol=1e-12)


def test_medcouple_of_many_values_is_close_to_that_of_all_and_deaf_to_outliers():
    values = np.random.default_rng(0).exponential(size=3000)
    assert_allclose(medcouple(values), literal_medcouple(values.tolist()), atol=5e-3)
    outliers = np.concatenate([np.random.default_rng(1).standard_normal(3000), np.full(60, 50.0)])
    assert abs(medcouple(outliers)) < 0.06 < skewness(outliers)
    assert_allclose(skewness(values), stats.skew(values))
    assert (medcouple(np.zeros(0)), skewness(np.zeros(0)), skewness(np.ones(3))) == (0, 0, 0)


def fitted(**parameters):
    logs = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=60, seed=1)
    return sf.method("ro-accb", **parameters).fit(logs)


def test_rates_shares_and_times_are_what_they_say():
    fit = fitted()
    logs, found = fit.logs_, Measures.of(fit, np.abs(fit.logs_.outcome))
    out = fit.weights_ == 0
    share, own = found.outcome_share()
    size = np.abs(logs.outcome)
    assert_allclose(share, size[out].sum() / size.sum())
    assert_allclose(own[2], size[out & (logs.participant_index == 2)].sum() / size[logs.participant_index == 2].sum())
    sent = logs.action == 1
    difference = found.rate_difference(found.removed, sent, ~sent)
    assert_allclose(difference.value, out[sent].mean() - out[~sent].mean())
    assert_allclose(found.elapsed, logs.time / 60)
    assert (found.near <= found.removed).all()
    limit = np.sqrt(fit.threshold_[logs.participant_index])
    assert_allclose(found.relative, fit.residuals_ / limit)


def test_sensitivity_refits_at_every_height_of_the_cap():
    for pooling in ("person", "all"):
        fit = fitted(pooling=pooling)
        grid = Measures.of(fit).sensitivity()
        assert [row.is_audited for row in grid] == [False, False, True, False, False, False, False]
        assert [row.tau for row in grid] == [0.5, 0.75, 1.0, 1.5, 2.0, 4.0, np.inf]
        assert [row.removed for row in grid] == sorted((row.removed for row in grid), reverse=True)
        again = sf.method("accb", pooling=pooling).fit(fit.logs_)
        z = policy_features(fit.logs_.state)
        effect = (z * effects(again.critic_coef_, 2)[:, 0][again.unit_]).sum(axis=1).mean()
        assert_allclose(grid[-1].effect.value, effect)
        assert grid[-1].effect.low < effect < grid[-1].effect.high
        send = again.policies_.probabilities(fit.logs_.participant, fit.logs_.state)[:, 1]
        assert_allclose(grid[-1].send_rate, send.mean())


@pytest.mark.parametrize("actions", [2, 3])
def test_a_pooled_effect_has_the_error_of_its_coefficients(actions):
    """c is the mean over decision points and actions of x(s, a) − x(s, 0), the effect cᵀw with the sandwich's error."""
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=30, seed=4)
    if actions == 3:
        codes = np.random.default_rng(0).integers(0, 3, len(logs))
        logs = sf.Trajectories.from_arrays(
            logs.state.reshape(12, 30, -1),
            codes.reshape(12, 30),
            (logs.outcome + 5 * codes).reshape(12, 30),
            actions=["0", "1", "2"],
        )
    fitted = sf.method("ro-accb", pooling="all").fit(logs)
    found = find_audited(Measures.of(fitted).sensitivity())
    by_action = [critic_features(logs.state, np.full(len(logs), a), actions).mean(axis=0) for a in range(actions)]
    c = np.mean(by_action[1:], axis=0) - by_action[0]
    pull = compute_influences(fitted).critic @ c
    error = np.sqrt(11 / 12 * (pull**2).sum())
    expected = (c @ fitted.critic_coef_[0], error, *stats.t.interval(0.95, 11, c @ fitted.critic_coef_[0], error))
    assert_allclose(found.effect, expected, rtol=1e-9)
    send = 1 - fitted.policies_.probabilities(logs.participant, logs.state)[:, 0]
    assert_allclose((found.removed, found.send_rate), ((fitted.weights_ == 0).mean(), send.mean()))
