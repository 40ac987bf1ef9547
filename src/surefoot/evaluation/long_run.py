"""Long-run value from logs: the average outcome once a policy has been in force for long, states as it leads to them.

Differential least squares: with x = x(s, a) of a decision point and x̄′ = E_π x(s′, ·) of the next one, D = x − x̄′ with its
first element set to 1; (η, w) solves Σ x Dᵀ (η, w) = Σ x r, and η is the long-run average. A participant's influence is
ψᵢ = e₁ᵀ (Σ x Dᵀ)⁻¹ Σₜ x δ, δ = r − Dᵀ(η, w), and the squared standard error Σ ψ² N / (N − 1). After Liao, Klasnja and Murphy
(2021), with the linear features of the critic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.decision_times import DayBoundary
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.evaluation.values import LongRunValue
from surefoot.inference.intervals import sum_by_participant, t_interval
from surefoot.learning.critics import Critic
from surefoot.learning.horizon.horizon_batch import Followed
from surefoot.learning.horizon.judgement import judge_rows
from surefoot.learning.horizon.transitions import find_transitions
from surefoot.learning.penalty_units import find_penalty_units
from surefoot.learning.pooling import find_pooling
from surefoot.numerics.engines import find_engine
from surefoot.policies.features import critic_features

PAIRS_PER_COEFFICIENT = 5
"""With fewer consecutive decision points for each coefficient the logs are refused."""


@dataclass(frozen=True, eq=False)
class LongRunLogs:
    """Consecutive decision points with a known outcome, as the estimator reads them."""

    logs: Trajectories
    rows: NDArray[np.int64]
    following: NDArray[np.int64]
    nuisances: NDArray[np.float64]
    """Nights and unavailability, of all rows."""
    varying: NDArray[np.bool_]
    """State variables that are not constant."""

    @classmethod
    def of_logs(
        cls, logs: Trajectories, critic: Critic, *, max_gap: int = 1, day_boundary: DayBoundary = None
    ) -> LongRunLogs:
        """What the critic leaves of the logs; too little is refused."""
        transitions = find_transitions(logs, max_gap=max_gap, day_boundary=day_boundary)
        everything = np.ones(len(logs.state_names))
        data = Followed.of_logs(logs, transitions, everything)
        engine, units = find_engine("numpy"), find_penalty_units("standard")
        judged = judge_rows(data, critic, find_pooling("all"), everything, penalties=units, engine=engine)
        following = transitions.following
        pairs = data.pairs & judged.trusted & judged.trusted[following] & ~np.isnan(logs.reward) & (judged.kept != 0)
        rows = np.flatnonzero(pairs)
        varying = np.ptp(logs.state[rows], axis=0) > 0 if rows.size else np.zeros(0, dtype=bool)
        found = cls(logs, rows, following[rows], data.nuisances, varying)
        found.check()
        return found

    def check(self) -> None:
        """Refuse logs that cannot tell what follows an action."""
        logs = self.logs
        for code, name in enumerate(logs.action_names):
            if not (logs.action[self.rows] == code).any():
                raise InputError(
                    f"action '{name}' is never followed by a decision point with a known state, so nothing can be said "
                    "about its long run; log more of it, or evaluate without --long-run"
                )
        needed = PAIRS_PER_COEFFICIENT * (len(logs.state_names) + 1) * logs.actions
        if len(self.rows) < needed or len(np.unique(logs.participant_index[self.rows])) < 2:
            raise InputError(
                f"{len(self.rows)} consecutive decision points with outcomes are too few for a long-run value; at least "
                f"{needed} are needed, of 2 people or more. Log missed decision points, or let max_gap cross gaps"
            )

    def _features(self, rows: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_a π(a) x(s, a) of some rows, with their nuisances; those that are constant in the logs are left out."""
        state = self.logs.state[rows][:, self.varying]
        base = np.asarray(critic_features(state, np.zeros(len(rows)), 1))
        blocks = [base, *(probabilities[:, a, None] * base for a in range(1, self.logs.actions))]
        nuisances = self.nuisances[:, np.ptp(self.nuisances[self.rows], axis=0) > 0]
        return np.concatenate([*blocks, nuisances[rows]], axis=1)

    def solve(self, probabilities: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """η and everybody's influence, for π(a | s′) at the following decision points, (rows, actions).

        >>> import surefoot as sf
        >>> logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=210, seed=0)
        >>> found = LongRunLogs.of_logs(logs, sf.method("accb").make_critic())
        >>> never = np.tile([1.0, 0.0], (len(found.rows), 1))
        >>> round(found.solve(never)[0], -1)
        1510.0
        """
        logs = self.logs
        free = logs.available[self.following, None]
        expected = np.where(free, probabilities, np.eye(logs.actions)[0])
        x = self._features(self.rows, np.eye(logs.actions)[logs.action[self.rows]])
        difference = x - self._features(self.following, expected)
        difference[:, 0] = 1.0
        scale = np.sqrt((x**2).mean(axis=0))
        x, difference = x / scale, difference / np.append(1.0, scale[1:])
        system = x.T @ difference
        if np.linalg.cond(system) > 1e12:
            raise InputError(
                "the long-run value cannot be told from these logs: a state is a combination of others, or never settles; "
                "leave it out"
            )
        reward = logs.reward[self.rows]
        solution = np.linalg.solve(system, x.T @ reward)
        surprise = reward - difference @ solution
        pull = x @ np.linalg.solve(system.T, np.eye(len(system))[0])
        person = logs.participant_index[self.rows]
        present, position = np.unique(person, return_inverse=True)
        return float(solution[0]), sum_by_participant(position, len(present), pull * surprise)


def value_long_run(
    data: LongRunLogs, decisions: Mapping[str, NDArray[np.float64]], immediate: Mapping[str, float]
) -> tuple[LongRunValue, ...]:
    """Long-run values of policies by name, `never` among them; `immediate` are their values by the next outcome alone."""
    nothing, own_nothing = data.solve(decisions["never"])
    people = len(own_nothing)
    found = []
    for name, probabilities in decisions.items():
        value, own = data.solve(probabilities)
        errors = [float(np.sqrt((part**2).sum() * people / (people - 1))) for part in (own, own - own_nothing)]
        intervals = [
            t_interval(estimate, error, people - 1) for estimate, error in zip((value, value - nothing), errors, strict=True)
        ]
        found.append(LongRunValue(name, intervals[0], intervals[1], immediate[name] - immediate["never"]))
    return tuple(found)
