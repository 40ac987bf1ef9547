"""The checks one by one, at numbers for which the verdict is known, and every limit at its value and just beyond."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import surefoot as sf
from surefoot.audit import Audit, audit
from surefoot.audit.checks import (
    Shape,
    check_missing,
    check_reactions,
    check_removal,
    check_stability,
    check_standing_still,
    judge,
)
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.inference.intervals import Interval
from surefoot.learning.horizon.look_ahead import MOST_RADIUS, SURE
from surefoot.log_checks import Check, find_worst
from surefoot.numerics.fences import medcouple
from surefoot.policies.features import critic_features
from surefoot.screening import screen
from surefoot.simulators import contaminate

PEOPLE, POINTS = 20, 60
ROWS = PEOPLE * POINTS


@pytest.fixture(scope="module")
def measures():
    logs = sf.simulators.HeartSteps(participants=PEOPLE).collect(sf.policies.coin(2), decision_points=POINTS, seed=0)
    return Measures.of(sf.method("ro-accb", pooling="all").fit(logs))


def remove(measures, rows, relative=None):
    """The measures as they were had these rows been removed; `relative` are all residuals in caps."""
    removed = np.zeros(ROWS, dtype=bool)
    removed[rows] = True
    return replace(measures, removed=removed, relative=measures.relative if relative is None else relative)


def removal_check(measures, name):
    return next(check for check in check_removal(measures) if check.name == name)


def grade(check):
    assert bool(check.remedy) == (check.verdict != "fine"), "a remedy where there is something to remedy"
    return check.verdict


@pytest.mark.parametrize(
    ("count", "verdict"), [(0, "fine"), (150, "fine"), (151, "look"), (300, "look"), (301, "unsafe"), (ROWS, "unsafe")]
)
def test_the_share_removed(measures, count, verdict):
    relative = np.where(np.arange(ROWS) % 3 == 0, -1.5, 1.49)
    check = removal_check(remove(measures, slice(count), relative), "share removed")
    assert grade(check) == verdict
    assert check.numbers == {"share": count / ROWS, "far_share": pytest.approx(-(-count // 3) / ROWS)}
    assert "7.6 % would go from normal noise alone" in check.reason


@pytest.mark.parametrize(
    ("unusable", "verdict"), [(0, "fine"), (120, "fine"), (121, "look"), (480, "look"), (481, "unsafe")]
)
def test_the_share_missing(measures, unusable, verdict):
    used = np.arange(ROWS) >= unusable
    spread = used[np.random.default_rng(0).permutation(ROWS)]
    check = check_missing(replace(measures, used=spread))
    assert (grade(check), check.numbers["share"]) == (verdict, unusable / ROWS)
    assert ("most often" in check.reason) == (unusable > 0)


def test_what_is_missing_most_and_who_has_nothing(measures):
    logs = measures.fitted.logs_
    state, outcome, available = logs.state.copy(), logs.outcome.copy(), np.ones(ROWS, dtype=bool)
    state[:7, 1], outcome[:5], available[:2] = np.nan, np.nan, False
    first = logs.participant_index == 0
    gappy = replace(logs, state=state, outcome=outcome, available=available)
    found = replace(measures, fitted=replace_logs(measures.fitted, gappy), used=~first)
    check = check_missing(found)
    expected = dict.fromkeys(logs.state_names, 0) | {logs.state_names[1]: 5, logs.names.outcome: 3}
    assert check.numbers == {"share": (POINTS - 2) / (ROWS - 2), "by_column": expected}
    assert check.verdict == "look", "4.8 % missing would be fine, but somebody has nothing left"
    assert f"most often '{logs.state_names[1]}' (5)" in check.reason
    assert f"1 of {PEOPLE} people have no usable" in check.reason


def replace_logs(fitted, logs):
    """A stand-in for a fit whose logs are others."""
    return SimpleNamespace(**{name: getattr(fitted, name) for name in ("critic_", "residuals_")}, logs_=logs)


def test_the_shape_is_that_of_the_kept_residuals(measures):
    relative = np.random.default_rng(1).gamma(2.0, size=ROWS) - 1
    found = Shape.of(remove(measures, slice(200), np.where(np.arange(ROWS) < 50, -2.0, relative)))
    kept = relative[200:]
    assert_allclose(found.medcouple, medcouple(kept), atol=1e-12)
    assert_allclose(found.moment, stats.skew(kept))
    assert_allclose(found.error, np.sqrt(1.25 / 1000))
    assert_allclose(found.above, (relative[50:200] > 0).sum() / 200)
    assert Shape.of(remove(measures, slice(0))).above == 0.5
    assert Shape.of(remove(measures, slice(None))).error == pytest.approx(np.sqrt(1.25))


@pytest.mark.parametrize(
    ("above", "most", "side"), [(0.8, 0.8, "above"), (0.5, 0.5, "above"), (0.49, 0.51, "below"), (0.0, 1.0, "below")]
)
def test_the_side_that_has_more(above, most, side):
    shape = Shape(0.3, 0.01, 0.0, above)
    assert (shape.most, shape.side) == (most, side)


@pytest.mark.parametrize(
    ("medcouple", "above", "skewed", "rewarded"),
    [
        (0.12, 0.9, "fine", "look"),  # 0.12 − 2 · 0.01 is the limit, and not beyond it.
        (0.121, 0.9, "look", "unsafe"),
        (-0.121, 0.9, "look", "look"),  # Removed above, while the longer tail is below.
        (-0.121, 0.1, "look", "unsafe"),
        (0.22, 0.9, "look", "unsafe"),
        (0.2201, 0.9, "unsafe", "unsafe"),
        (0.2201, 0.8, "unsafe", "unsafe"),
        (0.2201, 0.79, "look", "look"),
        (-0.2201, 0.2, "unsafe", "unsafe"),
        (-0.2201, 0.21, "look", "look"),
        (0.2201, 0.1, "look", "look"),
    ],
)
def test_a_tail_that_is_cut(monkeypatch, measures, medcouple, above, skewed, rewarded):
    monkeypatch.setattr(Shape, "of", classmethod(lambda *_: Shape(medcouple, 0.01, 0.7, above)))
    heavy = replace(remove(measures, slice(10)), raw_outcome=np.where(np.arange(ROWS) < 10, 1e6, 1.0))
    check = removal_check(heavy, "skewness")
    assert grade(check) == skewed
    assert check.numbers == {"medcouple": medcouple, "moment": 0.7, "removed_above": above}
    assert ("longer tail on the upper side" in check.reason) == (skewed != "fine" and medcouple > 0)
    assert ("that tail is being cut off" in check.reason) == (skewed == "unsafe")
    check = removal_check(heavy, "outcome removed")
    assert grade(check) == rewarded
    assert ("the fit" in check.reason) == (max(above, 1 - above) >= 0.8)
    nothing = replace(remove(measures, slice(0)), raw_outcome=heavy.raw_outcome)
    assert removal_check(nothing, "skewness").verdict == ("fine" if skewed == "fine" else "look"), "nothing was cut"


@pytest.mark.parametrize(("size", "verdict"), [(1.0, "fine"), (1.001, "look")])
def test_a_third_of_the_reward(monkeypatch, measures, size, verdict):
    """400 of 1,200 outcomes of 1 are a third of the whole."""
    monkeypatch.setattr(Shape, "of", classmethod(lambda *_: Shape(0.0, 0.01, 0.0, 0.5)))
    raw = np.where(np.arange(ROWS) < 400, size, -1.0)
    check = removal_check(replace(remove(measures, slice(400)), raw_outcome=raw), "outcome removed")
    assert grade(check) == verdict
    assert check.numbers["decision_point_share"] == pytest.approx(1 / 3)
    assert check.numbers["share"] == pytest.approx(400 * size / (400 * size + 800))
    assert "nearly all" not in check.reason


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (lambda z: np.exp(3 * z) + 1, "try log(x + 0.5)"),
        (lambda z: np.where(z < -1, 0.0, np.exp(3 * z) + 0.2 - np.exp(-3)), "try log(x + 0.1)"),
        (lambda z: np.exp(3 * z) - 1, "plot the residuals"),
        (lambda z: z**2 / (1 + z**2) + 5, "plot the residuals"),
    ],
)
def test_which_transform_is_suggested(monkeypatch, measures, outcome, said):
    monkeypatch.setattr(Shape, "of", classmethod(lambda *_: Shape(0.3, 0.01, 0.0, 1.0)))
    z = np.sort(np.random.default_rng(2).standard_normal(ROWS))
    z[np.argmin(np.abs(z + 1))] = -1.0
    logs = measures.fitted.logs_.with_values(outcome=outcome(z))
    remedy = removal_check(replace(measures, fitted=replace_logs(measures.fitted, logs)), "skewness").remedy
    assert said in remedy
    assert remedy.endswith("raise tau, or use a method that removes nothing")


@pytest.mark.parametrize(
    ("name", "value", "low", "verdict"),
    [
        ("depends on action", 0.02, 0.01, "fine"),
        ("depends on action", 0.021, 0.01, "look"),
        ("depends on action", 0.021, -0.01, "fine"),
        ("depends on action", 0.05, 0.01, "look"),
        ("depends on action", 0.051, 0.01, "unsafe"),
        ("depends on time", 0.03, 0.01, "fine"),
        ("depends on time", 0.031, 0.01, "look"),
        ("depends on time", 0.10, 0.01, "look"),
        ("depends on time", 0.101, 0.01, "unsafe"),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_differences_are_graded_by_size_and_sureness(monkeypatch, measures, name, value, low, verdict, sign):
    found = Interval(value, 0.01, low, 2 * value) if sign > 0 else Interval(-value, 0.01, -2 * value, -low)
    monkeypatch.setattr(Measures, "rate_difference", lambda *_: found)
    check = removal_check(measures, name)
    assert grade(check) == verdict
    numbers = found._asdict()
    assert check.numbers == (numbers if name == "depends on time" else {"near": numbers, "far": numbers, "all": numbers})


def test_rates_by_action_and_by_thirds_of_time(measures):
    """Rates by hand: near and far, after sending and after nothing, in the last 20 and in the first 20 of 60."""
    rng = np.random.default_rng(3)
    relative = rng.choice([-3.0, -1.2, 1.2, 3.0], size=ROWS)
    removed = np.flatnonzero(rng.random(ROWS) < 0.2)
    found, logs = remove(measures, removed, relative), measures.fitted.logs_
    gone = np.isin(np.arange(ROWS), removed)
    sent = logs.action == 1
    numbers = removal_check(found, "depends on action").numbers
    for name, events in (("near", gone & (np.abs(relative) < 2)), ("far", gone & (np.abs(relative) > 2)), ("all", gone)):
        assert_allclose(numbers[name]["value"], events[sent].mean() - events[~sent].mean())
        assert numbers[name]["low"] < numbers[name]["value"] < numbers[name]["high"]
    last, first = logs.time >= 40, logs.time < 20
    assert_allclose(removal_check(found, "depends on time").numbers["value"], gone[last].mean() - gone[first].mean())


@pytest.mark.parametrize(("people", "verdict"), [(0, "fine"), (1, "look"), (4, "look"), (5, "unsafe")])
def test_people_who_lose_much(measures, people, verdict):
    """23 of 60 is surely more than a quarter (Wilson: 27 %), 15 of 60 is not; 4 of 20 people are a fifth."""
    place = measures.fitted.logs_.time
    lost = np.where(measures.fitted.logs_.participant_index < people, 23, 15)
    check = removal_check(remove(measures, np.flatnonzero(place < lost)), "depends on participant")
    assert grade(check) == verdict
    least, most = 15 / 60, (23 if people else 15) / 60
    assert check.numbers == {"least": least, "median": least, "most": most}
    assert (f"{people} of 20 lose significantly more than 25 %" in check.reason) == (people > 0)
    assert "by participant 0" in check.reason


def make_grid(*fits):
    return tuple(
        Sensitivity(tau, 0.1, Interval(value, 1.0, value - 2, value + 2), send, is_audited=tau == 1)
        for tau, value, send in (*fits, (np.inf, 9, 0))
    )


@pytest.mark.parametrize(
    ("fits", "verdict", "least", "most"),
    [
        ([(0.69, -9, 0), (0.7, 1, 0.4), (1.0, 3, 0.5), (1.6, 5, 0.6), (1.61, 20, 1)], "fine", 1, 5),
        ([(0.7, 0.9, 0.5), (1.0, 3, 0.5)], "look", 0.9, 3),
        ([(1.0, 3, 0.5), (1.6, 5.1, 0.5)], "look", 3, 5.1),
        ([(0.7, 2.5, 0.5), (1.0, 0, 0.5), (1.6, -2, 0.5)], "look", -2, 2.5),
        ([(0.7, 2.5, 0.5), (1.0, 0, 0.5), (1.6, -2.5, 0.5)], "unsafe", -2.5, 2.5),
        ([(0.7, 2.0, 0.5), (1.0, 0, 0.5), (1.6, -2.5, 0.5)], "look", -2.5, 2.0),
    ],
)
def test_only_neighbours_of_the_limit_count(measures, fits, verdict, least, most):
    check = next(one for one in judge(measures, make_grid(*fits)) if one.name == "depends on tau")
    assert (grade(check), check.numbers) == (verdict, {"least": least, "most": most})
    assert "Without the cap they are 9" in check.reason


def test_the_order_of_the_checks_and_their_names(measures):
    names = ["missing values", "share removed", "skewness", "outcome removed", "depends on action"]
    assert [one.name for one in judge(measures, make_grid((1.0, 3, 0.5)))] == [
        *names,
        "depends on time",
        "depends on participant",
        "depends on tau",
        "people change",
    ]
    assert find_worst(["look", "unsafe", "fine"]) == "unsafe"
    assert find_worst(["fine", "look"]) == "look"
    ridge = Measures.of(sf.method("accb", pooling="all").fit(measures.fitted.logs_))
    found = judge(ridge, ridge.sensitivity())
    assert [one.name for one in found] == [
        "missing values",
        "share removed",
        "skewness",
        "depends on tau",
        "people change",
    ]
    assert found[1].numbers == {"share": 0.0, "far_share": 0.0}
    assert f"all {ROWS:,} decision points count" in found[1].reason


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=80, seed=0)


@pytest.fixture(scope="module")
def pooled(logs):
    return Measures.of(sf.method("ro-accb", pooling="all").fit(logs))


def find_check(pooled, name, sensitivity=None):
    checks = judge(pooled, pooled.sensitivity() if sensitivity is None else sensitivity)
    return next(check for check in checks if check.name == name)


def make_four(effects, sends=(0.5, 0.5, 0.5)):
    """Fits at 0.75, 1 and 1.5 times the cap, and one without."""
    rows = zip((0.75, 1.0, 1.5, np.inf), (*effects, effects[1]), (*sends, 0.5), strict=True)
    return tuple(
        Sensitivity(tau, 0.1, Interval(value, 1.0, value - 2, value + 2), send, is_audited=tau == 1)
        for tau, value, send in rows
    )


@pytest.mark.parametrize(
    ("effects", "sends", "verdict"),
    [
        ((3, 3, 3), (0.5, 0.5, 0.5), "fine"),
        ((3, 3, 3), (0.4, 0.5, 0.59), "fine"),
        ((3, 3, 3), (0.4, 0.5, 0.61), "look"),  # The send rate moves by more than 20 points.
        ((5.1, 3, 3), (0.5, 0.5, 0.5), "look"),  # The effect leaves its own interval.
        ((3, 0, -1.9), (0.5, 0.5, 0.5), "look"),  # Positive for sure at one height, but at no other negative for sure.
        ((3, 0, -2.1), (0.5, 0.5, 0.5), "unsafe"),
    ],
)
def test_what_hangs_on_tau(pooled, effects, sends, verdict):
    assert find_check(pooled, "depends on tau", make_four(effects, sends)).verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(0.09, "fine"), (0.11, "look"), (0.39, "look"), (0.41, "unsafe")])
def test_missing_values_are_graded_by_their_share(logs, share, verdict):
    missing = logs.with_values(outcome=np.where(np.arange(len(logs)) < share * len(logs), np.nan, logs.outcome))
    kept = missing.with_values(outcome=np.random.default_rng(0).permutation(missing.outcome))
    check = find_check(Measures.of(sf.method("ro-accb", pooling="all").fit(kept)), "missing values", make_four((3, 3, 3)))
    assert (check.verdict, round(check.numbers["share"], 2)) == (verdict, share)


@pytest.mark.parametrize(("lost", "of", "verdict"), [(3, 8, "fine"), (5, 8, "look")])
def test_a_participant_who_loses_many_of_few_by_chance_is_not_held_against_the_fit(logs, lost, of, verdict):
    """3 of 8 is 37 %, but by Wilson's limit not surely more than 13 %; 5 of 8 is surely more than 30 %."""
    first, outcome = logs.order[:80], logs.outcome.copy()
    outcome[first[of:]] = np.nan
    fitted = sf.method("ro-accb", pooling="all").fit(logs.with_values(outcome=outcome))
    outcome[first[:of]] = (fitted.logs_.outcome - fitted.residuals_)[first[:of]]
    outcome[first[:lost]] += 1e5
    found = Measures.of(sf.method("ro-accb", pooling="all").fit(logs.with_values(outcome=outcome)))
    assert found.total(found.removed)[0] == lost
    assert find_check(found, "depends on participant", make_four((3, 3, 3))).verdict == verdict


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_residuals_without_a_cap_are_counted_in_the_caps_of_normal_noise(logs, pooling):
    """χ²₁ has quartiles 0.102 and 1.323, so that the cap of normal noise is √3.156 = 1.776 standard deviations."""
    rng = np.random.default_rng(1)
    noise = logs.with_values(outcome=rng.standard_normal(len(logs)))
    plain = Measures.of(sf.method("accb", pooling=pooling).fit(noise))
    assert_allclose(plain.relative.std(), 1 / 1.776, rtol=0.01)
    capped = Measures.of(sf.method("ro-accb", pooling=pooling).fit(noise))
    assert_allclose(np.median(np.abs(capped.relative)), np.median(np.abs(plain.relative)), rtol=0.1)


