"""The recommendation: a rule that is stated, with its reason, or that no candidate is safely better than a coin.

Every candidate is judged except the references: coin, never, always, and the best fixed probability, which nobody knows
before a trial. In one environment a candidate is safely better when

1. its mean outcome is significantly higher than the coin's, and 2. than never's: the interval of the differences over trials
   (the same people, the same chance) lies above 0, adjusted for the number of comparisons in the environment (Bonferroni);
3. it does not harm significantly more people than the plan allows, or than the coin;
4. it does not lose significantly more power against the coin than the plan allows;
5. its primary analysis does not reject significantly more often than its level where there is no effect.

Of these the candidate with the greatest mean outcome is recommended. Over all environments: one that is recommended in at
least one of them, is nowhere significantly worse than the coin, and meets 3 to 5 everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import Interval, mean_interval
from surefoot.rehearsal.candidate_answers import CandidateAnswers
from surefoot.rehearsal.candidates import COIN, NEVER, REFERENCES
from surefoot.rehearsal.plan import SafetyRule
from surefoot.reports.numbers import format_number, format_percent

NONE = "no candidate is safely better than a coin"
MOSTLY = 0.5
"""Guard rails that refuse more than this share of the updates are named."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """Reasons not to recommend a candidate in an environment; none where it is safely better than a coin.

    Attributes
    ----------
    candidate
        Its name.
    over_coin, over_never
        Differences of mean outcomes, with intervals adjusted for the number of comparisons.
    worse
        Whether its mean outcome is significantly lower than the coin's.
    unsafe
        Dangers (conditions 3 to 5).
    doubts
        Doubts about its gain (conditions 1 and 2).
    """

    candidate: str
    over_coin: Interval
    over_never: Interval
    worse: bool
    unsafe: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def is_better(self) -> bool:
        return not (self.unsafe or self.doubts)


@dataclass(frozen=True)
class Recommendation:
    """For one environment, or over all.

    Attributes
    ----------
    environment
        Its name; None over all.
    candidate
        The recommended candidate; None where there is none.
    reason
        In words.
    verdicts
        Of every candidate.
    """

    environment: str | None
    candidate: str | None
    reason: str
    verdicts: tuple[Verdict, ...] = ()

    @property
    def sentence(self) -> str:
        """Recommendation and reason."""
        return f"{NONE if self.candidate is None else self.candidate}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "environment": self.environment,
            "candidate": self.candidate,
            "text": self.sentence,
            "verdicts": [
                {**asdict(verdict), "over_coin": verdict.over_coin._asdict(), "over_never": verdict.over_never._asdict()}
                for verdict in self.verdicts
            ],
        }


def compare_pairs(differences: Floats, comparisons: int) -> Interval:
    """The mean of paired differences over trials, with an interval adjusted for the number of comparisons."""
    from scipy.special import stdtrit

    count = len(differences)
    mean = float(differences.mean())
    if count < 2:
        return Interval(mean, np.nan, np.nan, np.nan)
    error = float(differences.std(ddof=1) / np.sqrt(count))
    half = float(stdtrit(count - 1, 1 - 0.025 / comparisons)) * error
    return Interval(mean, error, mean - half, mean + half)


def recommend(
    answers: Mapping[str, CandidateAnswers], null: Mapping[str, CandidateAnswers], rule: SafetyRule
) -> Recommendation:
    """For one environment; `null` are the answers where there is no effect."""
    judged = [candidate for name, candidate in answers.items() if name not in REFERENCES]
    verdicts = tuple(
        _judge(candidate, answers, null[candidate.candidate], rule, comparisons=2 * len(judged)) for candidate in judged
    )
    environment = answers[COIN].environment
    better = [verdict for verdict in verdicts if verdict.is_better]
    if not better:
        return Recommendation(environment, None, _explain_none(verdicts, answers), verdicts)
    best = max(better, key=lambda verdict: verdict.over_coin.value)
    best_answers = answers[best.candidate]
    alike = [
        verdict.candidate
        for verdict in better
        if verdict is not best and not mean_interval(best_answers.minus(answers[verdict.candidate])).excludes_zero
    ]
    reason = _explain_gain(best, best_answers)
    if alike:
        reason += f"; statistically indistinguishable from it: {', '.join(alike)}"
    return Recommendation(environment, best.candidate, reason, verdicts)


def _judge(
    candidate: CandidateAnswers,
    answers: Mapping[str, CandidateAnswers],
    null: CandidateAnswers,
    rule: SafetyRule,
    *,
    comparisons: int,
) -> Verdict:
    over_coin = compare_pairs(candidate.values["over_coin"], comparisons)
    over_never = compare_pairs(candidate.values["over_never"], comparisons)
    doubts = [
        f"its mean outcome is not significantly higher than {reference}'s ({_show(difference)})"
        for reference, difference in (("the coin", over_coin), ("never", over_never))
        if not difference.low > 0
    ]
    dangers = _list_dangers(candidate, answers[COIN], null, rule)
    return Verdict(candidate.candidate, over_coin, over_never, over_coin.high < 0, tuple(dangers), tuple(doubts))


def _list_dangers(
    candidate: CandidateAnswers, coin: CandidateAnswers, null: CandidateAnswers, rule: SafetyRule
) -> list[str]:
    dangers = []
    harmed = candidate.mean("harmed")
    more_than_coin = compare_pairs(candidate.minus(coin, "harmed"), 1)
    if harmed.low > rule.harmed and more_than_coin.low > 0:
        dangers.append(
            f"it harms {format_percent(harmed.value)} of people against never, "
            f"a coin {format_percent(coin.mean('harmed').value)}"
        )
    coin_rejects = (coin.values["p_value"] < rule.level).astype(np.float64)
    rejects = (candidate.values["p_value"] < rule.level).astype(np.float64)
    power_loss = compare_pairs(coin_rejects - rejects, 1)
    if np.isnan(candidate.values["p_value"]).all():
        reason = candidate.reasons[0] if candidate.reasons else "the test has no result"
        dangers.append(f"its logs cannot be analysed: {reason}")
    elif not candidate.is_null and power_loss.low > rule.power_loss:
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


def _explain_gain(best: Verdict, answers: CandidateAnswers) -> str:
    return (
        f"its mean outcome is above the coin's by {_show(best.over_coin)} and above never's by {_show(best.over_never)} "
        f"({answers.trials} trials, the same people and chance); {format_percent(answers.mean('harmed').value)} of people "
        "are harmed against never, and the primary analysis finds an effect in "
        f"{format_percent(answers.rejections.value, 0)} of trials"
    )


def _explain_refusals(candidate: CandidateAnswers) -> str:
    """A sentence where the guard rails refuse most of a candidate's updates."""
    share = candidate.refused_updates.value
    if not share > MOSTLY:
        return ""
    check = next(iter(candidate.refusals))
    return f". The guard rails refused {format_percent(share, 0)} of its updates, most often by '{check}'"


def _explain_none(verdicts: Sequence[Verdict], answers: Mapping[str, CandidateAnswers]) -> str:
    if not verdicts:
        return "there is no candidate other than the references"
    if answers[COIN].is_null:
        return "prompts change nothing here"
    nearest = max(verdicts, key=lambda verdict: verdict.over_coin.value)
    reason = f"the best of them is {nearest.candidate}, but {'; and '.join((*nearest.unsafe, *nearest.doubts))}"
    reason += _explain_refusals(answers[nearest.candidate])
    never = compare_pairs(answers[NEVER].values["over_coin"], 1)
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
