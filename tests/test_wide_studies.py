"""Audits and explanations of studies with many state variables: their work is bounded, and they say what they leave out."""

import json
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.audit import audit
from surefoot.explain import explain
from surefoot.inference import participant_intervals
from surefoot.learning import actor
from surefoot.learning.methods import Method
from tests.problems import three_actions

pytestmark = pytest.mark.filterwarnings("ignore::surefoot.errors.FitWarning")


def make_logs(people=20, points=30, variables=61, seed=0):
    """The first variable makes sending worth more; the others do nothing."""
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, points, variables))
    action = rng.integers(0, 2, (people, points))
    outcome = state[..., 0] + action * (0.5 + state[..., 0]) + rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(state, action, outcome)


@pytest.fixture(scope="module", params=["all", "person"])
def fitted(request):
    return sf.method("ro-accb", pooling=request.param).fit(make_logs())


def count_calls(monkeypatch, owner, name):
    """The calls of a function, which goes on doing what it does."""
    calls = []
    original = getattr(owner, name)

    def call(*given, **options):
        calls.append(given)
        return original(*given, **options)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_an_audit_fits_again_at_three_limits_and_without_nobody(fitted, monkeypatch):
    fits = count_calls(monkeypatch, Method, "fit_some")
    critics = count_calls(monkeypatch, Method, "fit_critic")
    audited = audit(fitted)
    assert len(fits) == len(critics) == 3
    assert [row.tau for row in audited.sensitivity] == [0.75, 1.0, 1.5, np.inf]
    assert np.isfinite(audited.effect.low)
    assert audited.effect.low < 0.5 < audited.effect.high


def test_an_audit_says_what_it_left_out(fitted):
    audited = audit(fitted)
    expected = ["No fits with the limit at 0.5, 2, 4 times its height: the critic has 124 coefficients, more than 120."]
    if fitted.pooled_:
        expected.append(
            "No fits without each of the 20 people (the jackknife): the critic has 124 coefficients, more than 120. The "
            "interval of the mean effect comes from the analytic sandwich, which is rougher for so few people."
        )
    assert list(audited.left_out) == audited.to_dict()["left_out"] == expected
    text = " ".join(audited.summary().split())
    page = audited.to_html()
    for sentence in expected:
        assert sentence in text
        assert sentence in page


def test_an_audit_of_few_variables_leaves_nothing_out():
    audited = audit(sf.method("ro-accb").fit(make_logs(variables=3)))
    assert audited.left_out == ()
    assert "Left out" not in audited.summary()
    assert len(audited.sensitivity) == 7


def test_an_explanation_draws_nothing_that_takes_long(fitted, monkeypatch):
    monkeypatch.setattr(participant_intervals, "MOST_WORK", 1e8)
    fits = count_calls(monkeypatch, Method, "fit_critic")
    explained = explain(fitted)
    assert len(fits) == 0
    assert len(explained.curves) == 12
    assert explained.curves[0].variable == "s1"
    rows = explained.coefficients.rows
    assert {(row.people_above, row.people_below) for row in rows} == {(None, None)}
    assert np.isfinite([row.interval.low for row in rows if row.part == "critic"]).all()
    expected = [
        "No response curves of 49 of 61 state variables: only the 12 with the largest effect on the policy have one.",
        *(
            [
                "No fits without each of the 20 people (the jackknife): the critic has 124 coefficients, more than 120. "
                "Intervals come from the analytic sandwich, which is rougher for so few people.",
                "No intervals of the policy's coefficients and no bands around its curves: they need more people than the "
                "policy has coefficients for an action, and there are 20 people and 62 coefficients.",
            ]
            if fitted.pooled_
            else [
                "No individual intervals for 20 people: resampled fits with 124 coefficients take long. "
                "To compute them, use surefoot explain --everybody or most_people=None."
            ]
        ),
    ]
    assert list(explained.left_out) == explained.to_dict()["left_out"] == expected
    text = " ".join(explained.summary().split())
    page = explained.to_html().replace("&#39;", "'")
    markdown = explained.card().markdown().replace("\\", "")
    for sentence in expected:
        assert sentence in text
        assert sentence in page
        assert sentence in markdown
    assert "The 40 largest of 62" in page
    assert "22 more coefficients are in the JSON output." in text
    json.dumps(explained.to_dict()["left_out"])