def say_differences(monkeypatch, pooled, near, far):
    """The check of the action when removal differs by so many (value, low, high) near the limit and far from it."""
    found = iter([Interval(value, 0.01, low, high) for value, low, high in (near, far, far)])
    monkeypatch.setattr(Measures, "rate_difference", lambda *_: next(found, Interval(0.0, 0.0, 0.0, 0.0)))
    return find_check(pooled, "depends on action", make_four((3, 3, 3)))


def test_the_sentence_about_the_action_agrees_with_its_numbers(monkeypatch, pooled):
    small = say_differences(monkeypatch, pooled, (-0.016, -0.052, -0.002), (-0.04, -0.06, -0.02))
    assert small.verdict == "fine"
    assert "−1.6 points (95 % interval −5.2 to −0.2) up to 1.5 times" in small.reason
    assert "near the limit the rates differ, but by less than 2 points" in small.reason
    assert "far from the fit more is removed after nothing" in small.reason
    none = say_differences(monkeypatch, pooled, (-0.016, -0.052, 0.002), (0.01, 0.005, 0.015))
    assert "the rates differ" not in none.reason
    assert "far from the fit" not in none.reason
    large = say_differences(monkeypatch, pooled, (0.03, 0.01, 0.05), (0.03, 0.01, 0.05))
    assert large.verdict == "look"
    assert "less than 2 points" not in large.reason


