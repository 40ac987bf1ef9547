"""`surefoot fit` on a folder of Parquet with a million people: time and peak memory.

    python -m benchmarks.million --people 1000000 --folder /tmp/million

Makes the folder if it is not there (200 files of 5,000 people × 210 decision points), fits all of it in a process that is
killed once
(kill −9) and continues, then a tenth of it, then that on a Dask cluster of this machine, and writes benchmarks/million.json.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import surefoot as sf

PER_FILE = 5_000
STUDY = """
[columns]
participant = "participant"
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
        make_file(folder, number)


def make_file(folder, number):
    """One file of people who are in no other, if it is not there."""
    path = folder / f"{number:05d}.parquet"
    if path.exists():
        return
    logs = sf.simulators.HeartSteps(participants=PER_FILE).collect(sf.policies.coin(2), decision_points=210, seed=number)
    table = logs.to_frame("pyarrow")
    participants = np.asarray(table["participant"]) + number * PER_FILE
    table = table.set_column(table.schema.get_field_index("participant"), "participant", [participants])
    pq.write_table(table, path.with_suffix(".unfinished"))
    path.with_suffix(".unfinished").rename(path)


def fit(folder, logs, kill):
    """Seconds, peak memory in MiB and the number of finished parts that a kill left to the second attempt."""
    study, out = folder / "study.toml", folder / f"{logs.name}-fitted"
    study.write_text(STUDY, encoding="utf-8")
    command = [sys.executable, "-m", "surefoot", "fit", str(logs), "--study", str(study), "--out", str(out), "--force"]
    start, kept = time.perf_counter(), 0
    if kill:
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not list(folder.glob(f".{out.name}.partial-*/part-000003")):
            time.sleep(0.1)
        first.send_signal(signal.SIGKILL)
        first.wait()
        kept = len(list(folder.glob(f".{out.name}.partial-*/part-*")))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with status {status}")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return {
        "people": manifest["people"],
        "decision_points": manifest["decision_points"],
        "seconds": round(time.perf_counter() - start, 1),
        "parts_kept_over_the_kill": kept,
        "peak_memory_mib": round(usage.ru_maxrss / 1024),
    }


def fit_on_cluster(folder, logs):
    """Seconds in all, and the processor seconds of the process that hands out parts and writes what comes back."""
    program = (
        "import sys, time; from surefoot.fitting import fit_study\n"
        "if __name__ == '__main__':\n"
        "    fit_study(*sys.argv[1:], engine='dask', force=True); print(time.process_time())"
    )
    script = folder / "on_cluster.py"  # Workers begin by importing the main module, so it must be a file.
    script.write_text(program, encoding="utf-8")
    start = time.perf_counter()
    command = [sys.executable, str(script), str(logs), str(folder / "study.toml"), str(folder / "cluster-fitted")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    return {"seconds": round(seconds, 1), "coordinator_processor_seconds": round(float(done.stdout.split()[-1]), 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    everyone, tenth = asked.folder / "everyone", asked.folder / "tenth"
    make(everyone, asked.people)
    tenth.mkdir(exist_ok=True)
    for path in sorted(everyone.glob("*.parquet"))[: asked.people // PER_FILE // 10]:
        if not (tenth / path.name).exists():
            os.link(path, tenth / path.name)
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "everyone": fit(asked.folder, everyone, kill=True),
        "tenth": fit(asked.folder, tenth, kill=False),
        "tenth_on_dask": fit_on_cluster(asked.folder, tenth),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {"surefoot": sf.__version__, "numpy": np.__version__, "pyarrow": pa.__version__},
    }
    print(json.dumps(results, indent=1))
    (Path(__file__).parent / "million.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
