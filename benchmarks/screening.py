"""The screen: what docs/screening.md and docs/heartsteps-v1.md report.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.screening --heartsteps suggestions.csv --people 1000000 --folder /tmp/screen

Time beside a fit; precision and recall at several thresholds on HeartSteps V1 (whole, and judged with what other people
taught) and on simulated walkers; a million people from Parquet. Writes benchmarks/screening.json and a figure in docs/.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import surefoot as sf
from benchmarks.measuring import side_by_side
from surefoot.datasets.heartsteps_v1 import DEVICES, read_zero_filled
from surefoot.reports.figures import new_page_figure
from surefoot.screening import screen
from surefoot.simulators import HeartSteps, contaminate

ROOT = Path(__file__).resolve().parent.parent
THRESHOLDS = (0.7, 0.8, 0.85, 0.9, 0.95)
PER_FILE, POINTS = 5_000, 10
STUDY = """
[columns]
participant = "participant"
time = "time"
[state.weather]
device = "wrist"
[state.engagement]
[state.fatigue]
[outcome]
device = "wrist"
[screen]
"""


def five_columns(people=1000, points=210):
    """HeartSteps with a fifth column."""
    logs = HeartSteps(participants=people).collect(sf.policies.coin(2), decision_points=points, seed=0)
    state = logs.state[logs.order].reshape(people, points, 3)
    extra = np.random.default_rng(1).standard_normal((people, points, 1))
    action, reward = (values[logs.order].reshape(people, points) for values in (logs.action, logs.outcome))
    return sf.Trajectories.from_arrays(np.concatenate([state, extra], axis=2), action, reward)


def times():
    """Seconds of a screen of 1,000 people × 210 × 5 columns over those of a ro-accb fit of them."""
    clean = five_columns()
    devices = dict.fromkeys((*clean.state_names, "outcome"), "wrist")
    cases = {
        "clean": clean,
        "unworn 20 %": contaminate(clean, mechanism="nonwear", ratio=0.2, run_length=20, seed=1).logs,
        "stuck 20 %": contaminate(clean, mechanism="stuck", ratio=0.2, run_length=20, seed=1).logs,
        "unit 20 %": contaminate(clean, mechanism="unit", ratio=0.2, seed=1).logs,
        "all columns rounded, honest zeros": clean.with_values(
            state=np.round(clean.state, 1), outcome=np.maximum(np.round(clean.outcome / 100), 0)
        ),
    }
    work = {name: lambda logs=logs: screen(logs, devices=devices) for name, logs in cases.items()}
    found = side_by_side({"ro-accb": lambda: sf.method("ro-accb").fit(clean), **work}, rounds=7)
    fit = found.pop("ro-accb")
    return {"ro-accb, ms": 1000 * fit, **{f"{name}, share of it": seconds / fit for name, seconds in found.items()}}


def rates(truth, flagged):
    hits = (flagged & truth).sum()
    wrong = (flagged & ~truth).sum() / (~truth).sum()
    return {
        "precision": float(hits / max(flagged.sum(), 1)),
        "recall": float(hits / truth.sum()),
        "recorded values flagged": float(wrong),
    }


def judge(logs, truth, devices, threshold, usual=None, rows=None):
    found = screen(logs, devices=devices, detectors={"not_worn": {"threshold": threshold}}, usual=usual)
    rows = np.ones(len(logs), dtype=bool) if rows is None else rows
    return rates(truth[rows], np.isnan(found.logs.outcome)[rows])


def subset(logs, people):
    """The logs of some people."""
    table = logs.to_frame("pyarrow").filter(np.isin(logs.participant_index, people))
    names = logs.names
    return sf.Trajectories.from_frame(
        table,
        participant=names.participant,
        time=names.time,
        state=list(logs.state_names),
        action=names.action,
        outcome=names.outcome,
        available=names.available,
    )


def heartsteps(path, splits=20):
    """The whole file; and, with what is usual learned from half of the people, the other half."""
    filled = read_zero_filled(path)
    logs, truth = filled.logs, filled.not_recorded["steps"]
    whole = {str(threshold): judge(logs, truth, DEVICES, threshold) for threshold in THRESHOLDS}
    rng, apart = np.random.default_rng(0), {str(threshold): [] for threshold in THRESHOLDS}
    for _ in range(splits):
        half = rng.permutation(len(logs.participants))[: len(logs.participants) // 2]
        usual = screen(subset(logs, half), devices=DEVICES).usual
        rest = ~np.isin(logs.participant_index, half)
        for threshold in THRESHOLDS:
            apart[str(threshold)].append(judge(logs, truth, DEVICES, threshold, usual, rest))
    found = screen(logs, devices=DEVICES)
    found.plot(ax=new_page_figure()).figure.savefig(
        ROOT / "docs" / "heartsteps-v1-worn.png", dpi=110, metadata={"Software": None}
    )
    return {
        "whole file": whole,
        "steps before, at 0.9": rates(filled.not_recorded["steps_before"], np.isnan(found.logs.state[:, 0])),
        "other people": {
            name: {key: float(np.mean([one[key] for one in each])) for key in each[0]} for name, each in apart.items()
        },
        "by action": [one.to_dict() for one in found.treatment],
        "counts": found.counts(),
    }


def walkers(seed, people=100, points=210):
    """People who sit still at a fifth to a third of the time and leave the watch at home at an eighth, in runs of ten."""
    rng = np.random.default_rng(seed)
    off = np.zeros((people, points), dtype=bool)
    off[:, 0] = rng.random(people) < 0.12
    for t in range(1, points):
        change = rng.random(people)
        off[:, t] = np.where(off[:, t - 1], change >= 0.1, change < 0.1 * 0.12 / 0.88)
    still = rng.random((2, people, points)) < rng.beta(6, 18, (2, people, 1))
    steps = np.where(still | off, 0.0, np.round(rng.lognormal(5, 1.2, (2, people, points))) + 1)
    logs = sf.Trajectories.from_arrays(
        steps[0][..., None], rng.integers(0, 2, off.shape), steps[1], state_names=["steps_before"]
    )
    return logs, off[logs.participant_index, logs.time]


def simulated(seeds=range(300, 305)):
    """Other seeds than those of the tests."""
    each = {str(threshold): [] for threshold in THRESHOLDS}
    for seed in seeds:
        logs, off = walkers(seed)
        for threshold in THRESHOLDS:
            each[str(threshold)].append(judge(logs, off, {"steps_before": "wrist", "outcome": "wrist"}, threshold))
    return {name: {key: float(np.mean([one[key] for one in found])) for key in found[0]} for name, found in each.items()}


def many(folder, people):
    """`surefoot screen` of a folder of Parquet files: seconds and peak memory."""
    logs = folder / f"logs-{people}"
    logs.mkdir(parents=True, exist_ok=True)
    clean = HeartSteps(participants=PER_FILE).collect(sf.policies.coin(2), decision_points=POINTS, seed=0)
    table = contaminate(clean, mechanism="nonwear", ratio=0.1, run_length=4, seed=1).logs.to_frame("pyarrow")
    for number in range(people // PER_FILE):
        ids = np.asarray(table["participant"]) + number * PER_FILE
        moved = table.set_column(table.schema.get_field_index("participant"), "participant", [ids])
        pq.write_table(moved, logs / f"{number:05d}.parquet")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    command = [sys.executable, "-m", "surefoot", "screen", str(logs), "--study", str(folder / "study.toml"), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen([*command, "--out", str(folder / "flagged.parquet")], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with status {status}")
    return {
        "people": people,
        "decision_points": people * POINTS,
        "seconds": round(time.perf_counter() - start, 1),
        "peak_memory_mib": round(usage.ru_maxrss / 1024),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heartsteps", type=Path, required=True)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    results = {
        "times": times(),
        "heartsteps_v1": heartsteps(given.heartsteps),
        "simulated walkers": simulated(),
        "many people": [many(given.folder, people) for people in (given.people // 10, given.people)],
    }
    path = ROOT / "benchmarks" / "screening.json"
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
