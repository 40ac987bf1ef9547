"""HeartSteps V1 with its missing steps written as zeros: the one file in which it is known which zeros are false.

`jbsteps30` and `jbsteps60pre` are empty where the tracker recorded nothing; `jbsteps30.zero` and `jbsteps60pre.zero` have 0
there. From the latter alone a screen should find the former.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefoot.data.file_formats import check_columns
from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError

BEFORE = "jbsteps60pre"
AFTER = "jbsteps30"
COLUMNS = ("user.index", "decision.index", "avail", "send", BEFORE, AFTER, f"{BEFORE}.zero", f"{AFTER}.zero")
DEVICES = {"steps_before": "wrist", "steps": "wrist"}


@dataclass(frozen=True, eq=False)
class ZeroFilled:
    """All rows of the file, in each participant's order, with false zeros; and which they are."""

    logs: Trajectories
    """`steps_before` as state, `steps` as reward; unavailable where nobody was randomised."""
    not_recorded: dict[str, NDArray[np.bool_]]
    """For `steps_before` and `steps` the rows where the tracker recorded nothing."""


def read_zero_filled(path: str | Path) -> ZeroFilled:
    """Read `suggestions.csv`."""
    text = Path(path).read_bytes().decode("utf-8", errors="replace")
    reader = csv.DictReader(io.StringIO(text))
    check_columns(Path(path), list(reader.fieldnames or ()), list(COLUMNS))
    try:
        rows = [{name: row[name] or "" for name in COLUMNS} for row in reader]
        columns = {name: np.array([_number(row[name]) for row in rows]) for name in COLUMNS if name not in ("avail", "send")}
    except ValueError as error:
        raise InputError(
            f"{path}: line {reader.line_num}: {error}; is this the suggestions.csv of HeartSteps V1?"
        ) from error
    free = np.array([row["avail"].lower() == "true" and row["send"] != "" for row in rows])
    sent = np.array([row["send"].lower() == "true" for row in rows])
    data = {
        "participant": columns["user.index"].astype(np.int64),
        "decision": columns["decision.index"].astype(np.int64),
        "available": free,
        "send": np.where(free & sent, 1, 0),
        "steps_before": columns[f"{BEFORE}.zero"],
        "steps": columns[f"{AFTER}.zero"],
    }
    logs = Trajectories.from_frame(
        make_frame(data, "pyarrow"),
        participant="participant",
        time="decision",
        state=["steps_before"],
        action="send",
        reward="steps",
        available="available",
    )
    missing = {"steps_before": np.isnan(columns[BEFORE]), "steps": np.isnan(columns[AFTER])}
    return ZeroFilled(logs, missing)


def _number(text: str) -> float:
    return float(text) if text not in ("", "NA") else np.nan
