import numpy as np
import pytest

import surefoot as sf

STUDY = """
[columns]
participant = "who"
time = "time"
[state.temperature]
scaling = { centre = 10.0, scale = 5.0 }
[state.weekend]
kind = "yes/no"
[state.location]
kind = "category"
levels = ["other", "home", "work"]
[outcome]
column = "steps"
transform = "log(x + 0.5)"
[method]
name = "saccb"
pooling = "all"
"""


@pytest.fixture(scope="session")
def study():
    return sf.Study.parse(STUDY)


@pytest.fixture(scope="session")
def mixed():
    """A number, a yes/no and a category of three levels: sending helps by 0.5, at home by 0.3 more, at work by 0.6 less."""
    rng = np.random.default_rng(0)
    people, points = 30, 60
    place, weekend = rng.integers(0, 3, (people, points)), rng.integers(0, 2, (people, points))
    state = np.stack([rng.standard_normal((people, points)), weekend, place == 1, place == 2], axis=2).astype(float)
    action = rng.integers(0, 2, (people, points))
    effect = 0.5 + 0.3 * (place == 1) - 0.6 * (place == 2) - 0.4 * state[..., 0]
    outcome = 3 + action * effect + rng.normal(0, 0.5, (people, points))
    names = ("temperature", "weekend", "location=home", "location=work")
    return sf.Trajectories.from_arrays(state, action, outcome, state_names=names)
