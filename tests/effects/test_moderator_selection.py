"""Choosing moderators: the lasso against scikit-learn, and errors in trials without moderation."""

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot import InputError
from surefoot.effects.analysis import Analysis, read_batch
from surefoot.effects.estimators import make_linear, solve
from surefoot.effects.moderator_selection import PersonMoments, select_in_batch, solve_lasso
from tests.effects.trials import COLUMNS, make_trial

CANDIDATES = [f"z{j}" for j in range(6)]


def make_candidates(seed, people=40, moderation=0.0, candidates=6):
    frame = make_trial(seed, people, effect=0.3)
    rng = np.random.default_rng([seed, 1])
    frame["y"] -= 0.5 * frame["home"] * frame["sent"]  # The trial's own moderator is taken out.
    for j in range(candidates):
        frame[f"z{j}"] = rng.normal(size=len(frame)) + np.repeat(rng.normal(size=people), 20)
    frame["y"] += moderation * frame["z1"] * frame["sent"]
    return frame


def test_the_lasso_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    design = rng.normal(size=(50, 8)) @ rng.normal(size=(8, 8))
    y = design @ np.array([2, 0, 0, -1, 0, 0, 0, 0]) + rng.normal(size=50)
    for penalty in (1.0, 20.0, 200.0):
        theirs = linear_model.Lasso(alpha=penalty / 50, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(design, y)
        ours = solve_lasso(design.T @ design, design.T @ y, np.full(8, penalty))
        np.testing.assert_allclose(ours, theirs.coef_, atol=1e-6)
    assert not solve_lasso(np.eye(1), np.array([0.5]), np.ones(1)).any()


def test_the_moments_of_people_are_those_of_the_rows():
    frame = make_candidates(1)
    batch = read_batch(frame, Analysis(**COLUMNS, moderators=CANDIDATES, controls=["x"]))
    moments = PersonMoments.of(batch)
    estimate = solve(make_linear(batch))
    np.testing.assert_allclose(moments.squares.sum(axis=0), estimate.bread, rtol=1e-9, atol=1e-9)
    root = np.linalg.solve(moments.squares.sum(axis=0), moments.products.sum(axis=0))
    np.testing.assert_allclose(root, estimate.root, rtol=1e-9, atol=1e-12)


def test_chosen_coefficients_are_wcls_in_the_participants_who_did_not_choose():
    frame = make_candidates(2, people=60, moderation=0.8)
    selection = sf.effects.select_moderators(frame, CANDIDATES, **COLUMNS, controls=["x"])
    assert "z1" in selection.chosen and selection.choosing == 30 == selection.estimating
    names = selection.result.points.order.participants[np.unique(selection.result.points.person)]
    part = frame[frame["person"].isin(names.tolist())]
    expected = sf.effects.wcls(part, **COLUMNS, controls=["x"], moderators=list(selection.chosen))
    np.testing.assert_allclose(selection.result.params, expected.params, rtol=1e-9)
    np.testing.assert_allclose(selection.result.bse, expected.bse, rtol=1e-9)
    row = selection.rows[1]
    assert row.together.low < row.low_each < 0.8 < row.high_each < row.together.high or len(selection.chosen) == 1
    alone = sf.effects.wcls(frame, **COLUMNS, controls=["x"], moderators=["z1"])
    np.testing.assert_allclose([row.alone.low, row.alone.high], alone.conf_int(0.05 / 6)[1], rtol=1e-9)
    assert row.times_chosen > 90


def test_outcomes_of_the_other_half_do_not_change_the_choice():
    frame = make_candidates(3, moderation=0.4)
    selection = sf.effects.select_moderators(frame, CANDIDATES, **COLUMNS, controls=["x"])
    names = selection.result.points.order.participants[np.unique(selection.result.points.person)]
    other = frame["person"].isin(names.tolist())
    changed = frame.assign(y=np.where(other, -5 * frame["y"] * frame["z2"], frame["y"]))
    again = sf.effects.select_moderators(changed, CANDIDATES, **COLUMNS, controls=["x"])
    assert again.chosen == selection.chosen
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(min_samples_leaf=20, random_state=0)
    options = {**COLUMNS, "controls": ["x"], "estimator": "dr-wcls", "learner": tree}
    learned = sf.effects.select_moderators(frame, CANDIDATES, **options)
    assert sf.effects.select_moderators(changed, CANDIDATES, **options).chosen == learned.chosen


def test_errors_without_moderation():
    missed = 0
    together = 0
    chosen = 0
    for seed in range(60):
        frame = make_candidates(1000 + seed, candidates=12)
        batch = read_batch(frame, Analysis(**COLUMNS, moderators=[f"z{j}" for j in range(12)], controls=["x"]))
        selection = select_in_batch(batch, seed=seed)
        rows = [row for row in selection.rows if row.chosen]
        chosen += len(rows)
        missed += sum(row.low_each > 0 or row.high_each < 0 for row in rows)
        together += any(row.together.excludes_zero for row in rows)
    assert 30 < chosen < 180
    assert missed / chosen < 0.13
    assert together <= 7


def test_refusals_name_the_remedy():
    frame = make_candidates(4)
    with pytest.raises(InputError, match="at least two candidates"):
        sf.effects.select_moderators(frame, ["z1"], **COLUMNS)
    with pytest.raises(InputError, match="not by 'emee'"):
        sf.effects.select_moderators(frame, CANDIDATES, estimator="emee", **COLUMNS)
    with pytest.raises(InputError, match="too few"):
        sf.effects.select_moderators(frame[frame["person"] < "P005"], CANDIDATES, controls=["x"], **COLUMNS)


def test_what_is_shown():
    selection = sf.effects.select_moderators(make_candidates(5, moderation=0.8), CANDIDATES, **COLUMNS, controls=["x"])
    table = selection.to_frame("pandas")
    assert list(table["moderator"]) == CANDIDATES and table["chosen"].sum() == len(selection.chosen)
    assert pd.isna(table["together_low"]).sum() == len(CANDIDATES) - len(selection.chosen)
    assert selection.to_dict()["chosen"] == list(selection.chosen)
    assert "hold together" in str(selection.summary()) and "Moderators chosen among 6" in repr(selection)
    axes = selection.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == CANDIDATES
