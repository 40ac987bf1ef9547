import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.atomic_files import json_text
from surefoot.explain import explain, response
from surefoot.explain.policy_card import make_card
from surefoot.explain.response import measure_importances
from surefoot.inference import participant_bootstrap as resampled
from surefoot.inference.participant_bootstrap import bootstrap_coefficients
from surefoot.inference.sandwich import compute_influences
from surefoot.numerics import random_streams
from surefoot.policies.rules import Boltzmann
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
            sf.Trajectories.from_arrays(logs.state[drawn], logs.action[drawn], logs.reward[drawn])
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
    gone = logs.with_values(reward=np.where(logs.participant_index == 2, np.nan, logs.reward))
    with pytest.warns(sf.FitWarning):
        fitted = sf.method("ro-accb").fit(gone)
    found = explain(fitted, draws=20)
    assert np.isnan(found.send_rates[2])
    table = found.coefficients.to_frame("pandas")
    assert table.query("participant == 2")["low"].isna().all()
    assert table.query("participant != 2")["low"].notna().all()
    assert "9 people" in make_card(found).markdown()


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


@pytest.mark.parametrize("name", ["ro-saccb", "linucb"])
@pytest.mark.parametrize("pooling", ["person", "all"])
def test_importances_are_shares_of_the_whole_and_free_of_scale(logs, name, pooling):
    penalties = {"critic_penalty": 1e-9} | ({} if name == "linucb" else {"actor_penalty": 1e-9})

    def measure(state):
        return measure_importances(sf.method(name, pooling=pooling, **penalties).fit(logs.with_values(state=state)))

    plain, stretched = measure(logs.state), measure(logs.state * [1000, 1, 0.01])
    assert_allclose(sum(item.share for item in plain), 1)
    for one, other in zip(plain, stretched, strict=True):
        assert one.feature == other.feature
        assert_allclose([one.share, one.swing], [other.share, other.swing], rtol=1e-3, atol=1e-3)


def test_the_importance_of_a_feature_is_its_covariance_with_the_logit(logs):
    """Two features that go together share what they carry; shares of summed variances would not add up to the logit's."""
    state = logs.state.copy()
    state[:, 1] += 0.8 * state[:, 0]
    fitted = sf.method("saccb", pooling="all").fit(logs.with_values(state=state))
    pieces = (fitted.coef_[0, :3] * state).T
    logit = pieces.sum(axis=0)
    shares = [np.cov(piece, logit)[0, 1] / logit.var(ddof=1) for piece in pieces]
    expected = dict(zip(logs.state_names, shares, strict=True))
    found = {item.feature: item.share for item in measure_importances(fitted)}
    assert found == pytest.approx(expected)
    alone = pieces.var(axis=1) / pieces.var(axis=1).sum()
    assert np.abs(alone - shares).max() > 0.02


def test_curves_average_over_the_logged_states(logs, per_participant):
    curve = explain(per_participant, draws=5, scaling={"engagement": (10.0, 2.0)}).curves[1]
    assert curve.variable == "engagement"
    low = np.quantile(logs.state[:, 1], 0.05)
    assert_allclose(curve.grid[0], 10 + 2 * low)
    moved = logs.state.copy()
    moved[:, 1] = low
    assert_allclose(curve.probability[0], per_participant.policies_.probabilities(logs.participant, moved).mean(axis=0))
    assert (curve.low <= curve.high).all()
    assert curve.band == "middle 80 % of people"


def test_pooled_bands_hold_the_curve_and_shrink_with_people(logs):
    (more,), _, _ = many(1, 160, 60, seed=4, unit=500)
    widths = []
    for each in (logs, more):
        curve = explain(sf.method("saccb", pooling="all").fit(each)).curves[0]
        assert (curve.low <= curve.probability).all()
        assert (curve.probability <= curve.high).all()
        widths.append((curve.high - curve.low)[:, 1].mean())
    assert widths[1] < 0.6 * widths[0]


