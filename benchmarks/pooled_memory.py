"""Peak memory and time of pooled fits to many rows, each in a process of its own.

    python benchmarks/pooled_memory.py [--rows 10000000] [--points 100] [--only ro-accb hb-accb]

The rows are those of rows / points people in a folder of Parquet files, and once in one file; a hundredth of the rewards are
artefacts. What is told is the largest resident set of the process that fits, interpreter and libraries and what is mapped of
files included. Results go to benchmarks/pooled_memory.json, beside those of methods that were not asked for.
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
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "{name}"
pooling = "{pooling}"
"""
FITS = (
    ("ts", "all", "folder"),
    ("ts", "partial", "folder"),
    ("ro-accb", "all", "folder"),
    ("hb-accb", "all", "folder"),
    ("ro-accb", "partial", "folder"),
    ("ts", "all", "one file"),
)
FILE_ROWS = 500_000


def write_logs(folder: Path, rows: int, points: int) -> None:
    """Files of some thousand people each."""
    people = FILE_ROWS // points
    for number in range(-(-rows // FILE_ROWS)):
        rng = np.random.default_rng(number)
        state, action = rng.normal(size=(FILE_ROWS, 3)), rng.integers(2, size=FILE_ROWS)
        own = np.repeat(rng.normal(size=people), points)
        columns = {
            "participant": np.repeat(number * people + np.arange(people), points),
            "time": np.tile(np.arange(points), people),
            "weather": state[:, 0],
            "engagement": state[:, 1],
            "fatigue": state[:, 2],
            "action": action,
            "probability": np.full(FILE_ROWS, 0.5),
            "reward": own
            + state[:, 0]
            + action * state[:, 1]
            + rng.normal(size=FILE_ROWS)
            + 20 * (rng.random(FILE_ROWS) < 0.01),
        }
        parquet.write_table(pa.table(columns), folder / f"{number:04d}.parquet")


def join_files(folder: Path) -> Path:
    """The same rows in one file, a row group for each."""
    files = sorted(folder.iterdir())
    with parquet.ParquetWriter(folder.with_suffix(".parquet"), parquet.read_schema(files[0])) as writer:
        for file in files:
            writer.write_table(parquet.read_table(file))
    return folder.with_suffix(".parquet")


def fit(logs: Path, study: Path, out: Path) -> None:
    """In a process of its own: seconds and megabytes on standard output."""
    began = time.perf_counter()
    found = fit_study(logs, study, out, engine="numpy")
    seconds = time.perf_counter() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(
        json.dumps({"rows": found.manifest["decision_points"], "seconds": round(seconds, 1), "megabytes": round(megabytes)})
    )


def main() -> None:
    """Every fit after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--only", nargs="*", help="methods; all unless given")
    parser.add_argument("--fit", nargs=3, type=Path, help="logs, study and folder of one fit")
    asked = parser.parse_args()
    if asked.fit:
        fit(*asked.fit)
        return
    out = Path(__file__).with_suffix(".json")
    results = json.loads(out.read_text()) if asked.only else {}
    with tempfile.TemporaryDirectory() as place:
        logs = Path(place) / "logs"
        logs.mkdir()
        write_logs(logs, asked.rows, asked.points)
        for name, pooling, where in (one for one in FITS if not asked.only or one[0] in asked.only):
            if where == "one file":
                logs = join_files(logs)
            study = Path(place) / "study.toml"
            study.write_text(STUDY.format(name=name, pooling=pooling))
            command = [sys.executable, __file__, "--fit", str(logs), str(study), f"{place}/{name}-{pooling}-{where[:3]}"]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results[f"{name}, {pooling}, {where}"] = json.loads(told.splitlines()[-1])
            print(f"{name}, {pooling}, {where}: {told.splitlines()[-1]}", flush=True)
            out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
