"""What a fit leaves behind for others to read: what was learned, for whom, from what, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.learning.batch import BatchFit
from surefoot.learning.critics import Critic
from surefoot.learning.horizon import Horizon, JointFit, Outlook
from surefoot.learning.penalty_units import FitScales
from surefoot.learning.pooling import Pooling, Posterior
from surefoot.numerics.arrays import Engine
from surefoot.policies.features import critic_feature_names
from surefoot.policies.policies import Policies
from surefoot.policies.rules import DecisionRule


class CoefficientPart(NamedTuple):
    """The coefficients of the critic or of the policy, of every fit."""

    part: str
    """`critic` (in units of the reward) or `policy` (in logits)."""
    names: list[tuple[str, str]]
    """(action, feature) of every column."""
    values: NDArray[np.float64]
    """(fits, coefficients)."""
    sees: NDArray[np.float64]
    """(state variables,): 1.0 for those that this part sees."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a method learned; a fitted method has everything here under the same name with an underscore behind it.

    A *fit* is one participant's, or the one that everybody shares. Rows are those of the logs.
    """

    logs: Trajectories
    """What it was learned from, after the filter."""
    critic: Critic
    pooling: Pooling
    participants: NDArray[Any]
    """Whose fits there are: the people of the logs, or `everyone`."""
    unit: NDArray[np.int64]
    """For every row the position of its fit in `participants`."""
    critic_sees: NDArray[np.float64]
    """(state variables,): 1.0 for those that the critic sees, 0.0 for the others."""
    policy_sees: NDArray[np.float64]
    critic_coef: NDArray[np.float64]
    """w, (fits, features)."""
    threshold: NDArray[np.float64]
    """ε, (fits,); +∞ where there is no limit."""
    scale: NDArray[np.float64]
    """Weighted root mean squared residual, (fits,)."""
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]
    weights: NDArray[np.float64]
    """u of every row: 1, or less where it is forgotten; 0 where the critic left it out, NaN where it could not be used."""
    residuals: NDArray[np.float64]
    """r − xᵀw of every row, NaN where it could not be used."""
    scaling: FitScales
    """The units of the penalties, for every fit."""
    penalty: NDArray[np.float64]
    """ζ of every feature of the critic, (fits, features)."""
    policies: Policies
    horizon: Horizon
    joint: JointFit | None
    """What was learned of everybody before the decision rules were; None where every fit stands by itself."""

    @property
    def outlook(self) -> Outlook | None:
        """What looking ahead found; None with an immediate horizon."""
        return None if self.joint is None else self.joint.outlook

    @property
    def posterior(self) -> Posterior | None:
        """With partial pooling: what is believed of the reward's coefficients, of β, Ψ and σ², and of every participant's;
        None otherwise."""
        return self.joint.posteriors[0] if self.joint is not None and self.joint.posteriors else None

    @property
    def pooled(self) -> bool:
        """Whether one fit and one policy serve everybody."""
        return self.pooling.shared

    @property
    def used(self) -> NDArray[np.bool_]:
        """Rows that could be used."""
        return ~np.isnan(self.weights)

    @property
    def removed(self) -> NDArray[np.bool_]:
        """Rows that the critic left out."""
        return np.asarray(self.weights == 0)

    @property
    def coef(self) -> NDArray[np.float64] | None:
        """θ, (fits, coefficients); None when the policy has no coefficients of its own."""
        coefficients = self.policies.rule.coefficients()
        return None if coefficients is None else coefficients.reshape(len(self.participants), -1)

    @property
    def rule_sees(self) -> NDArray[np.float64]:
        """(state variables,): 1.0 for those that the decision rule looks at."""
        return self.policy_sees if self.policies.rule.looks_through == "policy" else self.critic_sees

    @property
    def coefficient_parts(self) -> list[CoefficientPart]:
        """Critic and, where it has coefficients of its own, policy."""
        names = (self.logs.state_names, self.logs.action_names)
        parts = [CoefficientPart("critic", critic_feature_names(*names), self.critic_coef, self.critic_sees)]
        if self.coef is not None:
            policy_names = self.policies.rule.name_coefficients(*names)
            parts.append(CoefficientPart("policy", policy_names, self.coef, self.policy_sees))
        return parts

    def tabulate_coefficients(self, backend: str | None = None) -> Any:
        """One row per fit and coefficient: participant, part (critic or policy), action, feature, value."""
        parts = self.coefficient_parts
        rows = [(part.part, action, feature) for part in parts for action, feature in part.names]
        values = np.concatenate([part.values for part in parts], axis=1)
        fits = len(self.participants)
        part, action, feature = zip(*rows, strict=True)
        data = {
            self.logs.names.participant: np.repeat(self.participants, len(rows)),
            "part": list(part) * fits,
            "action": list(action) * fits,
            "feature": list(feature) * fits,
            "value": values.ravel(),
        }
        return make_frame(data, backend or self.logs.backend)

    def tabulate_removed(self, backend: str | None = None) -> Any:
        """One row per decision point that the critic left out: who, when, what came back and what was expected."""
        logs = self.logs
        out = logs.order[self.removed[logs.order]]
        data = {
            logs.names.participant: logs.participant[out],
            logs.names.time: logs.time[out],
            logs.names.action: logs.action[out],
            logs.names.reward: logs.reward[out],
            "expected": logs.reward[out] - self.residuals[out],
            "residual": self.residuals[out],
            "limit": np.sqrt(self.threshold[self.unit[out]]),
        }
        return make_frame(data, backend or logs.backend)


class FitArrays:
    """Room for what blocks of fits learn. Blocks write to rows and fits of their own: threads need not wait for each
    other."""

    def __init__(self, fits: int, logs: Trajectories) -> None:
        features = (logs.state.shape[1] + 1) * logs.actions
        self.critic_coef = np.zeros((fits, features))
        self.threshold = np.full(fits, np.inf)
        self.scale = np.zeros(fits)
        self.n_iter = np.zeros(fits, dtype=np.int64)
        self.converged = np.ones(fits, dtype=bool)
        self.penalty = np.zeros((fits, features))
        variables = logs.state.shape[1]
        self.scaling = FitScales(np.zeros((fits, variables)), np.ones((fits, variables)), np.ones(fits))
        # Row −1, which stands for padding, is the last: one more than there are, and left out at the end.
        self.weights = np.full(len(logs) + 1, np.nan)
        self.residuals = np.full(len(logs) + 1, np.nan)

    def record(
        self,
        fits: NDArray[np.int64],
        rows: NDArray[np.int64],
        used: NDArray[np.bool_],
        learned: BatchFit,
        engine: Engine,
    ) -> None:
        """Store the results of a block."""
        critic = learned.critic
        self.critic_coef[fits] = engine.to_numpy(critic.coef)
        self.threshold[fits] = engine.to_numpy(critic.threshold)
        self.n_iter[fits] = engine.to_numpy(critic.n_iter)
        self.scale[fits] = engine.to_numpy(learned.scale)
        self.converged[fits] = engine.to_numpy(learned.converged)
        self.penalty[fits] = engine.to_numpy(learned.penalty)
        self.scaling.record(fits, FitScales(*(engine.to_numpy(part) for part in vars(learned.scaling).values())))
        self.weights[rows] = np.where(used, engine.to_numpy(critic.weights), np.nan)
        self.residuals[rows] = np.where(used, engine.to_numpy(learned.residuals), np.nan)

    def finish(
        self,
        *,
        logs: Trajectories,
        critic: Critic,
        pooling: Pooling,
        participants: NDArray[Any],
        critic_sees: NDArray[np.float64],
        policy_sees: NDArray[np.float64],
        policies: Policies,
        horizon: Horizon,
        joint: JointFit | None,
    ) -> Fitted:
        """The arrays without padding, together with the parts of the method."""
        return Fitted(
            logs=logs,
            critic=critic,
            pooling=pooling,
            participants=participants,
            unit=pooling.assign_rows(logs),
            critic_sees=critic_sees,
            policy_sees=policy_sees,
            critic_coef=self.critic_coef,
            threshold=self.threshold,
            scale=self.scale,
            n_iter=self.n_iter,
            converged=self.converged,
            weights=self.weights[:-1],
            residuals=self.residuals[:-1],
            scaling=self.scaling,
            penalty=self.penalty,
            policies=policies,
            horizon=horizon,
            joint=joint,
        )


def join_rules(fits: Sequence[NDArray[np.int64]], rules: Sequence[DecisionRule]) -> DecisionRule:
    """The rules of all blocks as one, in the order of the fits."""
    back = np.argsort(np.concatenate(fits))
    arrays = [rule.arrays() for rule in rules]
    return type(rules[0])(**{name: np.concatenate([part[name] for part in arrays])[back] for name in arrays[0]})
