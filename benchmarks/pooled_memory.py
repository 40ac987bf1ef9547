"""Peak memory and time of pooled fits to many rows, each in a process of its own.

    python -m benchmarks.pooled_memory [--rows 10000000] [--points 100] [--variables 3] [--only ro-accb hb-accb]

The rows are those of rows / points people in a folder of Parquet files; one reward in a hundred is an artefact. The result
is the largest resident set of the process that fits, with interpreter and libraries. Results go to
benchmarks/pooled_memory.json; with --only the results of the other methods stay there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from surefoot.fitting import fit_study

STUDY = """
[columns]
participant = "participant"
time = "time"
probability = "probability"
{states}
[method]
name = "{name}"
pooling = "{pooling}"
"""
FITS = (("ts", "all"), ("ts", "partial"), ("ro-accb", "all"), ("ro-accb", "partial"), ("hb-accb", "all"))
FILE_ROWS = 500_000


def write_logs(folder: Path, rows: int, points: int, variables: int) -> None:
    """Files of some thousand people each."""
    people = FILE_ROWS // points
    for number in range(-(-rows // FILE_ROWS)):
        rng = np.random.default_rng(number)
        state = rng.normal(size=(FILE_ROWS, variables))
        action = rng.integers(2, size=FILE_ROWS)
        level = np.repeat(rng.normal(size=people), points)
        columns = {
            "participant": np.repeat(number * people + np.arange(people), points),
            "time": np.tile(np.arange(points), people),
            **{f"state{j}": state[:, j] for j in range(variables)},
            "action": action,
            "probability": np.full(FILE_ROWS, 0.5),
            "outcome": level
            + state[:, 0]
            + action * state[:, 1]
            + rng.normal(size=FILE_ROWS)
            + 20 * (rng.random(FILE_ROWS) < 0.01),
        }
        parquet.write_table(pa.table(columns), folder / f"{number:04d}.parquet")


def fit(logs: Path, study: Path, out: Path) -> None:
    """Fit in a process of its own; seconds and megabytes go to standard output."""
    began = time.perf_counter()
    fitted = fit_study(logs, study, out, engine="numpy")
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rows = fitted.manifest["decision_points"]
    print(
        json.dumps(
            {"rows": rows, "seconds": round(seconds, 1), "megabytes": round(peak / 1e6), "bytes_per_row": round(peak / rows)}
        )
    )


def main() -> None:
    """Run every fit after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--variables", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="methods; all unless given")
    parser.add_argument("--fit", nargs=3, type=Path, help="logs, study and folder of one fit")
    arguments = parser.parse_args()
    if arguments.fit:
        fit(*arguments.fit)
        return
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if arguments.only else {}
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        # In a process of its own: a process that starts another passes its largest resident set on.
        sizes = f"{arguments.rows}, {arguments.points}, {arguments.variables}"
        writer = f"from benchmarks.pooled_memory import *; write_logs(Path({str(logs)!r}), {sizes})"
        subprocess.run([sys.executable, "-c", writer], check=True)
        states = "\n".join(f"[state.state{j}]" for j in range(arguments.variables))
        for name, pooling in FITS:
            if arguments.only and name not in arguments.only:
                continue
            study = Path(folder) / "study.toml"
            study.write_text(STUDY.format(states=states, name=name, pooling=pooling))
            command = [sys.executable, "-m", "benchmarks.pooled_memory", "--fit", logs, study, f"{folder}/{name}-{pooling}"]
            output = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
            label = f"{name}, {pooling}, {arguments.variables} variables"
            results[label] = json.loads(output.splitlines()[-1])
            print(f"{label}: {output.splitlines()[-1]}", flush=True)
            out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
