"""What everybody shares beyond the population's coefficients: effects that change over the study, and a smooth baseline.

    y = x_0(s)ᵀ αᵢ + g(s) + a zᵀ(θ + uᵢ + γ_t) + e,   z = [1, s]

γ_t is a random walk over the participant's own time, t decision points after their first one, at which it is zero. It walks
from knot to knot of at most `MOST_INTERVALS` intervals, in independent steps N(0, diag σ_γ²) of the coefficients of centred
states, and is linear in between. Each coefficient of the effect has a variance of its own, and the features of the baseline
have one; all are estimated, and zero where nothing changes (`mixed_effects`).

Intervals grow from the first to the last, because prompts often wear off fastest at the beginning. The likelihood chooses
one of two paces. At a *steady* pace the variance of a step is σ_γ² times the length of its interval, relative to the mean
length. At a *slowing* pace it is σ_γ² divided by that length. With u from 0 to 1 over the study, the variance per time then
falls as 1 / (1 + (`GROWTH` − 1) u)².
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import cast

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.baselines import Baseline
from surefoot.learning.batch import count_back
from surefoot.learning.penalties import FitScales, StandardUnits
from surefoot.learning.pooling.mixed_effects import (
    MOST_SHARED,
    NOTHING,
    LikelihoodPoint,
    Moments,
    Posterior,
    SharedMoments,
    SharedPosterior,
)

Floats = NDArray[np.float64]
MOST_INTERVALS = 16
GROWTH = 6.0
"""Knots are equally spaced in log(1 + (`GROWTH` − 1) u), where u runs from 0 to 1 over the study."""
FAR = 8.0
"""A standard deviation whose deviance is so much above the lowest has next to no weight."""
NODES = 13
"""Standard deviations over which a band is averaged."""
NEGLIGIBLE = 1e-3
"""A pace with less weight is left out of a band."""


@dataclass(frozen=True, eq=False)
class StudyTime:
    """Everybody's own time in decision points from their first one on, cut into intervals of equal length."""

    position: Floats
    """Of every row: how many logged decision points of the participant, available or not, come before it."""
    following: Floats
    """Of everybody's next decision point, (people,)."""
    knots: Floats
    """Times at which the walk's steps begin and end, from 0 on, (intervals + 1,)."""

    @classmethod
    def of_logs(cls, logs: Trajectories, most: int = MOST_INTERVALS) -> "StudyTime":
        """With at most so many intervals up to the last participant's next decision point.

        >>> logs = Trajectories.from_arrays(np.zeros((1, 5, 1)), np.ones((1, 5)), np.zeros((1, 5)))
        >>> time = StudyTime.of_logs(logs, most=2)
        >>> time.knots
        array([0., 1., 5.])
        >>> time.ramps(np.array([0.0, 1.0, 2.0, 5.0]))
        array([[0.  , 0.  ],
               [1.  , 0.  ],
               [1.  , 0.25],
               [1.  , 1.  ]])
        """
        lengths = np.diff(logs.starts)
        position = lengths[logs.participant_index] - 1 - count_back(logs)
        shares = (GROWTH ** (np.arange(most + 1) / most) - 1) / (GROWTH - 1)
        knots = np.unique(np.round(shares * max(int(lengths.max(initial=1)), 1)))
        return cls(position.astype(np.float64), lengths.astype(np.float64), knots)

    @property
    def intervals(self) -> int:
        return len(self.knots) - 1

    @property
    def widths(self) -> Floats:
        """Standard deviations of the steps at a steady pace, in multiples of σ_γ; at a slowing pace their inverses."""
        lengths = np.diff(self.knots)
        return np.asarray(np.sqrt(lengths / lengths.mean()))

    def ramps(self, time: Floats) -> Floats:
        """Which share of the walk's step in every interval has been made by then, (…, intervals)."""
        return np.clip((np.asarray(time)[..., None] - self.knots[:-1]) / np.diff(self.knots), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class SharedColumns:
    """The columns of the baseline and of the effects' walk: B(s), then every feature of an effect times every ramp."""

    baseline: Baseline
    scaling: FitScales
    """Of the states in the baseline."""
    sees: Floats
    first: int
    last: int
    """The features x(s, a) of the effects are those from the first on and before the last."""
    time: StudyTime | None
    """None where effects do not change."""

    @classmethod
    def of_logs(cls, logs: Trajectories, baseline: Baseline, sees: Floats, *, changing: bool) -> "SharedColumns":
        rows = logs.order[logs.usable[logs.order]]
        scaling = StandardUnits().measure(logs.state[rows][None], logs.outcome[rows][None], np.ones((1, len(rows))))
        size = len(logs.state_names) + 1
        return cls(
            baseline=baseline,
            scaling=scaling,
            sees=sees,
            first=size,
            last=size * logs.actions,
            time=StudyTime.of_logs(logs) if changing else None,
        )

    @cached_property
    def directions(self) -> Floats:
        """Of the baseline's cosines and sines, (variables, directions)."""
        return self.baseline.draw_directions(len(self.sees))

    @property
    def effects(self) -> slice:
        """The features of the effects."""
        return slice(self.first, self.last)

    @property
    def curves(self) -> int:
        """How many columns the baseline has."""
        return 2 * int(self.directions.shape[1])

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """The baseline's columns first, then those of every coefficient of an effect."""
        steps = 0 if self.time is None else self.time.intervals
        coefficients = np.arange(self.effects.stop - self.effects.start)
        return np.append(np.zeros(self.curves, dtype=np.int64), np.tile(coefficients + (self.curves > 0), steps))

    @cached_property
    def paces(self) -> Floats:
        """Standard deviations of every column's coefficient at the paces among which the likelihood chooses, relative to
        those at the first one, (paces, columns)."""
        if self.time is None:
            return np.ones((1, len(self.group)))
        slowing = np.repeat(self.time.widths**-2, self.effects.stop - self.effects.start)
        return np.stack([np.ones(len(self.group)), np.append(np.ones(self.curves), slowing)])

    def curve(self, state: Floats) -> Floats:
        """B(s), (…, columns): cosine and sine of the standardised state along every direction."""
        flat = self.scaling.standardise(state.reshape(1, -1, state.shape[-1]), self.sees)[0]
        angles = flat @ self.directions
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1).reshape(*state.shape[:-1], -1)

    def values(self, state: Floats, features: Floats, rows: NDArray[np.int64]) -> Floats:
        """Z of rows (people, decision points), of states and features x(s, a) of the same shape."""
        columns = [self.curve(state)]
        if self.time is not None:
            ramps = self.time.ramps(self.time.position[rows])
            columns.append((ramps[..., :, None] * features[..., None, self.effects]).reshape(*rows.shape, -1))
        return np.concatenate(columns, axis=-1)

    def shift_people(self, people: int, d: int) -> Floats:
        """What the walk's columns add to everybody's coefficients by their next decision point, (people, d, columns)."""
        return self.shift(np.zeros(people) if self.time is None else self.time.following, d)

    def shift(self, time: Floats, d: int) -> Floats:
        """What the walk's columns add to the coefficients by then, (…, d, columns)."""
        effects = self.effects.stop - self.effects.start
        moved = np.zeros((*np.shape(time), d, len(self.group)))
        if self.time is not None:
            steps = self.time.ramps(time)[..., None, :, None] * np.eye(effects)[:, None, :]
            moved[..., self.effects, self.curves :] = steps.reshape(*np.shape(time), effects, -1)
        return moved


