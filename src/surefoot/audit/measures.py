"""What a fit left out, in numbers: the measures on which the audit's verdicts rest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning, InputError
from surefoot.inference.intervals import (
    FEW_PEOPLE,
    Interval,
    difference_interval,
    ratio_interval,
    sum_by_participant,
    t_interval,
)
from surefoot.inference.sandwich import MOST_REFITTED, compute_influences, count_coefficients, takes_refits
from surefoot.learning.critics import Critic, make_critic
from surefoot.learning.methods import Method
from surefoot.numerics.arrays import list_blocks
from surefoot.policies.features import effects, policy_features
from surefoot.reports.reward_units import RewardUnit
from surefoot.study import Study

NEAR = 1.5
"""A removed decision point within so many times the limit is near: it could be an ordinary response. Beyond, it stands
apart."""
NORMAL_CAP = 1.776
"""Where the cap lies for normal noise, in standard deviations: the scale of residuals where nothing limits them."""
TAUS = (0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""The fit's τ is multiplied by these to see how much hangs on it."""
NEAR_TAUS = (0.75, 1.0, 1.5)
"""By these where a fit takes long; the verdict compares no others."""


@dataclass(frozen=True)
class Sensitivity:
    """The fit with another τ; infinite: no limit at all.

    Attributes
    ----------
    tau
        τ.
    removed
        Share of used decision points.
    effect
        Mean over used decision points, and over actions other than nothing, of the expected gain over doing nothing.
    send_rate
        Mean probability of sending anything.
    """

    tau: float
    removed: float
    effect: Interval
    send_rate: float


@dataclass(frozen=True, eq=False)
class Measures:
    """Rows are those of the logs; `relative` is the residual in units of its limit, NaN where a decision point was not
    used."""

    fitted: Method
    raw_reward: NDArray[np.float64]
    used: NDArray[np.bool_]
    removed: NDArray[np.bool_]
    relative: NDArray[np.float64]
    study: Study | None = None

    @property
    def unit(self) -> RewardUnit:
        """What the fitted reward is counted in."""
        return RewardUnit(self.fitted.logs_.names.reward) if self.study is None else self.study.reward_unit

    @classmethod
    def of(cls, fitted: Method, raw_reward: NDArray[np.float64] | None = None, study: Study | None = None) -> Measures:
        logs = fitted.logs_
        raw = logs.reward if raw_reward is None else np.asarray(raw_reward, dtype=np.float64)
        if raw.shape != (len(logs),):
            raise InputError(f"raw_reward has shape {raw.shape}; the logs have {len(logs)} rows")
        used = ~np.isnan(fitted.weights_)
        if not used.any():
            raise InputError("no decision point was usable, so there is no fit to audit; see which columns are missing")
        normal = NORMAL_CAP * np.where(fitted.scale_ > 0, fitted.scale_, 1.0)
        limit = np.where(np.isfinite(fitted.threshold_), np.sqrt(fitted.threshold_), normal)
        relative = fitted.residuals_ / limit[fitted.unit_]
        return cls(fitted, raw, used, used & (fitted.weights_ == 0), relative, study)

    def total(self, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
        """How many of the rows each participant has."""
        logs = self.fitted.logs_
        return sum_by_participant(logs.participant_index, len(logs.participants), rows.astype(np.float64))

    @property
    def treated(self) -> NDArray[np.bool_]:
        return np.asarray(self.fitted.logs_.action > 0)

    @property
    def near(self) -> NDArray[np.bool_]:
        """Removed, but not far beyond the limit."""
        return self.removed & (np.abs(np.where(self.used, self.relative, 0.0)) < NEAR)

    def reward_share(self) -> tuple[float, NDArray[np.float64]]:
        """Σ|reward| of removed decision points over that of all used ones, before any transform: over all, and per
        participant."""
        logs = self.fitted.logs_
        size = np.abs(np.where(self.used, self.raw_reward, 0.0))
        lost = sum_by_participant(logs.participant_index, len(logs.participants), np.where(self.removed, size, 0.0))
        whole = sum_by_participant(logs.participant_index, len(logs.participants), size)
        everything = float(whole.sum())
        return float(lost.sum()) / everything if everything > 0 else 0.0, lost / np.where(whole > 0, whole, 1.0)

    def rate_difference(self, events: NDArray[np.bool_], group: NDArray[np.bool_], other: NDArray[np.bool_]) -> Interval:
        """Rate of events among used rows of one group less that of another, with an interval over people."""
        group, other = group & self.used, other & self.used
        counts = [self.total(rows) for rows in (events & group, group, events & other, other)]
        return difference_interval(*counts)

    def with_critic(self, name: str) -> tuple[Measures, Sensitivity]:
        """The same method with another critic, as it would be audited."""
        again = _refit(self.fitted, make_critic(name, self.fitted.get_params(deep=False)))
        return Measures.of(again, self.raw_reward, self.study), _measure_fit(self, again)

    @property
    def elapsed(self) -> NDArray[np.float64]:
        """Of every row, which share of its participant's decision points lies before it."""
        logs = self.fitted.logs_
        place, lengths = np.empty(len(logs)), np.diff(logs.starts)
        place[logs.order] = (np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths)) / np.repeat(lengths, lengths)
        return place

    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """The same method with its limit at other heights, and without; only itself where there is none."""
        fitted, critic = self.fitted, self.fitted.critic_
        if critic.removal is None:
            return (_measure_fit(self, fitted),)
        grid = []
        for factor in self.factors:
            again = fitted if factor == 1 else _refit(fitted, critic.at_strictness(factor))
            grid.append(_measure_fit(self, again))
        return (*grid, _measure_fit(self, _refit(fitted, critic.without_removal())))

    @property
    def factors(self) -> tuple[float, ...]:
        """What the limit is multiplied by."""
        return TAUS if count_coefficients(self.fitted) <= MOST_REFITTED else NEAR_TAUS

    def list_omissions(self) -> tuple[str, ...]:
        """What was left out because the critic has many coefficients, in sentences."""
        fitted = self.fitted
        coefficients = count_coefficients(fitted)
        if coefficients <= MOST_REFITTED:
            return ()
        because = f"the critic has {coefficients} coefficients, more than {MOST_REFITTED}"
        sentences = []
        if fitted.critic_.removal is not None:
            factors = ", ".join(f"{factor:g}" for factor in TAUS if factor not in NEAR_TAUS)
            sentences.append(f"No fits with the limit at {factors} times its height: {because}.")
        if fitted.pooled_ and not takes_refits(fitted) and self.people < FEW_PEOPLE:
            sentences.append(
                f"No fits without each of the {self.people} people (the jackknife): {because}. The interval of the mean "
                "effect comes from the analytic sandwich, which is rougher for so few people."
            )
        return tuple(sentences)

    @property
    def people(self) -> int:
        """People with a used decision point."""
        return len(np.unique(self.fitted.logs_.participant_index[self.used]))


