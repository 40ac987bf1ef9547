"""Partial correlations with the outcome: against least squares written out, for leaks of many kinds and honest states."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from surefoot.inference.leaks import correlate_with_outcome

SIZES = [(20, 100), (40, 30), (3, 25), (1, 60)]


def correlate(values, outcome, action):
    """Of arrays (people, decision points)."""
    people, points = outcome.shape
    columns = np.column_stack([column.ravel() for column in values])
    return correlate_with_outcome(columns, outcome.ravel(), action.ravel(), np.repeat(np.arange(people), points))


def walk(rng, people, points, rho):
    """A stationary series that keeps the share rho of itself."""
    noise = rng.standard_normal((people, points))
    series = noise.copy()
    for t in range(1, points):
        series[:, t] = rho * series[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return series


def delay(series, by=1):
    return np.concatenate([np.full((len(series), by), np.nan), series[:, :-by]], axis=1)


def make_trial(rng, people, points):
    """Mood, action, and an outcome that hangs on both and on who it is."""
    mood = rng.standard_normal((people, points))
    action = rng.integers(0, 2, (people, points))
    level = rng.normal(0, 3, (people, 1))
    return mood, action, level, level + mood + 0.5 * action + rng.standard_normal((people, points))


def test_it_is_the_partial_correlation_of_least_squares():
    """Beyond dummies of people, the action, the outcome before, the variable before, and the other variable."""
    rng = np.random.default_rng(0)
    mood, action, _, outcome = make_trial(rng, 6, 40)
    other = 0.5 * mood + rng.standard_normal(mood.shape)
    found = correlate([mood, other], outcome, action)
    low, high = np.quantile(outcome[:, 1:], (0.01, 0.99))
    inside = (outcome[:, 1:] >= low) & (outcome[:, 1:] <= high)
    person = np.eye(6)[np.repeat(np.arange(6), 39)].reshape(6, 39, 6)
    past = [action[:, 1:, None], outcome[:, :-1, None], mood[:, :-1, None], person]

    def leave(values, controls):
        design = np.concatenate(controls, axis=2)[inside]
        return values[:, 1:][inside] - design @ np.linalg.lstsq(design, values[:, 1:][inside], rcond=None)[0]

    beyond_past = np.corrcoef(leave(mood, past), leave(outcome, past))[0, 1]
    controls = [*past, other[:, 1:, None]]
    beyond_others = np.corrcoef(leave(mood, controls), leave(outcome, controls))[0, 1]
    assert_allclose(found.beyond_past[0], beyond_past, rtol=1e-6)
    assert_allclose(found.size[0], max(beyond_past, beyond_others), rtol=1e-6)


@pytest.mark.parametrize(("people", "points"), SIZES)
def test_the_outcome_in_any_form_is_unsafe(people, points):
    rng = np.random.default_rng(people)
    mood, action, _, outcome = make_trial(rng, people, points)
    total = outcome + 5 * rng.standard_normal(outcome.shape)
    forms = {
        "itself": outcome,
        "other units": 3 - outcome / 60,
        "another form": np.exp(outcome / 2),
        "rounded": outcome.round(1),
        "with some noise": outcome + 0.05 * rng.standard_normal(outcome.shape),
    }
    for name, leak in forms.items():
        found = correlate([mood, leak], outcome, action)
        assert found.unsafe.tolist() == [False, True], name
    # Two of them do not hide each other, and a sum that holds the outcome is seen beside what else it holds.
    assert correlate([outcome, 2 * outcome + 1, mood], outcome, action).unsafe.tolist() == [True, True, False]
    assert correlate([mood, total, total - outcome], outcome, action).unsafe.tolist() == [False, True, True]


@pytest.mark.parametrize(("people", "points"), SIZES)
def test_a_value_that_is_mostly_the_outcome_is_suspicious(people, points):
    rng = np.random.default_rng(people + 10)
    mood, action, _, outcome = make_trial(rng, people, points)
    within = outcome - outcome.mean(axis=1, keepdims=True)
    noisy = outcome + 0.25 * within.std() * rng.standard_normal(outcome.shape)
    found = correlate([mood, noisy], outcome, action)
    assert found.suspicious.tolist() == [False, True]
    assert not found.unsafe.any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("people", "points"), SIZES)
def test_honest_variables_are_not_suspicious(people, points, seed):
    """The outcome before, means and forms of it, a trait, a slow cause: all of them go with the outcome."""
    rng = np.random.default_rng(seed)
    mood, action, level, outcome = make_trial(rng, people, points)
    trait = level + 0.01 * rng.standard_normal((people, 1)) + 0 * outcome
    assert not correlate([mood, trait, trait + 0.01 * rng.standard_normal(outcome.shape)], outcome, action).suspicious.any()
    slow_outcome = walk(rng, people, points, 0.95)
    before = delay(slow_outcome)
    for honest in (
        [before],
        [before, delay(slow_outcome, 2), (before + delay(slow_outcome, 2)) / 2],
        [before.round(1), np.log(np.abs(before) + 1), np.cumsum(np.nan_to_num(before), axis=1)],
        [before + 0.1 * rng.standard_normal(before.shape)],
    ):
        assert not correlate(honest, slow_outcome, action).suspicious.any()
    cause = walk(rng, people, points, 0.98)
    follows = 3 * cause + action + 0.5 * rng.standard_normal(cause.shape)
    assert not correlate([cause], follows, action).suspicious.any()
    sticky = (walk(rng, people, points, 0.99) > 0).astype(float)
    assert not correlate([delay(sticky)], sticky, action).suspicious.any()


def test_what_lies_behind_an_outcome_of_0_and_1_is_found():
    rng = np.random.default_rng(4)
    steps = rng.exponential(100, (20, 80))
    action = rng.integers(0, 2, steps.shape)
    walked = (steps > 70).astype(float)
    mistaken = np.where(rng.random(walked.shape) < 0.02, 1 - walked, walked)
    found = correlate([steps, walked, mistaken, rng.standard_normal(steps.shape)], walked, action)
    assert found.suspicious.tolist() == [True, True, True, False]
    assert found.unsafe.tolist() == [True, True, False, False]


def test_artefacts_in_variable_and_outcome_at_once_are_no_relation():
    rng = np.random.default_rng(5)
    mood, action, _, outcome = make_trial(rng, 10, 60)
    glitch = rng.random(mood.shape) < 0.03
    found = correlate([np.where(glitch, 500, mood)], np.where(glitch, 5000, outcome), action)
    assert found.beyond_past[0] < 0.8


@pytest.mark.filterwarnings("error")
def test_too_few_or_constant_values_say_nothing():
    rng = np.random.default_rng(6)
    outcome = rng.standard_normal((2, 16))
    action = rng.integers(0, 2, outcome.shape)
    found = correlate([outcome], outcome, action)
    assert (found.size.tolist(), found.judged.tolist()) == ([0.0], [False])
    outcome = rng.standard_normal((2, 40))
    action = rng.integers(0, 2, outcome.shape)
    assert correlate([np.ones_like(outcome), np.full_like(outcome, np.nan)], outcome, action).size.tolist() == [0.0, 0.0]
    assert correlate([rng.standard_normal(outcome.shape)], np.ones_like(outcome), action).size.tolist() == [0.0]
    assert correlate([outcome], outcome, np.zeros_like(action)).unsafe.all()
    empty = (np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    assert correlate_with_outcome(*empty).size.tolist() == [0.0, 0.0]


def test_missing_outcomes_and_values_leave_the_last_known_ones():
    """A state that remembers the last outcome that came in is honest, however many are missing."""
    rng = np.random.default_rng(7)
    outcome = walk(rng, 20, 100, 0.95)
    action = rng.integers(0, 2, outcome.shape)
    seen = np.where(rng.random(outcome.shape) < 0.5, np.nan, outcome)
    last = np.full(seen.shape, np.nan)
    for t in range(1, seen.shape[1]):
        last[:, t] = np.where(np.isnan(seen[:, t - 1]), last[:, t - 1], seen[:, t - 1])
    found = correlate([last, np.where(rng.random(outcome.shape) < 0.3, np.nan, outcome)], seen, action)
    assert found.suspicious.tolist() == [False, True]