def test_own_intervals_are_computed_for_as_many_people_as_time_allows(monkeypatch):
    fitted = sf.method("accb").fit(make_logs(people=6, points=20, variables=32))
    work_of_one = 10 * (20 + 66 / 3) * 66**2
    monkeypatch.setattr(participant_intervals, "MOST_WORK", 2.5 * work_of_one)
    explained = explain(fitted, draws=10)
    assert explained.coefficients.own_people == 2
    assert "No individual intervals for 4 people" in " ".join(explained.left_out)
    everybody = explain(fitted, draws=10, most_people=None)
    assert everybody.coefficients.own_people == 6
    assert "of their own" not in " ".join(everybody.left_out)


def test_bands_around_curves_hold_few_numbers_at_a_time():
    """200 draws at 500 decision points with 61 variables would take 50 MB each time they are written down."""
    fitted = sf.method("accb", pooling="all").fit(make_logs(people=80, points=10))
    tracemalloc.start()
    explained = explain(fitted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert explained.curves[0].band == "95 % interval"
    assert (explained.curves[0].high > explained.curves[0].low).any()
    assert peak < 40e6


def test_no_band_stands_where_the_policy_has_no_standard_error():
    """With as many coefficients as people nothing is known of them: a band without width would say the opposite."""
    explained = explain(sf.method("accb", pooling="all").fit(make_logs(people=8, variables=8)))
    assert {curve.band for curve in explained.curves} == {""}
    assert "no bands around its curves" in " ".join(explained.left_out)
    assert "The interval includes 0" not in explained.summary()


def test_curves_of_a_category_show_its_frequent_levels():
    rng = np.random.default_rng(0)
    level = np.minimum(rng.geometric(0.05, (10, 150)), 60)
    state = (level[..., None] == np.arange(2, 61)).astype(float)
    action = rng.integers(0, 2, level.shape)
    names = [f"place={number}" for number in range(2, 61)]
    logs = sf.Trajectories.from_arrays(state, action, action + rng.standard_normal(level.shape), state_names=names)
    explained = explain(sf.method("accb", pooling="all").fit(logs))
    (curve,) = explained.curves
    logged = len(np.unique(level))
    assert len(curve.settings) == 40
    assert curve.rare == logged - 40
    assert not any(curve.settings[0].columns)
    counts = np.bincount(level.ravel(), minlength=61)
    left = set(range(2, 61)) - {int(label) for label in curve.labels[1:]}
    assert max(counts[number] for number in left) <= min(counts[int(label)] for label in curve.labels[1:])
    assert f"the {curve.rare} rarest levels of place: 40 are shown" in " ".join(explained.left_out)


def test_three_actions_climb_hardly_more_often_than_two_in_an_audit(monkeypatch):
    """Their policies are searched from many starts once; fits with other limits begin where that search ended."""
    climbs = {}
    for actions in (2, 3):
        logs = three_actions(people=12, points=40)
        if actions == 2:
            logs = sf.Trajectories.from_arrays(
                logs.state.reshape(12, 40, 2), np.minimum(logs.action, 1).reshape(12, 40), logs.outcome.reshape(12, 40)
            )
        fitted = sf.method("ro-accb").fit(logs)
        with monkeypatch.context() as patch:
            calls = count_calls(patch, actor, "_climb")
            audit(fitted)
        climbs[actions] = sum(len(start) for _, start, *_ in calls)
    assert climbs[3] <= 2 * climbs[2]


@pytest.mark.parametrize("pooling", ["person", "all"])
@pytest.mark.parametrize("name", ["accb", "saccb"])
def test_a_refit_near_a_known_policy_finds_what_the_search_finds(name, pooling):
    logs = three_actions(people=12, points=40)
    fitted = sf.method(name, critic="capped", pooling=pooling).fit(logs)
    searched = sf.method(name, critic="capped", pooling=pooling, tau=1.5).fit(logs)
    near = sf.method(name, critic="capped", pooling=pooling, tau=1.5).fit_some(logs, start=fitted.coef_)
    assert_allclose(near.coef_, searched.coef_, rtol=1e-6, atol=1e-8)
