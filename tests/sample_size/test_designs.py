"""People and power against R's MRTSampleSize and MRTSampleSizeBinary, and against simulation."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import f, ncf

from surefoot import InputError
from surefoot.reports.figures import new_page_figure
from surefoot.sample_size import Moderator, binary, continuous

REFERENCE = Path(__file__).parents[3] / "shared" / "excursion" / "sample_size.json"


@pytest.fixture(scope="module")
def reference():
    if not REFERENCE.is_file():
        pytest.skip(f"needs R's numbers in {REFERENCE.name}, which are not part of the repository")
    return json.loads(REFERENCE.read_text())


def _trend(case, name):
    shape = case[f"{name}_shape"]
    if shape == "constant":
        return case[f"{name}_mean"]
    found = {"mean": case[f"{name}_mean"], "initial": case[f"{name}_initial"]}
    return found | ({"peak_day": case[f"{name}_quadratic_max"]} if shape == "quadratic" else {})


def test_continuous_sizes_and_power_are_those_of_r(reference):
    for case in reference["c"]:
        asked = {"effect": _trend(case, "beta"), "availability": _trend(case, "tau"), "probability": case["prob"],
                 "controls": case["dimB"], "level": case["sigLev"]}  # fmt: skip
        length = case["days"], case["occ_per_day"]
        assert continuous(*length, power=case["power"], **asked).people == case["sample_size"]
        assert continuous(*length, people=case["at_n"], **asked).power == pytest.approx(case["power_at_n"], abs=1e-8)


def test_binary_sizes_and_power_are_those_of_r(reference):
    for case in reference["b"]:
        columns, controls = np.array(case["f"]), np.array(case["g"])
        asked = {"effect": columns @ case["beta"], "baseline": np.exp(controls @ case["alpha"]), "test": columns,
                 "availability": case["tau"], "probability": case["p"], "controls": 2, "level": case["gamma"]}  # fmt: skip
        assert binary(len(columns), 1, power=1 - case["b"], **asked).people == case["size"]
        assert binary(len(columns), 1, people=case["at_n"], **asked).power == pytest.approx(case["power_at_n"], abs=1e-8)


def test_the_published_oralytics_design(reference):
    for case in reference["oralytics"]:
        first_half = [case["ave_effect_half"]] * 34 + [0.0] * 36
        assert continuous(70, 2, effect=first_half, probability=0.2, controls=5, power=0.93).people == case["n"]


def test_constant_effect_by_hand():
    found = continuous(10, 3, effect=0.2, probability=0.3, availability=0.8, controls=2, people=40)
    rate = 30 * 0.8 * 0.3 * 0.7 * 0.2**2
    assert found.power == pytest.approx(ncf.sf(f.isf(0.05, 1, 37), 1, 37, 40 * rate), rel=1e-12)


def test_the_answer_does_not_depend_on_how_values_over_days_are_written():
    for effect in ([0.2] * 10, [0.2] * 30):
        assert continuous(10, 3, effect=effect, people=25).power == continuous(10, 3, effect=0.2, people=25).power


def test_people_are_the_fewest_with_enough_power():
    found = continuous(42, 5, effect={"mean": 0.1, "initial": 0.2}, probability=0.4, power=0.9)
    assert found.power >= 0.9 > found.design.power(found.people - 1)


def test_effects_that_differ_between_people_need_more_of_them():
    asked = {"effect": 0.1, "probability": 0.5, "availability": 0.7}
    variance = 1 / (210 * 0.7 * 0.25) + 0.15**2
    found = continuous(42, 5, effect_sd=0.15, people=60, **asked)
    assert found.design.noncentrality(1.0) == pytest.approx(0.1**2 / variance, rel=1e-12)
    assert continuous(42, 5, effect_sd=0.15, **asked).people > continuous(42, 5, **asked).people
    linear = {"mean": 0.1, "initial": 0.2}
    assert (
        continuous(42, 5, effect=linear, effect_sd=0.2, people=40).power < continuous(42, 5, effect=linear, people=40).power
    )


def test_power_with_differing_effects_is_that_of_simulation():
    """Means of participants' own effects: their t test has the power that the formula promises."""
    rng = np.random.default_rng(5)
    people, points, effect_sd, replicates = 25, 40, 0.3, 2000
    own = 0.2 + effect_sd * rng.normal(size=(replicates, people, 1))
    action = (rng.random((replicates, people, points)) < 0.5) - 0.5
    outcome = own * action + rng.normal(size=action.shape)
    means = (action * outcome).sum(axis=2) / (action**2).sum(axis=2)
    t = means.mean(axis=1) / (means.std(axis=1, ddof=1) / np.sqrt(people))
    seen = (t**2 > f.isf(0.05, 1, people - 1)).mean()
    promised = continuous(points, 1, effect=0.2, effect_sd=effect_sd, controls=0, people=people).power
    assert seen == pytest.approx(promised, abs=0.035)
    assert continuous(points, 1, effect=0.2, controls=0, people=people).power > promised + 0.1


