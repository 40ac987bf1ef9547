"""`recommended` chooses its parts from the logs: the truth of simulators is what it should choose."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.rome import Rome
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.learning.choice import (
    CrossFitted,
    Evidence,
    compare_capped_errors,
    cut_into_folds,
    estimate_slope,
    spread_probabilities,
)

COIN = sf.policies.coin(2)


class WithoutBurden(sf.simulators.HeartSteps):
    """People whose later states do not depend on prompts."""

    def __init__(self, participants, **settings):
        super().__init__(participants, **settings)
        self._transition[2] = 0.0 * np.asarray(self._transition[2])
        self._transition[4] = 0.0 * np.asarray(self._transition[4])
        self._transition[5] = 0.0 * np.asarray(self._transition[5])


def choose(simulator, seeds, points):
    """How often partial pooling and the long run were chosen."""
    chosen = []
    for seed in seeds:
        logs = simulator(30, seed).collect(COIN, decision_points=points, seed=seed)
        fitted = sf.method("recommended").fit(logs)
        chosen.append([fitted.pooling_.name == "partial", fitted.horizon_.name == "long-run"])
    return np.mean(chosen, axis=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_where_people_differ_it_pools_partially():
    partial, _ = choose(lambda people, seed: WithoutBurden(people, spread=3.0, seed=seed), range(3), 120)
    assert partial == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_where_prompts_burden_later_it_looks_ahead():
    _, long_run = choose(lambda people, seed: sf.simulators.HeartSteps(people), range(3), 150)
    assert long_run == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_where_nothing_comes_later_it_mostly_takes_the_next_outcome():
    _, long_run = choose(lambda people, seed: WithoutBurden(people), range(6), 120)
    assert long_run <= 0.34


def alike_people(people, seed):
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, 50, 1))
    action = rng.integers(0, 2, (people, 50))
    outcome = state[..., 0] + action * (1 + state[..., 0]) + rng.standard_normal((people, 50))
    return state, action, outcome


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_what_is_clearly_noise_is_left_out():
    state, action, outcome = alike_people(20, 0)
    logs = Trajectories.from_arrays(state, action, outcome, probability=np.full(action.shape, 0.5))

    def learn_noise(parameters, hidden):
        """Effects that are wrong where people may differ."""
        fitted = sf.method("ts", **parameters).fit_some(hidden).fitted_
        wrong = np.random.default_rng(1).standard_normal(fitted.critic_coef.shape)
        return replace(fitted, critic_coef=fitted.critic_coef + (parameters["pooling"] != "all") * wrong)

    chosen = CrossFitted(look_ahead=False).choose(logs, sf.critics.Ridge(), learn_noise)
    assert chosen.parameters == {"pooling": "all", "baseline": "linear", "horizon": "immediate"}
    pooling = chosen.comparisons[0]
    assert pooling.estimate + pooling.standard_error < 0.5 and not pooling.richer_taken


def heart_steps(people=10, points=60, **settings):
    return sf.simulators.HeartSteps(people, **settings).collect(COIN, decision_points=points, seed=1)


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_the_fit_is_that_of_a_method_with_the_chosen_parts():
    logs = heart_steps(30, 120, spread=3.0)
    fitted = sf.method("recommended").fit(logs)
    fixed = sf.method("hb-ts", critic=fitted.critic_, pooling=fitted.pooling_, horizon=fitted.horizon_).fit(logs)
    np.testing.assert_array_equal(fitted.predict_proba(logs), fixed.predict_proba(logs))
    assert fitted.settled.list_settings() == fixed.list_settings()
    critic, pooling, delayed, gain = fitted.chosen_.comparisons
    assert critic.richer == "critic = 'ridge'"
    assert pooling.simpler == "pooling = 'all', baseline = 'linear'"
    assert delayed.richer == gain.richer == "horizon = 'long-run'"
    ratios = [abs(delayed.estimate) / delayed.standard_error, gain.estimate / gain.standard_error]
    assert delayed.richer_taken == gain.richer_taken == (sum(ratios) > 2)
    reason = "pooling = 'partial', baseline = 'linear' instead of pooling = 'all', baseline = 'linear': slope"
    assert fitted.chosen_.reasons[1].startswith(reason)
    assert "critic = 'ridge' instead of" in str(fitted.summary())
    again = sf.method("recommended").fit(logs)
    assert again.chosen_.comparisons == fitted.chosen_.comparisons
    # Effects that change are candidates for the next outcome only: a policy for the long run is followed for longer.
    soon = sf.method("recommended", look_ahead=False).fit(logs).chosen_.comparisons
    assert "time = 'smooth'" in soon[2].richer and "baseline = 'smooth'" in soon[3].richer


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_units_change_no_choice():
    # With other people, a residual may lie so close to the critic's limit that rounding decides.
    logs = heart_steps(20, 80, spread=2.0, seed=1)
    state = logs.state * np.array([3.6e6, 1e-3, 1.8]) + np.array([0.0, 0.0, 32.0])
    other = logs.with_values(state=state, outcome=logs.outcome / 3600 + 273.15)
    chosen, again = (sf.method("recommended").fit(data).chosen_.comparisons for data in (logs, other))
    for before, after in zip(chosen, again, strict=True):
        unit = 3600 if "horizon" in before.simpler else 1
        # The search for variances ends within a thousandth of the best ones.
        assert_allclose(unit * after.estimate, before.estimate, rtol=5e-3, atol=1e-4)
        assert_allclose(unit * after.standard_error, before.standard_error, rtol=5e-3)


@pytest.mark.parametrize(("people", "points"), [(5, 60), (8, 9)])
def test_too_small_logs_get_the_named_default_and_a_warning(people, points):
    with pytest.warns(
        sf.FitWarning, match="Nothing was compared.*pooling = 'partial', baseline = 'linear', horizon = 'immediate'"
    ):
        fitted = sf.method("recommended").fit(heart_steps(people, points))
    assert (fitted.pooling_.name, fitted.horizon_.name) == ("partial", "immediate")
    assert not fitted.chosen_.comparisons


def test_fewer_decision_points_than_features_are_pooled():
    with pytest.warns(sf.FitWarning, match="42 of at least 160 usable.*pooling = 'all', baseline = 'linear', horizon"):
        fitted = sf.method("recommended").fit(heart_steps(6, 7))
    assert fitted.pooling_.name == "all"


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
@pytest.mark.parametrize(
    ("slope", "long_run", "pooling"),
    [(0.4, False, "all"), (0.6, False, "partial"), (0.6, True, "all"), (0.8, True, "partial")],
)
def test_the_long_run_asks_for_proof_that_people_differ(monkeypatch, slope, long_run, pooling):
    monkeypatch.setattr("surefoot.learning.choice.estimate_slope", lambda *arguments: (slope, 0.2))
    fitted = sf.method("recommended", look_ahead=long_run).fit(heart_steps(30, 100))
    assert fitted.horizon_.looks_ahead == long_run
    assert fitted.pooling_.name == pooling


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_where_folds_have_too_few_transitions_the_delayed_effect_decides_alone():
    fitted = sf.method("recommended").fit(heart_steps(6, 27))
    (delayed,) = [comparison for comparison in fitted.chosen_.comparisons if "horizon" in comparison.simpler]
    assert delayed.measure == "delayed effect of 'send'"
    assert delayed.richer_taken == (abs(delayed.estimate) > 2.5 * delayed.standard_error)
    assert fitted.chosen_.reasons[-1].count("standard error") == 1


@pytest.mark.parametrize(("gain", "baseline"), [(0.01, "linear"), (0.03, "smooth")])
def test_a_smooth_baseline_must_predict_better_by_a_standard_error(monkeypatch, gain, baseline):
    monkeypatch.setattr("surefoot.learning.choice.compare_capped_errors", lambda *arguments: (gain, 0.02))
    fitted = sf.method("recommended", look_ahead=False).fit(heart_steps(10, 60))
    assert fitted.fitted_.chosen_parameters["baseline"] == baseline
    # The critic without outliers needs no margin.
    assert fitted.critic_.name == "ridge"


@pytest.mark.parametrize(
    ("delayed", "gain", "taken"),
    [(2.4, 0.0, False), (-2.6, 0.0, True), (1.6, 30.0, True), (1.4, 30.0, False), (-3.6, -30.0, True), (3.4, -30.0, False)],
)
def test_the_gain_moves_the_limit_of_the_delayed_effect_by_one_standard_error(monkeypatch, delayed, gain, taken):
    module = "surefoot.learning.choice"
    monkeypatch.setattr(f"{module}._find_delayed", lambda *arguments: Evidence("delayed effect of 'send'", delayed, 1.0))
    gained = Evidence("gain in the mean outcome", 2 * gain, 2.0)
    monkeypatch.setattr(f"{module}.CrossFitted._compare_horizons", lambda *arguments: gained)
    chosen = CrossFitted()._choose_horizon(heart_steps(6, 20), {}, lambda *arguments: None)
    assert (chosen.parameters["horizon"] != "immediate") == taken


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_a_horizon_that_cannot_be_compared_says_why():
    logs = heart_steps(20, 30)
    scattered = logs[np.arange(len(logs)) % 3 == 0]  # No two decision points are consecutive.
    fitted = sf.method("recommended").fit(scattered)
    assert fitted.horizon_.name == "immediate"
    assert "could not be judged, because" in fitted.chosen_.reasons[-1]
    without = sf.method("recommended", look_ahead=False).fit(logs)
    assert without.chosen_.reasons[-1] == "horizon = 'immediate', because look_ahead is false."


@pytest.mark.parametrize(
    "given",
    [{"pooling": "all"}, {"pooling": "partial"}, {"random_walk": 0.1}, {"horizon": "long-run"}, {"baseline": "smooth"}],
)
def test_parts_that_it_chooses_are_not_given(given):
    with pytest.raises(sf.InputError, match=r"'recommended' chooses (pooling|baseline|horizon) from the logs; leave out"):
        sf.method("recommended", **given)


def test_errors_of_critics_are_capped_so_that_artefacts_do_not_decide():
    rng = np.random.default_rng(0)
    participant = np.repeat(np.arange(20), 50)
    noise = rng.standard_normal(1000)
    prompts = rng.random(1000) < 0.4
    # A robust critic that removed what prompts achieve misses it; least squares does not.
    gain, error = compare_capped_errors(noise + 5.0 * prompts, noise, participant)
    assert gain > 2 * error
    # Artefacts pull least squares up by 1.5, and both critics miss them.
    artefacts = 15.0 * (prompts & (rng.random(1000) < 0.1))
    gain, error = compare_capped_errors(noise + artefacts, noise + artefacts - 1.5 * prompts, participant)
    assert gain < -2 * error
    assert compare_capped_errors(np.zeros(4), np.zeros(4), np.arange(4)) == (0.0, 0.0)


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_the_robust_critic_stays_where_outcomes_are_wild_after_prompts():
    dirty = sf.simulators.contaminate(heart_steps(20, 60), mechanism="prompted", ratio=0.1, seed=3).logs
    assert sf.method("recommended").fit(dirty).critic_.name == "high-breakdown"
    settled = sf.method("recommended", choose_critic=False).fit(dirty)
    assert all("critic" not in comparison.simpler for comparison in settled.chosen_.comparisons)


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_where_effects_fade_and_the_baseline_is_curved_it_takes_both_and_all_decision_points():
    logs = Rome("fade", people=30, points=60).collect(COIN, decision_points=60, seed=1)
    fitted = sf.method("recommended").fit(logs)
    assert fitted.pooling_.time == "smooth" and fitted.settled.baseline.name == "smooth"
    assert fitted.critic_.name == "ridge"


def test_slopes_are_those_of_least_squares_with_a_sandwich_over_people():
    rng = np.random.default_rng(0)
    participant = np.repeat(np.arange(12), 9)
    added = rng.standard_normal(108)
    residuals = 0.7 * added + rng.standard_normal(12)[participant] + rng.standard_normal(108)
    slope, error = estimate_slope(residuals, added, participant)
    (literal,), _, _, _ = np.linalg.lstsq(added[:, None], residuals)
    meat = 0.0
    for person in range(12):
        rows = participant == person
        meat += (added[rows] @ (residuals[rows] - literal * added[rows])) ** 2
    assert_allclose(slope, literal)
    assert_allclose(error, np.sqrt(meat * 12 / 11) / (added @ added))
    assert estimate_slope(residuals, np.zeros(108), participant) == (0.0, 0.0)
    assert estimate_slope(residuals, 1e-6 * added, participant) == (0.0, 0.0)


def test_folds_halve_everybodys_decision_points_in_blocks():
    logs = heart_steps(4, 60)
    fold = cut_into_folds(logs)
    for participant in range(4):
        of_person = fold[logs.order][logs.participant_index[logs.order] == participant]
        assert of_person.sum() == 30
        assert (np.diff(of_person) != 0).sum() == 5


def test_probabilities_of_actions_not_taken_share_what_is_left():
    logs = heart_steps(4, 60)
    rows = np.flatnonzero(logs.usable)
    assert_allclose(spread_probabilities(logs, rows), 0.5)
    unknown = replace(logs, probability=np.full(len(logs), np.nan))
    rates = np.bincount(logs.action[rows]) / len(rows)
    assert_allclose(spread_probabilities(unknown, rows), np.tile(rates, (len(rows), 1)))


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_explain_audit_and_evaluate_take_the_chosen_parts():
    logs = heart_steps(12, 60, spread=3.0)
    fitted = sf.method("recommended").fit(logs)
    explanation = sf.explain.explain(fitted)
    described = explanation.to_dict()
    assert described["chosen"] == list(fitted.chosen_.reasons)
    assert described["parameters"]["pooling"] == fitted.pooling_.name
    assert json.dumps(described)
    assert sf.audit.audit(fitted).verdict
    assert sf.evaluation.evaluate(logs, {"recommended": sf.method("recommended")}).value("recommended")
