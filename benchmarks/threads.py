"""What more threads give: seconds for 10,000 people × 210 decision points with 1, 2, 4, … of them.

    python -m benchmarks.threads --out benchmarks/threads.json

Worth running on a machine with many cores; `surefoot fit --engine dask` uses processes instead.
"""

import argparse
import datetime
import json
import os
import platform
from pathlib import Path

import numpy as np

import surefoot as sf
from benchmarks.measuring import side_by_side, study
from surefoot.numerics import parallel

METHODS = ("ro-linucb", "ro-accb")


def fit(name, logs, count):
    os.environ["SUREFOOT_THREADS"] = str(count)
    sf.method(name).fit(logs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    cores = parallel.count_cores()
    parallel.MOST_THREADS = cores  # to see what the limit spares us
    counts = [2**power for power in range(10) if 2**power <= cores]
    logs, _ = study(10_000)
    runs = {(name, count): lambda name=name, count=count: fit(name, logs, count) for name in METHODS for count in counts}
    seconds = side_by_side(runs, 3)
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cores": cores,
        "people": 10_000,
        "decision_points": 210,
        "seconds_by_threads": {name: {count: round(seconds[name, count], 3) for count in counts} for name in METHODS},
        "versions": {"surefoot": sf.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    print(json.dumps(results, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
