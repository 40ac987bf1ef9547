"""The policy card: a policy in words, for a protocol. The same content feeds the Markdown file and the HTML page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.explain.coefficients import Coefficient
from surefoot.explain.consequences import describe_consequence
from surefoot.explain.differences import describe_difference
from surefoot.explain.disagreements import Disagreement
from surefoot.explain.explained_policy import ExplainedPolicy
from surefoot.explain.response import Curve
from surefoot.inference.intervals import Interval
from surefoot.reports.numbers import format_estimate, format_interval, format_signed, format_value

HARDLY = 0.005
"""A change of probability that is not worth a line of its own."""
MOST_SENTENCES = 40
"""A section that lists coefficients or variables shows at most so many; tables and JSON hold all."""
PARAMETERS = {
    "critic": "critic",
    "filter": "filter before the fit",
    "tau": "height of the limit τ",
    "critic_penalty": "critic's penalty ζ_c",
    "actor_penalty": "policy's penalty ζ_a",
    "minimum_probability": "least probability p₀ of the stochasticity constraint",
    "violation": "share α of states where it may be violated",
    "exploration": "width α of the confidence bound",
    "horizon": "horizon",
    "caution": "caution κ",
    "allocation": "allocation",
}


@dataclass(frozen=True)
class Card:
    """A verdict of the audit with its reasons, and sections of (heading, sentences); a sentence may hold no markup.

    Attributes
    ----------
    title
        Of the page.
    verdict
        Empty when the fit was not audited.
    reasons
        One for every check that is not fine.
    sections
        (heading, sentences).
    """

    title: str
    verdict: str
    reasons: tuple[str, ...]
    sections: tuple[tuple[str, tuple[str, ...]], ...]

    def markdown(self) -> str:
        """As a Markdown file."""
        lines = [f"# {self.title}", ""]
        if self.verdict:
            lines += [f"**Audit of the fit: {self.verdict}**", "", *(f"- {_escape(text)}" for text in self.reasons), ""]
        for heading, sentences in self.sections:
            lines += [f"## {heading}", "", *(f"- {_escape(sentence)}" for sentence in sentences), ""]
        return "\n".join(lines)


def _escape(text: str) -> str:
    for character in ("\\", "*", "_", "`", "<", "["):
        text = text.replace(character, "\\" + character)
    return text


def make_card(explained: ExplainedPolicy, title: str = "Policy card") -> Card:
    """The card of an explained policy: first what it does, last the coefficients behind it."""
    checks = () if explained.audit is None else explained.audit.checks
    verdict = "" if explained.audit is None else explained.audit.verdict
    reasons = tuple(f"{check.name}: {check.reason}" for check in checks if check.verdict != "fine")
    sections = (
        ("What it decides", _describe_decision(explained)),
        ("What it does", _describe_response(explained)),
        ("What was left out", explained.left_out),
        ("Where policy and effect disagree", _describe_disagreements(explained)),
        ("What an action does now and later", tuple(
            sentence for found in explained.consequences for sentence in describe_consequence(found)
        )),
        ("How people differ", tuple(map(describe_difference, explained.differences))),
        ("From what", _describe_state(explained)),
        ("With which probabilities", _describe_probabilities(explained)),
        ("What it learned from", _describe_data(explained)),
        ("What it does not know", _describe_limits(explained)),
        ("The coefficients behind it", _describe_coefficients(explained)),
    )  # fmt: skip
    return Card(title, verdict, reasons, tuple((heading, lines) for heading, lines in sections if lines))


def _describe_decision(explained: ExplainedPolicy) -> tuple[str, ...]:
    names = explained.fitted.logs_.action_names
    return (
        f"At every decision point at which the participant is available: one of {', '.join(names)}.",
        f"When the participant is not available: always {names[0]}.",
        explained.fitted.pooling_.whom,
    )


def _describe_response(explained: ExplainedPolicy) -> tuple[str, ...]:
    rates, names = explained.send_rates[~np.isnan(explained.send_rates)], explained.fitted.logs_.action_names
    moving = sorted(explained.curves, key=lambda curve: -curve.largest_change)
    still = [curve.variable for curve in moving if curve.largest_change < HARDLY]
    sentences = [
        f"At the logged states it would send at {100 * explained.send_rate:.0f} % of decision points; the logs have "
        f"{100 * explained.logged_rate:.0f} %.",
        f"From participant to participant: {100 * rates.min():.0f} % to {100 * rates.max():.0f} %.",
        *(_describe_curve(curve, names) for curve in moving if curve.largest_change >= HARDLY),
    ]
    if still:
        sentences.append(f"Hardly moved by {', '.join(still)}.")
    return tuple(sentences)


def _describe_curve(curve: Curve, names: tuple[str, ...]) -> str:
    """What the policy does as one variable moves, action by action."""
    told = [_describe_action(curve, code, name) for code, name in enumerate(names) if code]
    if curve.labels:
        return f"{curve.variable}: {'; '.join(told)}."
    first, last = (f"{place:.4g}".replace("-", "−") for place in curve.grid[[0, -1]])
    return f"{curve.variable} from {first} to {last}: {'; '.join(told)}."


def _describe_action(curve: Curve, code: int, name: str) -> str:
    at = [f"{100 * value:.0f} %" for value in curve.probability[:, code]]
    if not curve.labels:
        return f"probability of {name} {at[0]} → {at[-1]} ({_format_points(curve.changes[-1][code])})"
    levels = [f"{curve.labels[0]} {at[0]}"]
    for label, there, changes in zip(curve.labels[1:], at[1:], curve.changes[1:], strict=True):
        levels.append(f"{label} {there} ({_format_points(changes[code])})")
    return f"probability of {name} {', '.join(levels)}"


def _format_points(change: Interval) -> str:
    value, low, high = (format_signed(100 * part, 0) for part in (change.value, change.low, change.high))
    return f"{value} points" if np.isnan(change.low) else f"{value} points, 95 % interval {low} to {high}"


def _describe_disagreements(explained: ExplainedPolicy) -> tuple[str, ...]:
    """Those of which the effect is most certain."""
    certain = sorted(explained.disagreements, key=lambda found: -abs(found.effect.value / found.effect.standard_error))
    shown = [found for found in explained.disagreements if found in certain[:MOST_SENTENCES]]
    return (*map(_describe_disagreement, shown), *_count_hidden(len(certain) - len(shown), "features"))


def _count_hidden(count: int, what: str) -> tuple[str, ...]:
    """A sentence about what a list does not show, where there is anything."""
    return (f"{count} more {what} are in the JSON output.",) if count else ()


def _describe_disagreement(found: Disagreement) -> str:
    likely = "less" if found.effect.value > 0 else "more"
    moved = "" if np.isnan(found.before) else f" (probability {100 * found.before:.0f} % → {100 * found.after:.0f} %)"
    return (
        f"{found.feature}: one unit more of it changes the effect of {found.action} by {format_estimate(found.effect)}, yet "
        f"the policy makes {found.action} {likely} likely{moved}. Do not read a direction into either alone."
    )


def _describe_state(explained: ExplainedPolicy) -> tuple[str, ...]:
    fitted, state = explained.fitted, explained.fitted.logs_.state[explained.fitted.used_]
    known = {} if explained.study is None else explained.study.descriptions
    sentences, unseen = [], []
    for variable in explained.variables:
        if fitted.rule_sees_[list(variable.places)].any():
            values, column = (
                variable.kind.describe_values(variable.take(state)),
                fitted.logs_.state_names[variable.places[0]],
            )
            sentences.append(f"{variable.name}: {known.get(column, variable.kind.describe())}; {values}")
        else:
            unseen.append(variable.name)
    if unseen:
        sentences.append(f"The policy does not look at {', '.join(unseen)}; only the expected reward was adjusted for it.")
    return tuple(sentences)


def _describe_probabilities(explained: ExplainedPolicy) -> tuple[str, ...]:
    limits = None if explained.study is None else explained.study.probability_limits
    bounded = (
        "The study sets no limits to the probability of sending."
        if limits is None or (limits.minimum, limits.maximum) == (0.0, 1.0)
        else f"The probability of sending anything is kept between {limits.minimum:g} and {limits.maximum:g}."
    )
    return explained.fitted.policies_.rule.how, bounded


def _describe_data(explained: ExplainedPolicy) -> tuple[str, ...]:
    fitted, logs, audit = explained.fitted, explained.fitted.logs_, explained.audit
    used, removed = int(fitted.used_.sum()), int(fitted.removed_.sum())
    given = {**fitted.get_params(deep=False), "critic": fitted.critic_.name}
    if fitted.critic_.removal is None:
        del given["tau"]
    settings = [f"{label} {given[name]}" for name, label in PARAMETERS.items() if given.get(name) is not None]
    transform = "" if explained.unit.transform == "none" else f", as {explained.unit.transform}"
    sentences = [
        f"{explained.people} people, {used} of {int(logs.available.sum())} available decision points.",
        f"The reward is '{explained.unit.column}'{transform}. It optimises {fitted.horizon_.title}.",
        f"Method {explained.method_name}: {', '.join(settings)}.",
        f"Removed as outliers: {removed} decision points ({100 * removed / used:.1f} %).",
    ]
    if fitted.forgetting < 1:
        sentences.append(
            f"People change: a decision point k before a participant's last one counts {fitted.forgetting:g}^k times."
        )
    if fitted.posterior_ is not None and fitted.posterior_.walk:
        sentences.append(
            "People change: from one decision point to the next a participant's coefficients vary by "
            f"{fitted.posterior_.walk:.2g} of the variance between people; the policies are of their last ones."
        )
    if fitted.centre_actions:
        sentences.append(
            "Actions are centred at their logged probabilities: a wrong model of what happens without one does not bias the "
            "effects, which are less precise for it where probabilities are near 0 or 1. "
            f"The coefficients of {logs.action_names[0]} are of the average over the logged actions."
        )
    if audit is not None:
        effect = audit.measures.describe_effect(audit.effect)
        sentences.append(f"At the logged states: {effect}.")
    return tuple(sentences)


def _describe_limits(explained: ExplainedPolicy) -> tuple[str, ...]:
    horizon = (
        "It looks ahead in a linear model of what follows, with later decisions as they were logged: people who differ from "
        "that model, and changes over the study, are not in it."
        if explained.consequences
        else "It weighs the proximal outcome only: that sending now may tire people later is not in it, unless a state "
        "variable carries it."
    )
    return (
        horizon,
        "It was learned from the states in these logs; elsewhere it extrapolates.",
        f"When a state variable is missing it cannot decide; the study must say what happens then (for example "
        f"'{explained.fitted.logs_.action_names[0]}').",
    )


def _describe_coefficients(explained: ExplainedPolicy) -> tuple[str, ...]:
    part = explained.fitted.coefficient_parts_[-1].part
    first = explained.fitted.logs_.action_names[0]
    rows = [row for row in explained.coefficients.rows if row.part == part and row.action != first]
    shown = choose_coefficients(rows)
    largest = explained.importances[:MOST_SENTENCES]
    shares = ", ".join(f"{item.feature} {round(100 * item.share)} %" for item in largest)
    shares += ", …" if len(largest) < len(explained.importances) else ""
    closing = (
        *_count_hidden(len(rows) - len(shown), "coefficients"),
        f"Intervals: {explained.coefficients.how}.",
        f"Shares of the variance of the logit: {shares}. Where probabilities are near 0 or 1 the logit moves a lot and the "
        "policy hardly at all: see what it does.",
    )
    if part == "critic":
        effects = [
            f"{row.action}, {row.feature}: {format_value(row.interval)} more reward per unit, "
            f"95 % interval {format_interval(row.interval)}"
            for row in shown
        ]
        return *effects, *closing
    return *(describe_coefficient(row, explained) for row in shown), *closing


def choose_coefficients(rows: list[Coefficient]) -> list[Coefficient]:
    """All of them, or of many those that are largest in units of their standard errors, in their order."""

    def measure(row: Coefficient) -> float:
        error = row.interval.standard_error
        return abs(row.interval.value) / (error if error > 0 else 1.0)

    largest = sorted(rows, key=lambda row: -measure(row))[:MOST_SENTENCES]
    return [row for row in rows if row in largest]


def describe_coefficient(row: Coefficient, explained: ExplainedPolicy) -> str:
    """One policy coefficient in a sentence."""
    interval = format_value(row.interval)
    known = not np.isnan(row.interval.low)
    if known:
        interval += f", 95 % interval {format_interval(row.interval)}"
    if row.people_above is not None:
        drawn = explained.coefficients.own_people
        own = f"above zero for {row.people_above}, below for {row.people_below} of {drawn} people"
        own += "" if drawn == explained.people else " drawn at random"
        interval = f"mean {interval}; own interval {own}"
    if row.interval.value == 0:
        unit = "The intercept" if row.feature == "intercept" else _describe_unit(explained, row.feature)
        return f"{unit} does not change how likely {row.action} is ({interval})."
    if row.feature == "intercept":
        lean = "towards" if row.interval.value > 0 else "away from"
        return f"With all state variables at 0 it leans {lean} {row.action} ({interval})."
    direction = "more" if row.interval.value > 0 else "less"
    why = "The interval includes 0" if known else "Without an interval"
    sure = "" if row.interval.excludes_zero else f" {why}: the direction is not certain."
    return f"{_describe_unit(explained, row.feature)} makes {row.action} {direction} likely ({interval}).{sure}"


def _describe_unit(explained: ExplainedPolicy, feature: str) -> str:
    """One unit of the fit in the variable's own units; of what is yes or no, a yes."""
    place = explained.fitted.logs_.state_names.index(feature)
    variable = next(one for one in explained.variables if place in one.places)
    return variable.kind.describe_unit(feature)
