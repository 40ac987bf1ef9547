"""HeartSteps V1, the public micro-randomised trial: 37 people, six weeks, five decision points a day.

Source: `suggestions.csv` of klasnja/HeartStepsV1 (CC BY 4.0). Klasnja P, Smith S, Seewald NJ, Lee A, Hall K, Luers B,
Hekler EB, Murphy SA (2019), Annals of Behavioral Medicine 53(6):573–582.
"""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.file_formats import choose_columns
from surefoot.data.frames import make_frame
from surefoot.data.log_table import LogTable
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.reports.summaries import Shown
from surefoot.study import Study
from surefoot.study.log_reader import parse_logs

DAYS = 42
SLOTS = 5
SOURCE = {
    "participant": "user.index",
    "decision": "decision.index",
    "nogap": "decision.index.nogap",
    "slot": "sugg.select.slot",
    "decided_at": "sugg.decision.utime",
    "available": "avail",
    "send": "send",
    "active": "send.active",
    "sedentary": "send.sedentary",
    "steps": "jbsteps30",
    "steps_before": "jbsteps30pre",
    "temperature": "dec.temperature",
    "wind": "dec.windspeed",
    "precipitation": "dec.precipitation.chance",
    "snow": "dec.snow",
    "weather": "dec.weather.condition",
    "location": "dec.location.category",
}
"""Our names and the file's. Of columns known only after the decision there is only the outcome."""
SENTINELS = {"temperature": (-1024.0,), "wind": (-9999.0, -1.0), "precipitation": (-1.0,), "snow": (-1.0,)}
MISSING = ("", "NA", "unknown")
DATE = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})[ T](\d{1,2}):(\d{2})(?::(\d{2}))?(?:\.\d*)?")


@dataclass(frozen=True, eq=False, repr=False)
class HeartStepsV1(Shown):
    """The trial's decision points after the usual exclusions.

    Attributes
    ----------
    frame
        One row per decision point: participant, time, available, send, steps, and variables known before the decision.
    logs
        The same rows as trajectories, with the state of `study` and raw steps as outcome.
    funnel
        The number of rows left after each step, from the file to the rows that a fit uses.
    study
        The study that `surefoot import heartsteps-v1` writes; it optimises log(steps + 0.5).
    """

    frame: Any
    logs: Trajectories
    funnel: dict[str, int]
    study: Study


def study_text() -> str:
    """The commented `study.toml` of this trial."""
    return (files("surefoot.datasets") / "heartsteps_v1.toml").read_text(encoding="utf-8")


def heartsteps_v1(path: str | Path, *, backend: str | None = None) -> HeartStepsV1:
    """Read `suggestions.csv`, as published or as re-saved by a spreadsheet program.

    Parameters
    ----------
    path
        The file, which its authors publish and this package does not hold.
    backend
        The library of `frame`: pyarrow, pandas or polars.

    Returns
    -------
    HeartStepsV1
        Frame, trajectories, study, and the number of rows left after every exclusion.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.datasets.heartsteps_v1("no_such_folder/suggestions.csv")
    Traceback (most recent call last):
    ...
    surefoot.errors.InputError: no_such_folder/suggestions.csv: cannot be read (No such file or directory)
    """
    rows = _read_cells(Path(path), list(SOURCE.values()), lambda cells: {
        name: _parse_cell(name, cells[source]) for name, source in SOURCE.items()
    })  # fmt: skip
    if not rows:
        raise InputError(f"{path}: the file has no rows")
    funnel = {"rows of the file": len(rows)}
    first_slot: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: (row["participant"], row["decision"])):
        first_slot.setdefault(row["participant"], row["slot"])
    for row in rows:
        row["day"] = None if row["nogap"] is None else (first_slot[row["participant"]] - 1 + row["nogap"]) // SLOTS
    steps: dict[str, Callable[[dict[str, Any]], bool]] = {
        "without travel days": lambda row: row["day"] is not None,
        "within study days 0 to 41": lambda row: 0 <= row["day"] < DAYS,
        "without suggestions sent while unavailable": lambda row: bool(row["available"] or not row["send"]),
        "without blank message types": lambda row: row["active"] is not None and row["sedentary"] is not None,
    }
    for name, keeps in steps.items():
        rows = [row for row in rows if keeps(row)]
        funnel[name] = len(rows)
    rows.sort(key=lambda row: (row["participant"], row["decision"]))
    table = _make_table(rows)
    # The outcome as it was measured, without the study's transform.
    raw_steps = Study.parse(study_text().replace('transform = "log(x + 0.5)"', 'transform = "none"'))
    logs = parse_logs(raw_steps, LogTable.of(table, "participant")).logs
    funnel["available"] = int(logs.available.sum())
    funnel["with outcome, prior steps, temperature and location"] = int(logs.usable.sum())
    frame = make_frame({name: table[name].combine_chunks() for name in table.column_names}, backend)
    return HeartStepsV1(frame, logs, funnel, Study.parse(study_text()))


