"""What a fit leaves behind for others to read: what was learned, for whom, from what, and what was left out."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.learning.batch import name_people
from surefoot.learning.critics import Critic
from surefoot.learning.horizon import Horizon
from surefoot.learning.horizon.horizon import JointFit, Outlook
from surefoot.learning.penalties import FitScales
from surefoot.learning.pooling import Pooling
from surefoot.learning.pooling.mixed_effects import Posterior
from surefoot.learning.shared_effects import TimeEffects
from surefoot.policies.features import critic_feature_names, policy_feature_names
from surefoot.policies.policies import Policies
from surefoot.reports.summaries import Shown


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


@dataclass(frozen=True)
class Comparison:
    """Two candidates for parts of a method, compared on decision points from which neither learned."""

    simpler: str
    richer: str
    measure: str
    """The quantity that is estimated, in words."""
    estimate: float
    standard_error: float
    """Of the estimate, over people."""
    richer_taken: bool


@dataclass(frozen=True, eq=False)
class ChosenParts:
    """The parts that were chosen from the logs, and why."""

    parameters: Mapping[str, Any]
    """Of the method, as `set_params` takes them."""
    reasons: tuple[str, ...]
    """A sentence for every choice."""
    comparisons: tuple[Comparison, ...] = ()
    """Empty where the logs are too small to compare anything."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fitted(Shown):
    """What a method learned; a fitted method has it under the same names with an underscore behind them.

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
    chosen: ChosenParts | None = None
    """The parts that were chosen from the logs, and why; None where the method chooses nothing."""

    @property
    def outlook(self) -> Outlook | None:
        """What looking ahead found; None with an immediate horizon."""
        return self.joint if isinstance(self.joint, Outlook) else None

    @property
    def posterior(self) -> Posterior | None:
        """With partial pooling: what is believed of the reward's coefficients, of β, Ψ and σ², and of every participant's;
        None otherwise."""
        return self.joint.posteriors[0] if self.joint is not None and self.joint.posteriors else None

    @cached_property
    def time_effects(self) -> TimeEffects | None:
        """With `time = "smooth"`: how effects change over a participant's time for everybody; None otherwise."""
        if self.joint is None or self.joint.shared is None or self.posterior is None:
            return None
        return TimeEffects.of_posterior(self.joint.shared.design, self.posterior)

    @property
    def baseline(self) -> NDArray[np.float64]:
        """What a smooth baseline adds to the linear one at every row, (rows,)."""
        shared = None if self.joint is None else self.joint.shared
        return np.zeros(len(self.logs)) if shared is None else shared.baseline

    @property
    def chosen_parameters(self) -> Mapping[str, Any]:
        """Of the parts that were chosen."""
        return {} if self.chosen is None else self.chosen.parameters

    @property
    def row_coef(self) -> NDArray[np.float64]:
        """The coefficients that hold at every row, (rows, features)."""
        shared = None if self.joint is None else self.joint.shared
        return self.critic_coef[self.unit] + (0.0 if shared is None else shared.change)

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
            policy_names = policy_feature_names(*names)
            parts.append(CoefficientPart("policy", policy_names, self.coef, self.policy_sees))
        return parts


def warn_of_troubles(
    participants: NDArray[Any], troubles: NDArray[np.bool_], logs: Trajectories, features: int, pooling: Pooling
) -> None:
    """A `FitWarning` for every trouble, the last of which is a search without end, naming the people who have it."""
    texts = [
        f"no usable decision point, {pooling.without_points}",
        f"fewer usable decision points than the critic's {features} features; {pooling.few_points}",
        "the outcome never changes, so no effect can be learned; what was removed as an outlier means nothing",
        *(
            f"state '{name}' never changes, or by less than a hundred-thousandth of its size, so its effect cannot be told "
            "from the intercept; if it changes, subtract a constant from it"
            for name in logs.state_names
        ),
    ]
    for name in logs.action_names:
        texts.append(f"action '{name}' never occurs at a usable decision point; its effect is a guess")
        texts.append(f"every decision point with action '{name}' was removed as an outlier; its effect is a guess")
    texts.append("the search did not converge; rescale the states or raise the penalties")
    for text, troubled in zip(texts, troubles.T, strict=True):
        if troubled.any():
            warnings.warn(f"{name_people(participants[troubled])}: {text}", FitWarning, stacklevel=4)
