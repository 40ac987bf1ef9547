"""Coefficients with intervals, for critic and policy, pooled or per participant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.inference.intervals import Interval, describe_roughness, mean_interval, t_interval, t_quantile
from surefoot.inference.participant_intervals import bootstrap_coefficients, count_affordable, draw_coefficients
from surefoot.inference.sandwich import Influences, compute_influences, takes_refits
from surefoot.learning.methods import Method
from surefoot.learning.pooling import Posterior
from surefoot.numerics.parallel import Progress

OWN_PEOPLE = 400
"""From so many people one sees how many own intervals lie above zero, to within 5 points; the refits take seconds."""


@dataclass(frozen=True)
class Coefficient:
    """One coefficient. With a fit per participant the value is the mean over people, and its interval that of the mean.

    Attributes
    ----------
    part
        `critic` (in units of the reward) or `policy` (in logits: above zero makes the action more likely).
    action
        Its name.
    feature
        Its name.
    interval
        Estimate, standard error and 95 % interval.
    people_above
        People whose own interval lies above zero; None where nobody has one, as in a pooled fit.
    people_below
        People whose own interval lies below zero; None where nobody has one.
    """

    part: str
    action: str
    feature: str
    interval: Interval
    people_above: int | None
    people_below: int | None


@dataclass(frozen=True)
class Coefficients:
    """All of them, and everybody's own.

    Attributes
    ----------
    rows
        One for every part, action and feature.
    how
        In words, where the intervals come from.
    own
        Columns participant, part, action, feature, value, low, high; no ends for people who were not drawn.
    own_people
        How many people have intervals of their own.
    unaffordable
        How many more would have one if there were fewer coefficients.
    """

    rows: tuple[Coefficient, ...]
    how: str
    own: dict[str, list[Any]]
    own_people: int = 0
    unaffordable: int = 0

    def of(self, part: str, feature: str, action: str) -> Coefficient:
        return next(row for row in self.rows if (row.part, row.feature, row.action) == (part, feature, action))

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row per participant (or `everyone`) and coefficient."""
        return make_frame(self.own, backend)


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

    Own intervals are computed for at most so many people, drawn at random, and fewer where there are many coefficients;
    None means everybody. `influences` are those of a pooled fit, where they are known already.
    """
    logs, pooled = fitted.logs_, fitted.pooled_
    present = np.unique(logs.participant_index[logs.usable])
    people = len(present)
    unaffordable = 0
    if most_people is not None and not pooled:
        affordable = count_affordable(logs, fitted.critic_coef_.shape[1], draws)
        unaffordable = max(min(people, most_people) - affordable, 0)
        most_people = min(most_people, affordable)
    resampling = {"draws": draws, "seed": seed, "most_people": most_people, "progress": progress}
    ends = _pooled_ends(fitted, influences or find_influences(fitted)) if pooled else _own_ends(fitted, **resampling)
    drawn = people if most_people is None else min(people, most_people)
    rows: list[Coefficient] = []
    own: dict[str, list[Any]] = {name: [] for name in ("participant", "part", "action", "feature", "value", "low", "high")}
    for part, names, values, sees in fitted.coefficient_parts_:
        seen = {"intercept", *(name for name, there in zip(logs.state_names, sees, strict=True) if there)}
        low, high = ends[part]
        for j, (action, feature) in enumerate(names):
            if feature not in seen:
                continue
            numbers = (values[:, j], low[:, j], high[:, j])
            interval, above, below = _summarise_shared(people, *numbers) if pooled else _summarise_people(present, *numbers)
            if part == "critic" and fitted.posterior_ is not None:
                interval = _estimate_population(fitted.posterior_, people, j)
            counts = (above, below) if drawn else (None, None)
            rows.append(Coefficient(part, action, feature, interval, *counts))
            own["participant"] += fitted.participants_.tolist()
            for column, column_values in zip(("value", "low", "high"), numbers, strict=True):
                own[column] += column_values.tolist()
            for column, text in (("part", part), ("action", action), ("feature", feature)):
                own[column] += [text] * len(fitted.participants_)
    few = describe_roughness(people)
    how = _describe_shared(fitted) if pooled else _describe_own(draws, drawn, people, fitted.posterior_ is not None)
    return Coefficients(tuple(rows), "; ".join(filter(None, (how, few))), own, drawn, unaffordable)


def find_influences(fitted: Method) -> Influences:
    """Everybody's influence on a pooled fit; on its policy only where people are enough for intervals of it."""
    people = len(np.unique(fitted.logs_.participant_index[fitted.used_]))
    return compute_influences(fitted, with_policy=people > fitted.policy_sees_.sum() + 1)


def _describe_shared(fitted: Method) -> str:
    refits = takes_refits(fitted)
    return f"{'jackknife over people' if refits else 'analytic sandwich, clustered by participant,'} with Student's t"


def _describe_own(draws: int, drawn: int, people: int, borrowed: bool) -> str:
    sample = "" if drawn == people else f" (of {drawn} people drawn at random)"
    if not drawn:
        return "of the mean: spread over people"
    if borrowed:
        return (
            f"each participant's own: the posterior, for the policy by {draws} draws{sample}; of the population: the "
            "critic's β with Student's t, the policy's spread over people"
        )
    return (
        f"each participant's own: percentiles of {draws} draws of decision points{sample}; of the mean: spread over people"
    )


def _summarise_shared(
    people: int, value: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[Interval, int | None, int | None]:
    error = (high[0] - value[0]) / t_quantile(people - 1)
    return Interval(float(value[0]), float(error), float(low[0]), float(high[0])), None, None


def _summarise_people(
    present: NDArray[np.int64], value: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[Interval, int | None, int | None]:
    return mean_interval(value[present]), int((low > 0).sum()), int((high < 0).sum())


def _estimate_population(posterior: Posterior, people: int, place: int) -> Interval:
    """β of one coefficient."""
    error = float(np.sqrt(posterior.population_covariance[place, place]))
    return t_interval(float(posterior.population[place]), error, max(people - 1, 1))


def _pooled_ends(fitted: Method, influences: Influences) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    width = influences.half_width("critic")
    ends = {"critic": (fitted.critic_coef_ - width, fitted.critic_coef_ + width)}
    if fitted.coef_ is not None:
        width = np.full(1, np.nan) if influences.policy is None else influences.half_width("policy")
        ends["policy"] = (fitted.coef_ - width, fitted.coef_ + width)
    return ends


def _own_ends(fitted: Method, **resampling: Any) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    found = (bootstrap_coefficients if fitted.posterior_ is None else draw_coefficients)(fitted, **resampling)
    ends = {"critic": (found.critic_low, found.critic_high)}
    if found.policy_low is not None and found.policy_high is not None:
        ends["policy"] = (found.policy_low, found.policy_high)
    return ends