@pytest.fixture(scope="module")
def steady():
    return sf.simulators.HeartSteps(participants=25).collect(sf.policies.coin(2), decision_points=60, seed=3)


def fade(steady, coef):
    x = critic_features(steady.state, steady.action, 2)
    return steady.with_values(outcome=steady.outcome + steady.time / 100 * (x @ coef))


def check_change(steady, name="linucb", **parameters):
    return sf.audit.audit(sf.method(name, pooling="all", **parameters).fit(steady)).check("people change")


def test_people_who_do_not_change(steady):
    found = check_change(steady)
    assert found.verdict == "fine"
    assert found.reason.startswith("no coefficient moves significantly over the study, in all people alike (p = ")
    assert "or in each individually (p = " in found.reason
    assert found.reason.endswith("The logs do not show whether the effect lasts or fades to nothing")
    strong = steady.with_values(outcome=steady.outcome + 3000 * steady.action)
    assert "does not distinguish" not in check_change(strong).reason


def test_habituation_is_found_and_the_remedy_named(steady):
    faded = fade(steady, np.array([0, 0, 0, 0, -5000.0, 0, 0, 0]))
    found = check_change(faded, "hb-linucb")
    assert found.verdict == "look"
    assert "the mean effect of sending changes by −" in found.reason
    assert "write [method] forgetting = 0.967 or" in found.remedy and "random_walk = 'estimate'" in found.remedy
    assert found.numbers["effect_change"]["high"] < 0 and found.numbers["effect_p_value"] < 0.005
    forgetting = check_change(faded, forgetting=0.967)
    assert (forgetting.verdict, forgetting.remedy) == ("fine", "")
    assert "The fit allows for this" in forgetting.reason
    told = " ".join(sf.audit.audit(sf.method("linucb", pooling="all").fit(faded)).summary().split())
    assert "look people change" in told and "forgetting = 0.967" in told


