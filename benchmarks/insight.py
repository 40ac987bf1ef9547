"""`surefoot audit`, `explain` and `evaluate` on 5,000 people with 60 decision points each, as commands with pages.

    python -m benchmarks.insight --out benchmarks/insight.json
    python -m benchmarks.insight --people 100000 --runs 1 --out benchmarks/insight.json

Wall-clock and processor seconds of each command, starting Python, reading the file and writing the page included: the
quickest of three runs, since other work on the machine only ever adds. On a busy one the processor seconds are those to
compare; with two threads the wall clock of an idle one is less than they are. Megabytes are the largest resident set of the
process. Another number of people than 5,000 is kept beside that, under `many`.
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

import pyarrow.parquet as pq

from benchmarks.measuring import study

STUDY = """
[columns]
participant = "participant"
time = "time"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[probability_limits]
minimum = 0.1
maximum = 0.9
[method]
name = "ro-accb"
pooling = "{pooling}"
"""
LIMITS = {"audit": 5, "explain": 15, "evaluate": 5}
"""Seconds that a command may take."""
USUAL_PEOPLE = 5000


def write_logs(file, people, points):
    logs, _ = study(people, points)
    pq.write_table(logs.to_frame("pyarrow"), file)


def measure(command, folder, pooling, count):
    """Wall-clock and processor seconds of the quickest run of one command, and its memory."""
    runs = [run(command, folder, pooling) for _ in range(count)]
    return {name: min(one[name] for one in runs) for name in runs[0]}


def run(command, folder, pooling):
    file = folder / f"{pooling}.toml"
    file.write_text(STUDY.format(pooling=pooling), encoding="utf-8")
    page = folder / f"{command}.html"
    call = [sys.executable, "-m", "surefoot", command, folder / "logs.parquet", "--study", file, "--html", page]
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, call)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{call} ended with status {status}")
    seconds = {"wall": time.perf_counter() - start, "processor": usage.ru_utime + usage.ru_stime}
    sizes = {"page_kib": page.stat().st_size // 1024, "megabytes": round(usage.ru_maxrss * 1024 / 1e6)}
    return {name: round(value, 1) for name, value in seconds.items()} | sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=USUAL_PEOPLE)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: whoever starts others passes its largest resident set on to them.
        writing = (folder / "logs.parquet", asked.people, asked.points)
        process = multiprocessing.get_context("spawn").Process(target=write_logs, args=writing)
        process.start()
        process.join()
        found = {
            f"{command}, pooling = {pooling}": measure(command, folder, pooling, asked.runs)
            for command in LIMITS
            for pooling in ("person", "all")
        }
    for name, seconds in found.items():
        print(
            f"{name:<28} {seconds['wall']:6.1f} s wall  {seconds['processor']:6.1f} s processor  {seconds['page_kib']} KiB"
            f"  {seconds['megabytes']} MB"
            + f"  (at most {LIMITS[name.partition(',')[0]]} s)"
            * (asked.people == USUAL_PEOPLE)
        )
    if asked.out:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        about = {"date": datetime.date.today().isoformat(), "cores": cores, "people": asked.people, "points": asked.points}
        about |= {"others_running": round(os.getloadavg()[0] - 1, 1)}
        known = json.loads(asked.out.read_text(encoding="utf-8")) if asked.out.exists() else {}
        measured = {**about, "seconds": found}
        kept = known | (measured if asked.people == USUAL_PEOPLE else {"many": measured})
        asked.out.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
