"""Coefficients with intervals, over people and individually, and how people differ."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.explain import Difference, explain
from surefoot.explain.coefficients import find_differences
from surefoot.inference import participant_intervals as resampled
from surefoot.inference.intervals import Interval
from surefoot.inference.participant_intervals import bootstrap_coefficients
from surefoot.inference.sandwich import compute_influences
from surefoot.numerics import random_streams
from tests.studies import many


@pytest.fixture(scope="module")
def logs():
    return many(1, 10, 60, seed=4, unit=500)[0][0]


@pytest.fixture(scope="module")
def per_participant(logs):
    return sf.method("ro-saccb").fit(logs)


@pytest.fixture(scope="module")
def pooled(logs):
    return sf.method("ro-saccb", pooling="all").fit(logs)


def test_bootstrap_is_the_fit_of_resampled_people(logs, per_participant):
    """Literally: draw each participant's rows from their stream, fit them alone, take percentiles."""
    found = bootstrap_coefficients(per_participant, draws=25, seed=3)
    for participant in (0, 7):
        rng = next(iter(random_streams.streams(3, "bootstrap", [participant])))
        rows = logs.order[logs.starts[participant] : logs.starts[participant + 1]]
        drawn = rows[rng.integers(0, len(rows), size=(25, len(rows)))]
        again = sf.method("ro-saccb").fit(
            sf.Trajectories.from_arrays(logs.state[drawn], logs.action[drawn], logs.outcome[drawn])
        )
        assert_allclose(found.critic_low[participant], np.quantile(again.critic_coef_, 0.025, axis=0), rtol=1e-7)
        assert_allclose(found.policy_high[participant], np.quantile(again.coef_, 0.975, axis=0), rtol=1e-5, atol=1e-8)


def test_bootstrap_does_not_depend_on_blocks(logs, per_participant, monkeypatch):
    whole = bootstrap_coefficients(per_participant, draws=20, seed=1)
    monkeypatch.setattr(resampled, "BLOCK_ROWS", 1500)
    small = bootstrap_coefficients(per_participant, draws=20, seed=1)
    for name, values in vars(whole).items():
        assert_array_equal(getattr(small, name), values)


def test_bootstrap_intervals_cover_the_truth_of_a_person():
    sim = sf.simulators.HeartSteps(participants=60)
    fitted = sf.method("accb").fit(sim.collect(sf.policies.coin(2), decision_points=210, seed=8))
    found = bootstrap_coefficients(fitted, draws=200)
    inside = (found.critic_low <= sim.critic_coef) & (sim.critic_coef <= found.critic_high)
    assert 0.89 < inside.mean() < 0.98


def test_a_person_without_usable_rows_has_no_interval(logs):
    gone = logs.with_values(outcome=np.where(logs.participant_index == 2, np.nan, logs.outcome))
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("ro-accb").fit(gone)
    found = explain(fitted, draws=20)
    assert np.isnan(found.send_rates[2])
    table = found.coefficients.to_frame("pandas")
    assert table.query("participant == 2")["low"].isna().all()
    assert table.query("participant != 2")["low"].notna().all()
    assert "9 people" in found.card().markdown()


def test_pooled_intervals_are_the_sandwich(pooled):
    found = explain(pooled)
    width = compute_influences(pooled).half_width("policy")
    rows = [row for row in found.coefficients.rows if row.part == "policy"]
    assert_allclose([row.interval.low for row in rows], pooled.coef_[0] - width)
    error = np.sqrt(np.diagonal(compute_influences(pooled).covariance("policy")))
    assert_allclose([row.interval.standard_error for row in rows], error)
    assert found.coefficients.of("critic", "fatigue", "nothing").people_above is None


def test_means_over_people_have_the_intervals_of_means(per_participant):
    found = explain(per_participant, draws=50)
    row = found.coefficients.of("policy", "engagement", "send")
    assert_allclose(row.interval.value, per_participant.coef_[:, 1].mean())
    assert_allclose(row.interval.standard_error, per_participant.coef_[:, 1].std(ddof=1) / np.sqrt(10))
    own = found.coefficients.to_frame("pandas").query("part == 'policy' and feature == 'engagement'")
    assert row.people_above == (own["low"] > 0).sum()
    assert own["value"].tolist() == per_participant.coef_[:, 1].tolist()


def test_own_intervals_of_a_sample_are_said_to_be_so(logs, per_participant):
    everybody, some = (explain(per_participant, draws=20, most_people=most) for most in (None, 4))
    row, same = (found.coefficients.of("policy", "engagement", "send") for found in (some, everybody))
    assert row.interval == same.interval  # The mean is over everybody all the same.
    assert row.people_above + row.people_below <= 4
    assert "(of 4 people drawn at random)" in some.coefficients.how
    assert (
        f"above zero for {row.people_above}, below for {row.people_below} of 4 people drawn at random"
        in some.card().markdown()
    )
    table = some.coefficients.to_frame("pandas").query("part == 'policy' and feature == 'engagement'")
    assert table["low"].notna().sum() == 4
    assert table["value"].notna().sum() == 10
    assert "drawn at random" not in everybody.card().markdown()


def test_nothing_to_explain_is_said(logs):
    with pytest.warns(sf.FitWarning):
        empty = sf.method("accb").fit_some(logs.with_values(outcome=np.full(len(logs), np.nan)))
    with pytest.raises(sf.InputError, match="no policy to explain"):
        explain(empty)
    with pytest.raises(sf.InputError, match="with a pooled one use the sandwich"):
        bootstrap_coefficients(sf.method("accb", pooling="all").fit(logs))