@dataclass(frozen=True, eq=False)
class SharedDesign:
    """Shared columns as they are fitted: Z H − X F, for walks of coefficients of centred states and a baseline without a
    linear part."""

    columns: SharedColumns
    moments: SharedMoments
    mixing: Floats
    """H, (columns, columns)."""
    removed: Floats
    """F, (d, columns)."""

    @classmethod
    def of_moments(cls, columns: SharedColumns, raw: SharedMoments, moments: Moments, basis: Floats) -> "SharedDesign":
        """`raw` is of Z, and `basis` holds the coefficients of centred states in its columns, (d, d)."""
        curves = columns.curves
        mixing = np.eye(len(raw.group))
        if columns.time is not None:
            mixing[curves:, curves:] = np.kron(np.diag(columns.time.widths), basis[columns.effects, columns.effects])
        # Of a state that is constant, rounding is left when its mean is subtracted.
        size = np.diagonal(mixing.T @ raw.gram @ mixing)
        mixing *= size > NOTHING * np.diagonal(np.abs(mixing.T) @ np.abs(raw.gram) @ np.abs(mixing))
        removed = np.zeros((len(basis), len(mixing)))
        linear = slice(0, columns.effects.start)
        total = moments.gram.sum(axis=0)[linear, linear]
        across = raw.between.sum(axis=0)[linear, :curves]
        removed[linear, :curves] = np.linalg.lstsq(total, across, rcond=1e-10)[0]
        return cls(columns, raw.recombine(moments, mixing, removed), mixing, removed)

    def find_baseline(self, posterior: SharedPosterior, state: Floats) -> Floats:
        """ĝ at states (rows, variables)."""
        coefficients = posterior.mean[: self.columns.curves]
        linear = self.removed[: self.columns.effects.start, : self.columns.curves] @ coefficients
        seen = state * self.columns.sees
        return np.asarray(self.columns.curve(state) @ coefficients - linear[0] - seen @ linear[1:])

    def fit_rows(self, posterior: Posterior, logs: Trajectories, features: Floats) -> "SharedFit | None":
        """What is shared at every row, whose features x(s, a) these are; None where nothing is shared."""
        shared = posterior.shared
        if shared is None:
            return None
        d = features.shape[-1]
        change = np.zeros((len(logs), d))
        if self.columns.time is not None:
            time = self.columns.time
            steps = self.mixing[self.columns.curves :, self.columns.curves :] @ shared.mean[self.columns.curves :]
            steps = steps.reshape(time.intervals, -1)
            moved = time.ramps(time.position) - time.ramps(time.following)[logs.participant_index]
            change[:, self.columns.effects] = moved @ steps
        known = np.nan_to_num(logs.state)
        baseline = self.find_baseline(shared, known) if self.columns.curves else np.zeros(len(logs))
        return SharedFit(baseline, change, baseline + (features * change).sum(axis=1), self)


