"""Several treatments: against the formulas of one treatment, and against power in simulated trials."""

import numpy as np
import pyarrow as pa
import pytest

from surefoot import InputError
from surefoot.effects.analysis import Analysis
from surefoot.effects.result import fit_analysis
from surefoot.sample_size import binary, continuous, several_arms


@pytest.mark.parametrize("effect", [0.1, {"mean": 0.1, "initial": 0.0, "peak_day": 29}])
@pytest.mark.parametrize("probability", [0.4, np.linspace(0.2, 0.7, 42)])
def test_one_treatment_has_the_size_of_the_two_arm_formula(effect, probability):
    test = "constant" if effect == 0.1 else "quadratic"
    asked = {"availability": 0.7, "people": 30, "test": test, "sd": 1.3}
    one = continuous(42, 5, effect=effect, probability=probability, **asked)
    several = several_arms(42, 5, effects={"walk": effect}, probabilities={"walk": probability}, **asked)
    assert several.power == pytest.approx(one.power, abs=1e-10) and several.degrees == one.degrees


def test_one_treatment_and_a_binary_outcome():
    one = binary(30, 3, effect=0.2, baseline=0.3, probability=0.4, availability=0.8, people=25)
    several = several_arms(
        30, 3, effects={"walk": 0.2}, probabilities={"walk": 0.4}, baseline=0.3, availability=0.8, people=25
    )
    assert several.power == pytest.approx(one.power, abs=1e-10)


def test_a_constant_numerator_changes_nothing_where_probabilities_are_constant():
    asked = {"effects": {"walk": 0.1, "rest": 0.05}, "probabilities": {"walk": 0.3, "rest": 0.2}, "people": 40}
    assert several_arms(20, 3, **asked).power == pytest.approx(several_arms(20, 3, numerator=[0.4, 0.4], **asked).power)
    varying = asked | {"probabilities": {"walk": np.linspace(0.1, 0.5, 20), "rest": 0.2}}
    assert several_arms(20, 3, **varying).power > several_arms(20, 3, numerator=[0.4, 0.4], **varying).power


def test_a_treatment_that_is_added_later_counts_from_then_on():
    late = np.repeat([0.0, 0.3], 10)
    alone = several_arms(10, 3, effects={"rest": 0.2}, probabilities={"rest": 0.3}, people=40)
    added = several_arms(20, 3, effects={"rest": 0.2}, probabilities={"rest": late}, people=40)
    assert added.power == pytest.approx(alone.power, abs=1e-10)


@pytest.mark.parametrize("compare", ["nothing", "each other"])
@pytest.mark.parametrize("varying", [False, True])
def test_power_is_that_of_simulated_trials(compare, varying):
    days, per_day, people, trials = 10, 2, 30, 250
    effects = {"walk": 0.3, "rest": 0.1} if compare == "nothing" else {"walk": 0.45, "rest": 0.2}
    points = days * per_day
    walk = np.repeat(np.linspace(0.15, 0.5, days), per_day) if varying else np.full(points, 0.3)
    rest = np.full(points, 0.3)
    asked = {"effects": effects, "probabilities": {"walk": walk, "rest": rest}, "controls": 1}
    planned = several_arms(days, per_day, compare=compare, numerator=[1 / 3, 1 / 3], people=people, **asked)
    rng = np.random.default_rng(1)
    base = {"person": np.repeat(np.arange(people), points), "t": np.tile(np.arange(points), people)}
    base |= {"p1": np.tile(walk, people), "p2": np.tile(rest, people)}
    analysis = Analysis(participant="person", time="t", outcome="y", treatment="sent", probability=["p1", "p2"])
    detected = 0
    for _ in range(trials):
        draw = rng.random(people * points)
        sent = (draw < base["p1"]) + 2 * ((draw >= base["p1"]) & (draw < base["p1"] + base["p2"]))
        y = np.array([0.0, *effects.values()])[sent] + rng.normal(size=len(sent))
        result = fit_analysis(pa.table(base | {"sent": sent, "y": y}), analysis, check_draws=False)
        test = result.joint_test() if compare == "nothing" else result.t_test([-1.0, 1.0])
        detected += bool(np.all(test.pvalue < 0.05))
    assert detected / trials == pytest.approx(planned.power, abs=3.5 * np.sqrt(0.25 / trials))
    assert 0.3 < planned.power < 0.97


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"probabilities": {"walk": 0.3}}, "name the same treatments"),
        ({"probabilities": {"walk": 0.6, "rest": 0.4}}, "leave something for no treatment"),
        ({"compare": "all"}, "compare is 'all'"),
        ({"numerator": [0.5, 0.6]}, "below 1 in sum"),
        ({"sd": 0.0}, "above 0"),
        ({"baseline": 0.95}, "would exceed 1"),
    ],
)
def test_refusals(options, words):
    asked = {"effects": {"walk": 0.1, "rest": 0.2}, "probabilities": {"walk": 0.3, "rest": 0.3}} | options
    with pytest.raises(InputError, match=words):
        several_arms(10, 3, **asked)
