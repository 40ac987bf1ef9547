"""Effects of decisions on later rows, against simulations with known effects."""

import numpy as np
import pytest

from surefoot.inference.later_effects import Decisions, shrink

PEOPLE = 60
POINTS = 12


def simulate(rng, effect, treatments=1):
    """Values that rise by `effect` at the two rows after a decision, for each treatment alike."""
    rows = PEOPLE * POINTS
    probabilities = rng.dirichlet(np.full(treatments + 1, 5.0), size=rows)
    action = (rng.random(rows)[:, None] > np.cumsum(probabilities, axis=1)).sum(axis=1)
    sent = (action > 0).reshape(PEOPLE, POINTS)
    values = rng.standard_normal((PEOPLE, POINTS))
    for lag in (1, 2):
        values[:, lag:] += effect * sent[:, :-lag]
    participant = np.repeat(np.arange(PEOPLE), POINTS)
    decisions = Decisions(participant, np.arange(rows), action, probabilities)
    return decisions.find_effects(values.reshape(-1, 1), np.ones(rows), rows, [])


@pytest.mark.parametrize("treatments", [1, 2])
def test_effects_by_lag(treatments):
    effects = simulate(np.random.default_rng(0), 0.8, treatments)
    assert effects.mean.shape == (4, treatments, 1)
    # Windows of lags 1, 2–3, 4–7 and 8–15; of lags 2 and 3 one has an effect.
    np.testing.assert_allclose(effects.mean[:, :, 0].mean(axis=1), [0.8, 0.4, 0.0, 0.0], atol=0.12)
    assert effects.counts[0].tolist() == [1, 2, 4, 4]
    assert effects.counts[POINTS - 1].tolist() == [0, 0, 0, 0]
    assert effects.covariance.shape == (1, 4 * treatments, 4 * treatments)


def test_without_effects_most_are_nothing():
    rng = np.random.default_rng(1)
    means = [simulate(rng, 0.0).mean for _ in range(30)]
    nothing = [not mean.any() for mean in means]
    assert np.mean(nothing) > 0.4
    assert np.mean(np.square(means)) < 0.002


def test_shrinking_is_that_of_a_normal_prior():
    """(τ²K)(τ²K + V)⁻¹ b̂ with τ² of the highest likelihood on the grid."""
    estimates = np.array([0.9, 0.7, 0.1])
    variances = np.array([0.1, 0.05, 0.2])
    mean, covariance = shrink(estimates[:, None, None], variances[:, None, None])
    position = np.arange(3)
    kernel = 0.95 ** np.abs(position[:, None] - position) * 2.0 ** -(position[:, None] + position)
    likelihoods = []
    solutions = []
    for size in np.linspace(0.05, 3, 600):
        total = size * kernel + np.diag(variances)
        likelihoods.append(-np.linalg.slogdet(total)[1] - estimates @ np.linalg.solve(total, estimates))
        solutions.append((size * kernel @ np.linalg.solve(total, estimates), size))
    expected, size = solutions[int(np.argmax(likelihoods))]
    np.testing.assert_allclose(mean.ravel(), expected, rtol=0.05)
    exact = np.linalg.inv(np.linalg.inv(size * kernel) + np.diag(1 / variances))
    np.testing.assert_allclose(covariance[0], exact, rtol=0.15, atol=0.002)


def test_constant_functions_have_no_effects():
    decisions = Decisions(np.array([0, 0, 1, 1]), np.arange(4), np.array([0, 1, 1, 0]), np.full((4, 2), 0.5))
    effects = decisions.find_effects(np.zeros((4, 2)), np.ones(4), 4, [])
    assert not effects.mean.any()
    assert not effects.covariance.any()
