import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.learning.horizon.horizon import estimate_variance_left
from surefoot.learning.pooling.mixed_effects import Moments
from surefoot.policies.features import critic_features

METHODS = ("accb", "saccb", "linucb", "ahead", "ro-accb", "hb-linucb", "hb-ahead", "hb-ts")


def collect(people=20, points=60, *, spread=1.0, seed=0):
    simulator = sf.simulators.HeartSteps(participants=people, spread=spread, seed=seed)
    return simulator, simulator.collect(sf.policies.coin(2), decision_points=points, seed=seed + 1)


@pytest.fixture(scope="module")
def logs():
    return collect()[1]


def fit(logs, name="linucb", **parameters):
    return sf.method(name, pooling="partial", **parameters).fit(logs)


def change(logs, rows, **values):
    """The logs with some rows' values replaced."""
    changed = {name: np.array(getattr(logs, name)) for name in values}
    for name, value in values.items():
        changed[name][rows] = value
    return logs.with_values(**changed)


def rename(logs, names):
    """The same decision points under other ids."""
    parts = {name: getattr(logs, name) for name in ("state", "outcome", "action", "time")}
    frame = {"participant": np.asarray(names)[logs.participant_index], "time": parts["time"], "action": parts["action"]}
    frame |= {"outcome": parts["outcome"], **{name: parts["state"][:, j] for j, name in enumerate(logs.state_names)}}
    import pandas as pd

    roles = {name: name for name in ("participant", "time", "action", "outcome")}
    return Trajectories.from_frame(pd.DataFrame(frame), state=logs.state_names, **roles)


