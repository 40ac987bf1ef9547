"""Decision tables of trial services: one row per decision point, with action and probability."""

import json
from typing import Any

import pyarrow as pa

from surefoot.data.log_columns import MISSING, settle_missing, whole_array
from surefoot.linking.profiles.columns import parse_times
from surefoot.linking.profiles.files import ExportFile, TableForm, read_tables
from surefoot.linking.profiles.profile import Profile, Streams, register_profile, spell_value

STREAM = "decisions"
REQUEST_TIMES = ("request_timestamp", "timestamp", "created_at")


@register_profile
class Oralytics(Profile):
    """Tables in the form of the Oralytics trial: `user_id`, `user_decision_t`, `decision_time`, `action`, `prob`, `state_…`.

    `decision_time` is a local time, whose zone the table does not name.

    Source: naming_convention.md of github.com/StatisticalReinforcementLearningLab/oralytics_pilot_data.
    """

    name = "oralytics"
    title = "an Oralytics-style decision table"
    holds_decisions = True

    def recognize(self, file: ExportFile) -> str | None:
        if {"user_id", "decision_time", "action", "prob"} <= set(file.head.header):
            return "the columns user_id, decision_time, action and prob are those of Oralytics"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        for table, name_row in read_tables(file, TableForm(file.head.separator)):
            time = parse_times("decision_time", table["decision_time"], name_row)
            values = {name: table[name] for name in table.column_names if name not in ("user_id", "decision_time")}
            streams.add(STREAM, table["user_id"], time, values)


@register_profile
class JustIn(Profile):
    """The tables `actions` and `study_data` that JustIn's `flask export-csv` writes.

    `user_id` or `group_id` names the participant; the time is that of the request (`request_timestamp`, else `timestamp`).
    Objects in `context`, `raw_context` and `outcome` become columns such as `context.temperature`.

    Source: README and app/models.py of github.com/StatisticalReinforcementLearningLab/JustIn_RL_API.
    """

    name = "justin"
    title = "a JustIn-style decision table"
    holds_decisions = True

    def recognize(self, file: ExportFile) -> str | None:
        header = set(file.head.header)
        names = {"decision_idx", "action", "action_prob"}
        if names <= header and header & {"user_id", "group_id"} and header & set(REQUEST_TIMES):
            return "the columns decision_idx, action and action_prob are those of JustIn"
        return None

    def read(self, file: ExportFile, streams: Streams) -> None:
        header = file.head.header
        time = next(name for name in REQUEST_TIMES if name in header)
        participant = "user_id" if "user_id" in header else "group_id"
        streams.note(f"participants are taken from {participant}, times from {time}")
        for table, name_row in read_tables(file, TableForm(file.head.separator)):
            times = parse_times(time, table[time], name_row)
            values: dict[str, pa.Array] = {}
            for name in table.column_names:
                if name not in (participant, time):
                    values |= _flatten(name, whole_array(table[name]))
            streams.add(STREAM, table[participant], times, values)


def _flatten(name: str, cells: pa.Array) -> dict[str, pa.Array]:
    """The entries of a column of JSON objects as columns; any other column as it is."""
    objects = [_parse_object(text) for text in settle_missing(cells, MISSING).to_pylist()]
    if None in objects or not any(objects):
        return {name: cells}
    keys = dict.fromkeys(key for entry in objects if entry for key in entry)
    return {
        f"{name}.{key}": pa.array([spell_value(entry.get(key)) if entry else None for entry in objects], pa.string())
        for key in keys
    }


def _parse_object(text: str | None) -> dict[str, Any] | None:
    """An object, an empty one for a missing cell, None for anything else."""
    if text is None:
        return {}
    try:
        value = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
