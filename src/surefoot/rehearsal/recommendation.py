"""The answers about every candidate over all trials, and the recommendation by the rule that docs/rehearsal.md states."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from surefoot.inference.intervals import Interval, t_interval, t_quantile, wilson_interval
from surefoot.rehearsal.plan import COIN, NEVER, REFERENCES, Candidate, Environment, SafetyRule
from surefoot.reports.numbers import format_estimate, format_number, format_percent
from surefoot.reports.summaries import to_plain

Floats = NDArray[np.float64]
NOTHING = Interval(np.nan, np.nan, np.nan, np.nan)
FEW = 3
"""With fewer analysed trials nothing is said about the primary analysis."""
CURVES = ("outcome_by_day", "sent_by_day")
LEVELS = ("outcome", "lower_quarter")
"""Measures with the uncertainty of the pilot's mean outcome."""
SHARES = ("harmed", "sent", "sent_low", "sent_high", "effective_share", "fallback", "left")
MEANS = (
    *LEVELS,
    *SHARES,
    *("over_coin", "over_never", "estimate", "standard_error"),
    *("updates_done", "updates_refused", "updates_waiting", "updates_failed"),
)
"""Measures that are averaged over trials."""
NONE = "no candidate is safely better than a coin"
SURE = 0.9
"""Confidence of the one-sided limit of the gain over a coin."""
LIKELY = 2 / 3
"""Probability with which a recommended candidate is better than never."""
MOSTLY = 0.5
"""Guard rails that refuse more than this share of the updates are named."""


