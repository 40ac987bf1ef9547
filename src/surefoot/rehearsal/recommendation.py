"""The answers about every candidate over all trials, and the recommendation by a stated rule.

Every candidate is judged except the references: coin, never, always, and the best fixed probability, which is unknown before
a trial. In one environment a candidate is safely better when

1. its mean outcome is significantly higher than the coin's, and 2. than never's: the interval of the differences over trials
   (the same people, the same chance) lies above 0, adjusted for the number of comparisons in the environment (Bonferroni);
3. it does not harm significantly more people than the plan allows, or than the coin;
4. it does not lose significantly more power against the coin than the plan allows;
5. its primary analysis does not reject significantly more often than its level where there is no effect.

Of these the candidate with the greatest mean outcome is recommended. Over all environments: one that is recommended in at
least one of them, is nowhere significantly worse than the coin, and meets 3 to 5 everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from surefoot.inference.intervals import Interval, jackknife_interval, mean_interval, wilson_interval
from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.plan import COIN, NEVER, REFERENCES, Candidate, SafetyRule
from surefoot.reports.numbers import format_number, format_percent

Floats = NDArray[np.float64]
NOTHING = Interval(np.nan, np.nan, np.nan, np.nan)
FEW = 3
"""With fewer analysed trials nothing is said about the primary analysis."""
CURVES = ("outcome_by_day", "sent_by_day")
MEANS = (
    *("outcome", "lower_quarter", "sent", "sent_low", "sent_high", "over_coin", "over_never", "harmed", "regret"),
    *("effective_share", "fallback", "left", "updates_done", "updates_refused", "updates_waiting", "updates_failed"),
)
"""Measures that are averaged over trials."""
NONE = "no candidate is safely better than a coin"
MOSTLY = 0.5
"""Guard rails that refuse more than this share of the updates are named."""


@dataclass(frozen=True, eq=False)
class CandidateAnswers:
    """One candidate in one environment over all trials; every number has its Monte Carlo error."""

    environment: str
    """Its name."""
    candidate: str
    """Its name."""
    sends: float | None
    """The fixed probability of sending, None for a method."""
    level: float
    """Of the primary analysis' test."""
    is_null: bool
    """Whether sending does nothing: rejections are type I errors."""
    same_truth: bool
    """Whether the effect is the same in every trial, so that the spread of the estimates can be compared with their
    standard errors."""
    values: Mapping[str, Floats]
    """Measure → a value for each trial, from `run_block`."""
    reasons: tuple[str, ...] = ()
    """Why some trials could not be analysed."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Check → number of updates it refused, over all trials."""

    @classmethod
    def join(
        cls, environment: Environment, candidate: Candidate, level: float, blocks: Iterable[Mapping[str, Any]]
    ) -> CandidateAnswers:
        """From the results of blocks in the order of their trials."""
        joined: dict[str, list[Any]] = {}
        for block in blocks:
            for measure, values in block[candidate.name].items():
                joined.setdefault(measure, []).extend(values)
        reasons = tuple(dict.fromkeys(text for text in joined.pop("no_analysis") if text))
        refusals = Counter(check for checks in joined.pop("refused_by") for check in checks)
        return cls(
            environment=environment.name,
            candidate=candidate.name,
            sends=candidate.send,
            level=level,
            is_null=not environment.effects,
            same_truth=not environment.varies_by_trial,
            values={measure: np.asarray(values, dtype=np.float64) for measure, values in joined.items()},
            reasons=reasons,
            refusals=dict(refusals.most_common()),
        )

    @property
    def trials(self) -> int:
        return len(self.values["outcome"])

    def mean(self, measure: str) -> Interval:
        """Over trials."""
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
        share = float((known < self.level).mean())
        (low,), (high,) = wilson_interval(np.array([share * len(known)]), np.array([float(len(known))]))
        return Interval(share, float(np.sqrt(share * (1 - share) / len(known))), float(low), float(high))

    @property
    def honesty(self) -> Interval:
        """Standard deviation of the estimates / their mean standard error: 1 where standard errors are honest."""
        estimate = self.values["estimate"][self._analysed]
        error = self.values["standard_error"][self._analysed]
        count = len(estimate)
        if count < FEW or not self.same_truth:
            return NOTHING
        # Σ (x − x̄)² without one value falls by n/(n − 1) (x − x̄)².
        deviations = (estimate - estimate.mean()) ** 2
        squares = (deviations.sum() - count / (count - 1) * deviations).clip(0)
        without = np.sqrt(squares / (count - 2)) / ((error.sum() - error) / (count - 1))
        return jackknife_interval(float(estimate.std(ddof=1) / error.mean()), without)

    @property
    def refused_updates(self) -> Interval:
        """Share of the updates with a policy that the guard rails refused."""
        refused = self.values["updates_refused"]
        judged = self.values["updates_done"] + refused
        return mean_interval(refused[judged > 0] / judged[judged > 0]) if judged.any() else NOTHING

    @property
    def curves(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean over trials and its Monte Carlo error, by the day of the participants."""
        root = np.sqrt(self.trials)
        return {
            name: (np.asarray(self.values[name].mean(axis=0)), np.asarray(self.values[name].std(axis=0, ddof=1) / root))
            for name in CURVES
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON: estimate, Monte Carlo error and 95 % interval."""
        intervals = {name: self.mean(name) for name in MEANS}
        intervals |= {"rejections": self.rejections, "honesty": self.honesty, "refused_updates": self.refused_updates}
        return {
            "environment": self.environment,
            "candidate": self.candidate,
            "sends": self.sends,
            "trials": self.trials,
            "analysed": int(self._analysed.sum()),
            "not_analysed_because": list(self.reasons),
            "updates_refused_by": dict(self.refusals),
            **{name: interval._asdict() for name, interval in intervals.items()},
            "curves": {
                name: {"mean": mean.tolist(), "error": error.tolist()} for name, (mean, error) in self.curves.items()
            },
        }


@dataclass(frozen=True)
class Verdict:
    """Reasons not to recommend a candidate in an environment; none where it is safely better than a coin."""

    candidate: str
    """Its name."""
    over_coin: Interval
    """Difference of mean outcomes, with an interval adjusted for the number of comparisons."""
    over_never: Interval
    """The same against never."""
    worse: bool
    """Whether its mean outcome is significantly lower than the coin's."""
    unsafe: tuple[str, ...]
    """Dangers (conditions 3 to 5)."""
    doubts: tuple[str, ...]
    """Doubts about its gain (conditions 1 and 2)."""

    @property
    def is_better(self) -> bool:
        return not (self.unsafe or self.doubts)


@dataclass(frozen=True)
class Recommendation:
    """For one environment, or over all."""

    environment: str | None
    """Its name; None over all."""
    candidate: str | None
    """The recommended candidate; None where there is none."""
    reason: str
    """In words."""
    verdicts: tuple[Verdict, ...] = ()
    """Of every candidate."""

    @property
    def sentence(self) -> str:
        """Recommendation and reason."""
        return f"{NONE if self.candidate is None else self.candidate}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        verdicts = [
            {**asdict(verdict), "over_coin": verdict.over_coin._asdict(), "over_never": verdict.over_never._asdict()}
            for verdict in self.verdicts
        ]
        return {
            "environment": self.environment,
            "candidate": self.candidate,
            "text": self.sentence,
            "verdicts": verdicts,
        }