@pytest.mark.parametrize("horizon", ["immediate", "long-run"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_everybody_a_policy_and_one_for_anybody(logs, name, horizon):
    found = fit(logs, name, horizon=horizon)
    assert found.posterior_.converged and not found.pooled_
    people = [*logs.participants.tolist(), 999, 1000]
    given = found.policies_.probabilities(people, np.tile([0.3, 0.5, 0.8], (len(people), 1)))
    assert np.isfinite(given).all()
    assert_array_equal(given[-1], given[-2])
    assert found.policies_.covers([0, 999]).all()
    alone = found.policies_[999]
    assert_allclose(alone.probabilities([[0.3, 0.5, 0.8]])[0], given[-1])


def test_the_posterior_is_that_of_all_outcomes_together(logs):
    """wᵢ and its covariance from the joint normal distribution of everybody's outcomes, β flat."""
    found = fit(logs)
    posterior, few = found.posterior_, range(20)
    x = critic_features(logs.state, logs.action, 2)
    scale = np.kron(np.eye(20)[logs.participant_index], np.ones(8)) * np.tile(x, (1, 20))
    design = np.hstack([x, scale])
    prior = np.zeros((168, 168))
    prior[:8, :8] = np.diag([0, 1, 1, 1] * 2) * 1e-3 * found.penalty_[0] * 0
    prior[8:, 8:] = np.kron(np.eye(20), np.linalg.pinv(posterior.spread, hermitian=True))
    system = design.T @ design / posterior.noise + prior
    # Where Ψ is zero, b is zero.
    values, vectors = np.linalg.eigh(posterior.spread)
    inside = vectors[:, values > 1e-6 * values.max()]
    turn = np.zeros((168, 8 + 20 * inside.shape[1]))
    turn[:8, :8] = np.eye(8)
    turn[8:, 8:] = np.kron(np.eye(20), inside)
    covariance = turn @ np.linalg.inv(turn.T @ system @ turn) @ turn.T
    mean = covariance @ design.T @ logs.outcome / posterior.noise
    for i in few:
        pick = np.hstack([np.eye(8), np.kron(np.eye(20)[i], np.eye(8))])
        assert_allclose(posterior.mean[i], pick @ mean, rtol=1e-3, atol=0.5)
        assert_allclose(posterior.covariance[i], pick @ covariance @ pick.T, rtol=0.01, atol=30)


def test_coefficients_are_closer_to_the_truth_than_one_for_all_or_one_each():
    errors = {}
    for seed in range(3):
        simulator, logs = collect(50, 105, seed=100 + seed)
        for pooling in ("person", "all", "partial"):
            coef = sf.method("linucb", pooling=pooling).fit(logs).critic_coef_
            size = np.sqrt(((coef - simulator.critic_coef) ** 2).sum(axis=1).mean())
            errors.setdefault(pooling, []).append(size)
    mean = {pooling: np.mean(sizes) for pooling, sizes in errors.items()}
    assert mean["partial"] < 0.85 * min(mean["person"], mean["all"])


def test_shifted_and_scaled_states_change_nothing(logs):
    one, moved = fit(logs), fit(logs.with_values(state=logs.state * [1.8, 100.0, 0.01] + [32.0, 5.0, -3.0]))
    assert_allclose(moved.residuals_, one.residuals_, atol=0.5)
    assert_allclose(moved.posterior_.noise, one.posterior_.noise, rtol=1e-5)


def test_the_order_of_people_does_not_matter(logs):
    names = [f"p{number:02d}" for number in np.random.default_rng(0).permutation(20)]
    one, other = fit(logs), fit(rename(logs, names))
    back = np.searchsorted(np.sort(names), names)
    assert_allclose(other.critic_coef_[back], one.critic_coef_, rtol=1e-6, atol=1e-4)
    assert_allclose(other.policies_.anybody.mean, one.policies_.anybody.mean, rtol=1e-6, atol=1e-4)


def test_the_size_of_blocks_does_not_matter(logs, monkeypatch):
    one = fit(logs, "hb-accb", horizon="long-run")
    monkeypatch.setattr("surefoot.learning.methods.choose_block_cells", lambda rows: 200)
    monkeypatch.setattr("surefoot.learning.horizon.transitions.choose_block_cells", lambda rows: 200)
    other = fit(logs, "hb-accb", horizon="long-run")
    assert_array_equal(other.weights_, one.weights_)
    assert_allclose(other.coef_, one.coef_, rtol=1e-9)


def test_policies_for_anybody_are_saved_and_loaded(logs, tmp_path):
    policies = fit(logs, "accb").policies_
    states = np.random.default_rng(0).standard_normal((3, 3))
    for file in ("policies.json", "policies.parquet"):
        policies.save(tmp_path / file)
        again = sf.policies.load(tmp_path / file)
        assert again.serves_anybody
        assert_array_equal(again.probabilities([0, 5, 77], states), policies.probabilities([0, 5, 77], states))
    text = (tmp_path / "policies.json").read_text().replace('"anybody": {"coef": [[', '"anybody": {"coef": [[1.0, ')
    (tmp_path / "policies.json").write_text(text)
    with pytest.raises(sf.InputError, match="not complete and finite"):
        sf.policies.load(tmp_path / "policies.json")


def test_who_has_no_outcomes_is_served_like_somebody_new(logs):
    with pytest.warns(FitWarning, match="participant 4: no usable decision point, so the policy is the population's"):
        found = fit(change(logs, logs.participant_index == 4, outcome=np.nan))
    assert_allclose(found.posterior_.mean[4], found.posterior_.population)
    assert_allclose(found.posterior_.covariance[4], found.posterior_.new_covariance)
    states = np.random.default_rng(0).standard_normal((2, 3))
    assert_array_equal(*(found.policies_.probabilities([who] * 2, states) for who in (4, 999)))


@pytest.mark.parametrize("name", ["saccb", "hb-ahead"])
def test_somebody_with_three_decision_points(logs, name):
    few = change(logs, (logs.participant_index == 4) & (logs.time >= 3), outcome=np.nan)
    with pytest.warns(FitWarning, match=r"participant 4: fewer usable decision points than the critic's 8 features"):
        found = fit(few, name)
    assert np.isfinite(found.critic_coef_).all()
    states = np.random.default_rng(0).standard_normal((2, 3))
    assert_array_equal(*(found.policies_.probabilities([who] * 2, states) for who in (4, 999)))


@pytest.mark.parametrize("name", ["saccb", "hb-ahead"])
def test_somebody_with_a_constant_state(logs, name):
    state = logs.state.copy()
    state[logs.participant_index == 4, 1] = 0.5
    with pytest.warns(FitWarning, match="participant 4: state 'engagement' never changes"):
        found = fit(logs.with_values(state=state), name)
    assert np.isfinite(found.critic_coef_).all()
    # Of what their own logs cannot tell, they have the population's; in the rest they still differ.
    assert abs(found.critic_coef_[4, 2] - found.posterior_.population[2]) < 30
    assert abs(found.critic_coef_[4, 0] - found.posterior_.population[0]) > 0.1


@pytest.mark.parametrize("name", ["saccb", "hb-ahead"])
def test_somebody_whose_states_are_missing(logs, name):
    with pytest.warns(FitWarning, match="participant 4: no usable decision point"):
        found = fit(change(logs, logs.participant_index == 4, state=np.nan), name)
    assert np.isfinite(found.policies_.probabilities([4], [[0.0, 0.0, 0.0]])).all()


@pytest.mark.parametrize("name", ["saccb", "hb-ahead"])
def test_one_participant_alone(name):
    with pytest.warns(FitWarning, match="participant 0: nobody else has usable decision points"):
        found = fit(collect(1, 210)[1], name)
    assert_allclose(found.posterior_.spread, 0)
    assert_allclose(found.posterior_.mean[0], found.posterior_.population)


def test_few_people():
    with pytest.warns(FitWarning, match="how people differ rests on 3 people and is a guess"):
        fit(collect(3, 60)[1])


def test_people_who_are_all_alike():
    one = collect(1, 60, spread=0.0)[1]
    copies = {name: np.tile(getattr(one, name), (8, 1)) for name in ("action", "outcome")}
    logs = Trajectories.from_arrays(np.tile(one.state, (8, 1, 1)), copies["action"], copies["outcome"])
    with pytest.warns(FitWarning, match="people do not differ in any coefficient"):
        found = fit(logs)
    assert_allclose(found.posterior_.spread, 0)
    with pytest.warns(FitWarning, match="nobody else"):
        alone = fit(one)
    assert_allclose(found.critic_coef_, np.tile(alone.critic_coef_, (8, 1)), rtol=1e-3, atol=0.1)


def test_a_state_that_nobody_varies_gets_no_coefficient(logs):
    state = logs.state.copy()
    state[:, 1] = 7.0
    with pytest.warns(FitWarning, match="state 'engagement' never changes"):
        found = fit(logs.with_values(state=state))
    assert_allclose(found.critic_coef_[:, 2], 0, atol=1e-6)


def test_a_state_far_from_zero_is_named(logs):
    with pytest.warns(FitWarning, match="state 'fatigue' never changes, or by less than a hundred-thousandth of its size"):
        fit(logs.with_values(state=logs.state + np.array([0.0, 0.0, 1e9])))


def test_variables_that_the_critic_does_not_see_have_no_coefficient(logs):
    found = fit(logs, critic_variables=("weather", "fatigue"))
    assert_allclose(found.critic_coef_[:, [2, 6]], 0, atol=1e-9)
    assert_allclose(found.posterior_.covariance[:, 2, 2], 0, atol=1e-4)


def test_differences_may_be_correlated(logs):
    apart, together = fit(logs), fit(logs, correlated_differences=True)
    assert together.posterior_.converged
    assert together.posterior_.deviance < apart.posterior_.deviance
    assert np.linalg.eigvalsh(together.posterior_.spread)[0] > -1e-6


def test_a_look_ahead_of_each_from_the_coefficients_of_each(logs):
    found = fit(logs, "ahead").outlook_
    assert found.model.coef.shape == (20, 8, 4)
    outcome, *states = found.posteriors
    assert_allclose(found.model.coef[:, :, 0], outcome.mean)
    weights = np.append(1.0, found.model.worth[3])
    jacobian = found.model.jacobian[3]
    parts = [c**2 * one.covariance[3] for c, one in zip(weights, (outcome, *states), strict=True)]
    order = [1, 2, 3, 0]
    expected = (jacobian @ sum(parts) @ jacobian.T)[np.ix_(order, order)]
    assert_allclose(found.advantage.covariance[3], expected, rtol=1e-9)
    pooled = found.pool()
    assert_allclose(pooled.model.coef[0, :, 0], outcome.population)
    assert pooled.uncertainty.between_people


@pytest.mark.filterwarnings("ignore:people do not differ")
def test_a_critic_that_cuts_into_noise_does_not_make_people_differ():
    """Without the correction Ψ absorbs the noise that the cap took away, and coefficients err by 1.7 times as much."""
    errors = {}
    for seed in range(2):
        simulator, logs = collect(50, 210, spread=0.0, seed=200 + seed)
        for pooling in ("all", "partial"):
            coef = sf.method("ro-linucb", pooling=pooling).fit(logs).critic_coef_
            errors.setdefault(pooling, []).append(np.sqrt(((coef - simulator.critic_coef) ** 2).sum(axis=1).mean()))
    assert np.mean(errors["partial"]) < 1.4 * np.mean(errors["all"])


@pytest.mark.parametrize("cut", [1.776, 2.65])
def test_what_a_cut_leaves_of_normal_noise(cut):
    noise = np.random.default_rng(0).standard_normal((40, 5000, 1))
    kept = (np.abs(noise[..., 0]) < cut) * 1.0
    moments = Moments.of_rows(np.ones((40, 5000, 1)), 3.0 + noise, kept)
    found = estimate_variance_left(moments, np.full(40, cut**2), np.zeros(1))
    assert found == pytest.approx(noise[kept > 0].var(), rel=0.01)
    assert estimate_variance_left(moments, np.full(40, np.inf), np.zeros(1)) == 1.0
