"""Plausibility limits from the data seen so far, for variables that the study gives no range.

A value further from the median than `plausible_widths` times the spread of the middle 90 % counts as missing in an update,
and is named in its result: one broken sensor cannot take a policy over.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from surefoot.study import Study

ENOUGH = 20
"""Fewer values set no limits."""


def find_limits(study: Study, contexts: list[dict[str, Any]], widths: float) -> dict[str, tuple[float, float]]:
    """The limits of every variable that could have a range in the study but has none."""
    limits = {}
    for name, (_, kind) in study.state_kinds.items():
        if "range" not in kind.takes or kind.range is not None:
            continue
        read = [kind.from_json(context.get(name)) for context in contexts]
        values = np.array([value for value in read if value is not None], dtype=np.float64)
        if len(values) < ENOUGH:
            continue
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        # A variable that hardly ever moves says nothing about what is far.
        if high > low:
            limits[name] = (float(middle - widths * (high - low)), float(middle + widths * (high - low)))
    return limits


def blank_implausible(study: Study, found: list[Any], widths: float) -> tuple[list[Any], list[dict[str, Any]]]:
    """The rows with implausible values made missing, and what was blanked: participant, decision point, variable, value."""
    contexts = [json.loads(row["context"]) for row in found]
    limits = find_limits(study, contexts, widths)
    rows, blanked = list(found), []
    for place, (row, context) in enumerate(zip(found, contexts, strict=True)):
        outside = [name for name, (low, high) in limits.items() if _is_outside(context.get(name), low, high)]
        if not outside:
            continue
        rows[place] = {**row, "context": json.dumps({**context, **dict.fromkeys(outside)})}
        for name in outside:
            where = {"participant_id": row["participant_id"], "decision_idx": row["decision_idx"]}
            blanked.append({**where, "variable": name, "value": context[name], "limits": limits[name]})
    return rows, blanked


def _is_outside(value: Any, low: float, high: float) -> bool:
    return type(value) in (int, float) and not low <= value <= high