def compare_pairs(differences: Floats, comparisons: int = 1) -> Interval:
    """The mean of paired differences over trials, with an interval adjusted for the number of comparisons."""
    interval = mean_interval(differences)
    half = float(stdtrit(len(differences) - 1, 1 - 0.025 / comparisons)) * interval.standard_error
    return interval._replace(low=interval.value - half, high=interval.value + half)


def recommend(
    answers: Mapping[str, CandidateAnswers], null: Mapping[str, CandidateAnswers], rule: SafetyRule
) -> Recommendation:
    """For one environment; `null` are the answers where there is no effect."""
    coin = answers[COIN]
    judged = [name for name in answers if name not in REFERENCES]
    verdicts = []
    for name in judged:
        over_coin, over_never = (
            compare_pairs(answers[name].values[measure], 2 * len(judged)) for measure in ("over_coin", "over_never")
        )
        doubts = tuple(
            f"its mean outcome is not significantly higher than {reference}'s ({_show(difference)})"
            for reference, difference in (("the coin", over_coin), ("never", over_never))
            if not difference.low > 0
        )
        dangers = tuple(_list_dangers(answers[name], coin, null[name], rule))
        verdicts.append(Verdict(name, over_coin, over_never, over_coin.high < 0, dangers, doubts))
    better = [verdict for verdict in verdicts if verdict.is_better]
    if not better:
        return Recommendation(coin.environment, None, _explain_none(verdicts, answers), tuple(verdicts))
    best = max(better, key=lambda verdict: verdict.over_coin.value)
    winner = answers[best.candidate]
    alike = [
        verdict.candidate
        for verdict in better
        if verdict is not best and not mean_interval(winner.minus(answers[verdict.candidate])).excludes_zero
    ]
    reason = (
        f"its mean outcome is above the coin's by {_show(best.over_coin)} and above never's by {_show(best.over_never)} "
        f"({winner.trials} trials, the same people and chance); {format_percent(winner.mean('harmed').value)} of people "
        "are harmed against never, and the primary analysis finds an effect in "
        f"{format_percent(winner.rejections.value, 0)} of trials"
    )
    if alike:
        reason += f"; statistically indistinguishable from it: {', '.join(alike)}"
    return Recommendation(coin.environment, best.candidate, reason, tuple(verdicts))


