import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from surefoot.learning.batch import Batch
from surefoot.learning.critics import Capped
from surefoot.learning.critics.critic import boxplot_threshold, fit_ridge
from surefoot.policies.features import critic_features
from tests.problems import capped_objective, critic_problems, fit_capped, residuals, ridge
from tests.reference import literal

PENALTY = 1e-3


def batches(count, people, seed):
    rng = np.random.default_rng(seed)
    return [critic_problems(rng, people) for _ in range(count)]


def test_ridge_is_scikit_learns():
    x, r, v = critic_problems(np.random.default_rng(0), 20)
    found = fit_ridge(x, r, v, penalty=np.full(x.shape[-1], 0.5))
    for participant in range(len(x)):
        used = v[participant] > 0
        expected = Ridge(alpha=0.5, fit_intercept=False, solver="svd").fit(x[participant, used], r[participant, used])
        assert_allclose(found.coef[participant], expected.coef_, rtol=1e-7, atol=1e-9)
    assert np.isinf(found.threshold).all()
    assert_array_equal(found.weights, v)


def test_capped_agrees_with_the_literal_method_on_two_thousand_problems():
    problems = 0
    for x, r, v in batches(40, 50, seed=1):
        found = fit_capped(x, r, v, penalty=np.full(x.shape[-1], PENALTY))
        assert found.converged.all()
        for participant in range(len(x)):
            used = v[participant] > 0
            w, kept, epsilon, fits = literal.capped_critic(x[participant, used], r[participant, used], PENALTY)
            assert_array_equal(found.weights[participant, used] > 0, kept)
            # In units of what a coefficient does to the prediction: ill-conditioned columns have huge coefficients.
            width = np.sqrt((x[participant, used] ** 2).mean(axis=0))
            assert_allclose(found.coef[participant] * width, w * width, rtol=1e-8, atol=1e-8 * np.abs(w * width).max())
            assert_allclose(found.threshold[participant], epsilon, rtol=1e-8)
            assert found.n_iter[participant] == fits
            problems += 1
    assert problems >= 2000


def test_capped_descends_and_ends_in_a_fixed_point():
    for x, r, v in batches(40, 50, seed=2):
        penalty = np.full(x.shape[-1], PENALTY)
        final = fit_capped(x, r, v, penalty=penalty)
        epsilon = final.threshold
        # An iterate is what the loop returns when it is stopped there; `used` are the weights that gave `w`.
        used, earlier_value, earlier_w, before = None, None, None, np.inf
        for iteration in range(1, int(final.n_iter.max()) + 1):
            stopped = fit_capped(x, r, v, penalty=penalty, max_iter=iteration)
            if used is not None:
                squared = residuals(x, r, stopped.coef) ** 2
                value = (used * squared + (v - used) * epsilon[:, None]).sum(axis=1) + PENALTY * (stopped.coef**2).sum(
                    axis=1
                )
                if earlier_value is not None:
                    moved = PENALTY * ((stopped.coef - earlier_w) ** 2).sum(axis=1)
                    assert (earlier_value - value - moved >= -1e-9 * (1 + np.abs(earlier_value))).all()
                earlier_value, earlier_w = value, stopped.coef
            objective = capped_objective(x, r, v, stopped.coef, epsilon, penalty)
            assert (objective <= before * (1 + 1e-10)).all()
            before, used = objective, stopped.weights
        squared = residuals(x, r, final.coef) ** 2
        assert_array_equal(final.weights, v * (squared < epsilon[:, None]))
        width = np.sqrt((x**2).mean(axis=1))
        assert_allclose(final.coef * width, ridge(x, r, final.weights, penalty) * width, rtol=1e-8, atol=1e-8)


def test_an_infinite_cap_is_ridge():
    for x, r, v in batches(5, 20, seed=3):
        penalty = np.full(x.shape[-1], PENALTY)
        capped = fit_capped(x, r, v, penalty=penalty, tau=1e300)
        assert_array_equal(capped.coef, fit_ridge(x, r, v, penalty=penalty).coef)
        assert_array_equal(capped.weights, v)


def test_a_removed_tuple_has_no_influence_at_all():
    x, r, v = critic_problems(np.random.default_rng(4), 20)
    penalty = np.full(x.shape[-1], PENALTY)
    final = fit_capped(x, r, v, penalty=penalty)
    removed = (v > 0) & (final.weights == 0)
    assert removed.any()
    expected = ridge(x, r, final.weights, penalty)
    assert_array_equal(ridge(x, np.where(removed, 1e9, r), final.weights, penalty), expected)
    assert_allclose(final.coef, expected, rtol=1e-9, atol=1e-9)


def test_nobody_is_influenced_by_the_others_in_the_batch():
    x, r, v = critic_problems(np.random.default_rng(5), 12)
    penalty = np.full(x.shape[-1], PENALTY)
    together = fit_capped(x, r, v, penalty=penalty)
    for participant in range(len(x)):
        alone = fit_capped(x[[participant]], r[[participant]], v[[participant]], penalty=penalty)
        assert_array_equal(alone.coef[0], together.coef[participant])
        assert alone.threshold[0] == together.threshold[participant]


def test_threshold_is_the_boxplot_fence_of_squared_residuals():
    squared = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 77.0]])
    usable = np.array([[1.0, 1, 1, 1, 1, 0]])
    assert_allclose(boxplot_threshold(squared, np.ones_like(squared), usable, tau=2.0), 2 * (3 + 1.5 * 2))


