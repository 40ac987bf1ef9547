"""Weighted and imputed analyses against literal forms, scikit-learn, finite differences and trials with known effects."""

import numpy as np
import pytest
from benchmarks import missing_outcomes as simulation

import surefoot as sf
from surefoot.effects.imputation import Neighbours, condition_binary, condition_normal
from surefoot.effects.observation_model import LEAST_PROBABILITY, RIDGE, fit_logistic
from tests.effects.trials import COLUMNS, make_trial
from tests.reference import missing_outcomes as literal

METHODS = ("complete", "weighted", "imputed")


def lose_outcomes(frame, column="y", seed=1):
    """More outcomes are missing after a prompt and with a large x."""
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(1.5 - frame["x"] * frame["sent"] - 0.3 * frame["home"]))
    return frame.assign(**{column: frame[column].where(rng.random(len(frame)) > chance)})


def test_the_model_of_observed_outcomes_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    frame = lose_outcomes(make_trial(1))
    result = sf.effects.wcls(frame, **COLUMNS, controls=["x", "home"], missing="weighted")
    model = result.observation
    reference = linear_model.LogisticRegression(C=1 / RIDGE, tol=1e-12, max_iter=10_000)
    reference.fit(model.design[:, 1:], model.observed)
    np.testing.assert_allclose(model.coefficients[1:], reference.coef_[0], atol=1e-5)
    np.testing.assert_allclose(model.coefficients[0], reference.intercept_[0], atol=1e-5)
    assert {"treatment × x", "attendance", "time", "previous outcome", "treatment × previous outcome"} <= set(model.names)
    assert sum(group.entries for group in model.calibration) == frame["available"].sum()
    score = (model.observed - model.probabilities) @ model.design
    np.testing.assert_allclose(score, RIDGE * np.r_[0, model.coefficients[1:]], atol=1e-8)


def list_people(result):
    """Rows of every participant for the literal form: z, R, x of the WCLS, its weight, y."""
    points = result.points
    model = result.observation
    rows = model.series.rows[model.fitted]
    people = []
    for person in np.unique(points.person[rows]):
        entries = []
        for z, row in zip(model.design, rows, strict=True):
            if points.person[row] == person:
                centred = (points.action[row] - 0.5) * points.moderators[:, row]
                x = np.r_[points.controls[:, row], centred]
                y = points.outcome[row]
                weight = 0.5 / points.taken[row]
                entries.append((z, not np.isnan(y), x, weight, y))
        people.append(entries)
    return people


def test_standard_errors_are_those_of_the_stacked_equations_by_differences():
    frame = lose_outcomes(make_trial(2, people=12, points=10))
    result = sf.effects.wcls(frame, **COLUMNS, controls=["x"], missing="weighted")
    model = result.observation
    assert model.unlimited.all()
    people = list_people(result)
    theta = np.r_[result.nuisance_params, result.params]
    parameters = np.r_[model.coefficients, theta]
    size = len(model.coefficients)

    def total(values):
        return literal.stacked_equations(values[:size], values[size:], people, RIDGE)[0]

    total_score, terms = literal.stacked_equations(model.coefficients, theta, people, RIDGE)
    np.testing.assert_allclose(total_score, 0, atol=1e-7)
    bread = -literal.differentiate(total, parameters)
    influence = np.linalg.solve(bread, terms.T)
    np.testing.assert_allclose(
        result.cov_params(corrected=False, nuisance=True), (influence @ influence.T)[size:, size:], rtol=1e-5
    )

    corrected = np.zeros_like(bread)
    for person, term in zip(people, terms, strict=True):

        def part(values, person=person):
            return literal.stacked_equations(values[:size], values[size:], [person], 0.0)[0]

        leverage = -literal.differentiate(part, parameters)
        pull = np.linalg.solve(bread, np.linalg.solve(np.eye(len(bread)) - leverage @ np.linalg.inv(bread), term))
        corrected += np.outer(pull, pull)
    np.testing.assert_allclose(result.cov_params(nuisance=True), corrected[size:, size:], rtol=1e-4)


