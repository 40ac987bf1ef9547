import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import surefoot as sf
from surefoot.audit import audit
from surefoot.evaluation import evaluate
from surefoot.explain import explain
from surefoot.regression import CappedRegressor, HighBreakdownRegressor


@pytest.fixture(scope="module")
def logs():
    simulated = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=60, seed=1)
    return sf.simulators.contaminate(simulated, mechanism="prompted", ratio=0.05, strength=5, seed=2).logs


def bent(people=3, points=400, seed=0):
    """Sending helps between −1 and 1 only, more at the sides than any line could tell."""
    rng = np.random.default_rng(seed)
    state, action = rng.uniform(-3, 3, (people, points, 2)), rng.integers(0, 2, (people, points))
    effect = np.where(np.abs(state[..., 0]) < 1, 2.0, -1.0)
    reward = action * effect + 0.2 * rng.standard_normal((people, points))
    reward[:, ::20] += 100
    return sf.Trajectories.from_arrays(state, action, reward, probability=np.full(action.shape, 0.5)), effect


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_least_squares_from_outside_is_ridge_without_a_penalty(logs, pooling):
    ours = sf.method("accb", critic_penalty=0.0, pooling=pooling).fit(logs)
    theirs = sf.method("accb", critic_penalty=0.0, pooling=pooling, critic=LinearRegression()).fit(logs)
    assert_allclose(theirs.critic_coef_, ours.critic_coef_, rtol=1e-6)
    assert_allclose(theirs.residuals_, ours.residuals_, atol=1e-6)
    assert_allclose(theirs.predict_proba(logs), ours.predict_proba(logs), atol=1e-6)


def test_the_regressors_of_this_package_are_the_critics(logs):
    ours = sf.method("accb", critic="capped", critic_penalty=0.0).fit(logs)
    theirs = sf.method("accb", critic=CappedRegressor(LinearRegression()), critic_penalty=0.0).fit(logs)
    assert_array_equal(theirs.weights_, ours.weights_)
    assert_allclose(theirs.threshold_, ours.threshold_, rtol=1e-8)
    assert_allclose(theirs.coef_, ours.coef_, rtol=1e-5, atol=1e-6)
    found = audit(theirs)
    assert "the cap removes" in found.check("share removed").reason
    assert [row.removed for row in found.sensitivity] == pytest.approx([row.removed for row in audit(ours).sensitivity])
    fences = sf.method("accb", critic=HighBreakdownRegressor()).fit(logs)
    assert "the fences remove" in audit(fences).check("share removed").reason


def test_a_forest_sees_what_no_line_has():
    logs, effect = bent()
    forest = CappedRegressor(RandomForestRegressor(20, min_samples_leaf=5))
    fitted = sf.method("accb", critic=forest).fit(logs)
    assert (fitted.weights_.reshape(3, -1)[:, ::20] == 0).all()
    assert np.std(fitted.residuals_[fitted.weights_ > 0]) < 0.5
    line = sf.method("accb", critic="capped").fit(logs)
    assert np.std(line.residuals_[line.weights_ > 0]) > 0.5
    judged = evaluate(logs, {}, critic=forest)
    assert judged.critic == "regressor"
    # An actor sees |s| where the logs have it as a variable of their own.
    folded = logs.with_values(state=np.column_stack([np.abs(logs.state[:, 0]), logs.state[:, 1]]))
    chosen = sf.method("accb", critic=forest, pooling="all").fit(folded).predict_proba(folded)[:, 1] > 0.5
    assert (chosen == (effect.ravel() > 0)).mean() > 0.95


@pytest.mark.parametrize("name", ["random-forest", "capped-gradient-boosting"])
def test_named_regressors_work_in_a_study(logs, tmp_path, name):
    import pyarrow.parquet as pq

    pq.write_table(logs.to_frame("pyarrow"), tmp_path / "logs.parquet")
    text = """
    [columns]
    participant = "participant"
    time = "time"
    probability = "probability"
    [state.weather]
    [state.engagement]
    [state.fatigue]
    [method]
    name = "accb"
    parameters = { critic = "NAME" }
    """.replace("NAME", name)
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    fitted = sf.fit_study(tmp_path / "logs.parquet", tmp_path / "study.toml")
    direct = sf.method("accb", critic=name).fit(logs)
    assert fitted.manifest["removed"] == int(direct.removed_.sum())
    assert (direct.removed_.sum() > 0) == name.startswith("capped")
    assert_array_equal(fitted.policies.rule.coef, direct.policies_.rule.coef)
    if name.startswith("capped"):
        assert direct.critic_.without_removal().name == name.removeprefix("capped-")


def test_nobodys_fit_depends_on_company_or_chance(logs):
    method = sf.method("accb", critic=RandomForestRegressor(5))
    whole = method.fit(logs).coef_
    assert_array_equal(
        sf.method("accb", critic=RandomForestRegressor(5)).fit(logs[logs.participant == 2]).coef_[0], whole[2]
    )


def test_explain_tells_a_policy_of_any_critic(logs):
    fitted = sf.method("accb", critic=DecisionTreeRegressor(max_depth=2)).fit(logs)
    assert "critic regressor" in explain(fitted, draws=3).card().markdown()


def test_whoever_has_no_decision_point_expects_nothing(logs):
    hidden = logs.with_values(outcome=np.where(logs.participant == 1, np.nan, logs.outcome))
    with pytest.warns(sf.FitWarning, match="no usable decision point"):
        fitted = sf.method("accb", critic=KNeighborsRegressor(3)).fit(hidden)
    assert_allclose(fitted.coef_[1], 0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"name": "linucb"}, "LinUCB"),
        ({"name": "ts"}, "posterior sampling"),
        ({"name": "accb", "horizon": "long-run"}, "horizon = 'long-run'"),
    ],
)
def test_what_needs_coefficients_refuses(change, what):
    with pytest.raises(sf.InputError, match=f"{what} needs a critic that is linear in the state.*take critic = 'capped'"):
        sf.method(**change, critic="random-forest")


def test_the_sandwich_refuses_and_what_is_no_regressor_too():
    many = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=20, seed=1)
    fitted = sf.method("accb", critic=LinearRegression(), pooling="all").fit(many)
    with pytest.raises(sf.InputError, match="an interval of one policy for 30 people or more needs a critic that is linear"):
        explain(fitted)
    with pytest.raises(sf.InputError, match="critic is 3; give a critic's name, a Critic, or a regressor"):
        sf.method("accb", critic=3)
