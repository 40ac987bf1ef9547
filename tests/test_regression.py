import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from surefoot.regression import CappedRegressor, HighBreakdownRegressor
from tests.problems import fit_capped


@parametrize_with_checks([CappedRegressor(), CappedRegressor(Ridge(alpha=0.1), tau=2.0), HighBreakdownRegressor()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def outlying(seed, rows=200):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 3))
    y = x @ [1.0, -2.0, 0.5] + 3 + 0.3 * rng.standard_normal(rows)
    wrong = rng.random(rows) < 0.15
    return x, np.where(wrong, y + 20, y), wrong


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_around_ridge_it_is_the_capped_critic(penalty, tau):
    for seed in range(10):
        x, y, _ = outlying(seed)
        x = np.column_stack([np.ones(len(y)), x])
        ours = fit_capped(x[None], y[None], np.ones((1, len(y))), penalty=np.full(4, penalty), tau=tau)
        theirs = CappedRegressor(Ridge(alpha=penalty, fit_intercept=False), tau=tau).fit(x, y)
        assert_allclose(theirs.estimator_.coef_, ours.coef[0], rtol=1e-8)
        assert_array_equal(theirs.weights_, ours.weights[0])
        assert_allclose(theirs.threshold_, ours.threshold[0], rtol=1e-10)
        assert theirs.n_iter_ == ours.n_iter[0]


@pytest.mark.parametrize("kind", [CappedRegressor, HighBreakdownRegressor])
def test_outliers_are_found_and_do_not_matter(kind):
    x, y, wrong = outlying(1)
    found = kind().fit(x, y)
    assert (found.weights_[wrong] == 0).all()
    assert found.weights_[~wrong].mean() > 0.9
    assert_allclose(found.predict(np.eye(3)), [4.0, 1.0, 3.5], atol=0.2)
    assert np.abs(Ridge().fit(x, y).predict(np.eye(3)) - [4.0, 1.0, 3.5]).max() > 1


def test_any_regressor_goes_inside_and_a_grid_search_around():
    x, y, wrong = outlying(2)
    assert (CappedRegressor(KNeighborsRegressor(15)).fit(x, y).weights_[wrong] == 0).mean() > 0.9
    search = GridSearchCV(CappedRegressor(Ridge()), {"tau": [0.5, 1.0], "estimator__alpha": [0.1, 10.0]}, cv=3)
    assert set(search.fit(x, y).best_params_) == {"tau", "estimator__alpha"}
