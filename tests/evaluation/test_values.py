"""What an evaluation hands on, whole, from values made up by hand."""

import json
from dataclasses import replace

import pytest

from surefoot.evaluation import Contrast, LongRunValue, Overlap, Value
from surefoot.evaluation.values import PolicyValues
from surefoot.inference.intervals import Interval
from surefoot.log_checks import Check
from surefoot.reports.reward_units import RewardUnit

FOUND = PolicyValues(
    people=7,
    decision_points=70,
    action_names=("nothing", "walk", "rest"),
    unit=RewardUnit("steps", "sqrt"),
    cross_fit="time",
    critic="capped",
    estimators=("ips", "doubly robust"),
    values=(
        Value("mine", "ips", Interval(1.0, 0.5, 0.0, 2.0), Interval(0.1, 0.2, -0.3, 0.5)),
        Value("mine", "doubly robust", Interval(3.0, 0.25, 2.5, 3.5), Interval(0.6, 0.1, 0.4, 0.8)),
    ),
    overlap=(Overlap("mine", "as given", (0.25, 0.5, 0.25), 33.0, 4.5, "few"),),
    contrasts=(Contrast("always walk", "never", Interval(9.0, 1.0, 7.0, 11.0)),),
    long_run=(LongRunValue("mine", Interval(5.0, 1.0, 3.0, 7.0), Interval(-2.0, 0.5, -3.0, -1.0), 0.5),),
    checks=(Check("balance", "unsafe", "home differs", "look at it"),),
    notes=("keep this in mind",),
)


def interval(value, standard_error, low, high):
    return {"value": value, "standard_error": standard_error, "low": low, "high": high}


def test_everything_goes_into_json():
    assert json.loads(json.dumps(FOUND.to_dict())) == {
        "people": 7,
        "decision_points": 70,
        "action_names": ["nothing", "walk", "rest"],
        "unit": "sqrt(steps)",
        "cross_fit": "time",
        "critic": "capped",
        "estimators": ["ips", "doubly robust"],
        "checks": [
            {"name": "balance", "verdict": "unsafe", "reason": "home differs", "remedy": "look at it", "numbers": {}}
        ],
        "values": [
            {"policy": "mine", "estimator": name, "value": interval(*value), "difference": interval(*difference)}
            for name, value, difference in (
                ("ips", (1.0, 0.5, 0.0, 2.0), (0.1, 0.2, -0.3, 0.5)),
                ("doubly robust", (3.0, 0.25, 2.5, 3.5), (0.6, 0.1, 0.4, 0.8)),
            )
        ],
        "overlap": [
            {
                "policy": "mine",
                "what": "as given",
                "action_rates": [0.25, 0.5, 0.25],
                "effective_sample_size": 33.0,
                "largest_ratio": 4.5,
                "warning": "few",
                "send_rate": 0.75,
            }
        ],
        "contrasts": [{"policy": "always walk", "other": "never", "difference": interval(9.0, 1.0, 7.0, 11.0)}],
        "long_run": [
            {
                "policy": "mine",
                "value": interval(5.0, 1.0, 3.0, 7.0),
                "difference": interval(-2.0, 0.5, -3.0, -1.0),
                "immediate_difference": 0.5,
                "disagreement": "its prompts pay now and cost later",
            }
        ],
        "notes": ["keep this in mind"],
    }


def test_a_row_for_every_policy_and_estimator():
    assert FOUND.to_frame().to_pydict() == {
        "policy": ["mine", "mine"],
        "estimator": ["ips", "doubly robust"],
        "value": [1.0, 3.0],
        "standard_error": [0.5, 0.25],
        "low": [0.0, 2.5],
        "high": [2.0, 3.5],
        "difference": [0.1, 0.6],
        "difference_low": [-0.3, 0.4],
        "difference_high": [0.5, 0.8],
    }
    assert list(FOUND.to_frame("pandas").columns)[:2] == ["policy", "estimator"]
    assert replace(FOUND, values=FOUND.values[:1]).to_frame().num_rows == 1


def test_values_are_found_by_policy_and_estimator():
    assert FOUND.value("mine").value.value == 3.0
    assert FOUND.value("mine", "ips").value.value == 1.0
    assert repr(FOUND) == "PolicyValues(mine: 7 people, 70 decision points)"


@pytest.mark.parametrize(
    ("low", "high", "immediate", "told"),
    [
        (-3.0, -0.1, 0.1, "its prompts pay now and cost later"),
        (-3.0, 0.0, 0.1, ""),
        (-3.0, -0.1, 0.0, ""),
        (0.1, 3.0, -0.1, "its prompts cost now and pay later"),
        (0.0, 3.0, -0.1, ""),
        (0.1, 3.0, 0.0, ""),
        (0.1, 3.0, 1.0, ""),
    ],
)
def test_now_and_later_disagree_only_when_both_are_sure(low, high, immediate, told):
    found = LongRunValue("mine", Interval(0, 1, -1, 1), Interval((low + high) / 2, 1.0, low, high), immediate)
    assert found.disagreement == told