def _make_table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    for row in rows:
        row["message"] = "active" if row["active"] else "sedentary" if row["sedentary"] else None
        row["log_steps_before"] = None if row["steps_before"] is None else float(np.log(row["steps_before"] + 0.5))
    kinds = {
        **dict.fromkeys(("participant", "decision", "day", "slot"), pa.int64()),
        "decided_at": pa.timestamp("s"),
        **dict.fromkeys(("available", "send"), pa.bool_()),
        "message": pa.string(),
        **dict.fromkeys(("steps", "steps_before", "log_steps_before"), pa.float64()),
        **dict.fromkeys(("temperature", "wind", "precipitation", "snow"), pa.float64()),
        **dict.fromkeys(("weather", "location"), pa.string()),
    }
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def _read_cells(path: Path, columns: list[str], parse: Callable[[dict[str, str]], dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns of every row, parsed; an error names the line."""
    try:
        # The file is not quite UTF-8: a stray byte in a place name that we do not use.
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    choose_columns(path, list(reader.fieldnames or ()), columns)
    try:
        return [parse({name: row[name] or "" for name in columns}) for row in reader]
    except (ValueError, csv.Error) as error:
        reason = f"line {reader.line_num}: {error}"
        raise InputError(f"{path}: {reason}; is this the suggestions.csv of HeartSteps V1?") from error


def _parse_cell(name: str, text: str) -> Any:
    """The value of a cell; missing values are None."""
    if text in MISSING:
        if name in ("participant", "decision", "slot", "available"):
            raise ValueError(f"{SOURCE[name]} is missing")
        return None
    if name in KINDS:
        return KINDS[name](text)
    number = float(text)
    return None if not np.isfinite(number) or number in SENTINELS.get(name, ()) else number


def _parse_boolean(text: str) -> bool:
    """`TRUE` (a spreadsheet's) or `True` (as published)."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def _parse_time(text: str) -> datetime:
    """`2015/7/22 16:30` (a spreadsheet's) or `2015-07-22 16:30:00` (as published)."""
    match = DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a date; expected 2015-07-22 16:30:00 or 2015/7/22 16:30")
    return datetime(*(int(part or 0) for part in match.groups()))  # type: ignore[arg-type]


KINDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("participant", "decision", "nogap", "slot"), lambda text: int(float(text))),
    **dict.fromkeys(("available", "send", "active", "sedentary"), _parse_boolean),
    "decided_at": _parse_time,
    # Where the weather service failed, the trace of a Java exception was stored.
    "weather": lambda text: None if ".java:" in text else text,
    "location": lambda text: text if text in ("home", "work") else "other",
}
"""How a cell is read; the others are numbers."""


ZERO_COLUMNS = ("user.index", "decision.index", "avail", "send", "jbsteps60pre", "jbsteps30")
DEVICES = {"steps_before": "wrist", "steps": "wrist"}


@dataclass(frozen=True, eq=False)
class ZeroFilled:
    """All rows of the file, in each participant's order, with missing steps written as zeros.

    `jbsteps30` and `jbsteps60pre` are empty where the tracker recorded nothing; `jbsteps30.zero` and `jbsteps60pre.zero`
    have 0 there. A screen should find these false zeros.
    """

    logs: Trajectories
    """`steps_before` as state, `steps` as outcome; unavailable where nobody was randomised."""
    not_recorded: dict[str, NDArray[np.bool_]]
    """For `steps_before` and `steps` the rows where the tracker recorded nothing."""


def read_zero_filled(path: str | Path) -> ZeroFilled:
    """Read `suggestions.csv` with its columns of zeros."""
    names = [*ZERO_COLUMNS, "jbsteps60pre.zero", "jbsteps30.zero"]
    rows = _read_cells(Path(path), names, lambda cells: {
        name: text.lower() if name in ("avail", "send") else float(text) if text not in ("", "NA") else np.nan
        for name, text in cells.items()
    })  # fmt: skip
    columns = {name: np.array([row[name] for row in rows]) for name in names}
    available = (columns["avail"] == "true") & (columns["send"] != "")
    data = {
        "participant": columns["user.index"].astype(np.int64),
        "decision": columns["decision.index"].astype(np.int64),
        "available": available,
        "send": (available & (columns["send"] == "true")).astype(np.int64),
        "steps_before": columns["jbsteps60pre.zero"],
        "steps": columns["jbsteps30.zero"],
    }
    roles = {"participant": "participant", "time": "decision", "action": "send", "outcome": "steps"}
    logs = Trajectories.from_frame(make_frame(data, "pyarrow"), state=["steps_before"], available="available", **roles)
    missing = {"steps_before": np.isnan(columns["jbsteps60pre"]), "steps": np.isnan(columns["jbsteps30"])}
    return ZeroFilled(logs, missing)
