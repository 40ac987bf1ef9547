"""Coefficients with intervals, for critic and policy, pooled or per participant, and how people differ in them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, describe_roughness, mean_interval, t_interval, t_quantile
from surefoot.inference.participant_intervals import bootstrap_coefficients, count_affordable, draw_coefficients
from surefoot.inference.sandwich import Influences, compute_influences, takes_refits
from surefoot.learning.methods import Method
from surefoot.learning.pooling.mixed_effects import Moments, Posterior, profile_spread
from surefoot.numerics.parallel import Progress
from surefoot.policies.features import critic_feature_names, critic_features

OWN_PEOPLE = 400
"""This many people show how many individual intervals lie above zero, to within 5 points; the refits take seconds."""
MOST_SHOWN = 40
"""A section or figure of coefficients or variables shows at most this many; tables and JSON hold all."""


@dataclass(frozen=True)
class Coefficient:
    """One coefficient. With a fit per participant the value is the mean over people, and its interval that of the mean."""

    part: str
    """`critic` (in units of the outcome) or `policy` (in logits: above zero makes the action more likely)."""
    action: str
    """The name of the action."""
    feature: str
    """The state variable, or `intercept`."""
    interval: Interval
    """Estimate, standard error and 95 % interval."""
    people_above: int | None
    """People whose own interval lies above zero; None where nobody has one, as in a pooled fit."""
    people_below: int | None
    """People whose own interval lies below zero; None where nobody has one."""


@dataclass(frozen=True)
class Coefficients:
    """All coefficients, over people and of each participant."""

    rows: tuple[Coefficient, ...]
    """One for every part, action and feature."""
    how: str
    """In words, where the intervals come from."""
    individual: dict[str, list[Any]]
    """Columns participant, part, action, feature, value, low, high; no ends for people who were not drawn."""
    own_people: int = 0
    """The number of people with intervals of their own."""
    unaffordable: int = 0
    """The number of people who would have one if there were fewer coefficients."""

    def of(self, part: str, feature: str, action: str) -> Coefficient:
        return next(row for row in self.rows if (row.part, row.feature, row.action) == (part, feature, action))

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per participant (or `everyone`) and coefficient."""
        return make_frame(self.individual, backend)


def estimate_coefficients(
    fitted: Method,
    *,
    draws: int,
    seed: int,
    most_people: int | None = OWN_PEOPLE,
    progress: Progress | None = None,
    influences: Influences | None = None,
) -> Coefficients:
    """Sandwich clustered by participant for a pooled fit, bootstrap over decision points for one per participant, the
    posterior for partially pooled ones.

    Individual intervals are computed for at most `most_people`, drawn at random, and fewer where there are many
    coefficients; None means everybody. `influences` are those of a pooled fit, where they are known already.
    """
    logs = fitted.logs_
    posterior = fitted.posterior_
    present = np.unique(logs.participant_index[logs.usable])
    people = len(present)
    drawn = people if most_people is None else min(people, most_people)
    unaffordable = 0
    ends: dict[str, tuple[Any, Any]] = {}
    if fitted.pooled_:
        influences = influences or find_influences(fitted)
        for part, _, values, _ in fitted.coefficient_parts_:
            known = part == "critic" or influences.policy is not None
            half = influences.half_width(part) if known else np.full(1, np.nan)
            ends[part] = (values - half, values + half)
        method = "jackknife over people" if takes_refits(fitted) else "analytic sandwich, clustered by participant,"
        how = f"{method} with Student's t"
    else:
        if most_people is not None:
            most_people = min(most_people, count_affordable(logs, fitted.critic_coef_.shape[1], draws))
            unaffordable = max(drawn - most_people, 0)
            drawn = min(drawn, most_people)
        resample = bootstrap_coefficients if posterior is None else draw_coefficients
        resampled = resample(fitted, draws=draws, seed=seed, most_people=most_people, progress=progress)
        ends["critic"] = (resampled.critic_low, resampled.critic_high)
        ends["policy"] = (resampled.policy_low, resampled.policy_high)
        how = _describe_individual(
            draws, drawn, people, borrowed=posterior is not None, changing=fitted.time_effects_ is not None
        )
    population = [] if posterior is None else _estimate_population(fitted, posterior, present)
    rows: list[Coefficient] = []
    columns = ("participant", "part", "action", "feature", "value", "low", "high")
    individual: dict[str, list[Any]] = {name: [] for name in columns}
    for part, names, values, sees in fitted.coefficient_parts_:
        seen = _name_features(logs, sees)
        for j, (action, feature) in enumerate(names):
            if feature not in seen:
                continue
            value = values[:, j]
            low, high = (end[:, j] for end in ends[part])
            has_own = not fitted.pooled_ and drawn > 0
            if fitted.pooled_:
                error = (high[0] - value[0]) / t_quantile(people - 1)
                interval = Interval(float(value[0]), float(error), float(low[0]), float(high[0]))
            elif part == "critic" and population:
                interval = population[j]
            else:
                interval = mean_interval(value[present])
            counts = (int((low > 0).sum()), int((high < 0).sum())) if has_own else (None, None)
            rows.append(Coefficient(part, action, feature, interval, *counts))
            labels = ([text] * len(value) for text in (part, action, feature))
            numbers = (array.tolist() for array in (value, low, high))
            for column, entries in zip(columns, (fitted.participants_.tolist(), *labels, *numbers), strict=True):
                individual[column] += entries
    few = describe_roughness(people)
    return Coefficients(tuple(rows), f"{how}; {few}" if few else how, individual, drawn, unaffordable)