def test_effects_that_change_for_everybody_allow_for_it_and_not_for_individual_changes():
    rng = np.random.default_rng(5)
    state = rng.standard_normal((30, 200, 1))
    action = rng.integers(0, 2, (30, 200))
    noise = rng.standard_normal((30, 200)) + state[..., 0]
    fading = noise + action * np.linspace(1.5, 0, 200)
    walking = fading + 0.15 * rng.standard_normal((30, 200)).cumsum(axis=1)
    pooling = {"name": "partial", "time": "smooth"}
    checks = []
    for outcome in (fading, walking):
        logs = sf.Trajectories.from_arrays(state, action, outcome)
        checks.append(sf.audit.audit(sf.method("ts", pooling=pooling).fit(logs)).check("people change"))
    followed, individual = checks
    assert (followed.verdict, followed.remedy) == ("fine", "")
    assert "The fit allows for this" in followed.reason
    assert followed.numbers["effect_p_value"] < 0.001 < followed.numbers["wandering_p_value"]
    assert individual.verdict == "look"
    assert "write [method] random_walk = 'estimate' instead of time_effects" in individual.remedy


@pytest.mark.parametrize(("step", "verdict"), [(0.0, "look"), (0.05, "fine")])
def test_a_random_walk_allows_for_it_unless_it_stands_still(steady, step, verdict):
    faded = fade(steady, np.array([0, 0, 0, 0, -5000.0, 0, 0, 0]))
    fitted = sf.method("linucb", pooling="partial", random_walk=step).fit(faded)
    audit = sf.audit.audit(fitted)
    assert audit.check("people change").verdict == verdict
    assert audit.effect.low < fitted.critic_coef_[:, 4].mean() < audit.effect.high


