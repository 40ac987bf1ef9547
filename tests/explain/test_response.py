"""What a policy does as its variables move, and when, against its definitions."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.data.column_kinds import Category, Number, YesNo
from surefoot.explain import explain, page, response
from surefoot.explain.response import REFERENCE, find_effect_courses, find_variables, measure_importances
from surefoot.policies.rules import Boltzmann
from tests.studies import many


@pytest.fixture(scope="module")
def logs():
    return many(1, 10, 60, seed=4, unit=500)[0][0]


@pytest.fixture(scope="module")
def per_participant(logs):
    return sf.method("ro-saccb").fit(logs)


def importances(fitted):
    return measure_importances(fitted, find_variables(fitted.logs_, None))


@pytest.mark.parametrize("name", ["ro-saccb", "linucb"])
@pytest.mark.parametrize("pooling", ["person", "all"])
def test_importances_are_shares_of_the_whole_and_free_of_scale(logs, name, pooling):
    penalties = {"critic_penalty": 1e-9} | ({} if name == "linucb" else {"actor_penalty": 1e-9})

    def measure(state):
        return importances(sf.method(name, pooling=pooling, **penalties).fit(logs.with_values(state=state)))

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
    found = {item.feature: item for item in importances(fitted)}
    assert {name: item.share for name, item in found.items()} == pytest.approx(
        dict(zip(logs.state_names, shares, strict=True))
    )
    assert_allclose([found[name].swing for name in logs.state_names], pieces.std(axis=1))
    assert np.abs(pieces.var(axis=1) / pieces.var(axis=1).sum() - shares).max() > 0.02


def test_the_columns_of_a_category_count_as_one(mixed):
    fitted = sf.method("saccb", pooling="all").fit(mixed)
    found = {item.feature: item for item in importances(fitted)}
    piece = mixed.state[:, 2:] @ fitted.coef_[0, 2:4]
    logit = mixed.state @ fitted.coef_[0, :4]
    assert found["location"].share == pytest.approx(np.cov(piece, logit, bias=True)[0, 1] / logit.var())
    assert found["location"].swing == pytest.approx(piece.std())


def test_curves_average_over_the_logged_states(logs, per_participant):
    curve = explain(per_participant, draws=5).curves[1]
    assert curve.variable == "engagement"
    assert curve.labels == ()
    moved = logs.state.copy()
    moved[:, 1] = curve.grid[0]
    assert_allclose(curve.grid[0], np.quantile(logs.state[:, 1], 0.05))
    first = per_participant.policies_.probabilities(logs.participant, moved)
    assert_allclose(curve.probability[0], first.mean(axis=0))
    assert (curve.low <= curve.high).all()
    assert curve.band == "middle 80 % of people"
    moved[:, 1] = curve.grid[-1]
    change = per_participant.policies_.probabilities(logs.participant, moved) - first
    own = change[:, 1].reshape(10, 60).mean(axis=1)
    assert_allclose(curve.changes[-1][1].value, own.mean())
    assert_allclose(curve.changes[-1][1].standard_error, own.std(ddof=1) / np.sqrt(10))


def test_a_category_moves_as_a_whole_one_level_at_a_time(mixed, study):
    """Setting one 0/1 column and leaving the others would put people at home and at work at once."""
    fitted = sf.method("saccb", pooling="all").fit(mixed)
    curves = {curve.variable: curve for curve in explain(fitted, study=study).curves}
    assert list(curves) == ["temperature", "weekend", "location"]
    location = curves["location"]
    assert location.labels == ("other", "home", "work")
    assert curves["weekend"].labels == ("no", "yes")
    for place, columns in enumerate(([0, 0], [1, 0], [0, 1])):
        moved = mixed.state.copy()
        moved[:, 2:] = columns
        expected = fitted.policies_.probabilities(mixed.participant, moved).mean(axis=0)
        assert_allclose(location.probability[place], expected)
        assert_allclose(location.changes[place][1].value, expected[1] - location.probability[0, 1], atol=1e-12)
    # At home it sends more often than elsewhere, at work less often, and knows it.
    assert location.changes[1][1].low > 0
    assert location.changes[2][1].high < 0
    # Temperature is shown in degrees: (value − 10) / 5 was fitted.
    assert_allclose(curves["temperature"].grid[0], 10 + 5 * np.quantile(mixed.state[:, 0], 0.05))


def test_pooled_bands_hold_the_curve_and_shrink_with_people(logs):
    (more,), _, _ = many(1, 160, 60, seed=4, unit=500)
    widths = []
    for each in (logs, more):
        curve = explain(sf.method("saccb", pooling="all").fit(each)).curves[0]
        assert (curve.low <= curve.probability).all()
        assert (curve.probability <= curve.high).all()
        widths.append((curve.high - curve.low)[:, 1].mean())
    assert widths[1] < 0.6 * widths[0]


def test_a_band_lies_around_the_curve_of_all_rows(monkeypatch):
    """It is drawn at a sample of the decision points; with θ known exactly nothing of that sample is left in it."""
    (more,), _, _ = many(1, 20, 100, seed=5, unit=500)
    fitted = sf.method("saccb", pooling="all").fit(more)
    known = Boltzmann(np.tile(fitted.policies_.rule.coef, (200, 1, 1, 1)))
    monkeypatch.setattr(response, "_draw_rules", lambda fitted, seed, influences: known)
    for curve in explain(fitted).curves:
        assert_allclose(curve.low, curve.probability)
        assert_allclose(curve.high, curve.probability)
        assert_allclose(curve.changes[-1][1].low, curve.changes[-1][1].value, atol=1e-12)


def test_many_people_are_sampled_and_the_curve_hardly_moves(logs, monkeypatch):
    (more,), _, _ = many(1, 60, 40, seed=5, unit=500)
    fitted = sf.method("saccb").fit(more)
    everything = explain(fitted, draws=2).curves[0].probability
    monkeypatch.setattr(response, "CURVE_ROWS", 600)
    monkeypatch.setattr(response, "CURVE_PEOPLE", 40)
    assert_allclose(explain(fitted, draws=2).curves[0].probability, everything, atol=0.06)


def test_only_what_is_seen_is_explained(logs):
    found = explain(sf.method("accb", pooling="all", policy_variables=("weather",)).fit(logs))
    assert [curve.variable for curve in found.curves] == ["weather"]
    assert {row.feature for row in found.coefficients.rows if row.part == "policy"} == {"weather", "intercept"}
    assert "does not use engagement, fatigue" in found.card().markdown()


def test_pictures_of_a_sample_say_so(mixed):
    curves = explain(sf.method("ro-accb").fit(mixed), draws=20).curves
    assert all(curve.points == (1800, 1800) for curve in curves)
    larger = sf.simulators.HeartSteps(participants=600).collect(sf.policies.coin(2), decision_points=10, seed=0)
    found = explain(sf.method("ro-accb", pooling="all").fit(larger))
    assert found.curves[0].points == (5000, 6000)
    page = found.to_html()
    assert "Shown are 5,000 of 6,000 decision points, evenly spaced." in page
    assert "Shown are 300 of 600 people, evenly spaced." in page


LIMITS = """
[columns]
participant = "participant"
time = "time"
[state.weather]
[state.engagement]
[state.fatigue]
[probability_limits]
minimum = 0.45
maximum = 0.55
"""


def test_courses_count_people_and_probabilities_keep_within_limits():
    logs = many(1, 10, 60, seed=4, unit=500)[0][0]
    found = explain(sf.method("ro-saccb").fit(logs), draws=5, study=sf.Study.parse(LIMITS))
    course = found.courses[0]
    assert (course.people == 10).all()
    assert_allclose(course.position[:2], [2, 5])  # 60 decision points in 20 bins of 3
    assert_allclose(course.logged, logs.action.reshape(10, 20, 3).mean(axis=(0, 2)))
    assert ((course.treated >= 0.45) & (course.treated <= 0.55)).all()
    for curve in found.curves:
        assert ((curve.probability >= 0.45) & (curve.probability <= 0.55)).all()


@pytest.fixture(scope="module")
def by_hour():
    """Two people with decision points at 1, 5, 9, 13, 17 and 21 o'clock."""
    rng = np.random.default_rng(0)
    times = pd.date_range("2026-01-05 09:00", periods=60, freq="4h")
    frame = pd.DataFrame({"who": np.repeat(["a", "b"], 60), "when": list(times) * 2, "s": rng.standard_normal(120),
                          "a": rng.integers(0, 2, 120), "r": rng.standard_normal(120)})  # fmt: skip
    logs = sf.Trajectories.from_frame(frame, participant="who", time="when", state=["s"], action="a", outcome="r")
    return explain(sf.method("accb").fit(logs), draws=5)


