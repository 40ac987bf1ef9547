"""Whether a state variable was known only after the decision: it says which action was taken, or what the outcome was."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.data.suspect_columns import gives_away_action
from surefoot.data.trajectories import Trajectories
from surefoot.inference.partial_correlations import correlate_partially
from surefoot.log_checks.check import Check
from surefoot.study import Study, StudyLogs

LOOK = 0.9
"""A partial correlation from which on a variable explains more of the outcome than one would expect of a state."""
UNSAFE = 0.99
"""From here on it is the outcome in other words."""
MOST_ROWS = 20_000
"""Of more rows, whole participants from the start are looked at."""
REMEDY = "leave it out unless it was known before the decision"


def check_leaks(read: StudyLogs, study: Study | None) -> Check:
    """Judge every state variable by what it explains of the outcome beyond everything else that was known."""
    logs = read.logs
    rows = _choose_rows(logs)
    reward = read.raw_reward[rows]
    state = logs.state[rows]
    action = logs.action[rows]
    sent = np.stack([action == code for code in range(1, logs.actions)], axis=1).astype(np.float64)
    strengths = np.zeros(len(logs.state_names))
    surest = np.zeros(len(logs.state_names))
    ranks = np.empty_like(state)
    for j, values in enumerate(state.T):
        ranks[:, j] = _rank(values)
    # Ranks see relations that are not straight lines.
    for outcome, variables in ((reward, state), (_rank(reward), ranks)):
        partial = correlate_partially(outcome, variables, sent, logs.participant_index[rows])
        strengths = np.maximum(strengths, partial.beyond_others)
        surest = np.maximum(surest, partial.beyond_past)
    strengths = np.where(surest >= UNSAFE, np.maximum(strengths, surest), strengths)
    action_leaks = [name for j, name in enumerate(logs.state_names) if gives_away_action(np.round(state[:, j], 9), action)]
    outcome_leaks = {name: float(strengths[j]) for j, name in enumerate(logs.state_names) if strengths[j] >= LOOK}
    numbers = {"partial_correlations": dict(zip(logs.state_names, strengths.round(4).tolist(), strict=True))}
    if not action_leaks and not outcome_leaks:
        return Check("leaks", "fine", "no state variable gives the action or the outcome away", "", numbers)
    reasons = [f"'{name}' says which action was taken" for name in action_leaks]
    reasons += [
        f"'{name}' explains nearly all of the outcome that nothing else explains (partial correlation {strength:.3f})"
        for name, strength in outcome_leaks.items()
    ]
    is_unsafe = action_leaks or max(outcome_leaks.values()) >= UNSAFE
    return Check("leaks", "unsafe" if is_unsafe else "look", "; ".join(reasons), REMEDY, numbers)


def _choose_rows(logs: Trajectories) -> NDArray[np.int64]:
    """Available decision points by participant and time."""
    ends = logs.starts[1:]
    last = int(ends[np.searchsorted(ends, MOST_ROWS)]) if len(logs) > MOST_ROWS else len(logs)
    rows = logs.order[:last]
    return np.asarray(rows[logs.available[rows]])


def _rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of the values that are there; equal values have equal ranks."""
    known = ~np.isnan(values)
    ranks = np.full(len(values), np.nan)
    ranks[known] = np.unique(values[known], return_inverse=True)[1]
    return ranks
