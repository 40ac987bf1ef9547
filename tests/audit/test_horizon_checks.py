from types import SimpleNamespace

import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.audit.horizon_checks import check_horizon
from surefoot.inference.intervals import Interval
from surefoot.learning.horizon.consequences import SURE, PooledView
from surefoot.learning.horizon.look_ahead import MOST_RADIUS


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


@pytest.mark.parametrize(
    ("radius", "verdict"), [(0.95, "fine"), (0.951, "look"), (MOST_RADIUS, "look"), (MOST_RADIUS + 1e-3, "unsafe")]
)
@pytest.mark.parametrize(("p_value", "reacts"), [(SURE / 2, "unsafe"), (SURE / 2 - 1e-6, "fine")])
def test_reactions_and_radius_at_their_limits(monkeypatch, radius, verdict, p_value, reacts):
    """Two reactions share the error that one would have."""
    shift = Interval(0.5, 0.2, 0.1, 0.9)
    found = [SimpleNamespace(variable=at, action=1, shift=shift, p_value=p) for at, p in ((0, p_value), (1, 0.7))]
    view = SimpleNamespace(reactions=found, model=SimpleNamespace(radius=np.array([radius])))
    monkeypatch.setattr(PooledView, "of_outlook", classmethod(lambda *_: view))
    logs = SimpleNamespace(state_names=("dose", "mood"), action_names=("nothing", "send"))
    react, stable = check_horizon(SimpleNamespace(fitted=SimpleNamespace(outlook_=object(), logs_=logs)))
    assert (react.name, react.verdict, bool(react.remedy)) == ("states react", reacts, reacts != "fine")
    assert react.numbers == {
        "dose, send": {"shift": 0.5, "standard_error": 0.2, "p_value": p_value},
        "mood, send": {"shift": 0.5, "standard_error": 0.2, "p_value": 0.7},
    }
    assert ("dose to send" if reacts == "fine" else ", dose)") in react.reason
    assert "mood" not in react.reason
    assert (stable.name, stable.verdict, bool(stable.remedy)) == ("long run is stable", verdict, verdict != "fine")
    assert stable.numbers == {"radius": radius}
