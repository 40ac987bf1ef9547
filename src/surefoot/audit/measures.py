"""What a fit left out, in numbers: the measures on which the audit's verdicts rest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning, InputError
from surefoot.features import effects, policy_features
from surefoot.methods import Method
from surefoot.resampling import Interval, PeopleBootstrap, per_person, symmetric
from surefoot.sandwich import influences

NEAR = 1.5
"""A removed tuple within so many times the cap is near: it could be an ordinary response. Beyond, it stands apart."""
TAUS = (0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""The fit's τ is multiplied by these to see how much hangs on it."""
MEDCOUPLE_POINTS = 2001


@dataclass(frozen=True)
class Sensitivity:
    """The fit with another τ; infinite: no cap at all."""

    tau: float
    removed: float
    """Share of used tuples."""
    effect: Interval
    """Mean over used decision points, and over actions other than nothing, of the expected gain over doing nothing."""
    send_rate: float


@dataclass(frozen=True, eq=False)
class Measures:
    """Rows are those of the logs; `relative` is the residual in units of its cap, NaN where a tuple was not used."""

    fitted: Method
    raw_reward: NDArray[np.float64]
    used: NDArray[np.bool_]
    removed: NDArray[np.bool_]
    relative: NDArray[np.float64]
    bootstrap: PeopleBootstrap

    @classmethod
    def of(cls, fitted: Method, raw_reward: NDArray[np.float64] | None) -> Measures:
        logs = fitted.logs_
        raw = logs.reward if raw_reward is None else np.asarray(raw_reward, dtype=np.float64)
        if raw.shape != (len(logs),):
            raise InputError(f"raw_reward has shape {raw.shape}; the logs have {len(logs)} rows")
        used = ~np.isnan(fitted.weights_)
        if not used.any():
            raise InputError("no decision point was usable, so there is no fit to audit; see which columns are missing")
        unit = fitted._unit
        # Without a cap the residuals are put on the scale that the cap would have for normal noise.
        normal = 1.78 * np.where(fitted.scale_ > 0, fitted.scale_, 1.0)
        limit = np.where(np.isfinite(fitted.threshold_), np.sqrt(fitted.threshold_), normal)
        relative = fitted.residuals_ / limit[unit]
        return cls(fitted, raw, used, used & (fitted.weights_ == 0), relative, PeopleBootstrap(len(logs.users)))

    def total(self, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
        """How many of the rows each person has."""
        logs = self.fitted.logs_
        return per_person(logs.person, len(logs.users), rows.astype(np.float64))

    @property
    def treated(self) -> NDArray[np.bool_]:
        return self.fitted.logs_.action > 0

    @property
    def near(self) -> NDArray[np.bool_]:
        """Removed, but not far beyond the cap."""
        return self.removed & (np.abs(np.where(self.used, self.relative, 0.0)) < NEAR)

    def reward_share(self) -> tuple[float, NDArray[np.float64]]:
        """Σ|reward| of removed tuples over that of all used ones, before any transform: over all, and per person."""
        logs = self.fitted.logs_
        size = np.abs(np.where(self.used, self.raw_reward, 0.0))
        lost = per_person(logs.person, len(logs.users), np.where(self.removed, size, 0.0))
        whole = per_person(logs.person, len(logs.users), size)
        everything = float(whole.sum())
        return float(lost.sum()) / everything if everything > 0 else 0.0, lost / np.where(whole > 0, whole, 1.0)

    def rate_difference(self, events: NDArray[np.bool_], group: NDArray[np.bool_], other: NDArray[np.bool_]) -> Interval:
        """Rate of events among used rows of one group less that of another, with an interval over people."""
        group, other = group & self.used, other & self.used
        counts = [self.total(rows) for rows in (events & group, group, events & other, other)]
        return self.bootstrap.difference(*counts)

    def with_the_papers_cap(self) -> tuple[Measures, Sensitivity]:
        """The same method with the paper's critic instead, as it would be audited."""
        capped = _refitted(self.fitted, critic="capped")
        return Measures.of(capped, self.raw_reward), _at(self, capped, self.fitted.tau)

    def thirds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Rows in the first and in the last third of each person's decision points."""
        logs = self.fitted.logs_
        place = np.empty(len(logs))
        lengths = np.diff(logs.starts)
        place[logs.order] = (np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths)) / np.repeat(lengths, lengths)
        return place < 1 / 3, place >= 2 / 3

    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """The same method with the cap at other heights, and without."""
        fitted = self.fitted
        if fitted.critic == "ridge":
            return (_at(self, fitted, np.inf),)
        found = []
        for factor in TAUS:
            again = fitted if factor == 1 else _refitted(fitted, tau=fitted.tau * factor)
            found.append(_at(self, again, fitted.tau * factor))
        return (*found, _at(self, _refitted(fitted, critic="ridge"), np.inf))


