"""What a candidate did in an environment, over all trials, each number with its Monte Carlo error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import Interval, jackknife_interval, mean_interval, wilson_interval
from surefoot.rehearsal.trial_answers import CURVES

Floats = NDArray[np.float64]
NOTHING = Interval(np.nan, np.nan, np.nan, np.nan)
FEW = 3
"""With fewer analysed trials nothing is said about the primary analysis."""


@dataclass(frozen=True, eq=False)
class CandidateAnswers:
    """One candidate in one environment; values over trials, in their order.

    Attributes
    ----------
    environment, candidate
        Their names.
    sends
        The fixed probability of sending, None for a method.
    level
        Of the primary analysis' test.
    is_null
        Whether sending does nothing here: rejections are type I errors.
    same_truth
        Whether the effect is the same in every trial, so that the spread of the estimates can be held against their
        standard errors.
    values
        Measure → a value for each trial, as `run_block` has them.
    """

    environment: str
    candidate: str
    sends: float | None
    level: float
    is_null: bool
    same_truth: bool
    values: Mapping[str, Floats]
    reasons: tuple[str, ...] = ()
    """Why some trials could not be analysed."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Check → how many updates it refused, over all trials."""

    @property
    def trials(self) -> int:
        return len(self.values["outcome"])

    def mean(self, measure: str) -> Interval:
        """Over trials, with its Monte Carlo error."""
        known = self.values[measure][~np.isnan(self.values[measure])]
        return mean_interval(known) if len(known) else NOTHING

    def minus(self, other: CandidateAnswers, measure: str = "outcome") -> Floats:
        """The difference in every trial: the same people, the same chance."""
        return np.asarray(self.values[measure] - other.values[measure])

    @property
    def _analysed(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values["p_value"])

    @property
    def rejections(self) -> Interval:
        """How often the primary analysis finds an effect: power, or type I error where there is none; Wilson's interval."""
        known = self.values["p_value"][self._analysed]
        if len(known) < FEW:
            return NOTHING
        events, trials = np.array([(known < self.level).sum()], dtype=np.float64), np.array([float(len(known))])
        (low,), (high,) = wilson_interval(events, trials)
        share = float(events[0] / trials[0])
        return Interval(share, float(np.sqrt(share * (1 - share) / len(known))), float(low), float(high))

    @property
    def honesty(self) -> Interval:
        """Standard deviation of the estimates / their mean standard error: 1 where standard errors are honest."""
        estimate, error = (self.values[name][self._analysed] for name in ("estimate", "standard_error"))
        if len(estimate) < FEW or not self.same_truth:
            return NOTHING
        return jackknife_interval(float(estimate.std(ddof=1) / error.mean()), _leave_out_ratios(estimate, error))

    @property
    def refused_updates(self) -> Interval:
        """Share of the updates with a policy that the guard rails refused."""
        judged = self.values["updates_done"] + self.values["updates_refused"]
        some = judged > 0
        return mean_interval(self.values["updates_refused"][some] / judged[some]) if some.any() else NOTHING

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON: estimate, Monte Carlo error and 95 % interval."""
        found = {name: self.mean(name)._asdict() for name in MEANS}
        more = {"rejections": self.rejections, "honesty": self.honesty, "refused_updates": self.refused_updates}
        curves = {name: {"mean": mean.tolist(), "error": error.tolist()} for name, (mean, error) in self.curves.items()}
        return {
            "environment": self.environment,
            "candidate": self.candidate,
            "sends": self.sends,
            "trials": self.trials,
            "analysed": int(self._analysed.sum()),
            "not_analysed_because": list(self.reasons),
            "updates_refused_by": dict(self.refusals),
            **found,
            **{name: value._asdict() for name, value in more.items()},
            "curves": curves,
        }

    @property
    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean over trials and its Monte Carlo error, by the day of the participants."""
        root = np.sqrt(self.trials)
        return {
            name: (np.asarray(self.values[name].mean(axis=0)), np.asarray(self.values[name].std(axis=0, ddof=1) / root))
            for name in CURVES
        }


MEANS = (
    *("outcome", "lower_quarter", "sent", "sent_low", "sent_high", "over_coin", "over_never", "harmed", "regret"),
    *("effective_share", "fallback", "left", "updates_done", "updates_refused", "updates_waiting", "updates_failed"),
)
"""Measures that are averaged over trials."""


def _leave_out_ratios(estimate: Floats, error: Floats) -> Floats:
    """SD / mean standard error without each of the trials."""
    count = len(estimate)
    total, squares, errors = estimate.sum(), ((estimate - estimate.mean()) ** 2).sum(), error.sum()
    mean = total / count
    # Σ (x − x̄)² without one value falls by n/(n − 1) (x − x̄)².
    left = (squares - count / (count - 1) * (estimate - mean) ** 2).clip(0)
    return np.asarray(np.sqrt(left / (count - 2)) / ((errors - error) / (count - 1)))


@dataclass(frozen=True, eq=False)
class JoinedBlocks:
    """What one candidate's blocks hold, in the order of the trials."""

    values: dict[str, Floats]
    reasons: tuple[str, ...]
    refusals: dict[str, int]

    @classmethod
    def of(cls, blocks: Iterable[Mapping[str, Mapping[str, list[Any]]]], candidate: str) -> JoinedBlocks:
        joined: dict[str, list[Any]] = {}
        for block in blocks:
            for name, values in block[candidate].items():
                joined.setdefault(name, []).extend(values)
        reasons = tuple(dict.fromkeys(text for text in joined.pop("no_analysis") if text))
        refusals = Counter(check for checks in joined.pop("refused_by") for check in checks)
        numbers = {name: np.asarray(values, dtype=np.float64) for name, values in joined.items()}
        return cls(numbers, reasons, dict(refusals.most_common()))
