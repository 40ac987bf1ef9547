"""Many simulated studies at once, cut from one large one: for coverage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv

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
    outcome = (logs.outcome[logs.order].reshape(shape) + intercept) / unit
    return (
        [
            sf.Trajectories.from_arrays(
                state[k], action[k], outcome[k], probability=probability[k], state_names=sim.state_names
            )
            for k in range(studies)
        ],
        sim,
        state.reshape(-1, 3),
    )


def write_strangers_trial(path):
    """Nudges with a coin, which add 3 to the minutes of the next hour; columns have names of their own."""
    rng = np.random.default_rng(3)
    nudge = rng.integers(0, 2, 600)
    columns = {
        "user_id": np.repeat([f"U{number}" for number in range(10)], 60),
        "sent_at": np.tile([f"{day:02d}.01.2026 {hour}:00" for day in range(1, 21) for hour in (8, 13, 18)], 10),
        "nudge": nudge,
        "p_nudge": np.full(600, 0.5),
        "mood": rng.integers(1, 8, 600),
        "minutes_active": np.round(30 + 3 * nudge + rng.normal(0, 5, 600), 1),
    }
    pyarrow.csv.write_csv(pa.table(columns), path)