def test_a_moderator_alone_is_tested_with_its_own_information():
    found = continuous(20, 5, effect=0.0, moderators=[Moderator("home", 0.3, 0.5)], test_moderators=True, people=30)
    rate = 100 * 0.25 * (0.3 * 0.5) ** 2
    assert found.power == pytest.approx(ncf.sf(f.isf(0.05, 1, 24), 1, 24, 30 * rate), rel=1e-12)


def test_binary_with_differing_relative_risks_has_less_power():
    asked = {"effect": 0.2, "baseline": 0.3, "people": 50}
    assert binary(30, 3, effect_sd=0.3, **asked).power < binary(30, 3, **asked).power


def test_table_curve_and_sentence_tell_the_same():
    found = continuous(42, 5, effect=0.1, probability=0.4, availability=0.7)
    rows = found.to_frame("pyarrow").to_pylist()
    assert rows[2]["people_80"] == found.people < rows[0]["people_80"]
    people, power = found.plot(ax=new_page_figure()).lines[0].get_data()
    assert (np.diff(power) > 0).all() and power[people >= found.people].min() >= 80
    for part in (
        f"{found.people} participants",
        "42 days",
        "probability 0.4",
        "availability 0.7",
        "same effect for everybody",
    ):
        assert part in found.sentence
    assert json.loads(json.dumps(found.to_dict()))["people"] == found.people


def test_effects_that_cannot_be_are_left_out_of_the_table():
    found = binary(10, 2, effect=0.3, baseline=0.7, people=40)
    assert found.to_frame("pyarrow")["effect"].to_pylist() == pytest.approx([0.15, 0.225, 0.3])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"effect": 0.0}, "the effect is nothing"),
        ({"effect": 0.1, "probability": 1.0}, "strictly between 0 and 1"),
        ({"effect": 0.1, "availability": 0.0}, "above 0"),
        ({"effect": [0.1, 0.2]}, "give one number, 10 .one for every day. or 30"),
        ({"effect": {"mean": 0.1}}, "a trend has mean, initial"),
        ({"effect": {"mean": 0.1, "initial": 0, "peak": 3}}, "a trend has mean, initial"),
        ({"effect": 0.1, "people": 4}, "too few"),
        ({"effect": 0.1, "people": 40, "power": 0.8}, "not both"),
        ({"effect": 0.1, "power": 1.2}, "between 0 and 1"),
        ({"effect": 0.1, "level": 0}, "between 0 and 1"),
        ({"effect": 0.1, "effect_sd": 100}, "more than 1,000,000"),
        ({"effect": 0.1, "sd": 150}, "an effect of 0.1 is 0.00067 standard deviations of the outcome"),
        ({"effect": 0.1, "test": "cubic"}, "not a shape"),
        ({"effect": 0.1, "sd": 0}, "above 0"),
        ({"effect": 0.1, "test_moderators": True}, "no moderators"),
        ({"effect": 0.1, "test": np.arange(10.0)[:, None], "effect_sd": 0.1}, "needs an intercept"),
    ],
)
def test_what_cannot_be_sized_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        continuous(10, 3, **asked)


def test_a_chance_above_one_is_refused():
    with pytest.raises(InputError, match="exceed 1"):
        binary(10, 1, effect=1.0, baseline=0.5)
    with pytest.raises(InputError, match="strictly between"):
        binary(10, 1, effect=0.1, baseline=0.0)