@pytest.mark.parametrize("estimator", ["wcls", "emee", "emee2", "dcee"])
def test_weights_solve_the_weighted_equations(estimator):
    frame = make_trial(3)
    column = {"wcls": "y", "dcee": "distal"}.get(estimator, "b")
    frame["distal"] = frame.groupby("person")["y"].transform("mean")
    if estimator == "dcee":
        frame.loc[frame["person"].isin(["P001", "P007", "P011", "P020"]), "distal"] = np.nan
    else:
        frame = lose_outcomes(frame, column)
    options = COLUMNS | {"outcome": column, "controls": ["x"]}
    result = sf.effects.excursion_effect(frame, estimator=estimator, missing="weighted", **options)
    function = result.estimate.function
    rows = function.evaluate(result.estimate.root, slice(0, len(function.batch)))
    np.testing.assert_allclose(rows.multiplier @ rows.residual, 0, atol=1e-7)
    weight = function.batch.observation_weight
    assert np.ptp(weight) > 0.01
    plain = sf.effects.excursion_effect(frame, estimator=estimator, **options)
    unweighted = plain.estimate.function.evaluate(result.estimate.root, slice(0, len(weight)))
    np.testing.assert_allclose(rows.multiplier, weight * unweighted.multiplier, atol=1e-9)


def test_missing_outcomes_are_drawn_from_their_conditional_distribution():
    rng = np.random.default_rng(4)
    for mean, slope, following, base, current in rng.normal(size=(5, 5)):
        around = Neighbours(*(np.array([[value]]) for value in (mean, slope, following, base + slope * current, current)))
        expected = literal.normal_moments(mean, slope, following, base, 0.7)
        drawn = condition_normal(around)
        np.testing.assert_allclose([drawn[0][0, 0], 0.7 * drawn[1][0, 0]], expected, rtol=1e-6)
        happened = float(following > 0)
        chance = condition_binary(around._replace(next_outcome=np.array([[happened]])), -0.5, 1.4)
        np.testing.assert_allclose(chance[0, 0], literal.binary_chance(mean, slope, happened, base, -0.5, 1.4), rtol=1e-9)


def test_draws_spread_as_outcomes_do_and_follow_states_and_participants():
    frame = make_trial(14, people=20, points=40)
    lost = lose_outcomes(frame)
    result = sf.effects.wcls(lost, **COLUMNS, controls=["x"], missing="imputed")
    draws = result.imputations.draws
    rows = result.points.order.row[result.imputations.series.rows[draws.entries]]
    truth = frame["y"].to_numpy()[rows]
    # Noise has variance 1; states, levels of participants and effects explain the remainder.
    assert draws.outcomes.var(axis=0, ddof=1).mean() == pytest.approx(1.05, abs=0.25)
    assert np.corrcoef(draws.outcomes.mean(axis=0), truth)[0, 1] > 0.6
    assert ((truth - draws.outcomes.mean(axis=0)) ** 2).mean() == pytest.approx(1.0, abs=0.25)
    binary = sf.effects.emee(lose_outcomes(frame, "b"), **{**COLUMNS, "outcome": "b"}, missing="imputed").imputations.draws
    assert set(np.unique(binary.outcomes)) == {0.0, 1.0}
    assert binary.outcomes.mean() == pytest.approx(frame["b"].mean(), abs=0.08)
    assert binary.outcomes.mean() == pytest.approx(binary.chances.mean(), abs=0.03)


def test_rubins_rules_by_hand():
    frame = lose_outcomes(make_trial(5))
    options = {**COLUMNS, "controls": ["x"], "imputations": 5}
    result = sf.effects.wcls(frame, missing="imputed", **options)
    completed = []
    for outcomes in result.imputations.draws.outcomes:
        filled = frame.copy()
        points = result.imputations.complete(result.points, outcomes)
        filled.loc[filled.index[points.order.row], "y"] = points.outcome
        completed.append(sf.effects.wcls(filled, **options))
    numbers = [(fit.params[0], fit.cov_params()[0, 0]) for fit in completed]
    mean, variance, fraction, degrees = literal.rubin(*zip(*numbers, strict=True), completed[0].df_resid)
    assert result.params[0] == pytest.approx(mean)
    assert result.bse[0] == pytest.approx(np.sqrt(variance))
    assert result.missing_information()[0] == pytest.approx(fraction)
    assert result.t_test([1]).df_denom[0] == pytest.approx(degrees)
    assert 0 < fraction < 0.6 and degrees < result.df_resid
    assert "5 imputations" in result.summary()


