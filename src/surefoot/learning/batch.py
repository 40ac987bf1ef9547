"""Batches: some people's decision points as padded arrays of any engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import BLOCK_CELLS, Trajectories
from surefoot.numerics.arrays import NUMPY, Array, Engine, array_namespace
from surefoot.numerics.parallel import count_threads
from surefoot.policies.features import critic_features

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

    @classmethod
    def from_rows(
        cls,
        logs: Trajectories,
        rows: NDArray[np.int64],
        *,
        critic_sees: NDArray[np.float64],
        policy_sees: NDArray[np.float64],
        discount: NDArray[np.float64],
        centre: NDArray[np.float64] | None = None,
        engine: Engine = NUMPY,
    ) -> Batch:
        """Rows of the logs, −1 where padded; `discount` (rows,) and `centre` (rows, actions − 1) are of all rows."""
        unusable = (rows < 0) | ~logs.usable[rows]
        # Each variable's values lie side by side, as those of the features do.
        state = np.empty((len(rows), len(logs.state_names), rows.shape[1]))
        for j in range(state.shape[1]):
            state[:, j, :] = _take(logs.state[:, j], rows, unusable)
        states = engine.to_device(np.swapaxes(state, 1, 2))
        action = engine.to_device(_take(logs.action, rows, unusable))
        sees = engine.to_device(critic_sees)
        probabilities = None
        if centre is not None:
            probabilities = engine.to_device(np.where(unusable[..., None], 0.0, centre[rows]))
        return cls(
            features=critic_features(states * sees, action, logs.actions, probabilities),
            state=states,
            action=action,
            reward=engine.to_device(_take(logs.reward, rows, unusable)),
            weights=engine.to_device(np.where(unusable, 0.0, discount[rows])),
            actions=logs.actions,
            critic_sees=sees,
            policy_sees=engine.to_device(policy_sees),
            names=(logs.state_names, logs.action_names),
            centre=probabilities,
        )


def _take(values: NDArray[Any], rows: NDArray[np.int64], unusable: NDArray[np.bool_]) -> NDArray[Any]:
    """The values of some rows, zero where they cannot be used."""
    taken = values.take(rows)
    taken[unusable] = 0
    return taken


def choose_block_cells(logs: Trajectories) -> int:
    """One block or more for every thread; many threads need larger ones, or they wait for each other in Python. The more
    features, the fewer decision points: memory does not grow with them."""
    most = BLOCK_CELLS if count_threads() <= 2 else 2 * BLOCK_CELLS
    cells = min(max(len(logs) // count_threads(), BLOCK_CELLS), most)
    features = (len(logs.state_names) + 1) * logs.actions
    return cells * FEW_FEATURES // max(features, FEW_FEATURES)
