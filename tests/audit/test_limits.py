"""Every limit of the audit at its value and just beyond, and its numbers computed another way."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import surefoot as sf
from surefoot.audit.checks import judge
from surefoot.audit.data_checks import check_missing
from surefoot.audit.findings import AuditFindings
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.audit.removal_checks import Shape, check_removal
from surefoot.inference.intervals import Interval
from surefoot.inference.sandwich import compute_influences
from surefoot.log_checks.check import Check, find_worst
from surefoot.numerics.skewness import medcouple
from surefoot.policies.features import critic_features

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
    state, reward, available = logs.state.copy(), logs.reward.copy(), np.ones(ROWS, dtype=bool)
    state[:7, 1], reward[:5], available[:2] = np.nan, np.nan, False
    first = logs.participant_index == 0
    gappy = replace(logs, state=state, reward=reward, available=available)
    found = replace(measures, fitted=replace_logs(measures.fitted, gappy), used=~first)
    check = check_missing(found)
    expected = dict.fromkeys(logs.state_names, 0) | {logs.state_names[1]: 5, logs.names.reward: 3}
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
    heavy = replace(remove(measures, slice(10)), raw_reward=np.where(np.arange(ROWS) < 10, 1e6, 1.0))
    check = removal_check(heavy, "skewness")
    assert grade(check) == skewed
    assert check.numbers == {"medcouple": medcouple, "moment": 0.7, "removed_above": above}
    assert ("longer tail on the upper side" in check.reason) == (skewed != "fine" and medcouple > 0)
    assert ("that tail is being cut off" in check.reason) == (skewed == "unsafe")
    check = removal_check(heavy, "reward removed")
    assert grade(check) == rewarded
    assert ("the fit" in check.reason) == (max(above, 1 - above) >= 0.8)
    nothing = replace(remove(measures, slice(0)), raw_reward=heavy.raw_reward)
    assert removal_check(nothing, "skewness").verdict == ("fine" if skewed == "fine" else "look"), "nothing was cut"


@pytest.mark.parametrize(("size", "verdict"), [(1.0, "fine"), (1.001, "look")])
def test_a_third_of_the_reward(monkeypatch, measures, size, verdict):
    """400 of 1,200 rewards of 1 are a third of the whole."""
    monkeypatch.setattr(Shape, "of", classmethod(lambda *_: Shape(0.0, 0.01, 0.0, 0.5)))
    raw = np.where(np.arange(ROWS) < 400, size, -1.0)
    check = removal_check(replace(remove(measures, slice(400)), raw_reward=raw), "reward removed")
    assert grade(check) == verdict
    assert check.numbers["decision_point_share"] == pytest.approx(1 / 3)
    assert check.numbers["share"] == pytest.approx(400 * size / (400 * size + 800))
    assert "nearly all" not in check.reason


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (lambda z: np.exp(3 * z) + 1, "try log(x + 0.5)"),
        (lambda z: np.where(z < -1, 0.0, np.exp(3 * z) + 0.2 - np.exp(-3)), "try log(x + 0.1)"),
        (lambda z: np.exp(3 * z) - 1, "plot the reward's residuals"),
        (lambda z: z**2 / (1 + z**2) + 5, "plot the reward's residuals"),
    ],
)
def test_which_transform_is_suggested(monkeypatch, measures, reward, said):
    monkeypatch.setattr(Shape, "of", classmethod(lambda *_: Shape(0.3, 0.01, 0.0, 1.0)))
    z = np.sort(np.random.default_rng(2).standard_normal(ROWS))
    z[np.argmin(np.abs(z + 1))] = -1.0
    logs = measures.fitted.logs_.with_values(reward=reward(z))
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
    assert (f"{people} of 20 surely lose more than 25 %" in check.reason) == (people > 0)
    assert "participant 0's" in check.reason


def make_grid(*fits):
    return tuple(
        Sensitivity(tau, 0.1, Interval(value, 1.0, value - 2, value + 2), send)
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
    assert "without the cap 9" in check.reason


def test_the_order_of_the_checks_and_their_names(measures):
    names = ["missing values", "share removed", "skewness", "reward removed", "depends on action"]
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
    assert f"all {ROWS} decision points count" in found[1].reason


@pytest.mark.parametrize("actions", [2, 3])
def test_a_pooled_effect_has_the_error_of_its_coefficients(actions):
    """c is the mean over decision points and actions of x(s, a) − x(s, 0), the effect cᵀw with the sandwich's error."""
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=30, seed=4)
    if actions == 3:
        codes = np.random.default_rng(0).integers(0, 3, len(logs))
        logs = sf.Trajectories.from_arrays(
            logs.state.reshape(12, 30, -1),
            codes.reshape(12, 30),
            (logs.reward + 5 * codes).reshape(12, 30),
            actions=["0", "1", "2"],
        )
    fitted = sf.method("ro-accb", pooling="all").fit(logs)
    found = next(one for one in Measures.of(fitted).sensitivity() if one.tau == 1)
    by_action = [critic_features(logs.state, np.full(len(logs), a), actions).mean(axis=0) for a in range(actions)]
    c = np.mean(by_action[1:], axis=0) - by_action[0]
    pull = compute_influences(fitted).critic @ c
    error = np.sqrt(11 / 12 * (pull**2).sum())
    expected = (c @ fitted.critic_coef_[0], error, *stats.t.interval(0.95, 11, c @ fitted.critic_coef_[0], error))
    assert_allclose(found.effect, expected, rtol=1e-9)
    send = 1 - fitted.policies_.probabilities(logs.participant, logs.state)[:, 0]
    assert_allclose((found.removed, found.send_rate), ((fitted.weights_ == 0).mean(), send.mean()))


def test_counts_of_everybody(measures):
    relative = np.where(np.arange(ROWS) % 2 == 0, 2.0, -2.0)
    found = AuditFindings(
        replace(remove(measures, slice(7), relative), raw_reward=np.ones(ROWS)),
        {"steps": np.arange(PEOPLE)},
        (Check("a", "fine", "…"), Check("b", "look", "…")),
        make_grid((1.0, 3, 0.5)),
    )
    first = measures.fitted.logs_.participant_index[:7]
    lost = np.bincount(first, minlength=PEOPLE)
    totals = found.totals()
    assert (totals["people"], totals["decision_points"], totals["used"], totals["removed"]) == (PEOPLE, ROWS, ROWS, 7)
    assert (totals["removed_above"], totals["removed_below"], totals["available"]) == (4, 3, ROWS)
    assert totals["reward_share"] == pytest.approx(7 / ROWS)
    assert totals["implausible steps"] == PEOPLE * (PEOPLE - 1) / 2
    people = found.people("pyarrow").to_pydict()
    assert people["removed"] == lost.tolist()
    sizes = np.bincount(first, np.abs(measures.fitted.residuals_[:7]), minlength=PEOPLE)
    assert_allclose(people["mean_removed_residual"], sizes / np.maximum(lost, 1))
    assert_allclose(people["reward_share"], lost / POINTS)
    assert people["missing reward"] == [0] * PEOPLE
    assert found.verdict == "look"
    assert found.effect.value == 3
    assert found.check("b").verdict == "look"
    plain = found.to_dict()
    assert plain["verdict"] == "look"
    assert [one["name"] for one in plain["checks"]] == ["a", "b"]
    assert plain["sensitivity"][0]["effect"] == {"value": 3, "standard_error": 1.0, "low": 1, "high": 5}
    assert plain["people"][0]["removed"] == lost[0]
    assert plain["totals"] == totals