def test_a_seed_gives_the_same_imputations_whatever_the_block(monkeypatch):
    frame = lose_outcomes(make_trial(6, people=8, points=10))
    options = {**COLUMNS, "missing": "imputed", "imputations": 4}
    together = sf.effects.wcls(frame, **options)
    monkeypatch.setattr("surefoot.effects.imputation.BLOCK_NUMBERS", 1)
    alone = sf.effects.wcls(frame, **options)
    np.testing.assert_allclose(alone.params, together.params, rtol=1e-9)
    assert sf.effects.wcls(frame, seed=1, **options).params[0] != together.params[0]


def test_without_missing_outcomes_all_methods_agree():
    frame = make_trial(7)
    results = [sf.effects.wcls(frame, **COLUMNS, controls=["x"], missing=method) for method in METHODS]
    for result in results[1:]:
        np.testing.assert_allclose(result.params, results[0].params)
        np.testing.assert_allclose(result.bse, results[0].bse)
        assert result.observation is None and result.imputations is None


def cover(scene, replicates):
    records = [simulation.run_coverage(scene, seed) for seed in range(20_000, 20_000 + replicates)]
    truth = records[0]["truth"]
    return {
        method: (
            np.mean([record[method][1] < truth < record[method][2] for record in records]),
            np.mean([record[method][0] - truth for record in records]),
        )
        for method in METHODS
    }


def test_weights_and_imputations_remove_the_bias_of_complete_rows(monkeypatch):
    """A small form of benchmarks/missing_outcomes.py, whose full results are in docs/effects.md."""
    monkeypatch.setattr("surefoot.effects.imputation.SWEEPS", 20)
    shares = cover("continuous", 25)
    assert shares["complete"][1] < -0.15
    for method in ("weighted", "imputed"):
        assert shares[method][0] >= 0.8 and abs(shares[method][1]) < 0.08, (method, shares[method])


def test_the_committed_simulation_reached_its_targets():
    records = simulation.read_records()
    page = (simulation.FILE.parents[1] / "docs" / "effects.md").read_text(encoding="utf-8")
    assert simulation.write_coverage(records) in page and simulation.write_shifts(records) in page
    for scene in simulation.SCENES:
        chosen = [record for record in records if record["scene"] == scene]
        shares = {
            method: np.mean([record[method][1] < record["truth"] < record[method][2] for record in chosen])
            for method in METHODS
        }
        assert len(chosen) >= 400
        assert shares["complete"] < 0.85
        assert all(0.93 <= shares[method] <= 0.97 for method in ("weighted", "imputed")), shares


@pytest.mark.parametrize("method", ["weighted", "imputed"])
def test_lags_formulas_several_actions_and_learners(method):
    frame = lose_outcomes(make_trial(8))
    frame["place"] = np.where(frame["home"] == 1, "home", "away")
    lagged = sf.effects.wcls(frame, **COLUMNS, controls=["x"], lag=1, future="none", missing=method)
    assert np.isfinite(lagged.bse).all()
    formula = sf.effects.wcls(frame, **COLUMNS, moderators="~ C(place)", controls="~ C(place) + x", missing=method)
    listed = sf.effects.wcls(frame, **COLUMNS, moderators=["home"], controls=["home", "x"], missing=method)
    np.testing.assert_allclose(formula.params, listed.params, rtol=1e-6 if method == "weighted" else 0.2)
    learned = sf.effects.excursion_effect(
        frame, estimator="dr-wcls", learner="boosting", **COLUMNS, controls=["x"], missing=method, imputations=3
    )
    assert learned.params[0] == pytest.approx(
        sf.effects.wcls(frame, **COLUMNS, controls=["x"], missing=method).params[0], abs=0.15
    )
    several = lose_outcomes(make_trial(9, actions=3))
    options = COLUMNS | {"probability": "taken", "probability_of": "action taken"}
    result = sf.effects.wcls(several, **options, controls=["x"], missing=method)
    assert len(result.params) == 2 and result.compare_actions().conf_int().shape == (3, 2)