def _estimate_population(fitted: Method, posterior: Posterior, present: NDArray[np.int64]) -> list[Interval]:
    """β with intervals; effects that change are the mean over these people's next decision points."""
    values = np.array(posterior.population)
    variances = np.diagonal(posterior.population_covariance).copy()
    changing = fitted.time_effects_
    if changing is not None:
        following = np.diff(fitted.logs_.starts)[present]
        effects = slice(len(values) - changing.mean.shape[1], None)
        values[effects] = changing.effect_mean[following].mean(axis=0)
        # A mean over decision points varies at most as much as they do on average.
        variances[effects] = np.diagonal(changing.effect_covariance[following], axis1=1, axis2=2).mean(axis=0)
    degrees = max(len(present) - 1, 1)
    errors = np.sqrt(np.maximum(variances, 0.0)).tolist()
    return [t_interval(value, error, degrees) for value, error in zip(values.tolist(), errors, strict=True)]


def _describe_individual(draws: int, drawn: int, people: int, *, borrowed: bool, changing: bool) -> str:
    sample = "" if drawn == people else f" (of {drawn} people drawn at random)"
    if not drawn:
        return "of the mean: spread over people"
    if borrowed:
        coefficients = "the critic's β at people's next decision points" if changing else "the critic's β"
        return (
            f"each participant's: the posterior, for the policy by {draws} draws{sample}; of the population: {coefficients} "
            "with Student's t, the policy's spread over people"
        )
    return f"each participant's: percentiles of {draws} draws of decision points{sample}; of the mean: spread over people"


def _name_features(logs: Trajectories, sees: Any) -> set[str]:
    """The names of the state variables that are seen, and the intercept."""
    return {"intercept", *(name for name, is_seen in zip(logs.state_names, sees, strict=True) if is_seen)}


def find_influences(fitted: Method) -> Influences:
    """Everybody's influence on a pooled fit; on its policy only where people are enough for intervals of it."""
    people = len(np.unique(fitted.logs_.participant_index[fitted.used_]))
    return compute_influences(fitted, with_policy=people > fitted.policy_sees_.sum() + 1)


def choose_coefficients(rows: list[Coefficient]) -> list[Coefficient]:
    """All of them, or of many those that are largest in units of their standard errors, in their order."""

    def measure(row: Coefficient) -> float:
        return abs(row.interval.value) / (row.interval.standard_error if row.interval.standard_error > 0 else 1.0)

    largest = sorted(rows, key=lambda row: -measure(row))[:MOST_SHOWN]
    return [row for row in rows if row in largest]


