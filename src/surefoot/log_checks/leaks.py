"""Whether a state variable was known only after the decision: it says which action was taken, or what the outcome was."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.data.suspect_columns import find_codes, gives_away_action
from surefoot.data.trajectories import Trajectories
from surefoot.inference.leaks import FEWEST_ROWS, LOOK, Correlations, correlate_with_outcome
from surefoot.log_checks.check import Check
from surefoot.study import Study, StudyLogs

NAME = "leaks"
MOST_ROWS = 20_000
"""More decision points are not looked at: those of some of the people say the same."""
REMEDY = "leave it out unless it was known before the decision"


def check_leaks(read: StudyLogs, study: Study | None) -> Check:
    """Look for state variables that say which action was taken, or what the outcome was."""
    logs = read.logs
    rows = _choose_rows(logs)
    action = logs.action[rows]
    telling = [name for j, name in enumerate(logs.state_names) if gives_away_action(logs.state[rows, j], action)]
    scaling = {} if study is None else study.scaling
    values = np.empty((len(rows), len(logs.state_names)))
    for j, name in enumerate(logs.state_names):
        values[:, j] = _blank_codes(logs.state[rows, j], *scaling.get(name, (0.0, 1.0)))
    outcome = _blank_codes(read.raw_reward[rows])
    correlations = correlate_with_outcome(values, outcome, action, logs.participant_index[rows])
    suspects = [name for j, name in enumerate(logs.state_names) if correlations.suspicious[j] and name not in telling]
    sizes = dict(zip(logs.state_names, correlations.size.tolist(), strict=True))
    numbers = {"action": telling, "outcome": {name: size for name, size in sizes.items() if size > 0}}
    if not telling and not suspects:
        reason = "no state variable says which action was taken or what the outcome was"
        if not correlations.judged.any() and logs.state_names:
            reason = (
                "no state variable says which action was taken; whether one says what the outcome was cannot be told from "
                f"fewer than {FEWEST_ROWS} decision points within people"
            )
        return Check(NAME, "fine", reason, "", numbers)
    unsafe = [name for j, name in enumerate(logs.state_names) if correlations.unsafe[j]]
    reasons = [f"'{name}' says which action was taken" for name in telling]
    reasons += [_describe(name, correlations, logs.state_names.index(name)) for name in suspects]
    remedy = REMEDY
    if suspects:
        remedy += "; a value that is measured with the outcome hides the effect of the action"
    return Check(NAME, "unsafe" if telling or unsafe else "look", "; ".join(reasons), remedy, numbers)


def _choose_rows(logs: Trajectories) -> NDArray[np.int64]:
    """Available decision points in the order of people and time; of many people, some that are evenly spaced."""
    rows = logs.order[logs.available[logs.order]]
    if len(rows) <= MOST_ROWS:
        return rows
    every = -(-len(rows) // MOST_ROWS)
    return np.asarray(rows[logs.participant_index[rows] % every == 0])


def _blank_codes(values: NDArray[np.float64], centre: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    """Without what seems to stand for "missing": where a device fails, it may write the same into state and outcome."""
    logged = np.round(values * scale + centre, 9)
    return np.where(np.isin(logged, find_codes(logged)), np.nan, values)


def _describe(name: str, correlations: Correlations, variable: int) -> str:
    beyond = "the action, its own past and that of the outcome"
    together = ""
    if correlations.beyond_past[variable] < LOOK:
        beyond = "all other state variables, the action and the past"
        together = ", together with the others,"
    nearly = "" if correlations.unsafe[variable] else " nearly"
    return (
        f"'{name}'{together}{nearly} says what the outcome was: correlation "
        f"{correlations.size[variable]:.3f} within people, beyond {beyond}"
    )
