"""What those who do not fit spend on a fit by a Dask cluster: the process that asks (its plan, each task) and the scheduler.

    python -m benchmarks.coordination --out benchmarks/coordination.json

A fit of a folder is two tasks for every file of up to four parts: looking at it, and fitting it.
"""

import argparse
import datetime
import json
import os
import resource
import time
from pathlib import Path

import distributed
import numpy as np
import psutil
from distributed.deploy.subprocess import SubprocessCluster

from benchmarks.million import PER_FILE
from surefoot.fitting.parts import PART_ROWS, divide_people
from surefoot.numerics.parallel import open_cluster


def measure_plan(people, per_file=PER_FILE):
    """Of people in files of 210 decision points each; first of all, because it is the peak of memory that is measured."""
    ids = [np.arange(first, first + per_file) for first in range(0, people, per_file)]
    counts = [np.full(per_file, 210) for _ in ids]
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    divide_people(ids, counts, PART_ROWS)
    taken = time.process_time() - start
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / people
    ids_and_counts = 16
    return {"processor_microseconds_per_participant": 1e6 * taken / people, "bytes_per_participant": ids_and_counts + grown}


def measure_tasks(workers, tasks, idle=10.0):
    """Processor milliseconds per task, and the share of a core that the scheduler spends while nothing happens.

    The ids of a file's people go there, as with a part that is fitted, and come back, as from a file that is looked at.
    """
    items = [np.arange(PER_FILE) for _ in range(tasks)]
    with SubprocessCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
            client.wait_for_workers(workers)
        scheduler = psutil.Process(cluster.scheduler.process.pid)

        def spent():
            return time.perf_counter(), time.process_time(), sum(scheduler.cpu_times()[:2])

        with open_cluster(cluster.scheduler_address) as run:
            list(run(items[:10], np.sort))
            before = spent()
            time.sleep(idle)
            rested = spent()
            list(run(items, np.sort))
            wall, asking, scheduling = (end - start for start, end in zip(rested, spent(), strict=True))
        share = (rested[2] - before[2]) / (rested[0] - before[0])
        return {
            "scheduler_milliseconds_per_task": 1e3 * max(0.0, scheduling - share * wall) / tasks,
            "asking_milliseconds_per_task": 1e3 * asking / tasks,
            "scheduler_share_of_a_core_when_idle": share,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "people": asked.people,
        "plan": measure_plan(asked.people),
        "tasks": asked.tasks,
        "by_workers": {workers: measure_tasks(workers, asked.tasks) for workers in asked.workers},
        "versions": {"distributed": distributed.__version__},
    }
    print(json.dumps(results, indent=1))
    asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
