"""What the mistakes begin from: sound logs, a sound study, and ways to spoil them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app

STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "p"

[state.mood]
range = [0, 10]

[state.rain]
kind = "yes/no"

[state.place]
kind = "category"
levels = ["other", "home"]

[actions]
column = "sent"

[outcome]
column = "steps"
transform = "log(x + 0.5)"

[method]
name = "ro-accb"
"""
HEADER = "participant,time,mood,rain,place,available,sent,p,steps\n"
FIRST = "ann,2020-01-01T08:00:00,4.5,yes,home,1,0,0.5,12\n"
SECOND = "ann,2020-01-02T08:00:00,6.5,no,other,1,1,0.5,250\n"
THIRD = "bob,2020-01-01T09:00:00,2.5,no,home,0,,,\n"
LOGS = HEADER + FIRST + SECOND + THIRD


def read(text: str | bytes, study: str = STUDY, name: str = "logs.csv") -> Callable[[], object]:
    """Read a file with these contents."""

    def make() -> object:
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return sf.Study.parse(study).read(name)

    return make


def cell(old: str, new: str, study: str = STUDY) -> Callable[[], object]:
    """Read the sound logs with one thing in them changed."""
    assert old in LOGS
    return read(LOGS.replace(old, new, 1), study)


def key(old: str, new: str) -> Callable[[], object]:
    """Load the sound study with one thing in it changed."""
    assert old in STUDY

    def make() -> object:
        Path("study.toml").write_text(STUDY.replace(old, new, 1), encoding="utf-8")
        return sf.Study.load("study.toml")

    return make


def add(section: str) -> Callable[[], object]:
    """Load the sound study with something at its end."""
    return key('name = "ro-accb"\n', 'name = "ro-accb"\n' + section)


def tables(*parts: pa.Table, study: str = STUDY) -> Callable[[], object]:
    """Read a folder of Parquet files."""

    def make() -> object:
        Path("logs").mkdir()
        for number, part in enumerate(parts):
            pq.write_table(part, f"logs/{number}.parquet")
        return sf.Study.parse(study).read("logs")

    return make


def typed() -> pa.Table:
    """The sound logs with types."""
    return pyarrow.csv.read_csv(pa.BufferReader(LOGS.encode()))


def column(name: str, values: pa.Array) -> pa.Table:
    """The sound logs with another column."""
    table = typed()
    return table.set_column(table.column_names.index(name), name, values)


def command(*arguments: str, before: Callable[[], object] | None = None) -> Callable[[], object]:
    """Run a command beside sound logs and a sound study."""

    def make() -> object:
        Path("logs.csv").write_text(trial_text(), encoding="utf-8")
        Path("study.toml").write_text(TRIAL_STUDY, encoding="utf-8")
        if before is not None:
            before()
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        raise AssertionError(f"exit code {result.exit_code}: {result.output}")

    return make


TRIAL_STUDY = """\
[columns]
participant = "participant"
time = "time"
probability = "probability"
[state.weather]
[state.engagement]
"""


def trial() -> sf.Trajectories:
    """A small simulated trial."""
    return sf.simulators.HeartSteps(participants=6).collect(sf.policies.fixed([0.4, 0.6]), decision_points=40, seed=0)


def trial_text() -> str:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(trial().to_frame("pyarrow"), sink)
    return sink.getvalue().to_pybytes().decode()


def unbalanced() -> sf.Trajectories:
    """Logs that state a coin where prompts followed `mood`."""
    rng = np.random.default_rng(0)
    mood = rng.integers(0, 2, (12, 50))
    sent = (rng.random((12, 50)) < np.where(mood == 1, 0.7, 0.3)).astype(int)
    even = np.full((12, 50), 0.5)
    return sf.Trajectories.from_arrays(
        mood[..., None], sent, rng.normal(size=(12, 50)), probability=even, state_names=["mood"]
    )


def both_probabilities() -> pa.Table:
    """Logs with the probability of sending and that of the action taken."""
    rng = np.random.default_rng(0)
    sent = (rng.random(600) < 0.7).astype(int)
    return pa.table(
        {"participant": np.repeat(np.arange(12), 50), "time": np.tile(np.arange(50), 12), "mood": rng.normal(size=600),
         "action": sent, "outcome": rng.normal(size=600), "p_sent": np.full(600, 0.7),
         "p_taken": np.where(sent == 1, 0.7, 0.3)}
    )  # fmt: skip


def coded(probability_of: str, swapped: bool = False) -> Callable[[], object]:
    """Evaluate logs whose probabilities mean something else than the study says."""

    def make() -> object:
        pq.write_table(both_probabilities(), "logs.parquet")
        column = {"action taken": "p_sent", "sending": "p_taken"}[probability_of]
        text = f'[columns]\nparticipant = "participant"\ntime = "time"\nprobability = "{column}"\nprobability_of = "{probability_of}"\n[state.mood]\n'
        if swapped:
            text = '[columns]\nparticipant = "participant"\ntime = "time"\n[state.mood]\n[actions]\nprobabilities = [0.7, 0.3]\n'
        logs = sf.Study.parse(text).read("logs.parquet").logs
        return sf.evaluation.evaluate(logs, {"coin": sf.policies.coin(2)})

    return make


def packed(text: str) -> bytes:
    return gzip.compress(text.encode())
