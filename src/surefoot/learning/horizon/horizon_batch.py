"""Some people's decision points together with what follows them, as padded arrays of any engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.horizon.look_ahead import TransitionMoments
from surefoot.learning.horizon.transitions import Transitions
from surefoot.learning.moments import Moments
from surefoot.numerics.arrays import Array, Engine, array_namespace
from surefoot.policies.features import critic_features


@dataclass(frozen=True, eq=False)
class TransitionData:
    """Decision points and their successors, as a look-ahead uses them."""

    logs: Trajectories
    transitions: Transitions
    sees: NDArray[np.float64]
    """(state variables,): 1.0 for those that the critic sees."""
    present: NDArray[np.bool_]
    """Rows whose state is known, whether or not the participant was available."""
    discount: NDArray[np.float64]
    """How much every row counts, (rows,): less where it is forgotten."""
    centre: NDArray[np.float64] | None = None
    """The probabilities at which actions are centred, (rows, actions − 1); None: they are not."""

    @classmethod
    def of_logs(
        cls,
        logs: Trajectories,
        transitions: Transitions,
        sees: NDArray[np.float64],
        discount: NDArray[np.float64] | None = None,
        centre: NDArray[np.float64] | None = None,
    ) -> TransitionData:
        discount = np.ones(len(logs)) if discount is None else discount
        return cls(logs, transitions, sees, np.asarray(~np.isnan(logs.state).any(axis=1)), discount, centre)

    @cached_property
    def state(self) -> NDArray[np.float64]:
        """As the critic sees it."""
        return self.logs.state * self.sees

    @cached_property
    def pairs(self) -> NDArray[np.bool_]:
        """Rows with a known state that are followed by a decision point with a known state."""
        following = self.transitions.following
        return self.present & (following >= 0) & self.present[following]

    @cached_property
    def nuisances(self) -> NDArray[np.float64]:
        """(rows, columns): nights and unavailability, each where there is any."""
        columns = [column for column in (self.transitions.overnight, ~self.logs.available) if column.any()]
        return np.array(columns, dtype=np.float64).reshape(len(columns), len(self.logs)).T


@dataclass(frozen=True, eq=False)
class HorizonBatch:
    """Arrays (people, decision points, …) of some rows of the logs."""

    features: Array
    """x(s, a) as the critic sees it, then nights and unavailability."""
    reward: Array
    following: Array
    """The next state, 0 where there is none."""

    @classmethod
    def of_rows(cls, data: TransitionData, rows: NDArray[np.int64], engine: Engine) -> HorizonBatch:
        """Rows of the logs, −1 where padded."""
        logs = data.logs
        inside = rows >= 0
        after = np.where(inside & data.pairs[rows], data.transitions.following[rows], -1)
        state = gather_rows(data.state, rows, inside & data.present[rows])
        following = gather_rows(data.state, after, after >= 0)
        action = engine.to_device(np.where(inside, logs.action[rows], 0))
        centre = None if data.centre is None else engine.to_device(gather_rows(data.centre, rows, inside))
        x = critic_features(engine.to_device(state), action, logs.actions, centre)
        xp = array_namespace(x)
        if data.nuisances.shape[1]:
            x = xp.concat([x, engine.to_device(np.where(inside[..., None], data.nuisances[rows], 0.0))], axis=-1)
        reward = logs.reward[rows]
        known = inside & ~np.isnan(reward)
        return cls(x, engine.to_device(np.where(known, reward, 0.0)), engine.to_device(following))

    def moments(self, reward_weights: Array, state_weights: Array) -> TransitionMoments:
        return TransitionMoments(
            Moments.of_rows(self.features, self.reward[..., None], reward_weights),
            Moments.of_rows(self.features, self.following, state_weights),
        )

    def state_residuals(self, coef: Array) -> Array:
        """s′ minus what the model expects, for C (people or 1, d, 1 + p)."""
        return self.following - self.features @ coef[..., 1:]


def gather_rows(values: NDArray[np.float64], rows: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(people, decision points, variables), each variable's values side by side in memory, 0 where not known."""
    gathered = np.empty((len(rows), values.shape[1], rows.shape[1]))
    for j in range(values.shape[1]):
        gathered[:, j, :] = np.where(known, values[:, j][rows], 0.0)
    return np.swapaxes(gathered, 1, 2)