@dataclass(frozen=True, eq=False)
class Difference:
    """How people differ in one coefficient of a partially pooled critic."""

    action: str
    """The name of the action."""
    feature: str
    """Which coefficient; the intercept is the effect at the mean state."""
    population: float
    """β."""
    spread: Interval
    """The standard deviation between people, √ψ, with its interval by profile likelihood; no ends with correlated
    differences, or where people change."""
    individual: NDArray[np.float64]
    """Estimates from each participant's decision points alone, (people,); NaN with fewer of them than features."""
    drawn: NDArray[np.float64]
    """Partially pooled estimates, (people,)."""

    @property
    def label(self) -> str:
        """Action and feature, for figures."""
        return f"{self.action}, {'at the mean state' if self.feature == 'intercept' else self.feature}"

    @property
    def pulled(self) -> float:
        """The share of the way from their own fits to β that people were drawn: 0 not at all, 1 the whole way."""
        known = ~np.isnan(self.individual)
        distance = self.individual[known] - self.population
        total = float((distance**2).sum())
        return 1 - float((distance * (self.drawn[known] - self.population)).sum()) / total if total > 0 else 1.0


def _take_out_shared(fitted: Method, moments: Moments) -> tuple[Moments, NDArray[np.float64]]:
    """Moments of the outcome without what everybody shares, and the change of everybody's coefficients up to their next
    decision point, (people, features): people are compared at their first one, as β is."""
    shared = None if fitted.joint_ is None else fitted.joint_.shared
    passed = np.zeros(moments.gram.shape[:2])
    if shared is None:
        return moments, passed
    logs = fitted.logs_
    if fitted.time_effects_ is not None:
        changes = fitted.time_effects_.mean[np.diff(logs.starts)]
        passed[:, passed.shape[1] - changes.shape[1] :] = changes
    state = np.nan_to_num(logs.state) * fitted.critic_sees_
    features = np.asarray(critic_features(state, logs.action, logs.actions, fitted.list_centres(logs)))
    counted = np.nan_to_num(fitted.weights_) * shared.offset
    pull = np.zeros_like(passed)
    np.add.at(pull, logs.participant_index, counted[:, None] * features)
    pull += (moments.gram @ passed[:, :, None])[:, :, 0]
    return replace(moments, cross=moments.cross - pull[:, :, None]), passed


def find_differences(fitted: Method) -> tuple[Difference, ...]:
    """One for every effect of an action; none without partial pooling."""
    posterior = fitted.posterior_
    if posterior is None:
        return ()
    logs = fitted.logs_
    moments, passed = _take_out_shared(fitted, posterior.likelihood.moments)
    basis = np.asarray(posterior.likelihood.basis)
    to_mean_state = np.linalg.inv(basis / np.diagonal(basis))
    individual = moments.solve(np.zeros(len(basis)))[0][:, :, 0] @ to_mean_state.T
    individual[np.asarray(moments.count) < fitted.critic_coef_.shape[1]] = np.nan
    drawn = (posterior.mean - passed) @ to_mean_state.T
    population = to_mean_state @ posterior.population
    if fitted.pooling_.get_params().get("correlated_differences") or posterior.walk:
        spread = to_mean_state @ posterior.spread @ to_mean_state.T
        deviation = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
        low = high = np.full_like(deviation, np.nan)
    else:
        profile = profile_spread(posterior)
        deviation = profile.deviation
        low = profile.low
        high = profile.high
    seen = _name_features(logs, fitted.critic_sees_)
    differences = []
    for j, (action, feature) in enumerate(critic_feature_names(logs.state_names, logs.action_names)):
        if action != logs.action_names[0] and feature in seen:
            between = Interval(float(deviation[j]), np.nan, float(low[j]), float(high[j]))
            differences.append(Difference(action, feature, float(population[j]), between, individual[:, j], drawn[:, j]))
    return tuple(differences)
