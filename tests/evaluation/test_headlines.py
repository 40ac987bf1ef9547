"""Every sentence of an evaluation, to the letter, on both sides of its limits."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.evaluation import Contrast, LongRunValue, Value, evaluate
from surefoot.evaluation.candidates import Candidate, choose_cross_fit, list_candidates, note_same_people
from surefoot.evaluation.headlines import _describe_contrast, _describe_value, describe_long_run, write_headlines
from surefoot.inference.intervals import Interval
from surefoot.reports.reward_units import RewardUnit

STEPS, LOGGED_STEPS = RewardUnit("steps"), RewardUnit("steps", "log(x + 0.5)")
WORTH = "mine is worth 120 steps per decision point (100 to 140)"


def value(low, high, unit=STEPS):
    found = Value("mine", "doubly robust", Interval(120.0, 10.0, 100.0, 140.0), Interval((low + high) / 2, 5.0, low, high))
    return _describe_value(found, unit)


@pytest.mark.parametrize(
    ("low", "high", "sentence"),
    [
        (0.5, 20.5, f"{WORTH}, more than what was done, by 10 (0 to 20)."),
        (0.0, 20.0, f"{WORTH}; these logs cannot tell whether that is more than what was done (10 (0 to 20))."),
        (-20.0, 0.0, f"{WORTH}; these logs cannot tell whether that is more than what was done (−10 (−20 to 0))."),
        (-20.5, -0.5, f"{WORTH}, less than what was done, by 10 (0 to 20)."),
    ],
)
def test_more_less_or_nobody_knows(low, high, sentence):
    assert value(low, high) == sentence


def test_a_difference_of_logarithms_is_said_in_percent_of_its_own_sign():
    found = value(-0.2, -0.1, LOGGED_STEPS)
    assert "less than what was done, by 0.15 (0.10 to 0.20), about −13.9 % steps (−18.1 % to −9.5 %)." in found
    assert "log(steps + 0.5) per decision point" in found


@pytest.mark.parametrize(
    ("low", "ending"), [(1.0, "."), (0.0, "; the interval includes 0."), (-1.0, "; the interval includes 0.")]
)
def test_a_contrast_says_when_zero_is_possible(low, ending):
    found = _describe_contrast(Contrast("always", "never", Interval(10.0, 5.0, low, 20.0)), STEPS)
    assert found.startswith("always − never: 10")
    assert found.endswith(ending) and ("includes 0" in found) == (low <= 0)


@pytest.mark.parametrize(
    ("low", "high", "immediate", "told"),
    [
        (10.0, 30.0, 20.0, "20 more than never (10 to 30)."),
        (-30.0, -10.0, -20.0, "20 less than never (10 to 30)."),
        (0.0, 40.0, 20.0, "not surely different from never (20, 0 to 40)."),
        (-40.0, 0.0, -20.0, "not surely different from never (−20, −40 to 0)."),
    ],
)
def test_the_long_run_beside_never(low, high, immediate, told):
    found = LongRunValue("mine", Interval(120.0, 10.0, 100.0, 140.0), Interval((low + high) / 2, 5.0, low, high), immediate)
    expected = f"In the long run mine is worth 120 steps per decision point (100 to 140), {told}"
    assert describe_long_run(found, STEPS).startswith(expected)


def test_a_policy_that_pays_now_and_costs_later():
    found = LongRunValue("mine", Interval(120.0, 10.0, 100.0, 140.0), Interval(-20.0, 5.0, -30.0, -10.0), 7.4)
    assert describe_long_run(found, STEPS).endswith(f" By the next outcome alone it would seem +7: {found.disagreement}.")
    assert found.disagreement


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=30, seed=0)


def test_a_sentence_for_every_policy_and_every_baseline_that_sends(logs):
    found = evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
    told = write_headlines(found)
    starts = ["mostly is worth", "never is worth", "always is worth", "always − never"]
    assert [one.startswith(start) for one, start in zip(told, starts, strict=True)] == [True] * 4


def test_candidates_are_described(logs):
    given = {
        "anew": sf.method("accb"),
        "fixed": sf.policies.fixed([0.2, 0.8]),
        "function": lambda state: np.full(len(state), 0.5),
        "array": np.full(len(logs), 0.3),
        "both": lambda state: np.full((len(state), 2), 0.5),
    }
    found = {one.name: one for one in list_candidates(given, logs)}
    assert [one.what for one in found.values()] == [
        "learned anew without the decision points that judge it",
        "the same probabilities in every state",
        "as given",
        "as given",
        "as given",
        "nothing at every decision point",
        "send at every decision point",
    ]
    assert [one.is_baseline for one in found.values()] == [False] * 5 + [True] * 2
    rows, fold = np.arange(0, len(logs), 7), np.zeros(len(logs), dtype=int)
    assert (found["array"].decide(logs, rows, fold) == [0.7, 0.3]).all()
    assert (found["function"].decide(logs, rows, fold) == 0.5).all()
    assert (found["always"].decide(logs, rows, fold) == [0, 1]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.full(7, 0.5), r"gives probabilities of shape \(7,\); give one row for each of 180"),
        (np.full((180, 2, 2), 0.5), "gives probabilities of shape"),
        (np.full((180, 3), 1 / 3), "a policy over 3 actions cannot be judged by logs with 2"),
        (np.tile([0.5, 0.5 + 1.1e-6], (180, 1)), "give probabilities, which sum to 1"),
        (np.tile([1.2, -0.2], (180, 1)), "give probabilities, which sum to 1"),
        ("text", "give policies, a method, a function of states, or an array"),
    ],
)
def test_what_is_not_a_policy_is_refused(logs, given, message):
    one = Candidate("mine", given, "as given")
    with pytest.raises(sf.InputError, match=f"'mine'.*{message}|{message}"):
        one.decide(logs, np.arange(180), np.zeros(180, dtype=int))


def test_rounding_of_probabilities_is_forgiven(logs):
    given = np.tile([0.5, 0.5 + 0.9e-6], (180, 1))
    assert Candidate("mine", given, "").decide(logs, np.arange(3), np.zeros(180, dtype=int)).shape == (3, 2)


def test_names_of_the_baselines_are_taken(logs):
    for name in ("never", "always", "as logged"):
        with pytest.raises(sf.InputError, match=f"'{name}' is the name of a policy that every evaluation shows"):
            list_candidates({name: sf.policies.coin(2)}, logs)
    with pytest.raises(sf.InputError, match=r"given by name, as .*, not as a list"):
        list_candidates([sf.policies.coin(2)], logs)


def test_policies_learned_from_the_same_people_are_noted(logs):
    other = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=30, seed=1)
    pooled = sf.method("accb", pooling="all").fit(logs).policies_
    with pytest.raises(sf.InputError, match="'mine' was learned from 180 of these 180 decision points"):
        list_candidates({"mine": pooled}, logs)
    moved = sf.Trajectories.from_arrays(
        other.state.reshape(6, 30, 3),
        other.action.reshape(6, 30),
        other.reward.reshape(6, 30),
        time=np.tile(np.arange(30) + 100, (6, 1)),
        state_names=other.state_names,
    )
    notes = note_same_people({"mine": pooled, "coin": sf.policies.coin(2)}, moved)
    assert notes == [
        "mine was learned from 6 of these 6 people, at other times: for people whom it does not know it may be worth less"
    ]
    assert note_same_people({"mine": sf.method("accb").fit(logs).policies_}, moved) == []


def test_how_methods_are_cross_fitted():
    own, shared = sf.method("accb"), sf.method("accb", pooling="all")
    assert choose_cross_fit({"a": shared}, None) == choose_cross_fit({}, None) == "person"
    assert choose_cross_fit({"a": shared, "b": own}, None) == "time"
    assert choose_cross_fit({"a": shared}, "time") == "time"
    with pytest.raises(sf.InputError, match="'b' learns a policy per participant"):
        choose_cross_fit({"a": shared, "b": own}, "person")
