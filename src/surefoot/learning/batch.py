"""Decision points for the solvers: which can be used, how much each counts, and padded arrays of any engine."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import BLOCK_CELLS, Trajectories
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.parallel import count_threads

SHOWN_PEOPLE = 10
FEW_FEATURES = 24
"""Blocks of more features than this have fewer decision points."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some people's decision points as padded arrays (people, decision points, …): what critics and rules learn from."""

    features: Array
    """x(s, a) as the critic sees it, (people, decision points, features)."""
    state: Array
    action: Array
    """Codes from 0 on."""
    reward: Array
    weights: Array
    """How much a decision point counts: 1.0, less where it is forgotten, 0.0 where it cannot be used."""
    actions: int
    penalty: Array = None
    """ζ of every feature, (features,) or (people, features)."""
    critic_sees: Array = 1.0
    policy_sees: Array = 1.0
    """(state variables,): 1.0 for those that are seen, 0.0 for the others."""
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The names of the state variables, and those of the actions."""
    centre: Array | None = None
    """The probabilities at which actions are centred, (people, decision points, actions − 1); None: they are not."""
    trusted: Array | None = None
    """The result of `Critic.trust_states`, if it is already known."""
    logged: Array | None = None
    """The rewards as they were logged, if something that everybody shares was subtracted from `reward`."""

    @property
    def usable(self) -> Array:
        """1.0 where a decision point can be used, 0.0 on padding and where something is missing."""
        return array_namespace(self.weights).astype(self.weights > 0, self.weights.dtype)

    @property
    def arms(self) -> int:
        """How often x repeats the same features; a centred action is not 0 or 1, so no product of features is one of them
        again."""
        return self.actions if self.centre is None else 1

    @property
    def seen_state(self) -> Array:
        """The states with the variables that nobody sees set to zero: an artefact in one that only the policy sees would
        mislead the actor."""
        seen = self.critic_sees
        if not isinstance(seen, float):
            seen = array_namespace(seen).maximum(seen, self.policy_sees)
        return self.state * seen


def gather_rows(values: NDArray[np.float64], rows: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(people, decision points, variables), each variable's values side by side in memory, 0 where not known."""
    gathered = np.empty((len(rows), values.shape[1], rows.shape[1]))
    for j in range(values.shape[1]):
        gathered[:, j, :] = np.where(known, values[:, j].take(rows), 0.0)
    return np.swapaxes(gathered, 1, 2)


def choose_block_cells(logs: Trajectories) -> int:
    """One block or more for every thread; many threads need larger ones, or they wait for each other in Python. The more
    features, the fewer decision points: memory does not grow with them."""
    threads = count_threads()
    most = BLOCK_CELLS if threads <= 2 else 2 * BLOCK_CELLS
    cells = min(max(len(logs) // threads, BLOCK_CELLS), most)
    features = (len(logs.state_names) + 1) * logs.actions
    return cells * FEW_FEATURES // max(features, FEW_FEATURES)


class Learnable(NamedTuple):
    """Counts of the decision points that can be used for learning."""

    available: int
    missing: dict[str, int]
    """By column, over available decision points; counted where none can be used."""
    used: int
    outcome_range: tuple[float, float] | None
    """Of usable decision points."""

    @classmethod
    def of_logs(cls, logs: Trajectories) -> "Learnable":
        free = logs.available
        reward = logs.outcome[logs.usable]
        if len(reward):
            return cls(int(free.sum()), {}, len(reward), (float(reward.min()), float(reward.max())))
        columns = {name: logs.state[:, j] for j, name in enumerate(logs.state_names)} | {logs.names.outcome: logs.outcome}
        missing = {name: int((np.isnan(values) & free).sum()) for name, values in columns.items()}
        return cls(int(free.sum()), missing, 0, None)

    def require(self, outcome: str) -> None:
        """Refuse logs from which nobody's fit could learn anything; `outcome` is its column."""
        if not self.used:
            empty = [name for name, count in self.missing.items() if count == self.available]
            why = f"column '{empty[-1]}' is always missing" if empty else "each lacks the outcome or a state variable"
            why = f"of {self.available} available ones {why}" if self.available else "nobody is ever available"
            raise InputError(f"no decision point can be used: {why}", column=empty[-1] if self.available and empty else None)
        if self.used > 1 and self.outcome_range is not None and self.outcome_range[0] == self.outcome_range[1]:
            raise InputError(
                f"column '{outcome}': the outcome is {self.outcome_range[0]:g} at all {self.used} usable decision points, "
                "so there is nothing to learn; check that this column is the outcome",
                column=outcome,
            )


FORGOTTEN = 1e-30
"""The least weight: 0 would say that a decision point cannot be used, or that a critic left it out."""


def count_back(logs: Trajectories) -> NDArray[np.int64]:
    """How many of the participant's logged decision points, available or not, come after each row.

    >>> count_back(Trajectories.from_arrays(np.zeros((2, 3, 1)), np.ones((2, 3)), np.zeros((2, 3))))
    array([2, 1, 0, 2, 1, 0])
    """
    later = np.empty(len(logs), dtype=np.int64)
    later[logs.order] = np.repeat(logs.starts[1:], np.diff(logs.starts)) - 1 - np.arange(len(logs))
    return later


def discount_rows(logs: Trajectories, rate: float) -> NDArray[np.float64]:
    """ρ^k for a row that lies k decision points before the participant's last one, (rows,).

    Counted in decision points and not in days: that needs no day to be known, and a break in which nothing was logged, and
    so nothing was learned, is nobody's reason to forget.
    """
    if rate == 1:
        return np.ones(len(logs))
    return np.maximum(rate ** count_back(logs).astype(np.float64), FORGOTTEN)


def name_people(participants: NDArray[Any]) -> str:
    """`participant 'ann', 'bo' and 3 more`."""
    names = ", ".join(repr(participant.item()) for participant in participants[:SHOWN_PEOPLE])
    others = f" and {len(participants) - SHOWN_PEOPLE} more" if len(participants) > SHOWN_PEOPLE else ""
    return f"participant {names}{others}"


CONSTANT = 1e-5
"""Of a state that varies by less than this share of its size, joint fits lose all to rounding."""


def find_troubles(batch: Batch, weights: Array, features: int) -> Array:
    """Which people have which of the troubles that `warn_of_troubles` describes, (people, troubles); `weights` are the
    critic's."""
    xp = array_namespace(weights)
    present = batch.weights > 0
    total = xp.sum(batch.usable, axis=1)
    troubles = [total == 0, (total > 0) & (total < features)]
    first = xp.argmax(batch.usable, axis=1)[:, None]
    columns = [(batch.reward, 0.0), *((batch.state[..., j], CONSTANT) for j in range(batch.state.shape[-1]))]
    for values, share in columns:
        before = xp.take_along_axis(values, first, axis=1)
        varies = xp.any(present & (xp.abs(values - before) > share * xp.abs(before)), axis=1)
        troubles.append((total > 1) & ~varies)
    for code in range(batch.actions):
        taken = present & (batch.action == code)
        occurs = xp.any(taken, axis=1)
        troubles.append((total > 0) & ~occurs)
        troubles.append(occurs & ~xp.any(taken & (weights > 0), axis=1))
    return xp.stack(troubles, axis=1)