@pytest.mark.parametrize("reward", [0.0, 1.0, 1e6])
def test_a_perfect_fit_keeps_its_tuples(reward):
    x = np.ones((1, 10, 1))
    found = fit_capped(x, np.full((1, 10), reward), np.ones((1, 10)), penalty=np.zeros(1))
    assert found.weights.all()
    assert_allclose(found.coef, reward)


def test_nobody_usable_gives_zeros_and_no_cap():
    found = fit_capped(np.zeros((1, 16, 3)), np.zeros((1, 16)), np.zeros((1, 16)), penalty=np.zeros(3))
    assert_array_equal(found.coef, 0)
    assert np.isinf(found.threshold).all()
    assert found.converged.all()


def cycling_problem():
    """Found by search: refreshing the threshold in every step goes round between two sets of decision points."""
    rng = np.random.default_rng(0)
    for _ in range(20_000):
        x, r = rng.standard_normal((8, 2)), rng.standard_normal(8) * rng.exponential(3, 8)
        seen, kept = set(), np.ones(8, dtype=bool)
        while kept.tobytes() not in seen:
            seen.add(kept.tobytes())
            w = literal.ridge(x[kept], r[kept], PENALTY)
            squared = (r - x @ w) ** 2
            q1, q3 = np.quantile(squared, [0.25, 0.75])
            last, kept = kept, squared < q3 + 1.5 * (q3 - q1)
        if not (kept == last).all():
            return x[None], r[None]
    raise AssertionError("no cycling problem found")


def test_refreshing_the_threshold_survives_a_cycle():
    x, r = cycling_problem()
    found = fit_capped(x, r, np.ones_like(r), penalty=np.full(2, PENALTY), refresh_threshold=True)
    assert found.converged.all()
    squared = residuals(x, r, found.coef) ** 2
    assert_array_equal(found.weights > 0, squared < found.threshold[:, None])


def test_refreshing_ends_at_a_threshold_of_its_own_residuals():
    x, r, v = critic_problems(np.random.default_rng(6), 50)
    found = fit_capped(x, r, v, penalty=np.full(x.shape[-1], PENALTY), refresh_threshold=True)
    assert found.converged.all()
    own = boxplot_threshold(residuals(x, r, found.coef) ** 2, r, v, 1.0)
    assert (np.isclose(own, found.threshold)).mean() > 0.9  # the rest was caught in a cycle


@pytest.mark.parametrize("actions", [2, 3])
def test_telling_the_arms_changes_nothing_but_the_time(actions):
    rng = np.random.default_rng(actions)
    state, action = rng.standard_normal((40, 90, 3)), rng.integers(0, actions, (40, 90))
    x, v = critic_features(state, action, actions), (rng.random((40, 90)) < 0.9).astype(float)
    r = rng.standard_t(2, (40, 90)) + action * state[..., 0]
    found = fit_capped(x, r, v, penalty=np.full(x.shape[-1], PENALTY), arms=actions)
    for participant in range(40):
        used = v[participant] > 0
        w, kept, epsilon, fits = literal.capped_critic(x[participant, used], r[participant, used], PENALTY)
        assert_array_equal(found.weights[participant, used] > 0, kept)
        assert_allclose(found.coef[participant], w, rtol=1e-9, atol=1e-11)
        assert_allclose(found.threshold[participant], epsilon, rtol=1e-9)
        assert found.n_iter[participant] == fits
    assert_allclose(found.gram, np.einsum("nti,nt,ntj->nij", x, found.weights, x), rtol=1e-10, atol=1e-10)
    stopped = fit_capped(x, r, v, penalty=np.full(x.shape[-1], PENALTY), arms=actions, max_iter=2)
    assert not stopped.converged.all()
    assert_allclose(stopped.gram, np.einsum("nti,nt,ntj->nij", x, stopped.weights, x), rtol=1e-10, atol=1e-10)


def test_transitions_are_judged_by_all_variables_together_each_in_its_own_mean_square():
    rng = np.random.default_rng(3)
    away = rng.standard_normal((2, 40, 2)) * [1.0, 100.0]
    away[0, 5] *= 20
    away[..., 1] *= [[0.0], [1.0]]  # A variable that is always as expected counts nothing.
    kept = rng.random((2, 40)) < 0.8
    kept[0, 5], kept[1] = True, kept[1] & (np.arange(40) > 3)
    found = Capped(tau=0.8).judge_residuals(away, kept)
    for person in range(2):
        own = away[person][kept[person]] ** 2
        typical = own.mean(axis=0)
        total = (own / np.where(typical > 0, typical, 1.0)).sum(axis=1)
        first, third = np.quantile(total, (0.25, 0.75))
        assert_array_equal(found[person][kept[person]], total < 0.8 * (third + 1.5 * (third - first)))
        assert not found[person][~kept[person]].any()
    assert not found[0, 5]
    assert not Capped().judge_residuals(away, np.zeros((2, 40), dtype=bool)).any()


def test_the_critic_hands_its_parameters_to_the_fit():
    x, r, v = critic_problems(np.random.default_rng(8), 6)
    penalty = np.full(x.shape[-1], 0.3)
    batch = Batch(x, x, np.zeros(r.shape, dtype=int), r, v, 1, penalty)
    for tau in (0.5, 1.0):
        for refresh in (False, True):
            found = Capped(tau=tau, refresh_threshold=refresh).fit(batch)
            expected = fit_capped(x, r, v, penalty=penalty, tau=tau, refresh_threshold=refresh)
            assert_array_equal(found.threshold, expected.threshold)
            assert_array_equal(found.coef, expected.coef)
    fixed, fresh = (Capped(refresh_threshold=refresh).fit(batch).threshold for refresh in (False, True))
    assert (fixed != fresh).any()
