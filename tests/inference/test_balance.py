"""Actions follow nothing beyond their stated probabilities, or the test says so; sound logs are hardly ever accused."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from surefoot.inference.balance import FALSE_ALARMS, find_imbalances


def draw(rng, people, points, variables):
    """Sound logs: (action, probability, variables, person); probabilities depend on a variable and on the past."""
    shape = (people, points)
    values = {f"x{j}": rng.standard_t(2, size=shape) for j in range(variables)}
    drawn = rng.random(shape)
    taken = np.zeros(shape)
    probability = np.zeros(shape)
    dose = np.zeros(people)
    doses = np.zeros(shape)
    for t in range(points):
        doses[:, t] = dose
        # Steep in everybody's past: after many prompts fewer, as a pooled bandit would.
        probability[:, t] = np.clip(expit(values["x0"][:, t] - 2 * (dose.mean() - 2)), 0.03, 0.97)
        taken[:, t] = drawn[:, t] < probability[:, t]
        dose = 0.9 * dose + taken[:, t]
    columns = {name: column.ravel() for name, column in values.items()} | {"dose": doses.ravel()}
    return taken.ravel() > 0, probability.ravel(), columns, np.repeat(np.arange(people), points)


@pytest.mark.parametrize(("people", "points"), [(5, 10), (5, 100), (12, 30), (40, 50)])
def test_sound_logs_are_not_accused(people, points):
    rng = np.random.default_rng(people * points)
    smallest = [
        min(imbalance.p_value for imbalance in find_imbalances(*draw(rng, people, points, 1 + k % 30))) for k in range(60)
    ]
    assert min(smallest) > FALSE_ALARMS


@pytest.mark.parametrize(("people", "points", "variables"), [(5, 40, 1), (5, 60, 40), (12, 30, 40), (40, 20, 10)])
def test_a_policy_that_followed_a_variable_is_found(people, points, variables):
    rng = np.random.default_rng(7)
    size = people * points
    columns = {f"x{j}": rng.normal(size=size) for j in range(variables - 1)}
    columns["home"] = rng.integers(0, 2, size).astype(float)
    taken = rng.random(size) < np.where(columns["home"] == 1, 0.8, 0.3)
    imbalances = find_imbalances(taken, np.full(size, 0.5), columns, np.repeat(np.arange(people), points))
    assert [imbalance.variable for imbalance in imbalances if imbalance.is_unsafe] == ["home"]
    assert imbalances[-1].slope == pytest.approx(0.25, abs=0.06)


def test_the_p_value_is_that_of_the_largest_likelihood_ratio():
    """Against SciPy's maximum, with few people so that only the ratio counts."""
    rng = np.random.default_rng(3)
    probability = rng.uniform(0.1, 0.9, 400)
    values = rng.normal(size=400)
    taken = rng.random(400) < expit(logit(probability) + 0.8 * values)
    (imbalance,) = find_imbalances(taken, probability, {"x": values}, np.repeat(np.arange(4), 100))
    variance = probability * (1 - probability)
    centred = values - variance @ values / variance.sum()
    centred /= centred.std()

    def log_likelihood(tilt):
        chance = expit(logit(probability) + tilt * centred)
        return np.log(np.where(taken, chance, 1 - chance)).sum()

    best = minimize_scalar(lambda tilt: -log_likelihood(tilt), bounds=(-5, 5), method="bounded").x
    assert imbalance.p_value == pytest.approx(2 * np.exp(log_likelihood(0) - log_likelihood(best)), rel=1e-6)


def test_one_rare_action_at_one_huge_value_is_chance():
    """Ten standard errors by a normal approximation, one in a hundred in truth."""
    values = np.append(np.zeros(300), 1e6)
    taken = (values > 0) | (np.arange(301) < 3)
    (imbalance,) = find_imbalances(taken, np.full(301, 0.01), {"x": values}, np.repeat(np.arange(7), 43))
    assert imbalance.p_value > 0.01


def test_a_draw_for_the_whole_day_is_no_imbalance():
    """Decision points of a day that share one draw are not independent; the spread between people knows it."""
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        taken = np.repeat(rng.random((20, 10)) < 0.5, 12, axis=1).ravel()
        values = np.repeat(rng.normal(size=(20, 10)), 12, axis=1).ravel()
        (imbalance,) = find_imbalances(taken, np.full(taken.size, 0.5), {"x": values}, np.repeat(np.arange(20), 120))
        alarms += imbalance.is_sure
    assert alarms <= 1


def test_constants_and_gaps_are_left_out():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    columns = {"constant": np.ones(200), "unknown": np.full(200, np.nan), "x": np.where(values > 1, np.nan, values)}
    imbalances = find_imbalances(rng.random(200) < 0.5, np.full(200, 0.5), columns, np.zeros(200, dtype=int))
    assert [imbalance.variable for imbalance in imbalances] == ["x"]


def test_rounded_probabilities_are_no_imbalance():
    """With a million rows the third digit shows, and does not matter."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=1_000_000)
    true = 0.5 + 0.004 * np.sign(values)
    (imbalance,) = find_imbalances(
        rng.random(len(values)) < true, np.full(len(values), 0.5), {"x": values}, np.arange(len(values)) % 50
    )
    assert imbalance.p_value < FALSE_ALARMS
    assert not imbalance.is_sure
