"""Artefacts put into clean logs, with the truth about which decision points were touched."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, require_known
from surefoot.numerics.random_streams import streams
from surefoot.simulators.simulator import Seed

Floats = NDArray[np.float64]


class Contaminated(NamedTuple):
    """Logs with artefacts, and which rows have one."""

    logs: Trajectories
    """With the artefacts in them."""
    touched: NDArray[np.bool_]
    """Whether a row has one, (rows,)."""

    def __repr__(self) -> str:
        return f"Contaminated: {int(self.touched.sum()):,} of {len(self.touched):,} decision points; see .logs and .touched"


class Record(NamedTuple):
    """One participant's values, (decision points, state variables and outcome), and the ingredients of an artefact."""

    values: Floats
    strength: float
    signs: Floats
    """−1 or 1 for every value, at random."""
    last: NDArray[np.int64]
    """For every decision point the last one before its run of artefacts."""
    rng: np.random.Generator

    @property
    def sizes(self) -> Floats:
        """The mean absolute value of every column; 0 where nothing is present."""
        known = ~np.isnan(self.values)
        return np.array(
            [np.abs(column[seen]).mean() if seen.any() else 0.0 for column, seen in zip(self.values.T, known.T, strict=True)]
        )

    @property
    def state_ranges(self) -> tuple[Floats, Floats]:
        """The least and the greatest of every state variable; 0 where nothing is present."""
        state = self.values[:, :-1]
        least = np.where(np.isnan(state), np.inf, state).min(axis=0, initial=np.inf)
        greatest = np.where(np.isnan(state), -np.inf, state).max(axis=0, initial=-np.inf)
        least, greatest = np.where(np.isfinite(least), (least, greatest), 0.0)
        return least, greatest


class Mechanism(NamedTuple):
    """How an artefact changes a participant's values, and its defaults."""

    change: Callable[[Record], Floats]
    strength: float = 5.0
    values: str = "both"
    after: str = "anything"
    any_strength: bool = False


def _answer_carelessly(record: Record) -> Floats:
    least, greatest = record.state_ranges
    answers = least + (greatest - least) * record.rng.random(record.values[:, :-1].shape)
    return np.column_stack([answers, record.values[:, -1]])


def _answer_alike(record: Record) -> Floats:
    least, greatest = record.state_ranges
    answers = least.min() + (greatest.max() - least.min()) * record.rng.random((len(record.values), 1))
    return np.column_stack([np.broadcast_to(answers, record.values[:, :-1].shape), record.values[:, -1]])


MECHANISMS = {
    "sensor": Mechanism(lambda record: record.values + record.strength * record.sizes * record.signs),
    "prompted": Mechanism(lambda record: record.values + record.strength * record.sizes, values="outcome", after="prompt"),
    "careless": Mechanism(_answer_carelessly, values="state"),
    "nonwear": Mechanism(lambda record: np.zeros_like(record.values)),
    "stuck": Mechanism(lambda record: record.values[record.last], values="outcome"),
    "unit": Mechanism(lambda record: record.strength * record.values, strength=10.0, values="outcome", any_strength=True),
    "code": Mechanism(
        lambda record: np.full_like(record.values, record.strength), strength=999.0, values="outcome", any_strength=True
    ),
    "straightlining": Mechanism(_answer_alike, values="state"),
}
AFTER: dict[str, Callable[[NDArray[np.int64]], NDArray[np.bool_]]] = {
    "anything": lambda action: action >= 0,
    "nothing": lambda action: action == 0,
    "prompt": lambda action: action != 0,
}
VALUES = {"state": slice(None, -1), "outcome": slice(-1, None), "both": slice(None)}