def _refit(fitted: Method, critic: Critic) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # The fit under audit has said it.
        return replace(fitted, critic=critic, filter=None).fit_some(fitted.logs_, start=fitted.coef_)


def _measure_fit(measures: Measures, fitted: Method) -> Sensitivity:
    logs, rows = fitted.logs_, np.flatnonzero(measures.used)
    participant_index, people = logs.participant_index[rows], len(logs.participants)
    each, gain, total = effects(fitted.critic_coef_, logs.actions).mean(axis=1), np.empty(len(rows)), np.zeros(1)
    for some in list_blocks(len(rows), cells=logs.state.shape[1] + 1):
        z = policy_features(logs.state[rows[some]])
        gain[some] = np.einsum("rm,rm->r", z, each[fitted.unit_[rows[some]]])
        total = total + z.sum(axis=0)
    middle = total / len(rows)
    effect = ratio_interval(sum_by_participant(participant_index, people, gain), measures.total(measures.used))
    if fitted.pooled_ and len(np.unique(participant_index)) > 1:
        # Everybody shares the coefficients: their error, and not the spread over people, is what is uncertain.
        direction = _mean_contrast(middle, logs.actions)
        spread = compute_influences(fitted, with_policy=False).critic @ direction
        effect = t_interval(
            gain.mean(), float(np.sqrt((spread**2).sum() * (len(spread) - 1) / len(spread))), len(spread) - 1
        )
    if fitted.posterior_ is not None:
        direction = _mean_contrast(middle, logs.actions)
        posterior, d = fitted.posterior_, len(direction)
        known = posterior.population_covariance[:d, :d]
        if posterior.walk:
            # The mean of what people have come to is not β; what is not known of each one's way adds to it.
            known = known + posterior.covariance[:, :d, :d].mean(axis=0) / people
        variance = max(float(direction @ known @ direction), 0.0)
        effect = t_interval(gain.mean(), np.sqrt(variance), max(people - 1, 1))
    if len(np.unique(logs.action[rows])) < logs.actions:
        # The effect of an action that was never taken, or always, is a guess that no interval describes.
        effect = Interval(float(gain.mean()), np.nan, np.nan, np.nan)
    send = 1 - fitted.policies_.probabilities(logs.participant[rows], logs.state[rows])[:, 0]
    return Sensitivity(
        float(fitted.critic_.strictness), float((fitted.weights_[rows] == 0).mean()), effect, float(send.mean())
    )


def _mean_contrast(z: NDArray[np.float64], actions: int) -> NDArray[np.float64]:
    """c with cᵀw the mean effect: z = [s, 1] in every action's block [1, s], averaged over actions."""
    block = np.concatenate([z[-1:], z[:-1]])
    return np.concatenate([np.zeros_like(block), *[block / (actions - 1)] * (actions - 1)])