def test_another_coefficient_that_moves_is_named(steady):
    found = check_change(fade(steady, np.array([0, 6000.0, 0, 0, 0, 0, 0, 0])))
    assert found.verdict == "look" and "most of all that of 'weather' under 'nothing'" in found.reason


def test_few_people_cannot_tell(steady):
    found = check_change(steady[steady.participant_index < 8])
    assert found.verdict == "fine" and "8 people have enough decision points" in found.reason


def test_people_who_wander_are_told_of_a_random_walk(steady):
    steps = np.random.default_rng(1).standard_normal((25, 60)).cumsum(axis=1)
    walked = steady.with_values(outcome=steady.outcome + 500 * steps[steady.participant_index, steady.time])
    found = check_change(walked)
    assert found.verdict == "look" and "People's coefficients move individually (p " in found.reason
    assert "most of all that of 'intercept' under 'nothing'" in found.reason
    assert "write [method] pooling = 'partial' and random_walk = 'estimate': people change individually" in found.remedy
    assert "forgetting =" not in found.remedy and found.numbers["wandering_p_value"] < 0.002
    fitted = sf.method("linucb", pooling="partial", random_walk="estimate").fit(walked)
    assert sf.audit.audit(fitted).check("people change").verdict == "fine"


def test_few_decision_points_cannot_tell_of_wandering(steady):
    assert "nobody has the 40 decision points that this takes" in check_change(steady[steady.time < 30]).reason


