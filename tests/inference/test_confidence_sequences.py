"""Against the formulas read literally, closed forms, and the share of simulated trials that ever cross."""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from surefoot import InputError, Trajectories
from surefoot.inference.confidence_sequences import (
    ALPHA,
    BURN_IN,
    FIRST,
    LARGEST,
    RATES,
    TIGHTEST,
    asymptotic_sequence,
    bounded_sequence,
    compare_draws,
    contrast_policies,
    follow_contrast,
    follow_logs,
    predict_outcomes,
    score_contrast,
)
from tests.reference import confidence_sequences as literal


def test_predictions_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    outcome = rng.normal(5, 2, 40)
    people = rng.integers(0, 3, 40) * 7
    np.testing.assert_allclose(predict_outcomes(outcome, people), literal.predict(outcome.tolist(), people.tolist()))


@pytest.mark.parametrize("contrast", ["effect", "never", "coin"])
def test_scores_are_unbiased_for_the_contrast_whatever_the_baseline(contrast):
    """The mean over every action, each with its probability."""
    probabilities = np.array([[0.5, 0.2, 0.3]])
    means = np.array([1.0, 4.0, -2.0])
    target, reference = contrast_policies(probabilities, contrast)
    truth = {"effect": 0.4 * 4 - 0.6 * 2 - 1, "never": 0.5 + 0.8 - 0.6 - 1, "coin": 0.7 - 1.0}[contrast]
    for baseline in (0.0, 17.0):
        scores = [
            score_contrast(means[[action]], np.array([action]), probabilities, target, reference, np.array([baseline]))[0][0]
            for action in range(3)
        ]
        assert probabilities[0] @ scores == pytest.approx(truth)


def test_the_variance_of_a_score_is_that_over_the_draw():
    probabilities = np.array([[0.7, 0.3]])
    contrast = contrast_policies(probabilities, "effect")
    scores, variances = zip(
        *(score_contrast(np.array([3.0]), np.array([action]), probabilities, *contrast, np.ones(1)) for action in (0, 1)),
        strict=True,
    )
    squares = np.array(scores)[:, 0] ** 2
    assert variances[0] == variances[1] == pytest.approx(probabilities[0] @ squares)


def test_an_asymptotic_sequence_is_that_of_the_formula():
    rng = np.random.default_rng(1)
    scores = rng.exponential(3, 30) + 1e6
    variances = rng.exponential(9, 30)
    for given in (variances, np.zeros(30), 100 * variances):
        sequence = asymptotic_sequence(scores, given, alpha=0.1, first=12)
        expected = np.array(literal.asymptotic(scores.tolist(), given.tolist(), 0.1, 12))
        np.testing.assert_allclose(sequence.mean[11:], expected[:, 0])
        np.testing.assert_allclose((sequence.high - sequence.low)[11:] / 2, expected[:, 1], rtol=1e-6)
        assert np.isnan(sequence.low[:11]).all() and not np.isnan(sequence.mean[:11]).any()


def test_the_mixture_equals_one_over_alpha_at_the_ends():
    """∫ exp(λS − λ²V/2) dN(0, ρ²)(λ) = 1/α where S / n is the half width."""
    scores = np.tile([-1.0, 1.0], 100)
    sequence = asymptotic_sequence(scores, first=50)
    level = -2 * np.log(ALPHA)
    rho = np.sqrt((level + np.log(level) + 1) / TIGHTEST)
    total = 200 * sequence.high[-1]
    mixture, _ = quad(lambda rate: np.exp(rate * total - rate**2 * 200 / 2) * norm.pdf(rate, scale=rho), -3, 3)
    assert mixture == pytest.approx(1 / ALPHA, rel=1e-6)


def test_scores_without_variation_have_no_asymptotic_interval():
    assert np.isnan(asymptotic_sequence(np.zeros(300)).high).all()
    assert len(asymptotic_sequence(np.zeros(0)).mean) == 0


def test_a_bounded_sequence_is_that_of_the_formula():
    scores = np.random.default_rng(2).uniform(-4, 6, 20)
    sequence = bounded_sequence(scores, 8.0, alpha=0.1)
    expected = np.array(literal.bounded(scores.tolist(), 8.0, 0.1))
    np.testing.assert_allclose(sequence.mean, expected[:, 0])
    np.testing.assert_allclose(sequence.high, expected.sum(axis=1))


