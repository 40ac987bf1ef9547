"""What more processes give: `surefoot fit` on a folder of a million people with 1, 2, 4, … cores.

    python -m benchmarks.processes --people 1000000 --folder /tmp/million --out benchmarks/processes.json

One core fits a tenth of the people in one process, everything else all of them. Worth running on a machine with many cores.
"""

import argparse
import datetime
import json
import os
import shutil
import time
from functools import partial
from pathlib import Path

import numpy as np

import surefoot as sf
from benchmarks.million import PER_FILE, STUDY, make_file
from surefoot.fitting import fit_study
from surefoot.numerics.parallel import open_processes


def seconds(logs, out, cores):
    os.environ["SUREFOOT_THREADS"] = str(cores)
    shutil.rmtree(out, ignore_errors=True)
    start, spent = time.perf_counter(), time.process_time()
    fit_study(logs, sf.Study.parse(STUDY), out, engine="auto")
    return time.perf_counter() - start, time.process_time() - spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, nargs="+", help="default: 2, 4, 8, … up to all")
    asked = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    everyone, tenth = asked.folder / "everyone", asked.folder / "tenth"
    for folder in (everyone, tenth):
        folder.mkdir(parents=True, exist_ok=True)
    files = asked.people // PER_FILE
    with open_processes(cores) as run:
        list(run(range(files), partial(make_file, everyone)))
    for path in sorted(everyone.glob("*.parquet"))[: max(1, files // 10)]:
        if not (tenth / path.name).exists():
            os.link(path, tenth / path.name)
    alone, _ = seconds(tenth, asked.folder / "fitted", 1)
    per_participant, asking = {1: 1e6 * alone / (max(1, files // 10) * PER_FILE)}, {}
    for count in asked.cores or [2**k for k in range(1, 10) if 2**k <= cores]:
        taken, spent = seconds(everyone, asked.folder / "fitted", count)
        per_participant[count], asking[count] = 1e6 * taken / (files * PER_FILE), 1e6 * spent / (files * PER_FILE)
        print(
            count, round(taken, 1), "s,", round(per_participant[1] / per_participant[count], 2), "times one core", flush=True
        )
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "people": files * PER_FILE,
        "cores": cores,
        "microseconds_per_participant_by_cores": per_participant,
        "times_one_core": {count: per_participant[1] / taken for count, taken in per_participant.items()},
        "processor_microseconds_per_participant_of_the_asking_process": asking,
        "versions": {"surefoot": sf.__version__, "numpy": np.__version__},
    }
    asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