def fit(state, action, outcome):
    with pytest.warns(sf.FitWarning):
        return sf.method("ahead").fit(sf.Trajectories.from_arrays(state, action, outcome))


def test_states_that_react_and_settle_are_fine():
    logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=100, seed=0)
    found = audit(sf.method("ahead").fit(logs))
    assert found.check("states react").verdict == "fine"
    assert "fatigue to send" in found.check("states react").reason
    assert found.check("long run is stable").verdict == "fine"
    assert 0.6 < found.check("long run is stable").numbers["radius"] < 0.8


def test_a_myopic_method_is_not_asked():
    logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=50, seed=0)
    names = [check.name for check in audit(sf.method("accb").fit(logs)).checks]
    assert "states react" not in names


@pytest.mark.filterwarnings("ignore::surefoot.errors.FitWarning")
def test_no_reaction_and_no_long_run_are_unsafe():
    rng = np.random.default_rng(1)
    action = rng.integers(0, 2, (30, 60))
    deaf = audit(fit(rng.standard_normal((30, 60, 1)), action, rng.standard_normal((30, 60))))
    assert deaf.check("states react").verdict == "unsafe"
    assert "dose" in deaf.check("states react").remedy
    growing = np.cumsum(action + 0.1 * rng.random((30, 60)), axis=1)[..., None] - action[..., None]
    endless = audit(fit(growing, action, rng.standard_normal((30, 60))))
    assert endless.check("long run is stable").verdict == "unsafe"


