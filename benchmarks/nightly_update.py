"""Seconds of a nightly update: 100 people with 210 decision points each, `ts` with partial pooling, with and without screen.

python -m benchmarks.nightly_update [--people 100] [--points 210]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import sqlalchemy as sa

from surefoot import Study
from surefoot.service.database.schema import decisions, outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import Trial, open_trial
from surefoot.service.updates import updates

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
range = [-10, 10]
[state.engagement]
range = [-10, 10]
[state.fatigue]
range = [-10, 10]
[outcome]
column = "steps"
[method]
name = "ts"
pooling = "partial"
[screen]
on = {screen}
[trial]
warm_up_decision_points = 20
update_time = "never"
"""
START = datetime(2026, 3, 1, tzinfo=UTC)


def fill(trial: Trial, people: int, last: int, seed: int) -> None:
    """Decisions with outcomes, written to the tables: every tenth decision point is not available."""
    rng = np.random.default_rng(seed)
    points, results = [], []
    for person in range(people):
        for index in range(last):
            state = rng.normal(size=3).round(3).tolist()
            action, moment = int(rng.integers(2)) * (index % 10 != 9), START + timedelta(hours=2 * index)
            name = f"{person:08d}{index:08d}"
            points.append(
                {
                    "id": name,
                    "participant_id": f"p{person}",
                    "decision_idx": index,
                    "decided_at": moment,
                    "received_at": moment,
                    "study_id": trial.study_id,
                    "available": index % 10 != 9,
                    "availability_reasons": "[]",
                    "context": json.dumps(dict(zip(("weather", "engagement", "fatigue"), state, strict=True))),
                    "state": json.dumps(state),
                    "source": "warm-up",
                    "fallback_reasons": "[]",
                    "probabilities": "[0.5, 0.5]",
                    "random_key": name,
                    "uniform": 0.5,
                    "action": action,
                    "probability": 0.5,
                    "reply": "{}",
                    "salt": b"salt",
                }
            )
            results.append(
                {
                    "decision_id": name,
                    "fingerprint": name,
                    "outcome": float(state[0] + action * state[1] + rng.normal()),
                    "observed_at": moment + timedelta(hours=1),
                    "received_at": moment + timedelta(hours=1),
                    "late": False,
                    "salt": b"salt",
                }
            )
    with trial.database.transaction() as connection:
        connection.execute(sa.insert(decisions), points)
        connection.execute(sa.insert(outcomes), results)


def update(trial: Trial) -> float:
    """Run one update and return its seconds."""
    began = time.perf_counter()
    update_id = updates.begin_update(trial, "benchmark")
    updates.run_update(trial, update_id)
    seconds = time.perf_counter() - began
    status = updates.update_status(trial, update_id)
    if status["state"] != "done":
        raise SystemExit(f"the update was {status['state']}: {status['message']}")
    return seconds


def main() -> None:
    """Print the fastest of three updates, with the screen and without it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--points", type=int, default=210)
    arguments = parser.parse_args()
    for screen in ("true", "false"):
        with tempfile.TemporaryDirectory() as folder:
            trial = open_trial(Study.parse(STUDY.format(screen=screen)), f"sqlite:///{folder}/trial.db")
            for person in range(arguments.people):
                register_participant(trial.database, f"p{person}")
            fill(trial, arguments.people, arguments.points, seed=0)
            seconds = min(update(trial) for _ in range(3))
            trial.close()
        print(f"screen = {screen}: {seconds:.1f} s")


if __name__ == "__main__":
    main()
