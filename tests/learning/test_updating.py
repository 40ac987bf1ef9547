"""A method that goes on from what it learned is one that was given everything."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=8).collect(sf.policies.coin(2), decision_points=60, seed=9)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ts", {"pooling": "person"}),
        ("ts", {"pooling": "all"}),
        ("ts", {"pooling": "partial"}),
        ("linucb", {}),
        ("hb-accb", {}),
        ("hb-ahead", {}),
    ],
)
def test_it_equals_a_fit_to_all(logs, name, more):
    """The later logs hold more of some people and all of another."""
    early = (logs.time < 45) & (logs.participant != 5)
    found = sf.method(name, **more).fit(logs[early]).update(logs[~early])
    whole = sf.method(name, **more).fit(logs)
    assert_allclose(found.critic_coef_, whole.critic_coef_, rtol=1e-9, atol=1e-9)
    assert_allclose(
        found.policies_.probabilities(logs.participant, logs.state),
        whole.policies_.probabilities(logs.participant, logs.state),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("pooling", ["person", "all", "partial"])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ts", {"allocation": "smooth"}),
        ("ts", {"centre_actions": True}),
        ("ts", {"prior": {"send": {"mean": 5.0, "scale": 20.0}}}),
        ("linucb", {"penalty_units": "absolute"}),
        ("linucb", {"critic_variables": ("weather",)}),
    ],
)
def test_moments_give_the_fit_to_the_decision_points(logs, name, more, pooling):
    """Also far from zero and in parts of a few decision points: somebody begins with one, somebody never has any."""
    state, reward = logs.state * np.array([1e3, 1.0, 1e-2]) + np.array([0.0, 50.0, 0.0]), logs.reward + 273.15
    reward[(logs.participant == 2) | (logs.time % 9 == 4)] = np.nan
    logs = logs.with_values(state=state, reward=reward)
    found = sf.method(name, pooling=pooling, **more)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found.fit(logs[(logs.time < 2) & (logs.participant != 5)])
        for start, stop in ((2, 9), (9, 60)):
            found.update(logs[(logs.time >= start) & (logs.time < stop) & (logs.participant != 5)])
        del told[:]
        found.update(logs[logs.participant == 5])
        of_moments = [str(one.message) for one in told]
        del told[:]
        whole = sf.method(name, pooling=pooling, **more).fit(logs)
        assert of_moments == [str(one.message) for one in told]
    order = [logs.time, logs.participant]
    again = np.lexsort([found.logs_.time, found.logs_.participant])
    for learned in ("critic_coef_", "scale_", "penalty_"):
        theirs = getattr(whole, learned)
        assert_allclose(getattr(found, learned), theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
    for learned in ("weights_", "residuals_"):
        assert_allclose(getattr(found, learned)[again], getattr(whole, learned)[np.lexsort(order)], rtol=1e-9, atol=1e-8)
    usable = logs.usable
    assert_allclose(
        found.policies_.probabilities(logs.participant[usable], logs.state[usable]),
        whole.policies_.probabilities(logs.participant[usable], logs.state[usable]),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("name", ["ro-ts", "accb", "hb-ahead", "ahead", "filter-linucb"])
def test_others_say_why_they_need_the_decision_points(name):
    assert sf.method("ts").why_rows is None
    assert sf.method(name).why_rows


def test_what_it_cannot_do_is_refused(logs):
    fitted = sf.method("ts").fit(logs)
    with pytest.raises(sf.InputError, match="20 of the later decision points were learned from already"):
        fitted.update(logs[(logs.participant == 1) & (logs.time < 20)])
    with pytest.raises(sf.InputError, match="looks at a participant's whole series"):
        sf.method("filter-accb").fit(logs).update(logs)
    with pytest.raises(sf.NotFittedError):
        sf.method("ts").update(logs)
