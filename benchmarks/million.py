"""`surefoot fit` on a folder of Parquet with a million people: time and peak memory.

    python -m benchmarks.million --people 1000000 --folder /tmp/million

Makes the folder if it is not there (200 files of 5,000 people × 210 tuples), fits it in a process of its own, interrupts
that once with kill −9 to see it continue, and writes benchmarks/million.json.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import surefoot as sf

PER_FILE = 5_000
STUDY = """
[columns]
person = "user"
time = "time"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "ro-accb"
pooling = "person"
"""


def make(folder, people):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(people // PER_FILE):
        path = folder / f"{number:05d}.parquet"
        if path.exists():
            continue
        logs = sf.simulators.HeartSteps(users=PER_FILE).collect(sf.policies.coin(2), decision_points=210, seed=number)
        table = logs.to_frame("pyarrow")
        users = np.asarray(table["user"]) + number * PER_FILE
        table = table.set_column(table.schema.get_field_index("user"), "user", [users])
        pq.write_table(table, path.with_suffix(".unfinished"))
        path.with_suffix(".unfinished").rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    logs = asked.folder / "logs"
    make(logs, asked.people)
    study, out = asked.folder / "study.toml", asked.folder / "fitted"
    study.write_text(STUDY, encoding="utf-8")
    command = [sys.executable, "-m", "surefoot", "fit", str(logs), "--study", str(study), "--out", str(out), "--force"]
    start = time.perf_counter()
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(asked.folder.glob(".fitted.partial-*/part-000003")):
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = len(list(asked.folder.glob(".fitted.partial-*/part-*")))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    results = {
        "people": manifest["people"],
        "decision_points": manifest["decision_points"],
        "seconds": round(seconds, 1),
        "parts_kept_over_the_kill": kept,
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {"surefoot": sf.__version__, "numpy": np.__version__},
    }
    print(json.dumps(results, indent=2))
    path = Path(__file__).with_name("million.json")
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