@dataclass(frozen=True, eq=False)
class CandidateAnswers:
    """One candidate in one environment over all trials.

    Intervals hold the pilot's uncertainty and the simulation's; `simulation_error` is the simulation's alone.
    """

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
    values: Mapping[str, Floats]
    """Measure → a value for each trial with the estimated effects."""
    drawn: Mapping[str, Floats]
    """Measure → a value for each of the same trials with effects drawn from the pilot's uncertainty; empty without them."""
    people: int = 0
    """In the pilot."""
    level_error: float = 0.0
    """The standard error of the pilot's mean outcome."""
    reasons: tuple[str, ...] = ()
    """Why some trials could not be analysed."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Check → number of updates it refused, over all trials."""
    failures: tuple[str, ...] = ()
    """Why updates failed."""

    @classmethod
    def join(
        cls,
        environment: Environment,
        candidate: Candidate,
        level: float,
        blocks: Iterable[Mapping[str, Any]],
        drawn: Iterable[Mapping[str, Any]] = (),
        people: int = 0,
        level_error: float = 0.0,
    ) -> "CandidateAnswers":
        """From the results of blocks in the order of their trials."""

        def collect(results: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Floats], dict[str, list[Any]]]:
            joined: dict[str, list[Any]] = {}
            for block in results:
                for measure, values in block[candidate.name].items():
                    joined.setdefault(measure, []).extend(values)
            texts = {name: joined.pop(name, []) for name in ("no_analysis", "refused_by", "failures")}
            return {measure: np.asarray(values, dtype=np.float64) for measure, values in joined.items()}, texts

        numbers, texts = collect(blocks)
        refusals = Counter(check for checks in texts["refused_by"] for check in checks)
        return cls(
            environment=environment.title,
            candidate=candidate.name,
            sends=candidate.send,
            level=level,
            is_null=environment.is_null,
            values=numbers,
            drawn=collect(drawn)[0],
            people=people,
            level_error=level_error,
            reasons=tuple(dict.fromkeys(text for text in texts["no_analysis"] if text)),
            refusals=dict(refusals.most_common()),
            failures=tuple(dict.fromkeys(text for text in texts["failures"] if text)),
        )

    @property
    def trials(self) -> int:
        return len(self.values["outcome"])

    def mean(self, measure: str) -> Interval:
        """The mean over trials of the estimated effects, with the pilot's uncertainty and the simulation's."""
        return self._make_interval(self.values[measure], self.drawn.get(measure), measure)

    def minus(self, other: "CandidateAnswers", measure: str = "outcome") -> Interval:
        """The difference to another candidate: the same people, the same chance."""
        drawn = self.drawn[measure] - other.drawn[measure] if measure in self.drawn else None
        return self._make_interval(self.values[measure] - other.values[measure], drawn, "difference")

    def simulation_error(self, measure: str) -> float:
        """The standard error of the mean that more trials make smaller."""
        known = self.values[measure][~np.isnan(self.values[measure])]
        return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.nan

    @property
    def _degrees(self) -> float:
        """Degrees of freedom: of the people in the pilot and of the simulated trials."""
        from_pilot = 1 / (self.people - 1) if self.drawn else 0.0
        return 1 / (from_pilot + 1 / max(self.trials - 1, 1))

    def _pilot_variance(self, values: Floats, drawn: Floats | None) -> float:
        if drawn is None:
            return 0.0
        differences = (drawn - values)[~np.isnan(drawn - values)]
        return float(differences.var(ddof=1)) if len(differences) > 1 else 0.0

    def _make_interval(self, values: Floats, drawn: Floats | None, measure: str) -> Interval:
        known = values[~np.isnan(values)]
        if len(known) < 2:
            return NOTHING._replace(value=float(known[0])) if len(known) else NOTHING
        variance = float(known.var(ddof=1)) / len(known) + self._pilot_variance(values, drawn)
        if measure in LEVELS:
            variance += self.level_error**2
        interval = t_interval(float(known.mean()), float(np.sqrt(variance)), self._degrees)
        if measure in SHARES:
            return interval._replace(low=max(interval.low, 0.0), high=min(interval.high, 1.0))
        return interval

    def lower_limit(self, measure: str, confidence: float) -> float:
        """The one-sided limit of a mean."""
        interval = self.mean(measure)
        return interval.value - float(stdtrit(self._degrees, confidence)) * interval.standard_error

    @property
    def _analysed(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values["p_value"])

    @property
    def rejections(self) -> Interval:
        """How often the primary analysis finds an effect: power, or type I error where there is none.

        Wilson's interval, widened to the power at either end of the interval of the effect that the pilot leaves open.
        """
        known = self.values["p_value"][self._analysed]
        if len(known) < FEW:
            return NOTHING
        share = float((known < self.level).mean())
        (low,), (high,) = wilson_interval(np.array([share * len(known)]), np.array([float(len(known))]))
        variance = self._pilot_variance(self.values["estimate"], self.drawn.get("estimate"))
        if variance > 0:
            half = t_quantile(self._degrees) * np.sqrt(variance)
            error = float(np.nanmean(self.values["standard_error"]))
            effect = float(np.nanmean(self.values["estimate"]))
            effects = np.linspace(effect - half, effect + half, 41) / error
            critical = float(ndtri(1 - self.level / 2))
            power = ndtr(effects - critical) + ndtr(-effects - critical)
            low = min(low, float(power.min()))
            high = max(high, float(power.max()))
        return Interval(share, float(np.sqrt(share * (1 - share) / len(known))), float(low), float(high))

    @property
    def honesty(self) -> Interval:
        """Standard deviation of the estimates / their mean standard error: 1 where standard errors are honest."""
        estimate = self.values["estimate"][self._analysed]
        error = self.values["standard_error"][self._analysed]
        count = len(estimate)
        if count < FEW:
            return NOTHING
        ratio = float(estimate.std(ddof=1) / error.mean())
        return t_interval(ratio, ratio / np.sqrt(2 * (count - 1)), count - 1)

    @property
    def refused_updates(self) -> Interval:
        """Share of the updates with a policy that the guard rails refused."""
        refused = self.values["updates_refused"]
        judged = self.values["updates_done"] + refused
        with np.errstate(invalid="ignore"):
            interval = self._make_interval(refused / judged, None, "harmed")
        return interval if judged.any() else NOTHING

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON: estimate, standard error, 95 % interval, simulation error, and the spread of
        single trials, against which a real one can be held."""
        means = {}
        for name in MEANS:
            trials = self.drawn.get(name, self.values[name])
            spread = float(np.nanstd(trials, ddof=1)) if (~np.isnan(trials)).sum() > 1 else np.nan
            means[name] = {
                **self.mean(name)._asdict(),
                "simulation_error": self.simulation_error(name),
                "spread_of_trials": float(np.hypot(spread, self.level_error if name in LEVELS else 0.0)),
            }
        others = {"rejections": self.rejections, "honesty": self.honesty, "refused_updates": self.refused_updates}
        return {
            "environment": self.environment,
            "candidate": self.candidate,
            "sends": self.sends,
            "trials": self.trials,
            "analysed": int(self._analysed.sum()),
            "not_analysed_because": list(self.reasons),
            "updates_refused_by": dict(self.refusals),
            "updates_failed_because": list(self.failures),
            **means,
            **{name: interval._asdict() for name, interval in others.items()},
            "curves": {name: self.values[name].mean(axis=0).tolist() for name in CURVES},
        }


@dataclass(frozen=True)
class Verdict:
    """Reasons not to recommend a candidate in an environment: dangers (harm, power, type I error) and doubts about its gain;
    it is `worse` where its mean outcome is significantly lower than the coin's."""

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
    """The recommended candidate, or none, for one environment or over all."""

    environment: str | None
    """Its name; None over all."""
    candidate: str | None
    """The recommended candidate; None where there is none."""
    reason: str
    """In words."""
    verdicts: tuple[Verdict, ...] = ()
    """Of every candidate."""
    is_judged: bool = True
    """False for environments that the recommendation over all leaves out."""

    @property
    def sentence(self) -> str:
        """Recommendation and reason."""
        return f"{NONE if self.candidate is None else self.candidate}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        plain: dict[str, Any] = to_plain(self)
        return {**plain, "text": self.sentence}