def average_over_walks(posterior: Posterior, first: int) -> tuple[Floats, Floats]:
    """Mean and covariance of β and the shared columns' coefficients together, (d + columns,) and its square, with what is
    not known of the pace and of the variances of the groups from the first one on.

    Both paces count, each by its restricted likelihood at its best variances.
    """
    likelihood = posterior.likelihood
    paces = zip(likelihood.list_paces(), posterior.ratios, strict=True)
    points = [paced.at_ratios(ratios) for paced, ratios in paces]
    weights = _weigh(np.array([point.deviance for point in points]))
    counts = weights > NEGLIGIBLE
    averages = [_average_over_variances(point, first) for point in compress(points, counts)]
    means, covariances = map(np.array, zip(*averages, strict=True))
    mean, covariance = _mix(weights[counts] / weights[counts].sum(), means, covariances)
    # What the fit has beyond these points: a prior's mean, correlated differences, actions that nobody has been sent.
    point_mean, point_covariance = points[likelihood.pace].join_coefficients()
    shared = cast("SharedPosterior", posterior.shared)
    across = shared.with_population
    fitted_covariance = np.block([[posterior.population_covariance, across], [across.T, shared.covariance]])
    fitted_mean = np.append(posterior.population, shared.mean)
    return mean + fitted_mean - point_mean, covariance + fitted_covariance - point_covariance


def _weigh(deviances: Floats) -> Floats:
    """Shares of likelihoods, given as −2 log."""
    weights = np.exp(-(deviances - deviances.min()) / 2)
    return np.asarray(weights / weights.sum())


