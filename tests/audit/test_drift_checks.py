"""What the audit says of people who change."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies.features import critic_features


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=25).collect(sf.policies.coin(2), decision_points=60, seed=3)


def fade(logs, coef):
    x = critic_features(logs.state, logs.action, 2)
    return logs.with_values(reward=logs.reward + logs.time / 100 * (x @ coef))


def check(logs, name="linucb", **parameters):
    return sf.audit.audit(sf.method(name, pooling="all", **parameters).fit(logs)).check("people change")


def test_people_who_do_not_change(logs):
    found = check(logs)
    assert found.verdict == "fine"
    assert found.reason.startswith("no coefficient is seen to move over the study, in all people alike (p = ")
    assert "or in each by themselves (p = " in found.reason
    assert found.reason.endswith("that cannot tell an effect that lasts from one that fades to nothing")
    strong = logs.with_values(reward=logs.reward + 3000 * logs.action)
    assert "cannot tell" not in check(strong).reason


def test_habituation_is_found_and_the_remedy_named(logs):
    faded = fade(logs, np.array([0, 0, 0, 0, -5000.0, 0, 0, 0]))
    found = check(faded, "hb-linucb")
    assert found.verdict == "look"
    assert "the mean effect of sending changes by −" in found.reason
    assert "write [method] forgetting = 0.967 or" in found.remedy and "random_walk = 'estimate'" in found.remedy
    assert found.numbers["effect_change"]["high"] < 0 and found.numbers["effect_p_value"] < 0.005
    forgetting = check(faded, forgetting=0.967)
    assert (forgetting.verdict, forgetting.remedy) == ("fine", "")
    assert "the fit allows for it" in forgetting.reason
    told = " ".join(sf.audit.audit(sf.method("linucb", pooling="all").fit(faded)).summary().split())
    assert "look people change" in told and "forgetting = 0.967" in told


@pytest.mark.parametrize(("step", "verdict"), [(0.0, "look"), (0.05, "fine")])
def test_a_random_walk_allows_for_it_unless_it_stands_still(logs, step, verdict):
    faded = fade(logs, np.array([0, 0, 0, 0, -5000.0, 0, 0, 0]))
    fitted = sf.method("linucb", pooling="partial", random_walk=step).fit(faded)
    audit = sf.audit.audit(fitted)
    assert audit.check("people change").verdict == verdict
    assert audit.effect.low < fitted.critic_coef_[:, 4].mean() < audit.effect.high


def test_another_coefficient_that_moves_is_named(logs):
    found = check(fade(logs, np.array([0, 6000.0, 0, 0, 0, 0, 0, 0])))
    assert found.verdict == "look" and "most of all that of 'weather' under 'nothing'" in found.reason


def test_few_people_cannot_tell(logs):
    found = check(logs[logs.participant_index < 8])
    assert found.verdict == "fine" and "8 people have decision points enough" in found.reason


def test_people_who_wander_are_told_of_a_random_walk(logs):
    steps = np.random.default_rng(1).standard_normal((25, 60)).cumsum(axis=1)
    walked = logs.with_values(reward=logs.reward + 500 * steps[logs.participant_index, logs.time])
    found = check(walked)
    assert found.verdict == "look" and "people's own coefficients wander (p = " in found.reason
    assert "most of all that of 'intercept' under 'nothing'" in found.reason
    assert "write [method] pooling = 'partial' and random_walk = 'estimate': they change each" in found.remedy
    assert "forgetting =" not in found.remedy and found.numbers["wandering_p_value"] < 0.002
    fitted = sf.method("linucb", pooling="partial", random_walk="estimate").fit(walked)
    assert sf.audit.audit(fitted).check("people change").verdict == "fine"


def test_few_decision_points_cannot_tell_of_wandering(logs):
    assert "which nobody's decision points can tell: it takes 40" in check(logs[logs.time < 30]).reason
