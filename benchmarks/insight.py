"""`surefoot audit`, `explain` and `evaluate` on 5,000 people with 60 decision points each, as commands with pages.

    python -m benchmarks.insight --out benchmarks/insight.json
    python -m benchmarks.insight --people 100000 --runs 1 --out benchmarks/insight.json
    python -m benchmarks.insight --wide --runs 1 --out benchmarks/insight.json

Wall-clock and processor seconds of each command, starting Python, reading the file and writing the page included: the
quickest of three runs, since other work on the machine only ever adds. On a busy one the processor seconds are those to
compare; with two threads the wall clock of an idle one is less than they are. Megabytes are the largest resident set of the
process. Another number of people than 5,000 is kept beside that, under `many`; `--wide` measures studies with many state
variables, and two actions beside three, under `wide`.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import study

STUDY = """
[columns]
participant = "participant"
time = "time"
probability = "probability"
{state}
[actions]
names = {actions}
[probability_limits]
minimum = 0.1
maximum = 0.9
[method]
name = "{method}"
pooling = "{pooling}"
"""
STATES = ("weather", "engagement", "fatigue")
ACTIONS = ("nothing", "send", "call")
LIMITS = {"audit": 5, "explain": 15, "evaluate": 5}
"""Seconds that a command may take."""
USUAL_PEOPLE = 5000
WIDE = tuple(
    {"people": 20, "points": 200, "variables": variables, "method": method, "pooling": pooling}
    for variables in (100, 200, 400)
    for method in ("ro-accb", "accb")
    for pooling in ("all", "person")
) + tuple(
    {"people": 200, "points": 200, "variables": 3, "method": "ro-accb", "pooling": "person", "actions": actions}
    for actions in (2, 3)
)


def write_study(file, *, method="ro-accb", pooling, states=STATES, actions=2):
    text = STUDY.format(
        state="\n".join(f"[state.{name}]" for name in states),
        actions=json.dumps(ACTIONS[:actions]),
        method=method,
        pooling=pooling,
    )
    file.write_text(text, encoding="utf-8")


def write_wide_logs(file, people, points, variables, actions):
    """One variable makes sending worth more, and one outcome in thirty is an artefact."""
    rng = np.random.default_rng(0)
    rows = people * points
    state = rng.standard_normal((rows, variables))
    action = rng.integers(0, actions, rows)
    reward = state[:, :5].sum(axis=1) + (action > 0) * (0.5 + 0.4 * state[:, 0]) + rng.standard_normal(rows)
    reward = np.where(rng.random(rows) < 1 / 30, reward + rng.choice([-20, 20], rows), reward)
    columns = {f"x{j}": state[:, j] for j in range(variables)}
    participant = np.repeat(np.arange(people), points)
    time_ = np.tile(np.arange(points), people)
    probability = np.full(rows, 1 / actions)
    logged = {"participant": participant, "time": time_, "action": action, "probability": probability, "outcome": reward}
    pq.write_table(pa.table({**logged, **columns}), file)


def write_logs(file, people, points):
    logs, _ = study(people, points)
    pq.write_table(logs.to_frame("pyarrow"), file)


def measure(command, folder, count):
    """Wall-clock and processor seconds of the quickest run of one command, and its memory."""
    runs = [run(command, folder) for _ in range(count)]
    return {name: min(seconds[name] for seconds in runs) for name in runs[0]}


def run(command, folder):
    page = folder / f"{command}.html"
    files = {"--study": folder / "study.toml", "--html": page}
    call = [sys.executable, "-m", "surefoot", command, folder / "logs.parquet"]
    call += [part for option in files.items() for part in option]
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, call)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{call} ended with status {status}")
    seconds = {"wall": time.perf_counter() - start, "processor": usage.ru_utime + usage.ru_stime}
    sizes = {"page_kib": page.stat().st_size // 1024, "megabytes": round(usage.ru_maxrss * 1024 / 1e6)}
    return {name: round(value, 1) for name, value in seconds.items()} | sizes


def measure_people(folder, people, points, runs):
    # In a process of its own: whoever starts others passes its largest resident set on to them.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=write_logs, args=(folder / "logs.parquet", people, points))
    process.start()
    process.join()
    seconds = {}
    for command in LIMITS:
        for pooling in ("person", "all"):
            write_study(folder / "study.toml", pooling=pooling)
            seconds[f"{command}, pooling = {pooling}"] = measure(command, folder, runs)
    return seconds


def measure_wide(folder, runs):
    seconds = {}
    for case in WIDE:
        actions = case.get("actions", 2)
        write_wide_logs(folder / "logs.parquet", case["people"], case["points"], case["variables"], actions)
        states = [f"x{j}" for j in range(case["variables"])]
        write_study(folder / "study.toml", method=case["method"], pooling=case["pooling"], states=states, actions=actions)
        for command in ("audit", "explain"):
            name = f"{command}, {case['people']} people, {case['variables']} variables, {actions} actions, {case['method']}"
            seconds[f"{name}, pooling = {case['pooling']}"] = measure(command, folder, runs)
            print(name, case["pooling"], seconds[f"{name}, pooling = {case['pooling']}"], flush=True)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=USUAL_PEOPLE)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.wide:
            seconds = measure_wide(folder, options.runs)
        else:
            seconds = measure_people(folder, options.people, options.points, options.runs)
    for name, measured in seconds.items():
        limit = f"  (at most {LIMITS[name.partition(',')[0]]} s)" if options.people == USUAL_PEOPLE else ""
        print(
            f"{name:<28} {measured['wall']:6.1f} s wall  {measured['processor']:6.1f} s processor  "
            f"{measured['page_kib']} KiB  {measured['megabytes']} MB" + ("" if options.wide else limit)
        )
    if options.out:
        save(options, seconds)


def save(options, seconds):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about = {"date": datetime.date.today().isoformat(), "cores": cores}
    about |= {} if options.wide else {"people": options.people, "points": options.points}
    about |= {"others_running": round(os.getloadavg()[0] - 1, 1)}
    known = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    measured = {**about, "seconds": seconds}
    if options.wide:
        measured = {"wide": measured}
    elif options.people != USUAL_PEOPLE:
        measured = {"many": measured}
    options.out.write_text(json.dumps(known | measured, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