def _mix(weights: Floats, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of a mixture."""
    mean = weights @ means
    return mean, np.tensordot(weights, covariances, 1) + (weights[:, None] * (means - mean)).T @ (means - mean)


def _average_over_variances(best: LikelihoodPoint, first: int) -> tuple[Floats, Floats]:
    """At the pace of this point, with what is not known of the variances of the groups from the first one on.

    A variance that is estimated as zero need not be zero. For one group after the other, with the other variances as they
    are at `best`, mean and covariance are those of the mixture over its standard deviation, whose prior is flat and whose
    likelihood is the restricted one; their differences from `best` are added up. σ² is taken as known: with few decision
    points the sum of differences could be a negative variance otherwise.
    """
    likelihood = best.likelihood
    d = likelihood.gram.shape[-1]
    best_roots = np.sqrt(best.scale)
    best_mean, best_covariance = best.join_coefficients()
    mean = best_mean
    covariance = best_covariance
    for group in np.flatnonzero(likelihood.informed[d + first :]) + d + first:

        def at(root: float, group: int = group) -> LikelihoodPoint:
            roots = np.where(np.arange(len(best_roots)) == group, root, best_roots)
            return likelihood.at(roots[:d], roots[d:])

        upper = max(2 * best_roots[group], 0.5)
        while at(upper).deviance - best.deviance < FAR and upper < MOST_SHARED**0.5:
            upper *= 1.5
        points = [at(root) for root in np.linspace(0.0, upper, NODES)]
        # By the trapezoid rule.
        ends = 2 * np.log(2.0) * np.isin(np.arange(NODES), (0, NODES - 1))
        weights = _weigh(np.array([point.deviance for point in points]) + ends)
        coefficients = [replace(point, noise=best.noise).join_coefficients() for point in points]
        means, covariances = map(np.array, zip(*coefficients, strict=True))
        middle, spread = _mix(weights, means, covariances)
        mean = mean + middle - best_mean
        covariance = covariance + spread - best_covariance
    return mean, covariance


@dataclass(frozen=True, eq=False)
class TimeEffects:
    """How effects change over a participant's time for everybody: γ_t, zero at their first decision point."""

    times: NDArray[np.int64]
    """t: decision points after the participant's first one, (times,)."""
    mean: Floats
    """γ_t, (times, coefficients): for every action its intercept, then its state variables."""
    covariance: Floats
    """(times, coefficients, coefficients)."""
    effect_mean: Floats
    """θ + γ_t, of the population, as `mean`."""
    effect_covariance: Floats
    variances: Floats
    """σ_γ²: of a step of the walk over an interval of mean length, (coefficients,), of centred states; zero where nothing
    changes."""
    knots: Floats
    """Times between which the curve is linear, from 0 on."""

    @classmethod
    def of_posterior(cls, design: SharedDesign, posterior: Posterior) -> "TimeEffects | None":
        """With what is not known of the walk's pace and variances; None where effects do not change."""
        columns = design.columns
        time = columns.time
        if posterior.shared is None or time is None:
            return None
        mean, covariance = average_over_walks(posterior, first=int(columns.curves > 0))
        times = np.arange(int(time.following.max(initial=0)) + 1)
        d = len(design.removed)
        shift = (columns.shift(times.astype(np.float64), d) @ design.mixing)[:, columns.effects]
        # θ + γ_t of β and the shared coefficients.
        effect = np.concatenate([np.broadcast_to(np.eye(d)[columns.effects], (*shift.shape[:2], d)), shift], axis=-1)
        return cls(
            times=times,
            mean=shift @ mean[d:],
            covariance=shift @ covariance[d:, d:] @ np.swapaxes(shift, 1, 2),
            effect_mean=effect @ mean,
            effect_covariance=effect @ covariance @ np.swapaxes(effect, 1, 2),
            variances=posterior.shared.variances[int(columns.curves > 0) :],
            knots=time.knots,
        )


@dataclass(frozen=True, eq=False)
class SharedFit:
    """What everybody shares at every row of the logs."""

    baseline: Floats
    """ĝ: the baseline without its linear part, (rows,)."""
    change: Floats
    """How the row's coefficients differ from those at the participant's next decision point, (rows, d)."""
    offset: Floats
    """What both add to the expected outcome, (rows,)."""
    design: SharedDesign