def test_hours_without_data_stay_gaps(by_hour):
    course = by_hour.courses[1]
    assert course.label.startswith("hour of the day")
    assert course.position.tolist() == list(range(24))
    there = np.isin(np.arange(24), [1, 5, 9, 13, 17, 21])
    assert_array_equal(course.people, 2 * there)
    assert_array_equal(np.isnan(course.treated), ~there)
    assert_array_equal(np.isnan(course.logged), ~there)
    axes = page.draw_course(course)[0]
    for line in axes.get_lines():  # A line through an hour without data would say that there were some.
        assert_array_equal(np.isnan(line.get_ydata()), ~there)


def test_a_study_says_what_the_variables_are(mixed, study):
    found = find_variables(mixed, study.variable_kinds)
    assert [(one.name, one.kind.name, one.places) for one in found] == [
        ("temperature", "number", (0,)),
        ("weekend", "yes/no", (1,)),
        ("location", "category", (2, 3)),
    ]
    assert found[0].kind == Number(centre=10.0, scale=5.0)


def test_without_a_study_they_are_guessed_from_names_and_values(mixed):
    found = find_variables(mixed, None)
    assert [(one.name, one.places) for one in found] == [("temperature", (0,)), ("weekend", (1,)), ("location", (2, 3))]
    assert [one.kind for one in found] == [Number(), YesNo(), Category(levels=(REFERENCE, "home", "work"))]


