"""The numbers behind an audit: what a fit removed, and the same fit with its limit elsewhere."""

import warnings
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning, InputError
from surefoot.inference import intervals
from surefoot.inference.sandwich import MOST_REFITTED, compute_influences, count_coefficients, takes_refits
from surefoot.learning.critics import Critic
from surefoot.learning.critics.critic import NORMAL_CAP
from surefoot.learning.critics.regressor import make_critic
from surefoot.learning.methods import Method
from surefoot.policies.features import effects, policy_features
from surefoot.reports.numbers import OutcomeUnit, format_estimate
from surefoot.study import Study

NEAR = 1.5
"""A removed decision point within this many times the limit is near: it could be an ordinary response. Beyond, it stands
apart."""
TAUS = (0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""Factors of the fit's τ that show how much depends on it."""
NEAR_TAUS = (0.75, 1.0, 1.5)
"""The factors where a fit takes long; the verdict compares no others."""


@dataclass(frozen=True)
class Sensitivity:
    """The fit with another limit for outliers, or without one (an infinite `tau`)."""

    tau: float
    """τ."""
    removed: float
    """Share of used decision points."""
    effect: intervals.Interval
    """Mean over used decision points, and over actions other than nothing, of the expected gain over doing nothing."""
    send_rate: float
    """Mean probability of sending anything."""
    is_audited: bool = False
    """Whether this is the fit under audit."""

    @property
    def label(self) -> str:
        """τ, or `without` where there is no limit."""
        return f"{self.tau:g}" if isfinite(self.tau) else "without"


def find_audited(grid: tuple[Sensitivity, ...]) -> Sensitivity:
    """The fit under audit among those with other limits."""
    return next(row for row in grid if row.is_audited)


@dataclass(frozen=True, eq=False)
class Measures:
    """Rows are those of the logs; `relative` is the residual in units of its limit, NaN where a decision point was not
    used."""

    fitted: Method
    raw_outcome: NDArray[np.float64]
    used: NDArray[np.bool_]
    removed: NDArray[np.bool_]
    relative: NDArray[np.float64]
    study: Study | None = None

    @classmethod
    def of(cls, fitted: Method, raw_outcome: NDArray[np.float64] | None = None, study: Study | None = None) -> "Measures":
        logs = fitted.logs_
        raw = logs.outcome if raw_outcome is None else np.asarray(raw_outcome, dtype=np.float64)
        if raw.shape != (len(logs),):
            raise InputError(f"raw_outcome has shape {raw.shape}; the logs have {len(logs)} rows")
        used = ~np.isnan(fitted.weights_)
        if not used.any():
            raise InputError("no decision point was usable, so there is no fit to audit; see which columns are missing")
        # Residuals without a limit are counted in the cap of normal noise.
        normal = NORMAL_CAP * np.where(fitted.scale_ > 0, fitted.scale_, 1.0)
        limit = np.where(np.isfinite(fitted.threshold_), np.sqrt(fitted.threshold_), normal)
        relative = fitted.residuals_ / limit[fitted.unit_]
        return cls(fitted, raw, used, used & (fitted.weights_ == 0), relative, study)

    @property
    def unit(self) -> OutcomeUnit:
        return OutcomeUnit(self.fitted.logs_.names.outcome) if self.study is None else self.study.outcome_unit

    @property
    def people(self) -> int:
        """People with a used decision point."""
        return len(np.unique(self.fitted.logs_.participant_index[self.used]))

    @property
    def treated(self) -> NDArray[np.bool_]:
        return np.asarray(self.fitted.logs_.action > 0)

    @property
    def near(self) -> NDArray[np.bool_]:
        """Removed, but not far beyond the limit."""
        return self.removed & (np.abs(np.where(self.used, self.relative, 0.0)) < NEAR)

    @property
    def elapsed(self) -> NDArray[np.float64]:
        """The share of the participant's decision points before every row."""
        logs = self.fitted.logs_
        return logs.position / np.diff(logs.starts)[logs.participant_index]

    def total(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Sum of the values, one for every row, over each participant's rows."""
        logs = self.fitted.logs_
        return intervals.sum_by_participant(logs.participant_index, len(logs.participants), values.astype(np.float64))

    def outcome_share(self) -> tuple[float, NDArray[np.float64]]:
        """Σ|outcome| of removed decision points over that of all used ones, before any transform: in all, and per
        participant."""
        size = np.abs(np.where(self.used, self.raw_outcome, 0.0))
        lost = self.total(np.where(self.removed, size, 0.0))
        earned = self.total(size)
        everything = float(earned.sum())
        return float(lost.sum()) / everything if everything > 0 else 0.0, lost / np.where(earned > 0, earned, 1.0)

    def rate_difference(
        self, events: NDArray[np.bool_], group: NDArray[np.bool_], other: NDArray[np.bool_]
    ) -> intervals.Interval:
        """Rate of events among used rows of one group less that of another, with an interval over people."""
        group = group & self.used
        other = other & self.used
        return intervals.difference_interval(*(self.total(rows) for rows in (events & group, group, events & other, other)))

    def describe_effect(self, effect: intervals.Interval) -> str:
        """The mean effect with its interval, and in the units of the untransformed outcome where the transform allows it."""
        untransformed = self.unit.describe_difference(effect)
        return f"mean effect of sending {format_estimate(effect)}" + (f", {untransformed}" if untransformed else "")

    def with_critic(self, name: str) -> "tuple[Measures, Sensitivity]":
        """The same method with another critic, as it would be audited."""
        critic = make_critic(name)
        shared = self.fitted.critic_.get_params()
        shared = {parameter: shared[parameter] for parameter in critic.get_params() if parameter in shared}
        again = _refit(self.fitted, critic.with_params(shared))
        return Measures.of(again, self.raw_outcome, self.study), self._measure_fit(again)

    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """The same method with its limit at other heights, and without; only itself where there is no limit."""
        critic = self.fitted.critic_
        audited = replace(self._measure_fit(self.fitted), is_audited=True)
        if critic.removal is None:
            return (audited,)
        factors = TAUS if count_coefficients(self.fitted) <= MOST_REFITTED else NEAR_TAUS
        grid = [
            audited if factor == 1 else self._measure_fit(_refit(self.fitted, critic.at_strictness(factor)))
            for factor in factors
        ]
        return (*grid, self._measure_fit(_refit(self.fitted, critic.without_removal())))

    def list_omissions(self) -> tuple[str, ...]:
        """Parts of the audit that were left out because the critic has many coefficients, in sentences."""
        coefficients = count_coefficients(self.fitted)
        because = f"the critic has {coefficients} coefficients, more than {MOST_REFITTED}"
        sentences = []
        if coefficients > MOST_REFITTED and self.fitted.critic_.removal is not None:
            factors = ", ".join(f"{factor:g}" for factor in TAUS if factor not in NEAR_TAUS)
            sentences.append(f"No fits with the limit at {factors} times its height: {because}.")
        if self.fitted.pooled_ and self.people < intervals.FEW_PEOPLE and not takes_refits(self.fitted):
            sentences.append(
                f"No fits without each of the {self.people} people (the jackknife): {because}. The interval of the mean "
                "effect comes from the analytic sandwich, which is rougher for so few people."
            )
        return tuple(sentences)

    def _measure_fit(self, fitted: Method) -> Sensitivity:
        logs = fitted.logs_
        rows = np.flatnonzero(self.used)
        mean_effects = effects(fitted.critic_coef_, logs.actions).mean(axis=1)
        z = policy_features(logs.state[rows])
        gain = np.zeros(len(logs))
        gain[rows] = np.einsum("rm,rm->r", z, mean_effects[fitted.unit_[rows]])
        send = 1 - fitted.policies_.probabilities(logs.participant[rows], logs.state[rows])[:, 0]
        return Sensitivity(
            tau=float(fitted.critic_.strictness),
            removed=float((fitted.weights_[rows] == 0).mean()),
            effect=self._estimate_effect(fitted, gain, z.mean(axis=0)),
            send_rate=float(send.mean()),
        )

    def _estimate_effect(self, fitted: Method, gain: NDArray[np.float64], middle: NDArray[np.float64]) -> intervals.Interval:
        """The mean of `gain` (rows of the logs, 0 if not used); `middle` is the mean of z = [s, 1] over used rows."""
        actions = fitted.logs_.actions
        mean = float(gain[self.used].mean())
        if len(np.unique(fitted.logs_.action[self.used])) < actions:
            # The effect of an action that was never taken, or always, is a guess that no interval describes.
            return intervals.Interval(mean, np.nan, np.nan, np.nan)
        # c with cᵀw the mean effect: z in every action's block [1, s], averaged over actions.
        block = np.roll(middle, 1)
        contrast = np.concatenate([np.zeros_like(block), *[block / (actions - 1)] * (actions - 1)])
        people = len(fitted.logs_.participants)
        posterior = fitted.posterior_
        if posterior is not None:
            width = len(contrast)
            covariance = posterior.population_covariance[:width, :width]
            if posterior.walk:
                # The mean of people's last coefficients is not β; the uncertainty of each one's walk adds to it.
                covariance = covariance + posterior.covariance[:, :width, :width].mean(axis=0) / people
            variance = max(float(contrast @ covariance @ contrast), 0.0)
            return intervals.t_interval(mean, np.sqrt(variance), max(people - 1, 1))
        if fitted.pooled_ and self.people > 1:
            # Everybody shares the coefficients: their error, and not the spread over people, is uncertain.
            spread = compute_influences(fitted, with_policy=False).critic @ contrast
            count = len(spread)
            return intervals.t_interval(mean, float(np.sqrt((spread**2).sum() * (count - 1) / count)), count - 1)
        return intervals.ratio_interval(self.total(gain), self.total(self.used))


def _refit(fitted: Method, critic: Critic) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # The fit under audit has given the warnings.
        return replace(fitted.settled, critic=critic, filter=None).fit_some(fitted.logs_, start=fitted.coef_)