def test_a_band_lies_around_the_curve_of_all_rows(logs, monkeypatch):
    """It is drawn at a sample of the decision points; with θ known exactly nothing of that sample is left in it."""
    (more,), _, _ = many(1, 20, 100, seed=5, unit=500)
    fitted = sf.method("saccb", pooling="all").fit(more)
    monkeypatch.setattr(response, "_draw_rules", lambda fitted, rule, seed: Boltzmann(np.tile(rule.coef, (200, 1, 1, 1))))
    for curve in explain(fitted).curves:
        assert_allclose(curve.low, curve.probability)
        assert_allclose(curve.high, curve.probability)


def test_courses_count_people_and_probabilities_keep_within_limits(logs, per_participant):
    found = explain(per_participant, draws=5, limited=lambda p: np.clip(p, 0.45, 0.55))
    course = found.courses[0]
    assert (course.people == 10).all()
    assert_allclose(course.place[:2], [2, 5])  # 60 decision points in 20 bins of 3
    sent = logs.action.reshape(10, 20, 3).mean(axis=(0, 2))
    assert_allclose(course.logged, sent)
    assert ((course.treated >= 0.45) & (course.treated <= 0.55)).all()
    for curve in found.curves:
        assert ((curve.probability >= 0.45) & (curve.probability <= 0.55)).all()


def test_hours_of_the_day_are_shown_where_times_are_dates():
    import pandas as pd

    rng = np.random.default_rng(0)
    times = pd.date_range("2026-01-05 09:00", periods=60, freq="4h")
    frame = pd.DataFrame({"who": np.repeat(["a", "b"], 60), "when": list(times) * 2, "s": rng.standard_normal(120),
                          "a": rng.integers(0, 2, 120), "r": rng.standard_normal(120)})  # fmt: skip
    logs = sf.Trajectories.from_frame(frame, participant="who", time="when", state=["s"], action="a", reward="r")
    course = explain(sf.method("accb").fit(logs), draws=5).courses[1]
    assert course.label.startswith("hour of the day")
    assert course.place.tolist() == [1, 5, 9, 13, 17, 21]


def test_only_what_is_seen_is_explained(logs):
    fitted = sf.method("accb", pooling="all", policy_variables=("weather",)).fit(logs)
    found = explain(fitted)
    assert [curve.variable for curve in found.curves] == ["weather"]
    assert {row.feature for row in found.coefficients.rows if row.part == "policy"} == {"weather", "intercept"}
    assert "does not look at engagement, fatigue" in make_card(found).markdown()


@pytest.mark.parametrize(("name", "pooling"), [("ro-saccb", "all"), ("ro-accb", "person"), ("linucb", "person")])
def test_the_card_says_what_goes_into_a_protocol(logs, name, pooling):
    found = explain(sf.method(name, pooling=pooling).fit(logs), draws=20, scaling={"weather": (0.0, 5.0)})
    text = make_card(found, title="Card_1", method=name, limits=(0.1, 0.9), transform="sqrt", verdict="look").markdown()
    assert text.startswith("# Card_1\n")
    for part in ("one of nothing, send", "kept between 0.1 and 0.9", f"Method {name}", "audit of the fit says: look",
                 "10 people, 600 of 600", "as sqrt"):  # fmt: skip
        assert part in text
    if name != "linucb":
        row = found.coefficients.of("policy", "engagement", "send")
        assert row.interval.value > 0
        assert "1 more of engagement makes send more likely" in text
        assert "5 more of weather makes send" in text
    else:
        assert "does not randomise" in text
    assert json.loads(json_text(found.to_dict()))["send_rate"] == found.send_rate


def test_nothing_to_explain_is_said(logs):
    with pytest.warns(sf.FitWarning):
        empty = sf.method("accb").fit_some(logs.with_values(reward=np.full(len(logs), np.nan)))
    with pytest.raises(sf.InputError, match="no policy to explain"):
        explain(empty)
    with pytest.raises(sf.InputError, match="with a pooled one use the sandwich"):
        bootstrap_coefficients(sf.method("accb", pooling="all").fit(logs))
