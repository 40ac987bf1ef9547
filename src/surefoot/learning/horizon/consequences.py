"""What an action does now and later, in numbers that a report can show: over everybody, at their mean state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.learning.horizon.horizon import Outlook
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments, long_run_worth
from surefoot.learning.horizon.uncertainty import Uncertainty

SURE = 0.05
"""A state reacts to an action when chance would show as much in fewer than this share of studies, for all tests together."""
FELT = 0.05
"""An action is felt until less than this share of all that it changes later is still to come."""
LAGS = 400


class ChangeEstimate(NamedTuple):
    """A number and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Reaction:
    """The reaction of a state variable to an action."""

    variable: int
    action: int
    shift: ChangeEstimate
    """The change of the variable at the next decision point, at the mean state."""
    p_value: float


@dataclass(frozen=True, eq=False)
class Consequence:
    """The change by one action compared with doing nothing, in units of the reward."""

    action: int
    immediate: ChangeEstimate
    """In the outcome that follows."""
    delayed: ChangeEstimate
    """In all outcomes after that."""
    total: ChangeEstimate
    through: NDArray[np.float64]
    """The delayed change by way of each state variable."""
    lags: NDArray[np.float64]
    """The change in the outcome after so many decision points."""

    @property
    def felt(self) -> int:
        """The decision points after which all but a twentieth of what is delayed has come."""
        later = np.abs(self.lags[1:])
        left = later[::-1].cumsum()[::-1]
        return int((left > FELT * later.sum()).sum()) if later.sum() > 0 else 0


@dataclass(frozen=True, eq=False)
class PooledView:
    """One model of everybody, whoever shares a policy."""

    model: LookAhead
    uncertainty: Uncertainty
    mean_state: NDArray[np.float64]
    """[1, s̄] over the transitions."""
    people: int

    @classmethod
    def of_outlook(cls, outlook: Outlook) -> PooledView:
        moments: TransitionMoments = outlook.moments
        model, uncertainty = outlook.pool()
        k = model.coef.shape[-1]
        first = moments.total().state.gram[0, 0, :k]
        return cls(model, uncertainty, np.asarray(first / max(first[0], 1.0)), len(moments.state.gram))

    def estimate(self, functionals: NDArray[np.float64]) -> list[ChangeEstimate]:
        """Σ W ∘ C for each W of (m, d, 1 + p)."""
        values = (functionals * self.model.coef[0]).sum(axis=(1, 2))
        errors = np.sqrt(np.abs(np.diagonal(self.uncertainty.covariance(functionals[None])[0])))
        return [ChangeEstimate(float(value), float(error)) for value, error in zip(values, errors, strict=True)]

    @property
    def reactions(self) -> list[Reaction]:
        """The reaction of every state variable to every action, with Wald's test of all coefficients."""
        from scipy.special import chdtrc, fdtrc

        coef = self.model.coef[0]
        z = self.mean_state
        k = coef.shape[1]
        tests = [(variable, action) for action in range(1, self.model.share.shape[1]) for variable in range(k - 1)]
        entries = [(slice(k * action, k * (action + 1)), 1 + variable) for variable, action in tests]
        covariance = np.stack([np.asarray(self.uncertainty.coefficient_covariance(*entry)[0]) for entry in entries])
        effect = np.stack([coef[entry] for entry in entries])
        wald = np.einsum("ti,tij,tj->t", effect, np.linalg.pinv(covariance, hermitian=True), effect)
        degrees = self.people - k if self.uncertainty.between_people else 0
        p_values = fdtrc(k, degrees, wald / k) if degrees > 0 else chdtrc(k, wald)
        shifts = effect @ z
        errors = np.sqrt(np.abs(np.einsum("i,tij,j->t", z, covariance, z)))
        estimates = [ChangeEstimate(float(shift), float(error)) for shift, error in zip(shifts, errors, strict=True)]
        return [
            Reaction(variable=variable, action=action, shift=shift, p_value=p_value)
            for (variable, action), shift, p_value in zip(tests, estimates, p_values.tolist(), strict=True)
        ]

    @property
    def some_state_reacts(self) -> bool:
        reactions = self.reactions
        return any(reaction.p_value < SURE / len(reactions) for reaction in reactions)

    def consequence(self, action: int) -> Consequence:
        """The consequence of one action at the mean state, with later decisions as they were logged."""
        model = self.model
        z = self.mean_state
        coef = model.coef[0]
        k = len(z)
        rows = slice(k * action, k * (action + 1))
        immediate = np.zeros_like(coef)
        immediate[rows, 0] = z
        moved = z @ model.jacobian[0, k * (action - 1) : k * action]
        total = moved[:, None] * np.append(1.0, model.worth[0])
        # The advantage itself is not Σ W ∘ C, whose W moves with C; only its error is.
        errors = [estimate.standard_error for estimate in self.estimate(np.stack([immediate, total - immediate, total]))]
        now = float(z @ coef[rows, 0])
        pushed = z @ coef[rows, 1:]
        through = pushed * model.worth[0]
        values = (now, float(through.sum()), now + float(through.sum()))
        now_, later, total_ = (ChangeEstimate(value, error) for value, error in zip(values, errors, strict=True))
        return Consequence(action, now_, later, total_, through, self._lags(now, pushed))

    def _lags(self, now: float, pushed: NDArray[np.float64]) -> NDArray[np.float64]:
        coef = self.model.coef[0]
        k = len(self.mean_state)
        share = self.model.share[0]
        mean = sum((share[a] if a else 1.0) * coef[k * a : k * (a + 1)] for a in range(len(share)))
        carried = np.eye(k - 1) - np.asarray(long_run_worth(np.asarray(mean)[None])[0][0])
        lags = [now]
        for _ in range(LAGS):
            lags.append(float(pushed @ mean[1:, 0]))
            pushed = pushed @ carried
        return np.array(lags)
