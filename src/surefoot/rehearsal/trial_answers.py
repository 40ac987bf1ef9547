"""What is kept of one simulated trial: a few numbers, and two curves."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.effects.analysis import Analysis
from surefoot.effects.study_effects import estimate_primary_effect
from surefoot.errors import InputError
from surefoot.rehearsal.trial_record import SOURCES, TrialRecord
from surefoot.study import Study

Floats = NDArray[np.float64]
CURVES = ("outcome_by_day", "sent_by_day")
UPDATE_STATES = ("done", "refused", "waiting", "failed")


@dataclass(frozen=True, eq=False)
class TrialPaths:
    """Everybody's way through a trial, (people, decision points), NaN where it had ended."""

    reward: Floats
    """True rewards."""
    sent: Floats
    """1 or 0; NaN also where the participant was not available."""
    fallback: Floats
    """Whether the fallback decided; NaN where the participant was not available."""

    @classmethod
    def of_record(cls, record: TrialRecord, points: int) -> TrialPaths:
        """Of a trial of so many decision points for each participant."""
        logs = record.logs
        lengths = np.diff(logs.starts)
        inside = np.arange(points) < lengths[:, None]

        def lay(values: NDArray[Any]) -> Floats:
            laid = np.full(inside.shape, np.nan)
            laid[inside] = values[logs.order]
            return laid

        def where_free(values: NDArray[Any]) -> Floats:
            return lay(np.where(logs.available, values, np.nan))

        return cls(lay(record.reward), where_free(logs.action > 0), where_free(record.source == SOURCES.index("fallback")))


def compare_rewards(own: Floats, other: Floats) -> Floats:
    """Everybody's mean difference, (people,), over the decision points that both have."""
    return np.asarray(mean_over(own - other, axis=-1))


def mean_over(values: Floats, axis: int | None = None) -> Any:
    """The mean of what is there; NaN where nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(values, axis=axis)


def summarise_paths(
    own: TrialPaths, *, coin: Floats, never: Floats, best: Floats, harm: float, per_day: int
) -> dict[str, Any]:
    """The numbers of a trial that follow from what happened; `coin`, `never` and `best` are rewards of the same people with
    the same chance.

    `outcome` and `lower_quarter`: mean and 25th percentile of people's mean rewards. `sent`, `sent_low`, `sent_high`: share
    of available decision points with a prompt, mean, 10th and 90th percentile of people. `harmed`: share of people with a
    mean reward more than `harm` below never's.
    """
    means, shares = mean_over(own.reward, -1), mean_over(own.sent, -1)
    against_never = compare_rewards(own.reward, never)
    days = own.reward.shape[1] // per_day

    def by_day(values: Floats) -> list[float]:
        return [float(mean_over(part)) for part in np.split(values[:, : days * per_day], days, axis=1)]

    return {
        "outcome": float(means.mean()),
        "lower_quarter": float(np.quantile(means, 0.25)),
        "sent": float(mean_over(shares)),
        "sent_low": float(np.nanquantile(shares, 0.1)),
        "sent_high": float(np.nanquantile(shares, 0.9)),
        "over_coin": float(compare_rewards(own.reward, coin).mean()),
        "over_never": float(against_never.mean()),
        "harmed": float((against_never < -harm).mean()),
        "regret": float(compare_rewards(best, own.reward).mean()),
        "fallback": float(mean_over(own.fallback)),
        "outcome_by_day": by_day(own.reward),
        "sent_by_day": by_day(own.sent),
    }


def count_updates(states: Iterable[str]) -> dict[str, float]:
    """How many updates ended in each way."""
    found = list(states)
    return {f"updates_{state}": float(found.count(state)) for state in UPDATE_STATES}


def analyse_trial(study: Study, record: TrialRecord, analysis: Analysis, estimator: str) -> dict[str, Any]:
    """The primary analysis of a trial's logs; NaN, with the reason, where it is refused."""
    try:
        found = estimate_primary_effect(study, record.logs, analysis, estimator)
        weight = found.points.counted_only.weight
        return {
            "estimate": float(found.params[0]),
            "standard_error": float(found.bse[0]),
            "p_value": float(found.joint_test().pvalue),
            "effective_share": float(weight.sum() ** 2 / (len(weight) * (weight**2).sum())),
            "no_analysis": "",
        }
    except InputError as error:
        missing = dict.fromkeys(("estimate", "standard_error", "p_value", "effective_share"), np.nan)
        return {**missing, "no_analysis": str(error)}
