"""Doubly robust WCLS against WCLS, its own formula, and trials with known effects."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.effects.analysis import Analysis, read_batch
from surefoot.effects.doubly_robust import predict_outcomes
from tests.effects.trials import COLUMNS, make_trial

sklearn_linear = pytest.importorskip("sklearn.linear_model")
tree = pytest.importorskip("sklearn.tree")
TREE = tree.DecisionTreeRegressor(min_samples_leaf=20, random_state=0)


def make_curved_trial(seed, people=30):
    """The outcome bends in x, which a straight line cannot follow."""
    frame = make_trial(seed, people)
    frame["y"] += 2 * np.cos(2 * frame["x"])
    return frame


def test_is_the_root_of_the_doubly_robust_equation():
    frame = make_curved_trial(1)
    options = {**COLUMNS, "controls": ["x", "home"], "moderators": ["home"], "numerator": 0.4}
    result = sf.effects.excursion_effect(frame, estimator="dr-wcls", learner=TREE, **options)
    points = result.points.counted_only
    f = points.moderators
    base = result.nuisance_params @ points.controls + points.predicted
    effect = result.params @ f
    mean = base + (points.action - 0.4) * effect
    p = points.send_probability
    target = effect + (points.action - p) / (p * (1 - p)) * (points.outcome - mean)
    expected = np.linalg.lstsq(f.T, target, rcond=None)[0]
    np.testing.assert_allclose(result.params, expected, rtol=1e-9)


def test_a_straight_learner_adds_nothing():
    frame = make_trial(2)
    options = {**COLUMNS, "controls": ["x", "home"]}
    plain = sf.effects.wcls(frame, **options)
    learned = sf.effects.excursion_effect(frame, estimator="dr-wcls", learner=sklearn_linear.LinearRegression(), **options)
    np.testing.assert_allclose(learned.params, plain.params, rtol=1e-9)
    np.testing.assert_allclose(learned.bse, plain.bse, rtol=1e-9)


def test_standard_errors_shrink_and_intervals_cover():
    covered = []
    ratios = []
    for seed in range(40):
        frame = make_curved_trial(100 + seed)
        options = {**COLUMNS, "controls": ["x", "home"]}
        plain = sf.effects.wcls(frame, **options)
        learned = sf.effects.excursion_effect(frame, estimator="dr-wcls", learner=TREE, **options)
        low, high = learned.conf_int()[0]
        covered.append(low < 0.3 + 0.5 * frame["home"].mean() < high)
        ratios.append(learned.bse[0] / plain.bse[0])
    assert np.mean(covered) >= 0.85
    assert np.mean(ratios) < 0.9


def test_a_participant_does_not_enter_their_own_prediction():
    frame = make_curved_trial(3)
    analysis = Analysis(**COLUMNS, controls=["x"])
    before = predict_outcomes(read_batch(frame, analysis), TREE)
    frame.loc[frame["person"] == "P000", "y"] *= -3
    after = predict_outcomes(read_batch(frame, analysis), TREE)
    rows = (before.person == 0) & before.counted
    # The share of the prediction that is used may differ, its shape may not.
    assert np.corrcoef(after.predicted[rows], before.predicted[rows])[0, 1] == pytest.approx(1)


def test_refusals():
    frame = make_trial(4)
    with pytest.raises(sf.InputError, match="name at least one"):
        sf.effects.excursion_effect(frame, estimator="dr-wcls", **COLUMNS)
    with pytest.raises(sf.InputError, match="no learner 'tree'"):
        sf.effects.excursion_effect(frame, estimator="dr-wcls", learner="tree", controls=["x"], **COLUMNS)
