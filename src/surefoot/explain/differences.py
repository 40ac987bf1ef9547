"""How people differ, of a fit with partial pooling: the spread between them, and how far everybody was drawn towards all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import Interval
from surefoot.learning.methods import Method
from surefoot.learning.pooling import profile_spread
from surefoot.policies.features import critic_feature_names
from surefoot.reports.numbers import format_interval, format_number, format_value


@dataclass(frozen=True, eq=False)
class Difference:
    """Of one coefficient of the critic.

    Attributes
    ----------
    action, feature
        Which coefficient; the intercept is the effect at the mean state.
    population
        β.
    spread
        The standard deviation between people, √ψ, with its interval by profile likelihood; no ends with correlated
        differences, or where people change.
    own
        What each participant's own decision points say, (people,); NaN for those with fewer than there are features.
    drawn
        What is believed of each participant, (people,).
    """

    action: str
    feature: str
    population: float
    spread: Interval
    own: NDArray[np.float64]
    drawn: NDArray[np.float64]

    @property
    def label(self) -> str:
        """Action and feature, as a figure names them."""
        return f"{self.action}, {'at the mean state' if self.feature == 'intercept' else self.feature}"

    @property
    def pulled(self) -> float:
        """Which share of the way from their own fits to β people were drawn: 0 not at all, 1 the whole way."""
        there = ~np.isnan(self.own)
        apart, left = self.own[there] - self.population, self.drawn[there] - self.population
        total = float((apart**2).sum())
        return 1 - float((apart * left).sum()) / total if total > 0 else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        numbers = {"population": self.population, "spread": self.spread._asdict(), "pulled": self.pulled}
        own = [None if np.isnan(value) else value for value in self.own.tolist()]
        return {"action": self.action, "feature": self.feature, **numbers, "own": own, "drawn": self.drawn.tolist()}


def find_differences(fitted: Method) -> tuple[Difference, ...]:
    """One for every effect of an action; none without partial pooling."""
    posterior = fitted.posterior_
    if posterior is None:
        return ()
    moments, d = posterior.likelihood.moments, fitted.critic_coef_.shape[1]
    basis = np.asarray(posterior.likelihood.basis)
    to_mean_state = np.linalg.inv(basis / np.diagonal(basis))
    own = moments.solve(np.zeros(len(basis)))[0][:, :, 0] @ to_mean_state.T
    own[np.asarray(moments.count) < d] = np.nan
    drawn, population = posterior.mean @ to_mean_state.T, to_mean_state @ posterior.population
    deviation, low, high = _measure_spread(fitted, to_mean_state)
    logs = fitted.logs_
    seen = {"intercept", *(name for name, there in zip(logs.state_names, fitted.critic_sees_, strict=True) if there)}
    return tuple(
        Difference(
            action,
            feature,
            float(population[j]),
            Interval(float(deviation[j]), np.nan, float(low[j]), float(high[j])),
            own[:, j],
            drawn[:, j],
        )
        for j, (action, feature) in enumerate(critic_feature_names(logs.state_names, logs.action_names))
        if action != logs.action_names[0] and feature in seen
    )


def _measure_spread(
    fitted: Method, to_mean_state: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """√ψ with its ends; a full Ψ, and one of people who change, has no ends."""
    if not fitted.correlated_differences and not fitted.posterior_.walk:
        found = profile_spread(fitted.posterior_)
        return found.deviation, found.low, found.high
    spread = to_mean_state @ fitted.posterior_.spread @ to_mean_state.T
    deviation = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
    return deviation, np.full_like(deviation, np.nan), np.full_like(deviation, np.nan)


def describe_difference(found: Difference) -> str:
    """One coefficient in a sentence."""
    between = f"{format_value(found.spread)}"
    if not np.isnan(found.spread.low):
        between += f", 95 % interval {format_interval(found.spread)}"
    told = (
        "people do not differ in it as far as can be told"
        if found.spread.value == 0
        else f"own fits were drawn {100 * found.pulled:.0f} % of the way to everybody's"
    )
    return (
        f"{found.label}: {format_number(found.population)} for the population; standard deviation between people "
        f"{between}; {told}."
    )
