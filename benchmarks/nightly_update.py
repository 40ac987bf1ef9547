"""What a nightly update costs when it goes on from moments, and when it reads everything: milliseconds and rows read.

100 people with 210 decision points each, the last five of them new; `ts` with partial pooling, no screen, every variable
with a range. Both ways give the same policy to 1e-9 (tests/service/updates/test_moment_store.py).

    python benchmarks/nightly_update.py [--people 100] [--points 210]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import sqlalchemy as sa

from surefoot import Study
from surefoot.service.database.schema import decisions, kept_moments, outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import Trial, open_trial
from surefoot.service.updates import queries, updates

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
[reward]
column = "steps"
[method]
name = "ts"
pooling = "partial"
[screen]
on = false
[trial]
warm_up_decision_points = 20
update_time = "never"
"""
START = datetime(2026, 3, 1, tzinfo=UTC)


def fill(trial: Trial, people: int, first: int, last: int, seed: int) -> None:
    """Decisions with outcomes, written to the tables: every tenth decision point is not available."""
    rng = np.random.default_rng(seed)
    points, results = [], []
    for person in range(people):
        for index in range(first, last):
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
                    "proximal_outcome": float(state[0] + action * state[1] + rng.normal()),
                    "observed_at": moment + timedelta(hours=1),
                    "received_at": moment + timedelta(hours=1),
                    "late": False,
                    "salt": b"salt",
                }
            )
    with trial.database.transaction() as connection:
        connection.execute(sa.insert(decisions), points)
        connection.execute(sa.insert(outcomes), results)


def update(trial: Trial) -> tuple[float, dict[str, Any]]:
    """One update: seconds, and its result."""
    began = time.perf_counter()
    update_id = updates.begin_update(trial, "benchmark")
    updates.run_update(trial, update_id)
    seconds, status = time.perf_counter() - began, queries.update_status(trial, update_id)
    if status["state"] != "done":
        raise SystemExit(f"the update was {status['state']}: {status['message']}")
    return seconds, status["result"]


def main() -> None:
    """Three nights of each kind, the fastest counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--points", type=int, default=210)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trial = open_trial(Study.parse(STUDY), f"sqlite:///{folder}/trial.db")
        for person in range(asked.people):
            register_participant(trial.database, f"p{person}")
        nights = [asked.points - 5 * back for back in (6, 5, 4, 3, 2, 1, 0)]
        fill(trial, asked.people, 0, nights[0], seed=0)
        update(trial)
        found: dict[str, list[tuple[float, int]]] = {"moments": [], "everything": []}
        for number, (first, last) in enumerate(pairwise(nights)):
            fill(trial, asked.people, first, last, seed=number + 1)
            if number % 2:
                with trial.database.transaction() as connection:
                    connection.execute(sa.delete(kept_moments))
            seconds, result = update(trial)
            found["everything" if result["why_all_rows"] else "moments"].append((seconds, result["rows_read"]))
        trial.close()
    for way, costs in found.items():
        seconds, rows = min(costs)
        print(f"{way}: {1000 * seconds:.0f} ms, {rows} rows read")


if __name__ == "__main__":
    main()
