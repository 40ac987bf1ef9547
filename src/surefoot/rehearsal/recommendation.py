"""The recommendation: a rule that is stated, with its reason, or that no candidate is safely better than a coin.

Judged is every candidate but the references: coin, never, always, and the best fixed probability, which nobody knows before
a trial. In one environment it is safely better when

1. its mean outcome surely lies above the coin's, and 2. above never's: the interval of the differences over trials (the same
   people, the same chance) lies above 0. The intervals hold together for all comparisons of the environment (Bonferroni);
3. it harms no more people than the plan allows, or no more than the coin: not surely more;
4. it does not surely lose more power against the coin than the plan allows;
5. its primary analysis does not surely reject more often than its level where there is no effect.

Of those the one with the greatest mean outcome is recommended. Over all environments: one that is recommended in at least
one of them, is nowhere surely below the coin, and meets 3 to 5 everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import Interval, t_interval
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
    """What speaks against a candidate in an environment; nothing where it is safely better than a coin.

    Attributes
    ----------
    candidate
        Its name.
    over_coin, over_never
        Differences of mean outcomes, with intervals that hold together for all comparisons.
    worse
        Whether it surely lies below the coin.
    unsafe
        What is not safe about it (conditions 3 to 5).
    doubts
        What is not sure about its gain (conditions 1 and 2).
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
        Which is recommended; None where none is.
    reason
        Why, in words.
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
                {**asdict(one), "over_coin": one.over_coin._asdict(), "over_never": one.over_never._asdict()}
                for one in self.verdicts
            ],
        }


def compare_pairs(differences: Floats, comparisons: int) -> Interval:
    """The mean of paired differences over trials, with an interval that holds for so many comparisons together."""
    from scipy.special import stdtrit

    count = len(differences)
    mean = float(differences.mean())
    if count < 2:
        return Interval(mean, np.nan, np.nan, np.nan)
    error = float(differences.std(ddof=1) / np.sqrt(count))
    half = float(stdtrit(count - 1, 1 - 0.025 / comparisons)) * error
    return Interval(mean, error, mean - half, mean + half)


def recommend(
    cells: Mapping[str, CandidateAnswers], null: Mapping[str, CandidateAnswers], rule: SafetyRule
) -> Recommendation:
    """For one environment; `null` are the answers where there is no effect."""
    coin, never = cells[COIN], cells[NEVER]
    judged = [one for name, one in cells.items() if name not in REFERENCES]
    verdicts = tuple(_judge(one, coin, never, null[one.candidate], rule, 2 * len(judged)) for one in judged)
    better = [one for one in verdicts if one.is_better]
    where = coin.environment
    if not better:
        return Recommendation(where, None, _explain_none(verdicts, cells), verdicts)
    best = max(better, key=lambda one: one.over_coin.value)
    alike = [one.candidate for one in better if one is not best and _are_alike(cells[best.candidate], cells[one.candidate])]
    more = f"; not told apart from it: {', '.join(alike)}" if alike else ""
    return Recommendation(where, best.candidate, _explain_gain(best, cells[best.candidate]) + more, verdicts)


def _judge(
    one: CandidateAnswers,
    coin: CandidateAnswers,
    never: CandidateAnswers,
    null: CandidateAnswers,
    rule: SafetyRule,
    comparisons: int,
) -> Verdict:
    over_coin = compare_pairs(one.values["over_coin"], comparisons)
    over_never = compare_pairs(one.values["over_never"], comparisons)
    doubts = [
        f"its mean outcome is not surely above {what}'s ({_show(found)})"
        for what, found in (("the coin", over_coin), ("never", over_never))
        if not found.low > 0
    ]
    return Verdict(
        one.candidate, over_coin, over_never, over_coin.high < 0, tuple(_list_dangers(one, coin, null, rule)), tuple(doubts)
    )


