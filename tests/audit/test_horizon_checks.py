import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit


def fit(state, action, reward):
    with pytest.warns(sf.FitWarning):
        return sf.method("ahead").fit(sf.Trajectories.from_arrays(state, action, reward))


def test_states_that_react_and_settle_are_fine():
    logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=100, seed=0)
    found = audit(sf.method("ahead").fit(logs))
    assert found.check("states react").verdict == "fine"
    assert "fatigue to send" in found.check("states react").reason
    assert found.check("long run is stable").verdict == "fine"
    assert 0.6 < found.check("long run is stable").numbers["radius"] < 0.8


def test_a_myopic_method_is_not_asked():
    logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=50, seed=0)
    names = [check.name for check in audit(sf.method("accb").fit(logs)).checks]
    assert "states react" not in names


@pytest.mark.filterwarnings("ignore::surefoot.errors.FitWarning")
def test_no_reaction_and_no_long_run_are_unsafe():
    rng = np.random.default_rng(1)
    action = rng.integers(0, 2, (30, 60))
    deaf = audit(fit(rng.standard_normal((30, 60, 1)), action, rng.standard_normal((30, 60))))
    assert deaf.check("states react").verdict == "unsafe"
    assert "dose" in deaf.check("states react").remedy
    growing = np.cumsum(action + 0.1 * rng.random((30, 60)), axis=1)[..., None] - action[..., None]
    endless = audit(fit(growing, action, rng.standard_normal((30, 60))))
    assert endless.check("long run is stable").verdict == "unsafe"