def test_auxiliary_variables_may_be_missing_and_are_named():
    frame = lose_outcomes(make_trial(10))
    frame["mood"] = frame["x"].where(frame["t"] % 3 > 0)
    result = sf.effects.wcls(frame, **COLUMNS, auxiliary=["mood"], missing="weighted")
    assert {"mood", "mood missing", "treatment × mood"} <= set(result.observation.names)
    with pytest.raises(sf.InputError, match="known only after the decision"):
        sf.effects.wcls(frame, **COLUMNS, auxiliary=["y"], missing="weighted")


def test_limited_weights_are_named():
    frame = make_trial(11, people=20, points=40)
    rare = (frame["x"] > 0.8) & (frame["sent"] == 1)
    frame.loc[rare & (np.arange(len(frame)) % 40 > 0), "y"] = np.nan
    frame.loc[frame.index[rare][:2], "y"] = 1.0
    model = sf.effects.wcls(frame, **COLUMNS, controls=["x"], missing="weighted").observation
    assert model.truncated_rows >= 1 and model.truncated[0].startswith("P0")
    weights = model.weigh(sf.effects.wcls(frame, **COLUMNS, controls=["x"]).points).observation_weight
    assert weights.max() == pytest.approx(model.observed.mean() / LEAST_PROBABILITY)


@pytest.mark.parametrize("people", [3, 4, 5])
def test_few_participants(people):
    frame = lose_outcomes(make_trial(12, people=people, points=20))
    for method in METHODS:
        result = sf.effects.wcls(frame, **COLUMNS, missing=method)
        assert np.isfinite(result.conf_int()).all()
    with pytest.raises(sf.InputError, match="too few"):
        sf.effects.wcls(frame[frame["person"] < "P002"], **COLUMNS, missing="imputed")


def test_participants_without_outcomes_add_no_degrees_of_freedom():
    frame = make_trial(14, people=12)
    frame["y"] = frame["y"].where(frame["person"] < "P004")
    complete, imputed = (sf.effects.wcls(frame, **COLUMNS, missing=method) for method in ("complete", "imputed"))
    assert complete.df_resid == 2
    assert imputed.coefficients.df_denom[0] <= 2
    alone = frame.assign(y=frame["y"].where(frame["person"] == "P000"))
    with pytest.raises(sf.InputError, match="1 participant is too few for 2 coefficients"):
        sf.effects.wcls(alone, **COLUMNS, missing="imputed")


def test_the_model_of_observed_outcomes_has_no_constant_column():
    frame = lose_outcomes(make_trial(1))
    assert (frame["available"] == 0).any()
    model = sf.effects.wcls(frame, **COLUMNS, controls=["x"], missing="weighted").observation
    assert "available" not in model.names and len(model.names) == model.design.shape[1] == len(model.coefficients)


def test_refusals():
    frame = lose_outcomes(make_trial(13))
    for method in METHODS:
        with pytest.raises(sf.InputError, match="nothing to compare; include rows of every action"):
            sf.effects.wcls(frame.assign(y=frame["y"].where(frame["sent"] == 0)), **COLUMNS, missing=method)
    with pytest.raises(sf.InputError, match="did you mean 'weighted'"):
        sf.effects.wcls(frame, **COLUMNS, missing="weigted")
    with pytest.raises(sf.InputError, match="leave out one of the two"):
        sf.effects.wcls(frame, **COLUMNS, missing="imputed", missing_as=0)
    with pytest.raises(sf.InputError, match="at least 2"):
        sf.effects.wcls(frame, **COLUMNS, missing="imputed", imputations=1)


def test_a_logistic_fit_of_an_arm_without_missing_outcomes_is_finite():
    design = np.column_stack([np.ones(6), [-1, -1, -1, 1, 1, 1]])
    coefficients = fit_logistic(design, np.array([True, True, True, True, False, True]))
    assert np.isfinite(coefficients).all() and coefficients[1] < 0