def contaminate(
    logs: Trajectories,
    *,
    mechanism: str,
    ratio: float = 0.04,
    strength: float | None = None,
    run_length: float = 1.0,
    values: str | None = None,
    after: str | None = None,
    seed: Seed,
) -> Contaminated:
    """Put artefacts into a share of each participant's decision points.

    A participant has round(ψ · decision points) artefacts, at most as many as there are decision points of that kind. With
    one seed a larger ratio touches all that a smaller one touches, in the same way.

    Parameters
    ----------
    logs
        Clean logs.
    mechanism
        `sensor`: every state variable and the outcome move by ± ν × the participant's mean absolute value of it, signs at
        random. `prompted`: only after an action other than 0; the outcome rises by ν × the participant's mean absolute
        outcome.
        `careless`: every state variable is drawn uniformly from the participant's range of it; the outcome is right.
        `nonwear`: values are 0. `stuck`: values are the last ones before the run. `unit`: values are multiplied by ν.
        `code`: values are ν. `straightlining`: all state variables have one value, drawn from their common range.
    ratio
        ψ.
    strength
        ν: 5 unless given, 10 for `unit`, 999 for `code`.
    run_length
        The mean length of runs of touched decision points, geometric; 1 scatters them.
    values
        The values touched: `state`, `outcome` or `both`; the mechanism's default unless given.
    after
        Whether the artefact depends on the action: `anything`, `nothing` or `prompt`.
    seed
        Root of the random numbers.

    Returns
    -------
    Contaminated
        The logs, and which rows were touched.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=4).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> int(contaminate(logs, mechanism="sensor", ratio=0.1, seed=1).touched.sum())
    20
    """
    require_known("mechanism", mechanism, MECHANISMS)
    artefact = MECHANISMS[mechanism]
    values = values or artefact.values
    after = after or artefact.after
    require_known("values", values, VALUES)
    require_known("after", after, AFTER)
    columns = VALUES[values]
    allowed = AFTER[after]
    strength = artefact.strength if strength is None else strength
    if not 0 <= ratio <= 1:
        raise InputError(f"ratio is {ratio}; it is a share of the decision points, between 0 and 1")
    if not np.isfinite(strength) or (strength < 0 and not artefact.any_strength):
        raise InputError(f"strength is {strength}; it must be a finite number of at least 0")
    if not (np.isfinite(run_length) and run_length >= 1):
        raise InputError(f"run_length is {run_length}; it is a mean number of decision points, at least 1")
    observed = np.column_stack([logs.state, logs.outcome])
    moved = observed.copy()
    touched = np.zeros(len(logs), dtype=bool)
    for index, rng in enumerate(streams(seed, "outliers", logs.participants)):
        rows = logs.order[logs.starts[index] : logs.starts[index + 1]]
        shuffled = rng.permutation(len(rows))
        signs = rng.choice((-1.0, 1.0), observed[rows].shape)
        starts = shuffled[allowed(logs.action[rows[shuffled]])]
        chosen, last = _choose_runs(starts, round(ratio * len(rows)), run_length, len(rows), rng)
        changed = artefact.change(Record(observed[rows], strength, signs, last, rng))
        # Missing values stay missing: no artefact makes a value.
        changed = np.where(np.isnan(observed[rows]), np.nan, changed)
        moved[rows[chosen], columns] = changed[chosen, columns]
        touched[rows[chosen]] = True
    return Contaminated(logs.with_values(state=moved[:, :-1], outcome=moved[:, -1]), touched)


def _choose_runs(
    starts: NDArray[np.int64], wanted: int, mean: float, points: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decision points to touch, and for each of the record the last one before its run.

    Runs follow the decision points that may be touched, from random starts, until there are enough.
    """
    last = np.maximum(np.arange(points) - 1, 0)
    if mean == 1:
        return starts[:wanted], last
    lengths = rng.geometric(1 / mean, len(starts))
    eligible = np.sort(starts)
    taken: dict[int, None] = {}
    for start, length in zip(np.searchsorted(eligible, starts), lengths, strict=True):
        run = eligible[start : start + length]
        fresh = [point for point in run.tolist() if point not in taken][: wanted - len(taken)]
        last[fresh] = max(int(run[0]) - 1, 0)
        taken |= dict.fromkeys(fresh)
        if len(taken) >= wanted:
            break
    return np.array(list(taken), dtype=np.int64), last