def _list_dangers(
    candidate: CandidateAnswers, coin: CandidateAnswers, null: CandidateAnswers, rule: SafetyRule
) -> list[str]:
    dangers = []
    harmed = candidate.mean("harmed")
    more_than_coin = compare_pairs(candidate.minus(coin, "harmed"))
    if harmed.low > rule.harmed and more_than_coin.low > 0:
        dangers.append(
            f"it harms {format_percent(harmed.value)} of people against never, "
            f"a coin {format_percent(coin.mean('harmed').value)}"
        )
    coin_rejects = (coin.values["p_value"] < rule.level).astype(np.float64)
    rejects = (candidate.values["p_value"] < rule.level).astype(np.float64)
    if np.isnan(candidate.values["p_value"]).all():
        reason = candidate.reasons[0] if candidate.reasons else "the test has no result"
        dangers.append(f"its logs cannot be analysed: {reason}")
    elif not candidate.is_null and compare_pairs(coin_rejects - rejects).low > rule.power_loss:
        dangers.append(
            f"its primary analysis has a power of {format_percent(rejects.mean(), 0)}, "
            f"after a coin {format_percent(coin_rejects.mean(), 0)}"
        )
    errors = null.rejections
    if errors.low > rule.level:
        dangers.append(f"its primary analysis finds an effect in {format_percent(errors.value)} of trials without one")
    return dangers


def _show(interval: Interval) -> str:
    return f"{format_number(interval.value)}, {format_number(interval.low)} to {format_number(interval.high)}"


def _explain_none(verdicts: Sequence[Verdict], answers: Mapping[str, CandidateAnswers]) -> str:
    if not verdicts:
        return "there is no candidate other than the references"
    if answers[COIN].is_null:
        return "prompts change nothing here"
    nearest = max(verdicts, key=lambda verdict: verdict.over_coin.value)
    reason = f"the best of them is {nearest.candidate}, but {'; and '.join((*nearest.unsafe, *nearest.doubts))}"
    candidate = answers[nearest.candidate]
    refused = candidate.refused_updates.value
    if refused > MOSTLY:
        check = next(iter(candidate.refusals))
        reason += f". The guard rails refused {format_percent(refused, 0)} of its updates, most often by '{check}'"
    never = compare_pairs(answers[NEVER].values["over_coin"])
    return reason + (f". Sending nothing is better than a coin here, by {_show(never)}" if never.low > 0 else "")


def recommend_overall(by_environment: Sequence[Recommendation], spread: float) -> Recommendation:
    """Over all environments; of several the one with the greatest mean gain."""
    verdicts: dict[str, list[Verdict]] = {}
    for recommendation in by_environment:
        for verdict in recommendation.verdicts:
            verdicts.setdefault(verdict.candidate, []).append(verdict)
    recommended = [name for name in verdicts if any(name == choice.candidate for choice in by_environment)]
    safe = [name for name in recommended if not any(verdict.unsafe or verdict.worse for verdict in verdicts[name])]
    if not safe:
        reasons = [f"{name} is recommended in one environment but not safe in another" for name in recommended]
        return Recommendation(None, None, "; ".join(reasons) or "none is in any environment")
    gains = {name: float(np.mean([verdict.over_coin.value for verdict in verdicts[name]])) for name in safe}
    best = max(safe, key=lambda name: gains[name])
    environments = [str(choice.environment) for choice in by_environment if choice.candidate == best]
    reason = (
        f"it is recommended in {', '.join(environments)}, and nowhere significantly worse than a coin or unsafe; mean gain "
        f"over the coin {format_number(gains[best])} ({gains[best] / spread:+.2f} standard deviations)"
    )
    return Recommendation(None, best, reason)