def test_the_factor_of_a_bounded_score_has_a_mean_of_at_most_one():
    """Of every distribution on two points within the bound: those are the extreme ones with a given mean."""
    points = np.linspace(-1, 1, 41)
    for rate in RATES:
        penalty = -np.log1p(-rate) - rate
        factor = np.exp(rate * points - penalty * points**2)
        for share in (0.01, 0.3, 0.5, 0.99):
            mean = share * points[:, None] + (1 - share) * points
            assert (np.exp(-rate * mean) * (share * factor[:, None] + (1 - share) * factor)).max() <= 1 + 1e-12


def trials(rng, count, points, draw):
    """Scores of an effect of zero on skewed outcomes, under probabilities that follow the outcomes before."""
    people = np.tile(np.arange(10), points // 10)
    for _ in range(count):
        outcome = draw(points)
        probability = np.clip(0.5 + 0.1 * np.cumsum(outcome - 1) / np.sqrt(np.arange(1, points + 1)), 0.1, 0.9)
        sending = np.append(0.5, probability[:-1])
        action = (rng.random(points) < sending).astype(int)
        probabilities = np.column_stack([1 - sending, sending])
        contrast = contrast_policies(probabilities, "effect")
        scores, variances = score_contrast(outcome, action, probabilities, *contrast, predict_outcomes(outcome, people))
        yield scores[BURN_IN:], variances[BURN_IN:]


def test_few_trials_ever_cross():
    """Type I over a whole trial of 600 decision points, looked at after each: at most 5 %, here within 4 standard errors."""
    rng = np.random.default_rng(3)
    skewed = trials(rng, 200, 600, lambda points: rng.lognormal(-0.5, 1, points))
    sequences = [asymptotic_sequence(*scores) for scores in skewed]
    assert np.mean([(s.low > 0).any() or (s.high < 0).any() for s in sequences]) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)
    binary = trials(rng, 200, 600, lambda points: 2.0 * (rng.random(points) < 0.5))
    sequences = [bounded_sequence(scores, 20.0) for scores, _ in binary]
    assert np.mean([(s.low > 0).any() or (s.high < 0).any() for s in sequences]) <= 0.05


def test_the_evidence_about_draws_is_that_of_the_formula():
    rng = np.random.default_rng(4)
    probabilities = rng.dirichlet((2, 2, 2), 25)
    action = rng.integers(0, 3, 25)
    families = {"all": ([0] * 25, 1), "version": (["a"] * 5 + ["b", "c"] * 10, None), "hour": (list(range(5)) * 5, 24)}
    test = compare_draws(action, probabilities, families)
    assert test.evidence == pytest.approx(literal.evidence(action.tolist(), probabilities.tolist(), families))
    assert len(test.strata) == 1 + 3 + 5 and sum(stratum.draws for stratum in test.strata) == 75
    everything = next(stratum for stratum in test.strata if stratum.family == "all")
    assert everything.sent == (action > 0).sum()
    assert everything.expected == pytest.approx(probabilities[:, 1:].sum())


def test_evidence_against_stated_probabilities_is_rare():
    """Over all 128 courses of seven draws: P(evidence ever reaches x) ≤ 1/x."""
    sending = np.array([0.3, 0.6, 0.1, 0.9, 0.5, 0.3, 0.6])
    probabilities = np.column_stack([1 - sending, sending])
    families = {"all": ([0] * 7, 1), "hour": ([0, 1, 2, 0, 1, 2, 0], 24)}
    chances, evidence = [], []
    for course in product((0, 1), repeat=7):
        action = np.array(course)
        chances.append(probabilities[np.arange(7), action].prod())
        evidence.append(compare_draws(action, probabilities, families).evidence)
    for threshold in (1.2, 1.5, 2.0):
        assert 0 < np.array(chances)[np.array(evidence) >= threshold].sum() <= 1 / threshold


def test_an_action_that_could_not_be_drawn_is_certain_evidence():
    test = compare_draws(np.array([0, 1, 0]), np.array([[1.0, 0.0]] * 3), {"all": ([0] * 3, 1)})
    assert test.evidence == pytest.approx(np.exp(LARGEST))
    assert compare_draws(
        np.zeros(3, dtype=int), np.array([[1.0, 0.0]] * 3), {"all": ([0] * 3, 1)}
    ).evidence == pytest.approx(1)
    assert compare_draws(np.zeros(0, dtype=int), np.zeros((0, 2)), {"all": ([], 1)}).evidence == 1


