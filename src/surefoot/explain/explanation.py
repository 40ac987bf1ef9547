"""Explanation of a fitted policy: its result as numbers, text, card and page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from surefoot.audit import Audit
from surefoot.errors import InputError
from surefoot.explain.coefficients import (
    MOST_SHOWN,
    OWN_PEOPLE,
    Coefficient,
    Coefficients,
    Difference,
    choose_coefficients,
    estimate_coefficients,
    find_differences,
    find_influences,
)
from surefoot.explain.response import (
    ActionConsequence,
    Curve,
    Disagreement,
    Importance,
    TimeCourse,
    Variable,
    choose_variables,
    compute_send_probability,
    count_courses,
    find_consequences,
    find_disagreements,
    find_variables,
    list_seen,
    measure_importances,
    trace_curves,
)
from surefoot.inference.intervals import FEW_PEOPLE, Interval, sum_by_participant
from surefoot.inference.sandwich import MOST_REFITTED, count_coefficients, takes_refits
from surefoot.learning.methods import Method
from surefoot.numerics.parallel import Progress
from surefoot.reports.numbers import RewardUnit, format_estimate, format_interval, format_signed, format_value
from surefoot.reports.summaries import ShownResult, make_table, to_plain
from surefoot.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


HARDLY = 0.005
"""A change of probability that is not worth a line of its own."""


@dataclass(frozen=True)
class Card:
    """A verdict of the audit with its reasons, and sections of (heading, sentences); a sentence may hold no markup."""

    title: str
    """The heading of the card."""
    verdict: str
    """Empty when the fit was not audited."""
    reasons: tuple[str, ...]
    """One for every check that is not fine."""
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    """Pairs of a heading and its sentences."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ShownResult):
    """A policy explained."""

    page_title: ClassVar[str] = "Policy card"

    fitted: Method
    """The explained fit."""
    study: Study | None
    """Its study, where it was given."""
    audit: Audit | None
    """Its audit, where it was given."""
    variables: tuple[Variable, ...]
    """The state variables, a category as one."""
    coefficients: Coefficients
    """Of critic and policy, with intervals, over people and of each participant."""
    curves: tuple[Curve, ...]
    """The probability of every action as each state variable that the policy sees moves."""
    disagreements: tuple[Disagreement, ...]
    """Features whose effect and whose coefficient in the policy have opposite signs."""
    importances: tuple[Importance, ...]
    """Shares of the variance of the policy's logit."""
    courses: tuple[TimeCourse, ...]
    """How many people would be treated when."""
    send_rates: NDArray[np.float64]
    """Each participant's mean probability of being sent something; NaN without usable decision points."""
    send_rate: float
    """The mean of that probability over decision points."""
    logged_rate: float
    """The share of decision points at which something was sent."""
    consequences: tuple[ActionConsequence, ...]
    """What each action does now and later; empty with an immediate horizon."""
    differences: tuple[Difference, ...]
    """How people differ, and how far everybody was drawn towards the population; empty without partial pooling."""

    def __repr__(self) -> str:
        most = max(self.curves, key=lambda curve: curve.largest_change, default=None)
        moved = "" if most is None else f"; {most.variable} moves a probability by {100 * most.largest_change:.0f} points"
        audit = "not audited" if self.audit is None else f"audit: {self.audit.verdict}"
        return (
            f"<Explanation of {self.method_name}: {self.people} people; sends at {100 * self.send_rate:.0f} % of decision "
            f"points, the logs at {100 * self.logged_rate:.0f} %{moved}; {audit}>"
        )

    @property
    def people(self) -> int:
        """People with a usable decision point."""
        return int((~np.isnan(self.send_rates)).sum())

    @property
    def method_name(self) -> str:
        return self.fitted.rule.title if self.study is None else self.study.method_name

    @property
    def unit(self) -> RewardUnit:
        """Of the fitted reward."""
        return RewardUnit(self.fitted.logs_.names.reward) if self.study is None else self.study.reward_unit

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the explanation that were left out because the policy has many coefficients, in sentences."""
        return tuple(self._list_omissions())

    def _list_omissions(self) -> Iterator[str]:
        fitted = self.fitted
        people = self.people
        seen = len(list_seen(fitted, self.variables))
        if len(self.curves) < seen:
            yield (
                f"No response curves of {seen - len(self.curves)} of {seen} state variables: they are traced for the "
                f"{len(self.curves)} that move the policy most."
            )
            if fitted.coef_ is None:
                yield "Disagreements of policy and effect are reported for the variables with a curve only."
        for curve in self.curves:
            if curve.rare:
                yield (
                    f"No probabilities at the {curve.rare} rarest levels of {curve.variable}: {len(curve.settings)} are "
                    "shown."
                )
        coefficients = count_coefficients(fitted)
        if not fitted.pooled_:
            if self.coefficients.unaffordable:
                yield (
                    f"No intervals of their own for {self.coefficients.unaffordable} people: fits to drawn decision points "
                    f"with {coefficients} coefficients each take long. To have them, use surefoot explain --everybody or "
                    "most_people=None."
                )
            return
        if people < FEW_PEOPLE and not takes_refits(fitted):
            yield (
                f"No fits without each of the {people} people (the jackknife): the critic has {coefficients} coefficients, "
                f"more than {MOST_REFITTED}. Intervals come from the analytic sandwich, which is rougher for so few people."
            )
        features = int(fitted.policy_sees_.sum()) + 1
        if fitted.coef_ is not None and people <= features:
            yield (
                "No intervals of the policy's coefficients and no bands around its curves: they need more people than the "
                f"policy has coefficients for an action, and there are {people} people and {features} coefficients."
            )

    def card(self, title: str = "Policy card") -> Card:
        """The policy in words."""
        return make_card(self, title)

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """One row per participant (or `everyone`) and coefficient."""
        return self.coefficients.to_frame(backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        curves = []
        for curve in self.curves:
            fields = {name: value for name, value in vars(curve).items() if name != "settings"}
            curves.append({**to_plain(fields), "grid": curve.grid.tolist(), "labels": list(curve.labels)})
        consequences = [{**to_plain(row), "lags": row.lags[: row.felt + 1].tolist()} for row in self.consequences]
        differences = []
        for row in self.differences:
            individual = [None if np.isnan(value) else value for value in row.individual.tolist()]
            differences.append({**to_plain(row), "individual": individual, "pulled": row.pulled})
        return {
            "method": self.fitted.rule.name,
            "parameters": self.fitted.list_settings(),
            "audit": None if self.audit is None else self.audit.verdict,
            "left_out": list(self.left_out),
            "send_rate": self.send_rate,
            "logged_rate": self.logged_rate,
            "curves": curves,
            "disagreements": to_plain(self.disagreements),
            "intervals": self.coefficients.how,
            "coefficients": to_plain(self.coefficients.rows),
            "importances": to_plain(self.importances),
            "courses": to_plain(self.courses),
            "send_rates": dict(
                zip(map(str, self.fitted.logs_.participants.tolist()), self.send_rates.tolist(), strict=True)
            ),
            "consequences": consequences,
            "differences": differences,
        }

    def print_summary(self, console: Console) -> None:
        """The card, and all coefficients as a table."""
        card = self.card()
        audit = ((f"Audit of the fit: {card.verdict}", card.reasons),) if card.verdict else ()
        for heading, sentences in (*audit, *card.sections):
            console.print(f"[bold]{escape(heading)}[/]")
            for sentence in sentences:
                console.print(Padding(Text(sentence), (0, 0, 0, 2)))
        has_people = self.coefficients.rows[0].people_above is not None
        explanation = ": mean over people; > 0, < 0: people whose own interval lies there" if has_people else ""
        console.print(f"\n[bold]All coefficients[/]{explanation}")
        table = make_table(
            "part", "action", "feature", "value", "95 % interval", *(("> 0", "< 0") if has_people else ()), text=3
        )
        for row in self.coefficients.rows:
            counts = (str(row.people_above), str(row.people_below)) if has_people else ()
            names = (row.part, escape(row.action), escape(row.feature))
            table.add_row(*names, format_value(row.interval), format_interval(row.interval), *counts)
        console.print(table)

    def plot(self) -> Figure:
        """The coefficients behind the policy with their intervals."""
        from surefoot.explain.page import draw_coefficients

        return draw_coefficients(self.fitted, self.coefficients, self.fitted.coefficient_parts_[-1].part, self.unit)[0]

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.explain import page
        from surefoot.reports.render import embed_pictures, render

        names = self.fitted.logs_.action_names
        parts = [part.part for part in reversed(self.fitted.coefficient_parts_)]
        forests = [page.draw_coefficients(self.fitted, self.coefficients, part, self.unit) for part in parts]
        people = page.draw_people(self.send_rates, self.logged_rate)
        return render(
            "explain.html",
            title=title,
            card=self.card(title),
            explanation=self,
            answers=embed_pictures(page.draw_curve(curve, names) for curve in self.curves),
            differences=embed_pictures(page.draw_difference(difference, str(self.unit)) for difference in self.differences),
            consequences=embed_pictures(map(page.draw_lags, self.consequences)),
            when=embed_pictures([*map(page.draw_course, self.courses), people]),
            charts=embed_pictures(forests),
            source=source,
        )


def explain(
    fitted: Method,
    *,
    study: Study | None = None,
    audit: Audit | None = None,
    draws: int = 200,
    seed: int = 0,
    most_people: int | None = OWN_PEOPLE,
    progress: Progress | None = None,
) -> Explanation:
    """Explain a fitted method.

    Parameters
    ----------
    fitted
        A method after `fit`.
    study
        Describes the state variables (so that they are shown in their own units, a category as one), the limits of the
        probabilities, and the reward. Without it variables are guessed from their values.
    audit
        Of the same fit; its verdict is then shown on the policy card.
    draws
        Resamplings for a participant's interval.
    seed
        Root of the random numbers.
    most_people
        Individual intervals are computed for at most this many people, drawn at random; None means everybody.
    progress
        Called with the number of these people that are done, and their number.

    Returns
    -------
    Explanation
        Coefficients, response curves, importances, policy card and page.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> explain(sf.method("ro-saccb", pooling="all").fit(logs)).importances[0].feature
    'engagement'
    """
    logs = fitted.logs_
    used = fitted.used_
    if not used.any():
        raise InputError("no decision point was usable, so there is no policy to explain; see which columns are missing")
    clip = None if study is None else study.clip_probabilities
    send = compute_send_probability(fitted, clip)
    person = logs.participant_index[used]
    count = sum_by_participant(person, len(logs.participants), np.ones(len(person)))
    sums = sum_by_participant(person, len(logs.participants), send[used])
    variables = find_variables(logs, None if study is None else study.variable_kinds)
    influences = find_influences(fitted) if fitted.pooled_ and int((count > 0).sum()) > 1 else None
    coefficients = estimate_coefficients(
        fitted, draws=draws, seed=seed, most_people=most_people, progress=progress, influences=influences
    )
    importances = measure_importances(fitted, variables)
    chosen = choose_variables(fitted, variables, importances)
    curves = trace_curves(fitted, chosen, clip=clip, seed=seed, influences=influences)
    return Explanation(
        fitted=fitted,
        study=study,
        audit=audit,
        variables=variables,
        coefficients=coefficients,
        curves=curves,
        disagreements=find_disagreements(coefficients, curves, logs.action_names),
        importances=importances,
        courses=count_courses(logs, send),
        send_rates=np.where(count > 0, sums / np.where(count > 0, count, 1.0), np.nan),
        send_rate=float(send[used].mean()),
        logged_rate=float((logs.action[used] > 0).mean()),
        consequences=find_consequences(fitted),
        differences=find_differences(fitted),
    )


def make_card(explained: Explanation, title: str = "Policy card") -> Card:
    """The card of an explained policy: first what it does, last the coefficients behind it."""
    checks = () if explained.audit is None else explained.audit.checks
    verdict = "" if explained.audit is None else explained.audit.verdict
    reasons = tuple(f"{check.name}: {check.reason}" for check in checks if check.verdict != "fine")
    later = [sentence for consequence in explained.consequences for sentence in consequence.describe()]
    sections = {
        "What it decides": _describe_decision(explained),
        "What it does": _describe_response(explained),
        "What was left out": explained.left_out,
        "Where policy and effect disagree": _describe_disagreements(explained.disagreements),
        "What an action does now and later": later,
        "How people differ": [difference.describe() for difference in explained.differences],
        "From what": _describe_state(explained),
        "With which probabilities": _describe_probabilities(explained),
        "What it learned from": _describe_data(explained),
        "What it does not know": _describe_limits(explained),
        "The coefficients behind it": _describe_coefficients(explained),
    }
    return Card(title, verdict, reasons, tuple((heading, tuple(lines)) for heading, lines in sections.items() if lines))


def _describe_decision(explained: Explanation) -> list[str]:
    names = explained.fitted.logs_.action_names
    return [
        f"At every decision point at which the participant is available: one of {', '.join(names)}.",
        f"When the participant is not available: always {names[0]}.",
        explained.fitted.pooling_.whom,
    ]


def _describe_response(explained: Explanation) -> list[str]:
    rates = explained.send_rates[~np.isnan(explained.send_rates)]
    names = explained.fitted.logs_.action_names
    curves = sorted(explained.curves, key=lambda curve: -curve.largest_change)
    still = [curve.variable for curve in curves if curve.largest_change < HARDLY]
    sentences = [
        f"At the logged states it would send at {100 * explained.send_rate:.0f} % of decision points; the logs have "
        f"{100 * explained.logged_rate:.0f} %.",
        f"From participant to participant: {100 * rates.min():.0f} % to {100 * rates.max():.0f} %.",
    ]
    for curve in curves:
        if curve.largest_change >= HARDLY:
            actions = "; ".join(_describe_action(curve, code, name) for code, name in enumerate(names) if code)
            first, last = (f"{value:.4g}".replace("-", "−") for value in curve.grid[[0, -1]])
            span = "" if curve.labels else f" from {first} to {last}"
            sentences.append(f"{curve.variable}{span}: {actions}.")
    if still:
        sentences.append(f"Hardly moved by {', '.join(still)}.")
    return sentences


def _describe_action(curve: Curve, code: int, name: str) -> str:
    at = [f"{100 * value:.0f} %" for value in curve.probability[:, code]]
    if not curve.labels:
        return f"probability of {name} {at[0]} → {at[-1]} ({_format_points(curve.changes[-1][code])})"
    levels = [f"{curve.labels[0]} {at[0]}"]
    for label, probability, changes in zip(curve.labels[1:], at[1:], curve.changes[1:], strict=True):
        levels.append(f"{label} {probability} ({_format_points(changes[code])})")
    return f"probability of {name} {', '.join(levels)}"


def _format_points(change: Interval) -> str:
    value, low, high = (format_signed(100 * end, 0) for end in (change.value, change.low, change.high))
    return f"{value} points" if np.isnan(change.low) else f"{value} points, 95 % interval {low} to {high}"


def _describe_disagreements(disagreements: tuple[Disagreement, ...]) -> list[str]:
    """Those with the most certain effects."""
    certain = sorted(disagreements, key=lambda row: -abs(row.effect.value / row.effect.standard_error))[:MOST_SHOWN]
    sentences = []
    for row in disagreements:
        if row in certain:
            direction = "less" if row.effect.value > 0 else "more"
            moved = "" if np.isnan(row.before) else f" (probability {100 * row.before:.0f} % → {100 * row.after:.0f} %)"
            sentences.append(
                f"{row.feature}: one unit more of it changes the effect of {row.action} by {format_estimate(row.effect)}, "
                f"yet the policy makes {row.action} {direction} likely{moved}. Do not read a direction into either alone."
            )
    return sentences + _count_hidden(len(disagreements) - len(certain), "features")


def _count_hidden(count: int, noun: str) -> list[str]:
    """A sentence about what a list does not show, where there is anything."""
    return [f"{count} more {noun} are in the JSON output."] if count else []


def _describe_state(explained: Explanation) -> list[str]:
    fitted = explained.fitted
    state = fitted.logs_.state[fitted.used_]
    descriptions = {} if explained.study is None else explained.study.descriptions
    sentences = []
    unseen = []
    for variable in explained.variables:
        if fitted.rule_sees_[list(variable.places)].any():
            column = fitted.logs_.state_names[variable.places[0]]
            values = variable.kind.describe_values(variable.take(state))
            sentences.append(f"{variable.name}: {descriptions.get(column, variable.kind.describe())}; {values}")
        else:
            unseen.append(variable.name)
    if unseen:
        sentences.append(f"The policy does not look at {', '.join(unseen)}; only the expected reward was adjusted for it.")
    return sentences


def _describe_probabilities(explained: Explanation) -> list[str]:
    limits = None if explained.study is None else explained.study.probability_limits
    bounds = "The study sets no limits to the probability of sending."
    if limits is not None and (limits.minimum, limits.maximum) != (0.0, 1.0):
        bounds = f"The probability of sending anything is kept between {limits.minimum:g} and {limits.maximum:g}."
    return [explained.fitted.policies_.rule.how, bounds]


def _describe_data(explained: Explanation) -> list[str]:
    fitted = explained.fitted
    logs = fitted.logs_
    used = int(fitted.used_.sum())
    removed = int(fitted.removed_.sum())
    settings = [f"critic {fitted.critic_.name}", *fitted.critic_.describe(), f"critic's penalty ζ_c {fitted.critic_penalty}"]
    if fitted.filter is not None:
        settings += [f"filter before the fit {fitted.filter.name}", *fitted.filter.describe()]
    settings += [*fitted.rule.describe(), f"horizon {fitted.horizon_.name}", *fitted.horizon_.describe()]
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
            "Actions are centred at their logged probabilities: a wrong model of the outcome without an action does not "
            "bias the effects, which are less precise for it where probabilities are near 0 or 1. "
            f"The coefficients of {logs.action_names[0]} are of the average over the logged actions."
        )
    if explained.audit is not None:
        effect = explained.audit.measures.describe_effect(explained.audit.effect)
        sentences.append(f"At the logged states: {effect}.")
    return sentences


def _describe_limits(explained: Explanation) -> list[str]:
    horizon = (
        "It weighs the proximal outcome only: it does not include that sending now may tire people later, unless a state "
        "variable carries it."
    )
    if explained.consequences:
        horizon = (
            "It looks ahead in a linear model of the consequences, with later decisions as they were logged: the model does "
            "not include people who differ from it, nor changes over the study."
        )
    return [
        horizon,
        "It was learned from the states in these logs; elsewhere it extrapolates.",
        f"When a state variable is missing it cannot decide; the study must say what happens then (for example "
        f"'{explained.fitted.logs_.action_names[0]}').",
    ]


def _describe_coefficients(explained: Explanation) -> list[str]:
    """Of the last part: the policy, or the critic of a method without coefficients of a policy."""
    part = explained.fitted.coefficient_parts_[-1].part
    first = explained.fitted.logs_.action_names[0]
    rows = [row for row in explained.coefficients.rows if row.part == part and row.action != first]
    shown = choose_coefficients(rows)
    if part == "critic":
        sentences = [
            f"{row.action}, {row.feature}: {format_value(row.interval)} more reward per unit, "
            f"95 % interval {format_interval(row.interval)}"
            for row in shown
        ]
    else:
        sentences = [describe_coefficient(row, explained) for row in shown]
    largest = explained.importances[:MOST_SHOWN]
    shares = ", ".join(f"{item.feature} {round(100 * item.share)} %" for item in largest)
    shares += ", …" if len(largest) < len(explained.importances) else ""
    return [
        *sentences,
        *_count_hidden(len(rows) - len(shown), "coefficients"),
        f"Intervals: {explained.coefficients.how}.",
        f"Shares of the variance of the logit: {shares}. Where probabilities are near 0 or 1 the logit moves a lot and the "
        "policy hardly at all: see what it does.",
    ]


def describe_coefficient(row: Coefficient, explained: Explanation) -> str:
    """One policy coefficient in a sentence."""
    interval = format_value(row.interval)
    known = not np.isnan(row.interval.low)
    if known:
        interval += f", 95 % interval {format_interval(row.interval)}"
    if row.people_above is not None:
        drawn = explained.coefficients.own_people
        sample = "" if drawn == explained.people else " drawn at random"
        interval = (
            f"mean {interval}; own interval above zero for {row.people_above}, below for {row.people_below} of {drawn} "
            f"people{sample}"
        )
    unit = "The intercept"
    if row.feature != "intercept":
        position = explained.fitted.logs_.state_names.index(row.feature)
        variable = next(variable for variable in explained.variables if position in variable.places)
        # In the variable's own units; of a yes/no variable, a yes.
        unit = variable.kind.describe_unit(row.feature)
    if row.interval.value == 0:
        return f"{unit} does not change how likely {row.action} is ({interval})."
    if row.feature == "intercept":
        lean = "towards" if row.interval.value > 0 else "away from"
        return f"With all state variables at 0 it leans {lean} {row.action} ({interval})."
    direction = "more" if row.interval.value > 0 else "less"
    doubt = "The interval includes 0" if known else "Without an interval"
    certainty = "" if row.interval.excludes_zero else f" {doubt}: the direction is not certain."
    return f"{unit} makes {row.action} {direction} likely ({interval}).{certainty}"
