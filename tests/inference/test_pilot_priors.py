import numpy as np
import pytest

import surefoot as sf


def pilot(people=40, points=80, seed=0):
    """The effect of sending is 2 with standard deviation 0.5 between people; that of the weather on it is nothing."""
    rng = np.random.default_rng(seed)
    state, action = rng.standard_normal((people, points, 1)), rng.integers(0, 2, (people, points))
    effect = 2 + 0.5 * rng.standard_normal((people, 1))
    outcome = 10 + state[..., 0] + action * effect + rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(state, action, outcome, state_names=["weather"], actions=["nothing", "send"])


def test_what_is_clear_is_the_mean_and_what_is_not_is_shrunk():
    logs = pilot()
    found = sf.estimate_prior(logs)
    own = sf.method("ts").fit(logs).critic_coef_
    assert found["send"]["mean"] == pytest.approx(2, abs=0.25)
    assert found["send"]["scale"] == pytest.approx(own[:, 2].std(ddof=1))
    assert 0.5 < found["send"]["scale"] < 0.75  # people differ by 0.5, and each is estimated with an error
    assert found["send × weather"]["mean"] == 0
    assert found["send × weather"]["scale"] == pytest.approx(own[:, 3].std(ddof=1) / 2)
    assert sf.method("ts", prior=found).fit(logs).policies_ is not None


def test_too_few_people_are_refused():
    with pytest.raises(sf.InputError, match="2 participants of the pilot have 8 usable decision points or more"):
        sf.estimate_prior(pilot(people=2))


def test_what_the_critic_does_not_see_has_no_prior():
    logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=60, seed=0)
    found = sf.estimate_prior(logs, sf.method("hb-ts", critic_variables=("weather",)))
    assert list(found) == ["intercept", "weather", "send", "send × weather"]
