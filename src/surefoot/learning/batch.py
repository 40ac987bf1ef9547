"""Batches: some people's decision points as padded arrays of any engine, and what a method learned from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import BLOCK_CELLS, Trajectories
from surefoot.learning.critics import CriticFit
from surefoot.learning.penalty_units import FitScales
from surefoot.numerics.arrays import Array, Engine
from surefoot.numerics.parallel import count_threads
from surefoot.policies.features import critic_features
from surefoot.policies.rules import DecisionRule

FEW_FEATURES = 24
"""Blocks of more features than this have fewer decision points."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some people's decision points as padded arrays (people, decision points, …): what a method learns from."""

    state: Array
    action: Array
    reward: Array
    usable: Array
    """1.0 where a decision point can be used, 0.0 on padding and where something is missing."""
    weights: Array
    """How much a decision point counts: 1.0 where it can be used, less where it is forgotten."""
    actions: int
    critic_sees: Array
    policy_sees: Array
    """(state variables,): 1.0 for those that are seen, 0.0 for the others."""
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The names of the state variables, and those of the actions."""
    centre: Array | None = None
    """The probabilities at which actions are centred, (people, decision points, actions − 1); None: they are not."""

    @property
    def arms(self) -> int:
        """How often x repeats the same features; a centred action is not 0 or 1, so no product of features is one of them
        again."""
        return self.actions if self.centre is None else 1

    @property
    def features(self) -> Array:
        """x(s, a) as the critic sees it, (people, decision points, features)."""
        return critic_features(self.state * self.critic_sees, self.action, self.actions, self.centre)

    @classmethod
    def from_rows(
        cls,
        logs: Trajectories,
        can_use: NDArray[np.bool_],
        rows: NDArray[np.int64],
        engine: Engine,
        discount: NDArray[np.float64],
        centre: NDArray[np.float64] | None = None,
        **more: Any,
    ) -> Batch:
        """Rows of the logs, −1 where padded; `discount` (rows,) and `centre` (rows, actions − 1) are of all rows."""
        usable = (rows >= 0) & can_use[rows]
        out = ~usable
        # Each variable's values lie side by side, as those of the features do.
        state = np.empty((len(rows), len(logs.state_names), rows.shape[1]))
        for j in range(state.shape[1]):
            state[:, j, :] = _take(logs.state[:, j], rows, out)
        return cls(
            state=engine.to_device(np.swapaxes(state, 1, 2)),
            action=engine.to_device(_take(logs.action, rows, out)),
            reward=engine.to_device(_take(logs.reward, rows, out)),
            usable=engine.to_device(usable.astype(np.float64)),
            weights=engine.to_device(np.where(usable, discount[rows], 0.0)),
            actions=logs.actions,
            names=(logs.state_names, logs.action_names),
            centre=None if centre is None else engine.to_device(np.where(usable[..., None], centre[rows], 0.0)),
            **{name: engine.to_device(values) for name, values in more.items()},
        )


def _take(values: NDArray[Any], rows: NDArray[np.int64], out: NDArray[np.bool_]) -> NDArray[Any]:
    """The values of some rows, zero where they are `out`."""
    taken = values.take(rows)
    taken[out] = 0
    return taken


@dataclass(frozen=True, eq=False)
class BatchFit:
    """The fit of a method to a batch, in arrays of the batch's engine."""

    critic: CriticFit
    residuals: Array
    scale: Array
    """Weighted root mean squared residual, (people,)."""
    rule: DecisionRule
    converged: Array
    scaling: FitScales
    penalty: Array
    """ζ of every feature of the critic, (people, features)."""


def choose_block_cells(logs: Trajectories) -> int:
    """One block or more for every thread; many threads need larger ones, or they wait for each other in Python. The more
    features, the fewer decision points: memory does not grow with them."""
    most = BLOCK_CELLS if count_threads() <= 2 else 2 * BLOCK_CELLS
    cells = min(max(len(logs) // count_threads(), BLOCK_CELLS), most)
    features = (len(logs.state_names) + 1) * logs.actions
    return cells * FEW_FEATURES // max(features, FEW_FEATURES)