def recommend(
    answers: Mapping[str, CandidateAnswers],
    null: Mapping[str, CandidateAnswers],
    rule: SafetyRule,
    *,
    is_judged: bool = True,
) -> Recommendation:
    """For one environment; `null` are the answers where there is no effect."""
    coin = answers[COIN]
    verdicts = []
    for name, candidate in answers.items():
        if name in REFERENCES:
            continue
        over_coin = candidate.mean("over_coin")
        over_never = candidate.mean("over_never")
        doubts = []
        if not candidate.lower_limit("over_coin", SURE) > 0:
            doubts.append(f"its mean outcome is not significantly higher than the coin's: {format_estimate(over_coin)}")
        if not candidate.lower_limit("over_never", LIKELY) > 0:
            doubts.append(f"its mean outcome is not likely higher than never's: {format_estimate(over_never)}")
        dangers = tuple(_list_dangers(candidate, coin, null[name], rule))
        verdicts.append(Verdict(name, over_coin, over_never, over_coin.high < 0, dangers, tuple(doubts)))
    better = [verdict for verdict in verdicts if verdict.is_better]
    if not better:
        return Recommendation(coin.environment, None, _explain_none(verdicts, answers), tuple(verdicts), is_judged)
    best = max(better, key=lambda verdict: verdict.over_coin.value)
    winner = answers[best.candidate]
    alike = [
        verdict.candidate
        for verdict in better
        if verdict is not best and not winner.minus(answers[verdict.candidate]).excludes_zero
    ]
    reason = (
        f"its mean outcome is above the coin's by {format_estimate(best.over_coin)} and above never's by "
        f"{format_estimate(best.over_never)} ({winner.trials} trials). Compared with never, it harms "
        f"{format_percent(winner.mean('harmed').value)} of people. The primary analysis finds an effect in "
        f"{format_percent(winner.rejections.value, 0)} of trials"
    )
    if alike:
        reason += f". Statistically indistinguishable from it: {', '.join(alike)}"
    return Recommendation(coin.environment, best.candidate, reason, tuple(verdicts), is_judged)


