"""Peak memory and time of fits to one large file, each in a process of its own.

    python -m benchmarks.large_files [--rows 10000000] [--points 100]

The rows are in the order of their times, so that everybody's are all over the file: CSV, the same packed, and a Parquet file
of one row group. What is told is the largest resident set of the process that fits, interpreter and libraries included; it
starts no others (`--engine numpy`). Results go to benchmarks/large_files.json.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.pooled_memory import STUDY, fit

FITS = (
    ("ro-linucb", "person", "csv"),
    ("ts", "all", "csv"),
    ("ro-linucb", "person", "csv.gz"),
    ("ro-linucb", "person", "parquet"),
)


def write_logs(folder: Path, rows: int, points: int) -> None:
    """One time after the other, of all people; never all rows in memory."""
    people = rows // points
    schema = pa.schema(
        [("participant", pa.int64()), ("time", pa.int64())]
        + [(name, pa.float64()) for name in ("weather", "engagement", "fatigue")]
        + [("action", pa.int64()), ("probability", pa.float64()), ("reward", pa.float64())]
    )
    own = np.random.default_rng(0).normal(size=people)
    tables = (make_rows(schema, own, time) for time in range(points))
    with csv.CSVWriter(folder / "logs.csv", schema) as text:
        for table in tables:
            text.write_table(table)
    with (folder / "logs.csv").open("rb") as text, gzip.open(folder / "logs.csv.gz", "wb", compresslevel=1) as packed:
        shutil.copyfileobj(text, packed)
    parquet.write_table(csv.read_csv(folder / "logs.csv"), folder / "logs.parquet", row_group_size=rows)


def make_rows(schema: pa.Schema, own: np.ndarray, time: int) -> pa.Table:
    """Everybody's decision point at one time."""
    rng, people = np.random.default_rng(1 + time), len(own)
    state, action = np.round(rng.normal(size=(people, 3)), 4), rng.integers(2, size=people)
    reward = np.round(own + state[:, 0] + action * state[:, 1] + rng.normal(size=people), 4)
    columns = [np.arange(people), np.full(people, time), *state.T, action, np.full(people, 0.5), reward]
    return pa.table([pa.array(column) for column in columns], schema=schema)


def main() -> None:
    """Every fit after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--fit", nargs=3, type=Path, help="logs, study and folder of one fit")
    parser.add_argument("--write", type=Path, help="folder to write the files into")
    asked = parser.parse_args()
    if asked.fit:
        fit(*asked.fit)
        return
    if asked.write:
        write_logs(asked.write, asked.rows, asked.points)
        return
    results = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # In a process of its own: whoever starts others passes its largest resident set on to them.
        call = [sys.executable, "-m", "benchmarks.large_files", "--write", place]
        subprocess.run([*call, "--rows", str(asked.rows), "--points", str(asked.points)], check=True)
        for name, pooling, kind in FITS:
            study, logs = folder / "study.toml", folder / f"logs.{kind}"
            study.write_text(STUDY.format(name=name, pooling=pooling))
            command = [
                sys.executable,
                "-m",
                "benchmarks.large_files",
                "--fit",
                logs,
                study,
                folder / f"{name}-{pooling}-{kind}",
            ]
            told = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
            found = json.loads(told.splitlines()[-1]) | {"file_megabytes": round(logs.stat().st_size / 1e6)}
            results[f"{name}, {pooling}, {kind}"] = found
            print(f"{name}, {pooling}, {kind}: {found}", flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
