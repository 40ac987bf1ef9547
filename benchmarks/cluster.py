"""What more workers of a Dask cluster give, and what the process that asks and the scheduler spend meanwhile.

    python -m benchmarks.cluster --people 200000 --folder /tmp/cluster --out benchmarks/cluster.json

`surefoot fit --engine dask` on a folder of Parquet, results by URL (`file://…`), with 1, 2, 4, … workers of one thread each,
in processes of their own, as the scheduler is. Times begin when the workers have loaded the package. One part is also read,
fitted and written step by step. Worth running on a machine with more cores than workers.
"""

import argparse
import datetime
import importlib
import json
import os
import shutil
import statistics
import time
from functools import partial
from pathlib import Path

import distributed
import numpy as np
import psutil
from distributed.deploy.subprocess import SubprocessCluster

import surefoot as sf
from benchmarks.million import PER_FILE, STUDY, make_file
from surefoot.data.locations import Url
from surefoot.fitting import fit_study
from surefoot.fitting.folder import PartWriter
from surefoot.fitting.parts import LogGroups, fit_part
from surefoot.numerics.parallel import open_processes

THREADS = ("SUREFOOT_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def measure_fit(logs, out, workers):
    """Seconds of a fit on so many workers, and the processor seconds of the others."""
    shutil.rmtree(out, ignore_errors=True)
    with SubprocessCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
            client.wait_for_workers(workers)
            for module in ("pyarrow.parquet", "scipy.linalg", "surefoot.fitting"):
                client.run(importlib.import_module, module)
        scheduler = psutil.Process(cluster.scheduler.process.pid)
        before = sum(scheduler.cpu_times()[:2])
        start, spent = time.perf_counter(), time.process_time()
        fit_study(logs, sf.Study.parse(STUDY), f"file://{out}", engine="dask", scheduler=cluster.scheduler_address)
        taken, spent = time.perf_counter() - start, time.process_time() - spent
        return {"wall": taken, "asking": spent, "scheduler": sum(scheduler.cpu_times()[:2]) - before}


def measure_steps(logs, out, files=5):
    """Microseconds per participant of a worker's steps, one after the other in this process; medians over files."""
    start = time.perf_counter()
    plan = LogGroups.scan(sf.Study.parse(STUDY), logs)
    found = {"looking": [(time.perf_counter() - start) / plan.people], "reading": [], "fitting": [], "writing": []}
    for number, group in enumerate(plan.groups[: 4 * files]):
        times = [time.perf_counter()]
        read = plan.read(number)
        times.append(time.perf_counter())
        part = fit_part(plan.study, read)
        times.append(time.perf_counter())
        PartWriter(Url(f"file://{out}"), "steps").write(number, part)
        steps = np.diff([*times, time.perf_counter()]) / len(group.participants)
        for name, taken in zip(("reading", "fitting", "writing"), steps, strict=True):
            found[name].append(taken)
    return {name: 1e6 * statistics.median(taken) for name, taken in found.items()}


def measure_disk(folder, size=2**29):
    """Megabytes per second, written to the disk itself and read back from it."""
    path, data = folder / "disk", np.random.default_rng(0).bytes(size)
    start = time.perf_counter()
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
        written = time.perf_counter() - start
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    path.read_bytes()
    found = {"written": size / 1e6 / written, "read": size / 1e6 / (time.perf_counter() - start)}
    path.unlink()
    return found


def count_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    asked = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, "1"))
    cores, files = len(os.sched_getaffinity(0)), asked.people // PER_FILE
    logs, fitted = asked.folder.resolve() / f"logs-{asked.people}", asked.folder.resolve() / "fitted"
    logs.mkdir(parents=True, exist_ok=True)
    with open_processes(cores) as run:
        list(run(range(files), partial(make_file, logs)))
    found = {}
    for workers in asked.workers:
        found[workers] = measure_fit(logs, fitted, workers)
        print(workers, {name: round(value, 2) for name, value in found[workers].items()}, flush=True)
    sizes = {"logs": count_bytes(logs), "results": count_bytes(fitted)}
    people, alone = files * PER_FILE, found[asked.workers[0]]["wall"]
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "people": people,
        "cores": cores,
        "seconds_by_workers": {workers: one["wall"] for workers, one in found.items()},
        "times_one_worker": {workers: alone / one["wall"] for workers, one in found.items()},
        "processor_microseconds_per_participant_of_the_asking_process": {
            workers: 1e6 * one["asking"] / people for workers, one in found.items()
        },
        "scheduler_share_of_a_core": {workers: one["scheduler"] / one["wall"] for workers, one in found.items()},
        "microseconds_per_participant_by_step": measure_steps(logs, fitted),
        "bytes_per_participant": {name: size / people for name, size in sizes.items()},
        "disk_megabytes_per_second": measure_disk(asked.folder),
        "versions": {"surefoot": sf.__version__, "numpy": np.__version__, "distributed": distributed.__version__},
    }
    asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