@pytest.mark.parametrize("spoil", [lambda home, work: (home, home), lambda home, work: (home * 0.5, work)])
def test_columns_that_can_be_1_together_or_are_no_0_and_1_are_no_category(mixed, spoil):
    state = mixed.state.copy()
    state[:, 2], state[:, 3] = spoil(state[:, 2], state[:, 3])
    found = find_variables(mixed.with_values(state=state), None)
    assert [one.name for one in found] == ["temperature", "weekend", "location=home", "location=work"]


def test_what_the_study_does_not_know_is_guessed_beside_it(mixed, study):
    kinds = {name: kind for name, kind in study.variable_kinds.items() if name != "weekend"}
    assert [one.name for one in find_variables(mixed, kinds)] == ["temperature", "weekend", "location"]
    assert isinstance(find_variables(mixed, kinds)[1].kind, YesNo)


def test_settings_never_hold_two_levels_at_once(mixed, study):
    location = find_variables(mixed, study.variable_kinds)[2]
    settings = location.kind.list_settings(location.take(mixed.state))
    assert [(one.label, one.columns) for one in settings] == [("other", (0, 0)), ("home", (1, 0)), ("work", (0, 1))]
    # A level that was never logged is not asked about.
    seldom = location.take(mixed.state)[mixed.state[:, 3] == 0]
    assert [one.label for one in location.kind.list_settings(seldom)] == ["other", "home"]
    assert (
        location.kind.describe_values(np.array([[1.0, 0.0], [0.0, 0.0]]))
        == "other 50 %, home 50 %, work 0 % of decision points"
    )


def test_a_number_with_few_values_is_put_to_each_of_them():
    number = Number(centre=1.0, scale=2.0)
    assert [(one.label, one.shown) for one in number.list_settings(np.array([[0.0], [1.0], [0.0]]))] == [("1", 1), ("3", 3)]
    values = np.random.default_rng(0).standard_normal((400, 1))
    grid = number.list_settings(values)
    assert len(grid) == 15
    assert {one.label for one in grid} == {""}
    assert grid[0].columns[0] == np.quantile(values, 0.05)
    assert grid[0].shown == 1 + 2 * grid[0].columns[0]


def test_a_kind_that_says_nothing_is_moved_among_what_was_logged():
    class Odd(sf.data.column_kinds.VariableKind):
        read = from_json = recognize = None

    logged = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert [one.columns for one in Odd().list_settings(logged)] == [(0.0, 1.0), (1.0, 0.0)]


@pytest.fixture(scope="module")
def long_logs():
    return sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=150, seed=3)


@pytest.fixture(scope="module")
def looking_ahead(long_logs):
    return explain(sf.method("ahead").fit(long_logs))