def _refitted(fitted: Method, **changes: Any) -> Method:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # The fit under audit has said it.
        return replace(fitted, **changes, filter=None).fit(fitted.logs_)


def _at(measures: Measures, fitted: Method, tau: float) -> Sensitivity:
    logs, rows = fitted.logs_, np.flatnonzero(measures.used)
    z, person, people = policy_features(logs.state[rows]), logs.person[rows], len(logs.users)
    gain = np.einsum("rm,rm->r", z, effects(fitted.critic_coef_, logs.actions).mean(axis=1)[fitted._unit[rows]])
    effect = measures.bootstrap.ratio(per_person(person, people, gain), measures.total(measures.used))
    if fitted.pooling == "all" and people > 1:
        # Everybody shares the coefficients: their error, and not the spread over people, is what is uncertain.
        direction = _mean_contrast(z.mean(axis=0), logs.actions)
        spread = influences(fitted).critic @ direction
        effect = symmetric(gain.mean(), float(np.sqrt((spread**2).sum() * (len(spread) - 1) / len(spread))), len(spread) - 1)
    send = 1 - fitted.policies_.probabilities(logs.user[rows], logs.state[rows])[:, 0]
    return Sensitivity(float(tau), float((fitted.weights_[rows] == 0).mean()), effect, float(send.mean()))


def _mean_contrast(z: NDArray[np.float64], actions: int) -> NDArray[np.float64]:
    """c with cᵀw the mean effect: z = [s, 1] in every action's block [1, s], averaged over actions."""
    block = np.concatenate([z[-1:], z[:-1]])
    return np.concatenate([np.zeros_like(block), *[block / (actions - 1)] * (actions - 1)])


def skewness(values: NDArray[np.float64]) -> float:
    """The moment coefficient E(x − μ)³ / σ³; one outlier can make it anything."""
    spread = values.std() if len(values) else 0.0
    return float(((values - values.mean()) ** 3).mean() / spread**3) if spread > 0 else 0.0


def medcouple(values: NDArray[np.float64]) -> float:
    """Median of ((x − m) − (m − y)) / (x − y) over x ≥ m ≥ y, m the median: skewness that outliers cannot move, in [−1, 1].

    Of more than 2,001 values as many evenly spaced order statistics stand for all.

    >>> medcouple(np.array([1.0, 2.0, 3.0])), medcouple(np.array([0.0, 1.0, 5.0]))
    (0.0, 0.3)
    """
    if not len(values):
        return 0.0
    ordered = np.sort(values)
    if len(ordered) > MEDCOUPLE_POINTS:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MEDCOUPLE_POINTS).round().astype(np.int64)]
    centred = ordered - np.median(ordered)
    above, below = centred[centred >= 0], centred[centred <= 0]
    width = above[:, None] - below
    inside = width > 0
    # Pairs of values that both are the median get the sign of their order, as Brys, Hubert and Struyf define it.
    tied = int((centred == 0).sum())
    places = np.arange(tied)
    kernel = np.divide(above[:, None] + below, width, out=np.zeros_like(width), where=inside)
    kernel[:tied, kernel.shape[1] - tied :] = np.sign(np.add.outer(places, places) - tied + 1)
    return float(np.median(kernel))
