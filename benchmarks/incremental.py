"""Updates at every stage of a trial: 100 people enter one by one, with 100 decision points each, one at each stage.

    python -m benchmarks.incremental

writes `incremental.json`: the processor time of 199 updates (`Method.update`), the time of fits from scratch at every 20th
stage times 20, their ratio, and how far the last update is from a fit to all logs.
"""

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning

PEOPLE = 100
POINTS = 100
EVERY = 20
"""Of so many stages one is fitted from scratch too."""
METHODS: dict[str, dict[str, Any]] = {
    "partial": {"pooling": "partial"},
    "partial, smooth time and baseline": {"pooling": {"name": "partial", "time": "smooth"}, "baseline": "smooth"},
}


def draw_stage(rng: np.random.Generator, stage: int) -> Trajectories:
    """A decision point of everybody who is in the trial; effects fade, and the outcome without a prompt is a sine."""
    people = np.arange(max(0, stage - POINTS + 1), min(stage, PEOPLE - 1) + 1)
    passed = stage - people
    state = rng.uniform(-1, 1, (len(people), 1, 2))
    action = rng.integers(0, 2, (len(people), 1))
    effect = 1 - passed / POINTS + 0.5 * state[:, 0, 0]
    outcome = np.sin(3 * state[:, 0, 1]) + action[:, 0] * effect + rng.standard_normal(len(people))
    probability = np.full(action.shape, 0.5)
    return Trajectories.from_arrays(
        state, action, outcome[:, None], probability=probability, time=passed[:, None], participants=people
    )


def measure(parts: dict[str, Any]) -> dict[str, float]:
    """Processor seconds of all updates and of fits from scratch, and the largest difference of a coefficient at the end."""
    rng = np.random.default_rng(0)
    updated = sf.method("ts", **parts)
    updating = 0.0
    scratch_time = 0.0
    scratch = updated
    for stage in range(PEOPLE + POINTS - 1):
        logs = draw_stage(rng, stage)
        start = time.process_time()
        if stage:
            updated.update(logs)
        else:
            updated.fit(logs)
        updating += time.process_time() - start
        if stage % EVERY == EVERY - 1 or stage == PEOPLE + POINTS - 2:
            start = time.process_time()
            scratch = sf.method("ts", **parts).fit(updated.logs_)
            scratch_time += EVERY * (time.process_time() - start)
    difference = float(np.abs(updated.critic_coef_ - scratch.critic_coef_).max())
    return {
        "update_seconds": round(updating, 2),
        "scratch_seconds": round(scratch_time, 2),
        "ratio": round(updating / scratch_time, 2),
        "largest_difference": difference,
    }


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        results = {name: measure(parts) for name, parts in METHODS.items()}
    text = json.dumps(results, indent=2)
    Path(__file__).with_suffix(".json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