def make(own, drawn, spread=(2.0, 1.0, 3.0)):
    return Difference("send", "intercept", 1.0, Interval(spread[0], np.nan, *spread[1:]), np.array(own), np.array(drawn))


@pytest.fixture(scope="module")
def partial():
    simulator = sf.simulators.HeartSteps(participants=30, spread=1.0, seed=1)
    logs = simulator.collect(sf.policies.coin(2), decision_points=105, seed=2)
    return explain(sf.method("saccb", pooling="partial").fit(logs), draws=5)


def test_pulled_is_the_share_of_the_way_to_the_population():
    assert make([3.0, -1.0], [3.0, -1.0]).pulled == 0
    assert make([3.0, -1.0], [1.0, 1.0]).pulled == 1
    assert make([3.0, -1.0, np.nan], [1.5, 0.5, 9.0]).pulled == pytest.approx(0.75)
    assert make([1.0], [1.0]).pulled == 1


def test_sentences(partial):
    def describe(*difference):
        return dict(replace(partial, differences=(make(*difference),)).card().sections)["How people differ"][0]

    assert describe([3.0, -1.0], [1.5, 0.5]) == (
        "send, at the mean state: 1 for the population; standard deviation between people 2.0, 95 % interval 1.0 to 3.0; "
        "individual fits were shrunk 75 % of the way to the population."
    )
    assert "no difference between people is detectable" in describe([3.0], [1.0], (0.0, 0.0, 1.0))
    assert "interval" not in describe([3.0], [1.0], (2.0, np.nan, np.nan))


def test_every_effect_of_an_action(partial):
    found = partial.differences
    assert [one.feature for one in found] == ["intercept", "weather", "engagement", "fatigue"]
    posterior, state = partial.fitted.posterior_, partial.fitted.logs_.state.mean(axis=0)
    assert_allclose(found[0].drawn, posterior.mean[:, 4] + posterior.mean[:, 5:] @ state, rtol=1e-9)
    assert_allclose(found[1].drawn, posterior.mean[:, 5], rtol=1e-9)
    own = sf.method("saccb", critic_penalty=0.0).fit(partial.fitted.logs_).critic_coef_
    assert_allclose(found[2].individual, own[:, 6], rtol=1e-6)
    assert all(one.spread.low <= one.spread.value <= one.spread.high for one in found)
    assert all(0 <= one.pulled <= 1 for one in found)


def test_card_page_and_json_show_them(partial):
    assert "## How people differ" in partial.card().markdown()
    page = partial.render_page(title="Card", source="")
    assert "Shrinkage of each participant" in page
    assert page.count("Own and partially pooled coefficients") == 4
    assert len(json.loads(json.dumps(partial.to_dict()["differences"]))) == 4


def test_without_partial_pooling_there_are_none(partial):
    logs = partial.fitted.logs_
    other = explain(sf.method("saccb", pooling="all").fit(logs), draws=5)
    assert other.differences == ()
    assert "How people differ" not in other.card().markdown()
    assert "Shrinkage of each participant" not in other.render_page(title="Card", source="")


def test_correlated_differences_have_no_ends(partial):
    fitted = sf.method("linucb", pooling="partial", correlated_differences=True).fit(partial.fitted.logs_)
    found = explain(fitted, draws=5).differences[0]
    assert found.spread.value > 0 and np.isnan(found.spread.low)


def test_who_has_few_decision_points_has_no_fit_of_their_own():
    simulator = sf.simulators.HeartSteps(participants=12, spread=1.0, seed=1)
    logs = simulator.collect(sf.policies.coin(2), decision_points=60, seed=2)
    hidden = logs.with_values(outcome=np.where((logs.participant_index == 3) & (logs.time > 4), np.nan, logs.outcome))
    with pytest.warns(sf.FitWarning, match="participant 3"):
        fitted = sf.method("saccb", pooling="partial").fit(hidden)
    found = explain(fitted, draws=5)
    assert np.isnan(found.differences[0].individual[3]) and np.isfinite(found.differences[0].drawn[3])
    rows = found.coefficients.individual
    ends = [
        low
        for who, part, low in zip(rows["participant"], rows["part"], rows["low"], strict=True)
        if who == 3 and part == "policy"
    ]
    assert np.isnan(ends).all()


def test_people_are_compared_at_their_first_decision_point_where_effects_change():
    """Individual fits, without the change that everybody shares, lie around the population, and are drawn towards it."""
    rng = np.random.default_rng(5)
    people, points = 30, 60
    state = rng.standard_normal((people, points, 1))
    action = rng.integers(0, 2, (people, points))
    personal = 0.5 * rng.standard_normal((people, 1))
    effect = 2 + personal - np.arange(points) / 30 + state[..., 0]
    outcome = rng.standard_normal((people, 1)) + action * effect + 0.3 * rng.standard_normal((people, points))
    logs = sf.Trajectories.from_arrays(state, action, outcome, state_names=("s",))
    fitted = sf.method("ts", pooling={"name": "partial", "time": "smooth"}).fit(logs)
    difference = find_differences(fitted)[0]
    assert abs(np.mean(difference.individual) - difference.population) < 0.1
    assert np.corrcoef(difference.individual, personal[:, 0])[0, 1] > 0.95
    assert np.corrcoef(difference.drawn, personal[:, 0])[0, 1] > 0.95
    assert 0 <= difference.pulled < 0.2