def test_the_card_shows_what_a_prompt_does_now_beside_what_it_costs_later(looking_ahead):
    (found,) = looking_ahead.consequences
    # 125 + 200 · 0.286 now; (0.6 + 0.05 · 1.09) · −250 / (1 − 0.725) + 0.4 · 100 / (1 − 0.3) later.
    assert found.immediate.low < 182 < found.immediate.high
    assert found.delayed.low < -538 < found.delayed.high < 0
    assert found.total.high < 0
    assert max(found.through, key=lambda name: abs(found.through[name])) == "fatigue"
    sections = dict(looking_ahead.card().sections)
    words = " ".join(sections["What an action does now and later"])
    assert f"send has an effect for about {found.felt} decision points" in words
    assert "send pays now and costs more later" in words
    assert "linear model of the consequences" in sections["What it does not know"][0]
    assert looking_ahead.to_dict()["consequences"][0]["felt"] == found.felt


def test_the_page_draws_it(looking_ahead):
    assert "Change in the outcome after send" in looking_ahead.to_html()


def test_a_myopic_policy_has_no_such_section(long_logs):
    found = explain(sf.method("accb", pooling="all").fit(long_logs))
    assert found.consequences == ()
    sections = dict(found.card().sections)
    assert "What an action does now and later" not in sections
    assert "next outcome only" in sections["What it does not know"][0]


def collect_fading(people=40, points=60, seed=3):
    """The effect at state s is 2 − t/30 + s at decision point t = 0, 1, …, for everybody."""
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, points, 1)) + 0.5
    action = rng.integers(0, 2, (people, points))
    effect = 2 - np.arange(points) / 30 + state[..., 0]
    outcome = rng.standard_normal((people, 1)) + action * effect + 0.5 * rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(state, action, outcome, state_names=("s",))


def test_effect_courses_follow_a_fading_effect():
    logs = collect_fading()
    explained = sf.explain.explain(sf.method("ts", pooling={"name": "partial", "time": "smooth"}).fit(logs))
    (course,) = explained.effect_courses
    truth = 2 - (course.position - 1) / 30 + logs.state.mean()
    assert course.position[0] == 1 and course.position[-1] == 61
    assert np.abs(course.effect - truth).max() < 0.35
    assert ((course.low <= truth) & (truth <= course.high)).mean() > 0.8
    assert course.change.low < -2 < course.change.high < -1
    assert dict(explained.card().sections)["How effects change over the study"][0].startswith("send, at the mean state: ")
    assert "Effects over the study" in explained.to_html()
    assert len(explained.to_dict()["effect_courses"][0]["effect"]) == 61


def test_a_constant_effect_has_no_course():
    logs = collect_fading(people=10, points=20)
    assert sf.explain.explain(sf.method("ts", pooling="partial").fit(logs)).effect_courses == ()


def test_coefficients_of_an_effect_that_reverses_are_those_of_the_policy():
    """The prompt helps where the state is high at first, and where it is low in the end."""
    rng = np.random.default_rng(1)
    state = rng.standard_normal((20, 50, 1))
    action = rng.integers(0, 2, (20, 50))
    outcome = action * (1.5 - 3 * np.arange(50) / 50) * state[..., 0] + rng.normal(0, 0.7, (20, 50))
    logs = sf.Trajectories.from_arrays(state, action, outcome)
    explained = sf.explain.explain(sf.method("ts", pooling="partial", time="smooth").fit(logs))
    coefficient = explained.coefficients.of("critic", "s1", "send")
    assert coefficient.interval.high < -1
    assert coefficient.people_below == 20
    assert explained.disagreements == ()
    (people, *_) = dict(explained.card().sections)["How people differ"]
    assert "for the population at a participant's first decision point; standard deviation" in people


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
@pytest.mark.parametrize("seed", range(8))
def test_bands_of_three_decision_points_are_numbers(seed):
    """A variance that is zero is not less than zero by rounding."""
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((1, 3, 2))
    outcome = state.sum(axis=2) + rng.standard_normal((1, 3))
    logs = sf.Trajectories.from_arrays(state, [[1, 1, 1]], outcome)
    for course in find_effect_courses(sf.method("ts", pooling="partial", time="smooth", baseline="smooth").fit(logs)):
        assert np.isfinite([course.low, course.high]).all()
