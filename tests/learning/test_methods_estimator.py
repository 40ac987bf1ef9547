"""scikit-learn's manners."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

import surefoot as sf


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=9).collect(sf.policies.coin(2), decision_points=40, seed=4)


@pytest.mark.parametrize("name", list(sf.METHODS))
def test_every_method_can_be_cloned_and_takes_back_what_it_gives(name):
    method = sf.method(name, critic_penalty=0.5)
    copy = clone(method)
    assert copy is not method
    assert copy.get_params() == method.get_params()
    assert type(method)(**method.get_params(deep=False)).get_params() == method.get_params()
    assert copy.set_params(critic_penalty=2.0) is copy
    assert (copy.critic_penalty, method.critic_penalty) == (2.0, 0.5)


def test_parameters_of_a_regressor_go_through_its_method():
    method = sf.method("accb", critic=RandomForestRegressor(5, random_state=0))
    assert method.get_params()["critic__n_estimators"] == 5
    assert "critic__n_estimators" not in method.get_params(deep=False)
    copy = clone(method).set_params(critic__n_estimators=7, critic_penalty=1.0)
    assert (copy.critic.regressor.n_estimators, method.critic.regressor.n_estimators) == (7, 5)
    method.set_params(critic__fit_intercept=False, critic=LinearRegression())
    assert method.critic.regressor.fit_intercept is False
    with pytest.raises(sf.InputError, match="the regressor LinearRegression has no parameter 'alpha'"):
        method.set_params(critic__alpha=1.0)


def test_parameters_of_parts_go_through_the_method():
    method = sf.method("ro-accb", critic=sf.critics.Capped(tau=2.0), rule=sf.rules.Actor(actor_penalty=0.5))
    assert {"critic__tau": 2.0, "rule__actor_penalty": 0.5}.items() <= method.get_params().items()
    assert method.set_params(critic__tau=3.0, actor_penalty=0.25).critic.tau == 3.0
    assert clone(method).get_params() == method.get_params()
    assert sf.method("ro-accb", tau=3.0, critic__refresh_threshold=True).critic == sf.critics.Capped(3.0, True)
    assert sf.method("accb", critic={"name": "capped", "tau": 2}).critic == sf.critics.Capped(tau=2)
    assert sf.method("ro-accb", critic={"tau": 2}).critic == sf.critics.Capped(tau=2)
    assert method.set_params(critic="high-breakdown", tau=0.5).critic == sf.critics.HighBreakdown(tau=0.5)
    assert method.set_params(filter="kalman", filter__deviations=4.0).filter == sf.filters.Kalman(4.0)
    assert sf.method("ahead", max_gap=2).horizon == sf.horizons.LongRun(max_gap=2)
    assert sf.method("ts", pooling="partial", random_walk=0.1).pooling == sf.pooling.Partial(random_walk=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"taw": 1.0}, r"there is no parameter 'taw' \(did you mean 'tau'\?\)"),
        ({"critic__taw": 1.0}, r"critic 'capped' has no parameter 'taw' \(did you mean 'tau'\?\); it has \['tau', 'refresh"),
        ({"critics__tau": 1.0}, r"there is no part 'critics' \(did you mean 'critic'\?\)"),
        ({"exploration": 1.0}, "'exploration' is a parameter of rule = 'linucb', and here rule = 'actor'"),
        ({"window": 7}, "'window' is a parameter of filter = 'hampel', and here filter = none"),
        ({"filter__window": 7}, "filter__window: filter is None, which has no parameters"),
        ({"pooling": 3}, "pooling is 3; give a name"),
    ],
)
def test_an_unknown_parameter_is_named_with_its_part(changes, message):
    with pytest.raises(sf.InputError, match=message):
        sf.method("ro-accb").set_params(**changes)


def test_what_was_learned_is_known_before_it_is_learned():
    names = [name for name in dir(sf.Method) if name.endswith("_") and not name.startswith("_")]
    assert {"policies_", "coef_", "critic_coef_", "weights_", "fitted_"} <= set(names)
    assert not any(hasattr(sf.method("accb"), name) for name in names)


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_a_grid_search_with_folds_of_people(logs, pooling):
    grid = {"critic__tau": [0.5, 2.0], "rule__actor_penalty": [1e-4, 1e-2]}
    method = sf.method("ro-accb", pooling=pooling)
    search = GridSearchCV(method, grid, scoring=sf.evaluation.score_method, cv=GroupKFold(3))
    search.fit(logs, groups=logs.participant)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    best = search.best_estimator_
    assert {name: best.get_params()[name] for name in grid} == search.best_params_
    assert_array_equal(best.coef_, sf.method("ro-accb", pooling=pooling, **search.best_params_).fit(logs).coef_)


def test_a_score_is_of_people_whom_the_policy_does_not_know(logs):
    method = sf.method("accb", pooling="all")
    known = logs.participant < 6
    fitted = clone(method).fit(logs[known])
    others = logs[~known]
    expected = sf.evaluation.evaluate(others, {"it": fitted.policies_}).value("it").value.value
    assert sf.evaluation.score_method(fitted, others) == expected
    (_, first), *_ = GroupKFold(3).split(logs, groups=logs.participant)
    scores = cross_val_score(method, logs, scoring=sf.evaluation.score_method, cv=GroupKFold(3), groups=logs.participant)
    rest = np.setdiff1d(np.arange(len(logs)), first)
    assert scores[0] == sf.evaluation.score_method(clone(method).fit(logs[rest]), logs[first])


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_a_score_on_the_training_logs_is_cross_fitted(logs, pooling):
    method = sf.method("accb", pooling=pooling)
    expected = sf.evaluation.evaluate(logs, {"it": method}).value("it").value.value
    assert sf.evaluation.score_method(method, logs) == expected
    assert sf.evaluation.score_method(clone(method).fit(logs), logs) == expected


def test_probabilities_for_arrays_frames_and_logs(logs):
    personal, pooled = sf.method("accb").fit(logs), sf.method("accb", pooling="all").fit(logs)
    states = logs.state[:4]
    frame = pd.DataFrame(states, columns=logs.state_names)[list(logs.state_names)[::-1]]
    expected = personal.policies_.probabilities(np.full(4, 3), states)
    assert_array_equal(personal.predict_proba(states, participant=3), expected)
    assert_array_equal(personal.predict_proba(frame, participant=[3] * 4), expected)
    assert_array_equal(pooled.predict_proba(states), pooled.policies_.probabilities([0] * 4, states))
    assert_allclose(personal.predict_proba(logs)[5], personal.policies_[logs.participant[5]].decide(logs.state[5]))
    with pytest.raises(sf.InputError, match="say whose it is"):
        personal.predict_proba(states)
    missing = np.where(np.arange(len(logs)) == 0, np.nan, logs.state[:, 0])
    away = sf.Trajectories.from_arrays(
        np.column_stack([missing, logs.state[:, 1:]])[None], np.zeros((1, len(logs))), np.zeros((1, len(logs))),
        available=(np.arange(len(logs)) > 0)[None], state_names=logs.state_names,
    )  # fmt: skip
    assert_array_equal(pooled.predict_proba(away)[0], [1.0, 0.0])


def test_rows_of_logs(logs):
    some = logs[[3, 80, 81]]
    assert_array_equal(some.participants, logs.participants[[0, 2]])
    assert_array_equal(some.outcome, logs.outcome[[3, 80, 81]])
    assert_array_equal(some.participant, logs.participant[[3, 80, 81]])
    assert logs[logs.participant == 1].shape == (40, 3)
    assert_array_equal(logs[40:80].state, logs[logs.participant == 1].state)
    assert_array_equal(sf.method("accb").fit(logs[logs.participant == 1]).coef_[0], sf.method("accb").fit(logs).coef_[1])
    for rows, message in ((5, "rows have shape"), ([10**6], "cannot be chosen"), ("first", "cannot be chosen")):
        with pytest.raises(sf.InputError, match=message):
            logs[rows]
    with pytest.raises(sf.InputError, match=r"logs\.to_frame"):
        list(logs)
