"""Many simulated studies at once, cut from one large one: for coverage."""

from __future__ import annotations

import numpy as np

import surefoot as sf

TREATED = 0.6


def many(studies, people, points, *, seed, spread=300.0, unit=1.0):
    """HeartSteps studies whose people also differ by a skewed intercept, as (logs of each, simulator, all states)."""
    sim = sf.simulators.HeartSteps(participants=studies * people)
    logs = sim.collect(sf.policies.fixed([1 - TREATED, TREATED]), decision_points=points, seed=seed)
    shape = (studies, people, points)
    state = logs.state[logs.order].reshape(*shape, 3)
    action, probability = (values[logs.order].reshape(shape) for values in (logs.action, logs.probability))
    intercept = spread * (np.random.default_rng(seed).exponential(size=(studies, people, 1)) - 1)
    reward = (logs.reward[logs.order].reshape(shape) + intercept) / unit
    return (
        [
            sf.Trajectories.from_arrays(
                state[k], action[k], reward[k], probability=probability[k], state_names=sim.state_names
            )
            for k in range(studies)
        ],
        sim,
        state.reshape(-1, 3),
    )
