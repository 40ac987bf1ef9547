"""The result of an evaluation: numbers, sentences to the letter, and pages."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.evaluation import Contrast, LongRunValue, OffPolicy, Overlap, Value, evaluate
from surefoot.inference.intervals import Interval
from surefoot.log_checks import Check
from surefoot.reports.figures import new_page_figure
from surefoot.reports.numbers import OutcomeUnit

FOUND = OffPolicy(
    people=7,
    decision_points=70,
    action_names=("nothing", "walk", "rest"),
    unit=OutcomeUnit("steps", "sqrt"),
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
                "description": "as given",
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
    assert FOUND.to_frame("pyarrow").to_pydict() == {
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
    assert replace(FOUND, values=FOUND.values[:1]).to_frame("pyarrow").num_rows == 1


def test_values_are_found_by_policy_and_estimator():
    assert FOUND.value("mine").value.value == 3.0
    assert FOUND.value("mine", "ips").value.value == 1.0
    assert repr(FOUND).startswith("Values of policies: 7 people, 70 decision points")


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


STEPS, LOGGED_STEPS = OutcomeUnit("steps"), OutcomeUnit("steps", "log(x + 0.5)")


WORTH = "mine is worth 120 steps per decision point (100 to 140). "
UNKNOWN = "The logs do not show whether this is more than the logging policy. The difference is"


def value(low, high, unit=STEPS):
    found = Value("mine", "doubly robust", Interval(120.0, 10.0, 100.0, 140.0), Interval((low + high) / 2, 5.0, low, high))
    return replace(FOUND, values=(found,), unit=unit).headlines()[0]


@pytest.mark.parametrize(
    ("low", "high", "sentence"),
    [
        (0.5, 20.5, f"{WORTH}This is more than the logging policy, by 10.5 (0.5 to 20.5)."),
        (0.0, 20.0, f"{WORTH}{UNKNOWN} 10 (0 to 20)."),
        (-20.0, 0.0, f"{WORTH}{UNKNOWN} −10 (−20 to 0)."),
        (-20.5, -0.5, f"{WORTH}This is less than the logging policy, by 10.5 (0.5 to 20.5)."),
    ],
)
def test_more_less_or_nobody_knows(low, high, sentence):
    assert value(low, high) == sentence


def test_a_difference_of_logarithms_is_said_in_percent_of_its_own_sign():
    found = value(-0.2, -0.1, LOGGED_STEPS)
    assert "less than the logging policy, by 0.15 (0.10 to 0.20), about −13.9 % steps (−18.1 % to −9.5 %)." in found
    assert "log(steps + 0.5) per decision point" in found


@pytest.mark.parametrize(
    ("low", "ending"), [(1.0, ")."), (0.0, ". The interval includes 0."), (-1.0, ". The interval includes 0.")]
)
def test_a_contrast_says_when_zero_is_possible(low, ending):
    contrast = Contrast("always", "never", Interval(10.0, 5.0, low, 20.0))
    found = replace(FOUND, contrasts=(contrast,), unit=STEPS).headlines()[-1]
    assert found.startswith("The difference always − never is 10")
    assert found.endswith(ending) and ("includes 0" in found) == (low <= 0)


def describe(later):
    return replace(FOUND, long_run=(later,), unit=STEPS).describe_long_run()[0]


@pytest.mark.parametrize(
    ("low", "high", "immediate", "told"),
    [
        (10.0, 30.0, 20.0, "This is 20 more than never (10 to 30)."),
        (-30.0, -10.0, -20.0, "This is 20 less than never (10 to 30)."),
        (0.0, 40.0, 20.0, "This is not significantly different from never (20, 0 to 40)."),
        (-40.0, 0.0, -20.0, "This is not significantly different from never (−20, −40 to 0)."),
    ],
)
def test_the_long_run_beside_never(low, high, immediate, told):
    found = LongRunValue("mine", Interval(120.0, 10.0, 100.0, 140.0), Interval((low + high) / 2, 5.0, low, high), immediate)
    expected = f"In the long run mine is worth 120 steps per decision point (100 to 140). {told}"
    assert describe(found).startswith(expected)


def test_a_policy_that_pays_now_and_costs_later():
    found = LongRunValue("mine", Interval(120.0, 10.0, 100.0, 140.0), Interval(-20.0, 5.0, -30.0, -10.0), 7.4)
    assert describe(found).endswith(f" By the next outcome alone, the difference would seem to be 7: {found.disagreement}.")
    assert found.disagreement


@pytest.fixture(scope="module")
def found():
    """Sending adds 0.06 to an outcome whose noise is 0.3; doing nothing earns 1."""
    logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=50, seed=0)
    outcome = np.random.default_rng(0).normal(1 + 0.06 * logs.action, 0.3)
    return evaluate(logs.with_values(outcome=outcome), {"mostly": sf.policies.fixed([0.2, 0.8])})


def test_sending_is_contrasted_with_never_sending(found):
    (contrast,) = found.contrasts
    assert (contrast.policy, contrast.other) == ("always", "never")
    always, never = (found.value(name).value for name in ("always", "never"))
    assert_allclose(contrast.difference.value, always.value - never.value)
    # 2,000 independent outcomes, half of them with each action: an error of 0.3 · √(4 / 2000).
    assert_allclose(contrast.difference.standard_error, 0.3 * np.sqrt(4 / 2000), rtol=0.15)
    assert contrast.difference.low < 0.06 < contrast.difference.high
    assert found.to_dict()["contrasts"][0]["difference"]["value"] == contrast.difference.value


def test_sentences_have_fitting_digits_and_percent_for_log_rewards(found):
    sentences = replace(found, unit=OutcomeUnit("steps", "log(x + 0.5)")).headlines()
    assert [sentence.split()[0] for sentence in sentences] == ["mostly", "never", "always", "The"]
    change = found.contrasts[0].difference
    assert sentences[-1] == (
        f"The difference always − never is {change.value:.3f} ({change.low:.3f} to {change.high:.3f}), "
        f"about +{100 * np.expm1(change.value):.1f} % steps "
        f"(+{100 * np.expm1(change.low):.1f} % to +{100 * np.expm1(change.high):.1f} %)."
    )
    assert "log(steps + 0.5) per decision point" in sentences[0]
    assert "less than the logging policy, by 0.0" in sentences[1]
    assert not any("% steps" in sentence for sentence in replace(found, unit=OutcomeUnit("steps", "sqrt")).headlines())


def test_every_plot_has_a_legend(found):
    drawn = [found.plot(ax=new_page_figure()), found.plot("difference", ax=new_page_figure())]
    figures = [axes.figure for axes in (*drawn, found.plot_overlap(ax=new_page_figure()))]
    assert [len(figure.legends) for figure in figures] == [1, 1, 1]
    assert [text.get_text() for text in figures[2].legends[0].get_texts()] == ["enough"]