def test_the_stratum_that_is_wrong_comes_first():
    rng = np.random.default_rng(5)
    hour = rng.integers(0, 24, 6000)
    action = (rng.random(6000) < np.where(hour == 7, 0.75, 0.5)).astype(int)
    test = compare_draws(action, np.full((6000, 2), 0.5), {"all": (np.zeros(6000), 1), "hour": (hour, 24)})
    assert test.evidence > 20 and (test.strata[0].family, test.strata[0].label) == ("hour", 7)


def draw_trial(rng, points, probabilities):
    action = (rng.random((points, 1)) > np.cumsum(probabilities)).sum(axis=1)
    return rng.random(points), action, np.tile(probabilities, (points, 1)), np.arange(points) % 4


@pytest.mark.parametrize(("contrast", "largest"), [("effect", 5.0), ("never", 4.0), ("coin", 1.5)])
def test_the_bound_of_scores_follows_from_range_and_limits(contrast, largest):
    """Of sending with 0.2 to 0.8: 1/0.2, 0.8/0.2 and 0.5/0.2 − 1, times the width of the range."""
    drawn = draw_trial(np.random.default_rng(6), 40, [0.5, 0.5])
    sequence = follow_contrast(*drawn, contrast, (0, 2), (0.2, 0.8))
    outcome, action, probabilities, people = drawn
    policies = contrast_policies(probabilities, contrast)
    scores, _ = score_contrast(outcome, action, probabilities, *policies, predict_outcomes(outcome, people))
    expected = bounded_sequence(scores[BURN_IN:], 2 * largest)
    np.testing.assert_allclose(sequence.high[BURN_IN:], expected.high)
    assert np.isnan(sequence.mean[:BURN_IN]).all()
    rare = follow_contrast(*drawn, contrast, (0, 2), (0.5, 0.5))
    assert (rare.high[BURN_IN:] < sequence.high[BURN_IN:]).all()


def test_probabilities_outside_the_limits_widen_the_bound():
    drawn = draw_trial(np.random.default_rng(7), 40, [0.75, 0.25])
    narrow, wide = (follow_contrast(*drawn, "effect", (0, 1), limits) for limits in ((0.5, 0.5), (0.25, 0.75)))
    np.testing.assert_array_equal(narrow.high, wide.high)


def test_a_coin_of_several_actions_has_no_bound():
    drawn = draw_trial(np.random.default_rng(8), 130, [0.5, 0.3, 0.2])
    for contrast, begins in (("effect", BURN_IN), ("coin", BURN_IN + FIRST - 1)):
        sequence = follow_contrast(*drawn, contrast, (0, 1), (0.1, 0.9))
        assert np.flatnonzero(~np.isnan(sequence.low))[0] == begins


def test_logs_are_followed_in_the_order_of_their_times():
    """Without unavailable decision points, missing outcomes and actions that were certain."""
    rng = np.random.default_rng(9)
    shape = (5, 30)
    action = rng.integers(0, 2, shape)
    outcome = np.where(rng.random(shape) < 0.2, np.nan, rng.normal(size=shape))
    available = (rng.random(shape) < 0.8) | (action == 1)
    probability = np.where(available, np.where(action == 1, 0.3, 0.7), 1.0)
    logs = Trajectories.from_arrays(np.zeros((*shape, 1)), action, outcome, available=available, probability=probability)
    chosen = (available & ~np.isnan(outcome)).T
    people = np.broadcast_to(np.arange(5), (30, 5))[chosen]
    expected = follow_contrast(outcome.T[chosen], action.T[chosen], np.tile([0.7, 0.3], (chosen.sum(), 1)), people, "never")
    for rows in (np.arange(150), rng.permutation(150)):
        sequence = follow_logs(logs[rows], "never")
        np.testing.assert_allclose(sequence.mean, expected.mean)
        np.testing.assert_allclose(sequence.high, expected.high)


def test_logs_that_cannot_be_followed_say_why():
    state = np.zeros((2, 3, 1))
    with pytest.raises(InputError, match="6 decision points have no probability"):
        follow_logs(Trajectories.from_arrays(state, np.ones((2, 3)), np.zeros((2, 3))))
    with pytest.raises(InputError, match="needs two actions; these have 3"):
        follow_logs(Trajectories.from_arrays(state, np.ones((2, 3)), np.zeros((2, 3)), actions=3))