@pytest.mark.parametrize(
    ("radius", "verdict"), [(0.95, "fine"), (0.951, "look"), (MOST_RADIUS, "look"), (MOST_RADIUS + 1e-3, "unsafe")]
)
@pytest.mark.parametrize(("p_value", "reacts"), [(SURE / 2, "unsafe"), (SURE / 2 - 1e-6, "fine")])
def test_reactions_and_radius_at_their_limits(radius, verdict, p_value, reacts):
    """Two reactions share the error that one would have."""
    shift = Interval(0.5, 0.2, 0.1, 0.9)
    found = [SimpleNamespace(variable=at, action=1, shift=shift, p_value=p) for at, p in ((0, p_value), (1, 0.7))]
    view = SimpleNamespace(reactions=found, model=SimpleNamespace(radius=np.array([radius])))
    logs = SimpleNamespace(state_names=("dose", "mood"), action_names=("nothing", "send"))
    react = check_reactions(logs, view)
    stable = check_stability(view)
    assert (react.name, react.verdict, bool(react.remedy)) == ("states react", reacts, reacts != "fine")
    assert react.numbers == {
        "dose, send": {"shift": 0.5, "standard_error": 0.2, "p_value": p_value},
        "mood, send": {"shift": 0.5, "standard_error": 0.2, "p_value": 0.7},
    }
    assert ("dose to send" if reacts == "fine" else "(dose has") in react.reason
    assert "mood" not in react.reason
    assert (stable.name, stable.verdict, bool(stable.remedy)) == ("long run is stable", verdict, verdict != "fine")
    assert stable.numbers == {"radius": radius}


def study(seed, people=30):
    return sf.simulators.HeartSteps(participants=people).collect(sf.policies.coin(2), decision_points=210, seed=seed)


def still(logs):
    return check_standing_still(logs, logs.outcome)


def test_identical_zeros_in_runs_are_named_even_without_a_screen():
    logs = contaminate(study(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs
    found = audit(sf.method("accb").fit(logs)).check("values that stand still")
    assert found.verdict == "unsafe"
    assert 0.15 < found.numbers["identical"] < 0.2
    assert found.numbers["zeros"] == pytest.approx(0.2, abs=0.005)
    assert found.numbers["zeros_in_runs"] > 0.8
    assert "[screen]" in found.remedy


def test_a_dead_sensor_is_named_and_the_screen_settles_it():
    logs = contaminate(study(3), mechanism="stuck", ratio=0.2, run_length=20, seed=4).logs
    assert "'outcome', whose values hardly ever recur otherwise" in still(logs).reason
    assert still(screen(logs).logs).verdict == "fine"


def test_honest_data_may_repeat():
    clean = study(5)
    rng = np.random.default_rng(6)
    for outcome in (
        clean.outcome,
        np.maximum(np.round(clean.outcome / 100), 0),
        rng.integers(0, 2, len(clean)).astype(float),
    ):
        assert still(clean.with_values(outcome=outcome)).verdict == "fine"
    walk = sf.simulators.ChainWalk(participants=20).collect(sf.policies.coin(2), decision_points=210, seed=7)
    assert still(walk).verdict != "unsafe"


def test_the_chance_of_runs_is_that_of_independent_zeros():
    logs = study(8, people=200)
    zeros = np.random.default_rng(9).random(len(logs)) < 0.5
    numbers = still(logs.with_values(outcome=np.where(zeros, 0.0, 1.0 + logs.outcome**2))).numbers
    assert numbers["by_chance"] == pytest.approx(0.5**4 * (5 - 4 * 0.5), rel=0.1)
    assert numbers["zeros_in_runs"] == pytest.approx(numbers["by_chance"], rel=0.1)


def repeat(share, column="outcome", rows=1000):
    """One participant with two continuous columns, of which one repeats the value before at a share of the rows."""
    rng = np.random.default_rng(0)
    values = {"state": rng.standard_normal(rows), "outcome": 100 + rng.standard_normal(rows)}
    for row in np.arange(1, rows, 2)[: round(share * rows)]:
        for name in ("state", "outcome") if column == "both" else (column,):
            values[name][row] = values[name][row - 1]
    return sf.Trajectories.from_arrays(values["state"][None, :, None], np.zeros((1, rows)), values["outcome"][None])


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.0, "fine"), (0.02, "fine"), (0.021, "look"), (0.1, "look"), (0.101, "unsafe"), (0.499, "unsafe")],
)
@pytest.mark.parametrize("column", ["outcome", "state", "both"])
def test_as_much_may_repeat_as_the_limits_say(share, verdict, column):
    logs = repeat(share, column)
    found = still(logs)
    assert found.verdict == verdict and bool(found.remedy) == (verdict != "fine")
    assert found.numbers["identical"] == (share if column == "both" else 0.0)
    names = {"both": ("s1", "outcome"), "state": ("s1",), "outcome": ("outcome",)}[column]
    assert found.numbers["repeats"] == ({} if share <= 0.02 else dict.fromkeys(names, share))
    assert found.reason.startswith(f"{100 * share if column == 'both' else 0:.1f} % of the decision points have exactly")
    assert ("hardly ever recur otherwise, repeats at" in found.reason) == (share > 0.02)