def _list_dangers(
    candidate: CandidateAnswers, coin: CandidateAnswers, null: CandidateAnswers, rule: SafetyRule
) -> list[str]:
    dangers = []
    harmed = candidate.mean("harmed")
    if harmed.low > rule.harmed and candidate.minus(coin, "harmed").low > 0:
        dangers.append(
            f"compared with never, it harms {format_percent(harmed.value)} of people, and a coin "
            f"{format_percent(coin.mean('harmed').value)}"
        )
    power = candidate.rejections
    coin_power = coin.rejections
    if np.isnan(candidate.values["p_value"]).all():
        reason = candidate.reasons[0] if candidate.reasons else "the test has no result"
        dangers.append(f"its logs cannot be analysed: {reason}")
    elif not candidate.is_null:
        error = np.hypot(power.standard_error, coin_power.standard_error)
        if coin_power.value - power.value - t_quantile(candidate.trials - 1) * error > rule.power_loss:
            dangers.append(
                f"its primary analysis has a power of {format_percent(power.value, 0)}, "
                f"after a coin {format_percent(coin_power.value, 0)}"
            )
    errors = null.rejections
    if errors.low > rule.level:
        dangers.append(f"its primary analysis finds an effect in {format_percent(errors.value)} of trials without one")
    return dangers


def _explain_none(verdicts: Sequence[Verdict], answers: Mapping[str, CandidateAnswers]) -> str:
    if not verdicts:
        return "there is no candidate other than the references"
    if answers[COIN].is_null:
        return "prompts change nothing here"
    nearest = max(verdicts, key=lambda verdict: verdict.over_coin.value)
    objections = [f"{objection[0].upper()}{objection[1:]}" for objection in (*nearest.unsafe, *nearest.doubts)]
    reason = ". ".join([f"the best of them is {nearest.candidate}", *objections])
    candidate = answers[nearest.candidate]
    refused = candidate.refused_updates.value
    if refused > MOSTLY:
        check = next(iter(candidate.refusals))
        reason += f". The guard rails refused {format_percent(refused, 0)} of its updates, most often by '{check}'"
    if candidate.failures:
        reason += f". Updates failed: {candidate.failures[0]}"
    never = answers[NEVER].mean("over_coin")
    return reason + (f". Sending nothing is better than a coin here, by {format_estimate(never)}" if never.low > 0 else "")


def recommend_overall(by_environment: Sequence[Recommendation], spread: float, faults: Sequence[str]) -> Recommendation:
    """Over all environments that are judged; of several the one with the greatest mean gain. `faults` are effects of the
    pilot that the model does not show."""
    judged = [choice for choice in by_environment if choice.is_judged]
    verdicts: dict[str, list[Verdict]] = {}
    for recommendation in judged:
        for verdict in recommendation.verdicts:
            verdicts.setdefault(verdict.candidate, []).append(verdict)
    recommended = [name for name in verdicts if any(name == choice.candidate for choice in judged)]
    if faults:
        return Recommendation(None, None, f"the model is unsafe, since it does not show what the pilot does: {faults[0]}")
    safe = [name for name in recommended if not any(verdict.unsafe or verdict.worse for verdict in verdicts[name])]
    if not safe:
        reasons = [f"{name} is recommended in one environment but not safe in another" for name in recommended]
        return Recommendation(None, None, "; ".join(reasons) or "none is recommended in any environment")
    gains = {name: float(np.mean([verdict.over_coin.value for verdict in verdicts[name]])) for name in safe}
    best = max(safe, key=lambda name: gains[name])
    environments = [str(choice.environment) for choice in judged if choice.candidate == best]
    reason = (
        f"it is recommended in {', '.join(environments)}, and nowhere significantly worse than a coin or unsafe; mean gain "
        f"over the coin {format_number(gains[best])} ({gains[best] / spread:+.2f} standard deviations)"
    )
    return Recommendation(None, best, reason)
