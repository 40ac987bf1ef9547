"""The rules one by one, at numbers for which the verdict is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.audit.checks import judge
from surefoot.audit.measures import Measures, Sensitivity
from surefoot.inference.intervals import Interval


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=80, seed=0)


@pytest.fixture(scope="module")
def measures(logs):
    return Measures.of(sf.method("ro-accb", pooling="all").fit(logs))


def find_check(measures, name, sensitivity=None):
    checks = judge(measures, measures.sensitivity() if sensitivity is None else sensitivity)
    return next(check for check in checks if check.name == name)


def make_grid(effects, sends=(0.5, 0.5, 0.5)):
    """Fits at 0.75, 1 and 1.5 times the cap, and one without."""
    rows = zip((0.75, 1.0, 1.5, np.inf), (*effects, effects[1]), (*sends, 0.5), strict=True)
    return tuple(Sensitivity(tau, 0.1, Interval(value, 1.0, value - 2, value + 2), send) for tau, value, send in rows)


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
def test_what_hangs_on_tau(measures, effects, sends, verdict):
    assert find_check(measures, "depends on tau", make_grid(effects, sends)).verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(0.09, "fine"), (0.11, "look"), (0.39, "look"), (0.41, "unsafe")])
def test_missing_values_are_graded_by_their_share(logs, share, verdict):
    missing = logs.with_values(reward=np.where(np.arange(len(logs)) < share * len(logs), np.nan, logs.reward))
    kept = missing.with_values(reward=np.random.default_rng(0).permutation(missing.reward))
    check = find_check(Measures.of(sf.method("ro-accb", pooling="all").fit(kept)), "missing values", make_grid((3, 3, 3)))
    assert (check.verdict, round(check.numbers["share"], 2)) == (verdict, share)


@pytest.mark.parametrize(("lost", "of", "verdict"), [(3, 8, "fine"), (5, 8, "look")])
def test_a_participant_who_loses_many_of_few_by_chance_is_not_held_against_the_fit(logs, lost, of, verdict):
    """3 of 8 is 37 %, but by Wilson's limit not surely more than 13 %; 5 of 8 is surely more than 30 %."""
    first, reward = logs.order[:80], logs.reward.copy()
    reward[first[of:]] = np.nan
    fitted = sf.method("ro-accb", pooling="all").fit(logs.with_values(reward=reward))
    reward[first[:of]] = (fitted.logs_.reward - fitted.residuals_)[first[:of]]
    reward[first[:lost]] += 1e5
    found = Measures.of(sf.method("ro-accb", pooling="all").fit(logs.with_values(reward=reward)))
    assert found.total(found.removed)[0] == lost
    assert find_check(found, "depends on participant", make_grid((3, 3, 3))).verdict == verdict


@pytest.mark.parametrize("pooling", ["person", "all"])
def test_residuals_without_a_cap_are_counted_in_the_caps_of_normal_noise(logs, pooling):
    """χ²₁ has quartiles 0.102 and 1.323, so that the cap of normal noise is √3.156 = 1.776 standard deviations."""
    rng = np.random.default_rng(1)
    noise = logs.with_values(reward=rng.standard_normal(len(logs)))
    plain = Measures.of(sf.method("accb", pooling=pooling).fit(noise))
    assert_allclose(plain.relative.std(), 1 / 1.776, rtol=0.01)
    capped = Measures.of(sf.method("ro-accb", pooling=pooling).fit(noise))
    assert_allclose(np.median(np.abs(capped.relative)), np.median(np.abs(plain.relative)), rtol=0.1)


def say_differences(monkeypatch, measures, near, far):
    """The check of the action when removal differs by so many (value, low, high) near the limit and far from it."""
    found = iter([Interval(value, 0.01, low, high) for value, low, high in (near, far, far)])
    monkeypatch.setattr(Measures, "rate_difference", lambda *_: next(found, Interval(0.0, 0.0, 0.0, 0.0)))
    return find_check(measures, "depends on action", make_grid((3, 3, 3)))


def test_the_sentence_about_the_action_agrees_with_its_numbers(monkeypatch, measures):
    small = say_differences(monkeypatch, measures, (-0.016, -0.052, -0.002), (-0.04, -0.06, -0.02))
    assert small.verdict == "fine"
    assert "−1.6 points (95 % interval −5.2 to −0.2) up to 1.5 times" in small.reason
    assert "near the limit the rates differ, but by less than 2 points" in small.reason
    assert "far from the fit more is removed after nothing" in small.reason
    none = say_differences(monkeypatch, measures, (-0.016, -0.052, 0.002), (0.01, 0.005, 0.015))
    assert "the rates differ" not in none.reason
    assert "far from the fit" not in none.reason
    large = say_differences(monkeypatch, measures, (0.03, 0.01, 0.05), (0.03, 0.01, 0.05))
    assert large.verdict == "look"
    assert "less than 2 points" not in large.reason