def _list_dangers(one: CandidateAnswers, coin: CandidateAnswers, null: CandidateAnswers, rule: SafetyRule) -> list[str]:
    found = []
    harmed, more = one.mean("harmed"), compare_pairs(one.minus(coin, "harmed"), 1)
    if harmed.low > rule.harmed and more.low > 0:
        found.append(
            f"it harms {format_percent(harmed.value)} of people against never, "
            f"a coin {format_percent(coin.mean('harmed').value)}"
        )
    rejects = [(each.values["p_value"] < rule.level).astype(np.float64) for each in (coin, one)]
    lost = compare_pairs(rejects[0] - rejects[1], 1)
    if np.isnan(one.values["p_value"]).all():
        found.append(f"its logs cannot be analysed: {one.reasons[0] if one.reasons else 'the test says nothing'}")
    elif not one.is_null and lost.low > rule.power_loss:
        found.append(
            f"its primary analysis has a power of {format_percent(rejects[1].mean(), 0)}, "
            f"after a coin {format_percent(rejects[0].mean(), 0)}"
        )
    errors = null.rejections
    if errors.low > rule.level:
        found.append(f"its primary analysis finds an effect in {format_percent(errors.value)} of trials without one")
    return found


def _are_alike(best: CandidateAnswers, other: CandidateAnswers) -> bool:
    found = t_interval(*_mean_and_error(best.minus(other)), degrees=best.trials - 1)
    return not found.excludes_zero


def _mean_and_error(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _show(found: Interval) -> str:
    return f"{format_number(found.value)}, {format_number(found.low)} to {format_number(found.high)}"


def _explain_gain(best: Verdict, answers: CandidateAnswers) -> str:
    return (
        f"its mean outcome is above the coin's by {_show(best.over_coin)} and above never's by {_show(best.over_never)} "
        f"({answers.trials} trials, the same people and chance); {format_percent(answers.mean('harmed').value)} of people "
        "are harmed against never, and the primary analysis finds an effect in "
        f"{format_percent(answers.rejections.value, 0)} of trials"
    )


def _explain_refusals(one: CandidateAnswers) -> str:
    """A sentence where the guard rails hold a candidate up most of the time."""
    share = one.refused_updates.value
    if not share > MOSTLY:
        return ""
    return f". The guard rails refused {format_percent(share, 0)} of its updates, most often by '{next(iter(one.refusals))}'"


def _explain_none(verdicts: Sequence[Verdict], cells: Mapping[str, CandidateAnswers]) -> str:
    coin, never = cells[COIN], cells[NEVER]
    if not verdicts:
        return "there is no candidate beside the references"
    if coin.is_null:
        return "what is sent changes nothing here"
    nearest = max(verdicts, key=lambda one: one.over_coin.value)
    why = f"the best of them is {nearest.candidate}, but {'; and '.join((*nearest.unsafe, *nearest.doubts))}"
    why += _explain_refusals(cells[nearest.candidate])
    silent = compare_pairs(never.values["over_coin"], 1)
    return why + (f". Sending nothing is better than a coin here, by {_show(silent)}" if silent.low > 0 else "")


def recommend_overall(by_environment: Sequence[Recommendation], spread: float) -> Recommendation:
    """Over all environments; of several the one with the greatest mean gain."""
    found: dict[str, list[Verdict]] = {}
    for one in by_environment:
        for verdict in one.verdicts:
            found.setdefault(verdict.candidate, []).append(verdict)
    chosen = {one.candidate for one in by_environment} - {None}
    safe = {name: all(not (one.unsafe or one.worse) for one in verdicts) for name, verdicts in found.items()}
    kept = [name for name in found if name in chosen and safe[name]]
    if not kept:
        stopped = [f"{name} is recommended in one environment but not safe in another" for name in found if name in chosen]
        return Recommendation(None, None, "; ".join(stopped) or "none is in any environment")
    gain = {name: float(np.mean([one.over_coin.value for one in found[name]])) for name in kept}
    best = max(kept, key=lambda name: gain[name])
    where = [one.environment for one in by_environment if one.candidate == best]
    text = f"it is recommended in {', '.join(map(str, where))}, and nowhere surely worse than a coin or unsafe"
    return Recommendation(
        None,
        best,
        f"{text}; mean gain over the coin {format_number(gain[best])} ({gain[best] / spread:+.2f} standard deviations)",
    )