def test_what_repeats_by_nature_is_not_odd():
    found = still(repeat(0.5))
    assert found.numbers["repeats"] == {} and found.verdict == "fine"
    yes_no = sf.Trajectories.from_arrays(np.ones((1, 100, 1)), np.zeros((1, 100)), np.ones((1, 100)))
    found = still(yes_no)
    assert (found.numbers["identical"], found.verdict) == (0.99, "fine"), "nothing there is continuous"


def test_the_first_decision_point_of_a_participant_repeats_nobody():
    state = np.random.default_rng(1).standard_normal((3, 4, 1))
    state[1, 0], state[2, 0] = state[0, 3], state[1, 3]
    outcome = np.ones((3, 4))
    assert still(sf.Trajectories.from_arrays(state, np.zeros((3, 4)), outcome)).numbers["identical"] == 0.0


def test_zeros_in_runs_by_hand():
    """Runs of 5 and 4 zeros, one across two people, and a lonely zero; a missing outcome is no zero."""
    outcome = np.array([[0, 0, 0, 0, 0, 1, 0, 2, 3, 0], [0, 0, 0, 0, 5, 6, 7, 8, 9, np.nan]])
    logs = sf.Trajectories.from_arrays(np.arange(20.0).reshape(2, 10, 1), np.zeros((2, 10)), outcome)
    found = still(logs)
    assert found.numbers["zeros"] == pytest.approx(11 / 19)
    assert found.numbers["zeros_in_runs"] == pytest.approx(5 / 11)
    p = np.array([7 / 10, 4 / 9])
    assert found.numbers["by_chance"] == pytest.approx((np.array([7, 4]) * p**4 * (5 - 4 * p)).sum() / 11)
    assert "57.9 % of 'outcome' are 0, 45 % of these in runs of 5 or more (by chance" in found.reason


@pytest.mark.parametrize(("run", "verdict"), [(50, "fine"), (60, "look"), (300, "look")])
def test_zeros_that_chance_does_not_explain_are_looked_at_and_never_unsafe(run, verdict):
    """A run of zeros among 1,000 rows, with a state that never repeats."""
    rng = np.random.default_rng(2)
    outcome = 1 + rng.random(1000)
    outcome[:run] = np.where(np.arange(run) % 2, 0.0, 0.0)
    logs = sf.Trajectories.from_arrays(rng.standard_normal((1, 1000, 1)), np.zeros((1, 1000)), np.round(outcome[None], 1))
    found = still(logs)
    excess = found.numbers["zeros"] * (found.numbers["zeros_in_runs"] - found.numbers["by_chance"])
    assert found.verdict == verdict == ("look" if excess > 0.05 else "fine")


def test_counts_of_everybody(measures):
    relative = np.where(np.arange(ROWS) % 2 == 0, 2.0, -2.0)
    found = Audit(
        replace(measures, removed=np.arange(ROWS) < 7, relative=relative, raw_outcome=np.ones(ROWS)),
        {"steps": np.arange(PEOPLE)},
        (Check("a", "fine", "…"), Check("b", "look", "…")),
        make_grid((1.0, 3, 0.5)),
    )
    first = measures.fitted.logs_.participant_index[:7]
    lost = np.bincount(first, minlength=PEOPLE)
    totals = found.totals()
    assert (totals["people"], totals["decision_points"], totals["used"], totals["removed"]) == (PEOPLE, ROWS, ROWS, 7)
    assert (totals["removed_above"], totals["removed_below"], totals["available"]) == (4, 3, ROWS)
    assert totals["outcome_share"] == pytest.approx(7 / ROWS)
    assert totals["implausible steps"] == PEOPLE * (PEOPLE - 1) / 2
    people = found.people("pyarrow").to_pydict()
    assert people["removed"] == lost.tolist()
    sizes = np.bincount(first, np.abs(measures.fitted.residuals_[:7]), minlength=PEOPLE)
    assert_allclose(people["mean_removed_residual"], sizes / np.maximum(lost, 1))
    assert_allclose(people["outcome_share"], lost / POINTS)
    assert people["missing outcome"] == [0] * PEOPLE
    assert found.verdict == "look"
    assert found.effect.value == 3
    assert found.check("b").verdict == "look"
    plain = found.to_dict()
    assert plain["verdict"] == "look"
    assert [one["name"] for one in plain["checks"]] == ["a", "b"]
    assert plain["sensitivity"][0]["effect"] == {"value": 3, "standard_error": 1.0, "low": 1, "high": 5}
    assert plain["people"][0]["removed"] == lost[0]
    assert plain["totals"] == totals
