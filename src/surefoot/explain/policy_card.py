"""The policy card: a policy in words, for a protocol. The same content feeds the Markdown file and the HTML page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.explain import Coefficient, Explanation
from surefoot.explain.consequences import describe_consequence
from surefoot.reports.numbers import format_interval, format_number, format_value

PARAMETERS = {
    "critic": "critic",
    "filter": "filter before the fit",
    "tau": "height of the cap τ",
    "critic_penalty": "critic's penalty ζ_c",
    "actor_penalty": "policy's penalty ζ_a",
    "minimum_probability": "least probability p₀ of the stochasticity constraint",
    "violation": "share α of states where it may be violated",
    "exploration": "width α of the confidence bound",
    "horizon": "horizon",
    "caution": "caution κ",
}


@dataclass(frozen=True)
class Card:
    """Sections of (heading, sentences); a sentence may hold no markup."""

    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]

    def markdown(self) -> str:
        """As a Markdown file."""
        lines = [f"# {self.title}", ""]
        for heading, sentences in self.sections:
            lines += [f"## {heading}", "", *(f"- {_escaped(sentence)}" for sentence in sentences), ""]
        return "\n".join(lines)


def _escaped(text: str) -> str:
    for character in ("\\", "*", "_", "`", "<", "["):
        text = text.replace(character, "\\" + character)
    return text


def make_card(
    explanation: Explanation,
    *,
    title: str = "Policy card",
    method: str = "",
    limits: tuple[float, float] | None = None,
    descriptions: dict[str, str] | None = None,
    transform: str = "none",
    verdict: str = "",
) -> Card:
    """The card of an explained policy.

    `limits` are the least and greatest probability of sending, `descriptions` say of state variables what they are (range,
    unit, scaling), `transform` is the reward's, `verdict` the audit's.
    """
    fitted, logs = explanation.fitted, explanation.fitted.logs_
    sections = (
        ("What it decides", _decides(explanation)),
        ("From what", _from_what(explanation, descriptions or {})),
        ("With which probabilities", _probabilities(explanation, limits)),
        ("What makes it send", _coefficients(explanation)),
        ("What carries it", tuple(
            f"{item.feature}: {round(100 * item.share)} % of the variance of its logit" for item in explanation.importances
        )),
        *_consequences(explanation),
        ("What it learned from", _learned(explanation, method or type(fitted).__name__, transform, verdict)),
        ("What it does not know", (
            _horizon(explanation),
            "It was learned from the states in these logs; elsewhere it extrapolates.",
            f"When a state variable is missing it cannot decide; the study must say what happens then (for example "
            f"'{logs.action_names[0]}').",
        )),
    )  # fmt: skip
    return Card(title, sections)


def _consequences(explanation: Explanation) -> tuple[tuple[str, tuple[str, ...]], ...]:
    sentences = [sentence for found in explanation.consequences for sentence in describe_consequence(found)]
    return (("What an action does now and later", tuple(sentences)),) if sentences else ()


def _horizon(explanation: Explanation) -> str:
    if explanation.consequences:
        return (
            "It looks ahead in a linear model of what follows, with later decisions as they were logged: people who differ "
            "from that model, and changes over the study, are not in it."
        )
    return (
        "It weighs the proximal outcome only: that sending now may tire people later is not in it, unless a state variable "
        "carries it."
    )


def _decides(explanation: Explanation) -> tuple[str, ...]:
    names = explanation.fitted.logs_.action_names
    return (
        f"At every decision point at which the participant is available: one of {', '.join(names)}.",
        f"When the participant is not available: always {names[0]}.",
        explanation.fitted.pooling_.whom,
    )


def _sees(explanation: Explanation) -> list[str]:
    fitted = explanation.fitted
    return [name for name, there in zip(fitted.logs_.state_names, fitted.rule_sees_, strict=True) if there]


def _from_what(explanation: Explanation, descriptions: dict[str, str]) -> tuple[str, ...]:
    logs, rows = explanation.fitted.logs_, ~np.isnan(explanation.fitted.weights_)
    seen = _sees(explanation)
    sentences = []
    for j, name in enumerate(logs.state_names):
        if name in seen:
            what = descriptions.get(name)
            middle = np.quantile(logs.state[rows, j], (0.05, 0.95))
            low, high = map(format_number, middle.tolist())
            logged = f"as fitted, 90 % of logged values lie from {low} to {high}"
            sentences.append(f"{name}: {what}; {logged}" if what else f"{name}: {logged}")
    unseen = [name for name in logs.state_names if name not in seen]
    if unseen:
        sentences.append(f"The policy does not look at {', '.join(unseen)}; only the expected reward was adjusted for it.")
    return tuple(sentences)


def _probabilities(explanation: Explanation, limits: tuple[float, float] | None) -> tuple[str, ...]:
    fitted, rates = explanation.fitted, explanation.send_rates[~np.isnan(explanation.send_rates)]
    bounded = (
        "The study sets no limits to the probability of sending."
        if limits is None or limits == (0.0, 1.0)
        else f"The probability of sending anything is kept between {limits[0]:g} and {limits[1]:g}."
    )
    return (
        fitted.policies_.rule.how,
        bounded,
        f"At the logged states it would send at {100 * explanation.send_rate:.0f} % of decision points; the logs have "
        f"{100 * explanation.logged_rate:.0f} %.",
        f"From participant to participant: {100 * rates.min():.0f} % to {100 * rates.max():.0f} %.",
    )


def describe_coefficient(row: Coefficient, people: int, more: str) -> str:
    """One policy coefficient in a sentence; `more` says what one unit more of the variable is."""
    interval = f"{format_value(row.interval)}, 95 % interval {format_interval(row.interval)}"
    if row.people_above is not None:
        own = f"above zero for {row.people_above}, below for {row.people_below} of {people} people"
        interval = f"mean {interval}; own interval {own}"
    if row.feature == "intercept":
        lean = "towards" if row.interval.value > 0 else "away from"
        return f"With all state variables at 0 it leans {lean} {row.action} ({interval})."
    direction = "more" if row.interval.value > 0 else "less"
    sure = "" if row.interval.excludes_zero else " The interval includes 0: the direction is not certain."
    return f"{more} makes {row.action} {direction} likely ({interval}).{sure}"


def _coefficients(explanation: Explanation) -> tuple[str, ...]:
    part = explanation.fitted.coefficient_parts_[-1].part
    rows = [row for row in explanation.coefficients.rows if row.part == part]
    people = int((~np.isnan(explanation.send_rates)).sum())
    first = explanation.fitted.logs_.action_names[0]
    if part == "critic":
        return tuple(
            f"{row.action}, {row.feature}: {format_value(row.interval)} more reward per unit, "
            f"95 % {format_interval(row.interval)}"
            for row in rows
            if row.action != first
        )
    return tuple(describe_coefficient(row, people, _one_more(explanation, row.feature)) for row in rows)


def _one_more(explanation: Explanation, feature: str) -> str:
    """One unit of the fit in the variable's own units; of what is yes or no, a yes."""
    logs, used = explanation.fitted.logs_, ~np.isnan(explanation.fitted.weights_)
    if feature in logs.state_names and np.isin(logs.state[used, logs.state_names.index(feature)], (0, 1)).all():
        return f"{feature} (yes rather than no)"
    return f"{explanation.scaling.get(feature, (0.0, 1.0))[1]:g} more of {feature}"


def _learned(explanation: Explanation, method: str, transform: str, verdict: str) -> tuple[str, ...]:
    fitted, logs = explanation.fitted, explanation.fitted.logs_
    used, removed = int((~np.isnan(fitted.weights_)).sum()), int((fitted.weights_ == 0).sum())
    people = int((~np.isnan(explanation.send_rates)).sum())
    parameters = {**fitted.parameters(), "critic": fitted.critic_.name}
    settings = [f"{label} {parameters[name]}" for name, label in PARAMETERS.items() if parameters.get(name) is not None]
    transform = "" if transform == "none" else f", as {transform}"
    sentences = [
        f"{people} people, {used} of {int(logs.available.sum())} available decision points.",
        f"The reward is '{logs.names.reward}'{transform}.",
        f"Method {method}: {', '.join(settings)}.",
        f"Removed as outliers: {removed} decision points ({100 * removed / used:.1f} %).",
        f"Intervals: {explanation.coefficients.how}.",
    ]
    return (*sentences, f"The audit of the fit says: {verdict}.") if verdict else tuple(sentences)
