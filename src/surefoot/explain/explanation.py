"""Explanation of a fitted policy: its result as numbers, text, card and page."""

import re
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
from surefoot.explain import response
from surefoot.explain.coefficients import (
    MOST_SHOWN,
    OWN_PEOPLE,
    Coefficients,
    Difference,
    choose_coefficients,
    estimate_coefficients,
    find_differences,
    find_influences,
)
from surefoot.inference.intervals import FEW_PEOPLE, sum_by_participant
from surefoot.inference.sandwich import MOST_REFITTED, count_coefficients, takes_refits
from surefoot.learning.methods import Method
from surefoot.numerics.parallel import Progress
from surefoot.reports.numbers import OutcomeUnit, count_decimals, format_cells, format_percent, format_signed
from surefoot.reports.summaries import Overview, ShownResult, make_table, to_plain
from surefoot.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable

LEFT_OUT = "What was left out"


@dataclass(frozen=True)
class Card:
    """A policy in words: the verdict of the audit with its reasons, and sections of (heading, sentences) without markup."""

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
        audit = ((f"**Audit of the fit: {self.verdict}**", self.reasons),) if self.verdict else ()
        lines = [f"# {self.title}", ""]
        for heading, sentences in (*audit, *((f"## {heading}", sentences) for heading, sentences in self.sections)):
            bullets = ["- " + re.sub(r"([\\*_`<\[])", r"\\\1", sentence) for sentence in sentences]
            lines += [heading, "", *bullets, ""]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ShownResult):
    """What a policy does in words, curves and coefficients with their intervals."""

    page_title: ClassVar[str] = "Policy card"

    fitted: Method
    """The explained fit."""
    study: Study | None
    """Its study, where it was given."""
    audit: Audit | None
    """Its audit, where it was given."""
    variables: tuple[response.Variable, ...]
    """The state variables, a category as one."""
    coefficients: Coefficients
    """Of critic and policy, with intervals, over people and of each participant."""
    curves: tuple[response.Curve, ...]
    """The probability of every action as each state variable that the policy sees moves."""
    disagreements: tuple[response.Disagreement, ...]
    """Features whose effect and whose coefficient in the policy have opposite signs."""
    importances: tuple[response.Importance, ...]
    """Shares of the variance of the policy's logit."""
    courses: tuple[response.TimeCourse, ...]
    """How many people would be treated when."""
    send_rates: NDArray[np.float64]
    """Each participant's mean probability of being sent something; NaN without usable decision points."""
    send_rate: float
    """The mean of that probability over decision points."""
    logged_rate: float
    """The share of decision points at which something was sent."""
    consequences: tuple[response.ActionConsequence, ...]
    """What each action does now and later; empty with an immediate horizon."""
    effect_courses: tuple[response.EffectCourse, ...]
    """How the effect of each action changes over the study for everybody; empty where it may not change."""
    differences: tuple[Difference, ...]
    """How people differ, and how far everybody was drawn towards the population; empty without partial pooling."""

    def _overview(self) -> Overview:
        logs = self.fitted.logs_
        rows = [["state variable", "action", "change in its probability", "95 % interval"]]
        for curve in sorted(self.curves, key=lambda curve: -curve.largest_change):
            changes = [(row[code], logs.action_names[code]) for row in curve.changes for code in range(1, logs.actions)]
            change, action = max(changes, key=lambda pair: abs(pair[0].value))
            value, low, high = (format_signed(100 * end, 0) for end in (change.value, change.low, change.high))
            rows.append([curve.variable, action, f"{value} points", f"{low} to {high}"])
        facts = {
            "sends at": f"{format_percent(self.send_rate, 0)} of decision points",
            "logs": f"{format_percent(self.logged_rate, 0)} of decision points",
            "audit": "not given: pass audit=sf.audit.audit(fitted)" if self.audit is None else self.audit.verdict,
        }
        return Overview(f"Explanation of {self.method_name}: {self.people} people", facts, rows)

    @property
    def people(self) -> int:
        """People with a usable decision point."""
        return int((~np.isnan(self.send_rates)).sum())

    @property
    def method_name(self) -> str:
        return self.fitted.rule.title if self.study is None else self.study.method_name

    @property
    def unit(self) -> OutcomeUnit:
        """Of the fitted outcome."""
        return OutcomeUnit(self.fitted.logs_.names.outcome) if self.study is None else self.study.outcome_unit

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Parts of the explanation that were left out because the policy has many coefficients, in sentences."""
        return dict(self.card().sections).get(LEFT_OUT, ())

    def card(self, title: str = "Policy card") -> Card:
        """The policy in words: first what it does, last the coefficients behind it."""
        from surefoot.reports.render import join_lines, render

        fitted = self.fitted
        logs = fitted.logs_
        state = logs.state[fitted.used_]
        certain = sorted(self.disagreements, key=lambda row: -abs(row.effect.value / row.effect.standard_error))[:MOST_SHOWN]
        seen = response.list_seen(fitted, self.variables)
        descriptions = {} if self.study is None else self.study.descriptions
        variables = []
        units = {"intercept": "The intercept"}
        for variable in self.variables:
            columns = [logs.state_names[j] for j in variable.places]
            # In the variable's own units; of a yes/no variable, a yes.
            units |= {column: variable.kind.describe_unit(column) for column in columns}
            if variable in seen:
                description = join_lines(descriptions.get(columns[0], variable.kind.describe()))
                variables.append((variable.name, description, variable.kind.describe_values(variable.take(state))))
        critic_settings = [f"critic {fitted.critic_.name}", *fitted.critic_.describe()]
        critic_settings.append(f"critic's penalty ζ_c {fitted.critic_penalty}")
        if fitted.filter is not None:
            critic_settings += [f"filter before the fit {fitted.filter.name}", *fitted.filter.describe()]
        rule_settings = [*fitted.rule.describe(), f"horizon {fitted.horizon_.name}", *fitted.horizon_.describe()]
        limits = None if self.study is None else self.study.probability_limits
        part = fitted.coefficient_parts_[-1].part  # The policy, or the critic of a method without coefficients of a policy.
        rows = [row for row in self.coefficients.rows if row.part == part and row.action != logs.action_names[0]]
        text = render(
            "card.txt",
            explained=self,
            rates=self.send_rates[~np.isnan(self.send_rates)],
            curves=sorted(self.curves, key=lambda curve: -curve.largest_change),
            seen=len(seen),
            critic_size=count_coefficients(fitted),
            policy_size=int(fitted.policy_sees_.sum()) + 1,
            most_refitted=MOST_REFITTED,
            lacks_refits=fitted.pooled_ and self.people < FEW_PEOPLE and not takes_refits(fitted),
            disagreements=[row for row in self.disagreements if row in certain],
            variables=variables,
            unseen=[variable.name for variable in self.variables if variable not in seen],
            limits=limits if limits is not None and (limits.minimum, limits.maximum) != (0.0, 1.0) else None,
            critic_settings=critic_settings,
            rule_settings=rule_settings,
            shown=choose_coefficients(rows),
            rows=rows,
            units=units,
            most_shown=MOST_SHOWN,
        )
        sections = []
        for section in text.split("\n## ")[1:]:
            heading, *bullets = section.strip().split("\n- ")
            if bullets:
                sections.append((heading, tuple(map(join_lines, bullets))))
        checks = () if self.audit is None else self.audit.checks
        reasons = tuple(f"{check.name}: {check.reason}" for check in checks if check.verdict != "fine")
        return Card(title, "" if self.audit is None else self.audit.verdict, reasons, tuple(sections))

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per participant (or `everyone`) and coefficient."""
        return self.coefficients.to_frame(backend or self.fitted.logs_.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        curves = [to_plain({**vars(curve), "grid": curve.grid, "labels": curve.labels}) for curve in self.curves]
        for curve in curves:
            del curve["settings"]
        differences = []
        for row in self.differences:
            individual = [None if np.isnan(value) else value for value in row.individual.tolist()]
            differences.append({**to_plain(row), "individual": individual, "pulled": row.pulled})
        participants = map(str, self.fitted.logs_.participants.tolist())
        return {
            "method": self.fitted.rule.name,
            "parameters": self.fitted.settled.list_settings(),
            "chosen": [] if self.fitted.chosen_ is None else list(self.fitted.chosen_.reasons),
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
            "send_rates": dict(zip(participants, self.send_rates.tolist(), strict=True)),
            "consequences": [{**to_plain(row), "lags": row.lags[: row.felt + 1].tolist()} for row in self.consequences],
            "effect_courses": to_plain(self.effect_courses),
            "differences": differences,
        }

    def print_summary(self, console: "Console") -> None:
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
        counted = ("> 0", "< 0") if has_people else ()
        table = make_table("part", "action", "feature", "value", "95 % interval", *counted, text=3)
        decimals = count_decimals(row.interval for row in self.coefficients.rows)
        for row in self.coefficients.rows:
            counts = (str(row.people_above), str(row.people_below)) if has_people else ()
            names = (row.part, escape(row.action), escape(row.feature))
            table.add_row(*names, *format_cells(row.interval, decimals), *counts)
        console.print(table)

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """The coefficients behind the policy with their intervals."""
        from surefoot.explain.page import draw_coefficients

        part = self.fitted.coefficient_parts_[-1].part
        return draw_coefficients(self.fitted, self.coefficients, part, self.unit, ax)[0]

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.explain import page
        from surefoot.reports.figures import new_page_figure
        from surefoot.reports.render import embed_pictures, render

        people = page.draw_people(self.send_rates, self.logged_rate)
        return render(
            "explain.html",
            title=title,
            card=self.card(title),
            explanation=self,
            answers=embed_pictures(page.draw_curve(curve, self.fitted.logs_.action_names) for curve in self.curves),
            differences=embed_pictures(page.draw_difference(difference, str(self.unit)) for difference in self.differences),
            consequences=embed_pictures(map(page.draw_lags, self.consequences)),
            effect_courses=embed_pictures(page.draw_effect_course(course, str(self.unit)) for course in self.effect_courses),
            when=embed_pictures([*map(page.draw_course, self.courses), people]),
            charts=embed_pictures(
                page.draw_coefficients(self.fitted, self.coefficients, part.part, self.unit, new_page_figure())
                for part in reversed(self.fitted.coefficient_parts_)
            ),
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
    """Explain a fitted method: what its policy does, when, and why.

    Parameters
    ----------
    fitted
        A method after `fit`.
    study
        Describes the state variables (so that they are shown in their own units, a category as one), the limits of the
        probabilities, and the outcome. Without it variables are guessed from their values.
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
    probabilities = fitted.policies_.probabilities(logs.participant[used], logs.state[used])
    send = 1 - (probabilities if clip is None else clip(probabilities))[:, 0]
    person = logs.participant_index[used]
    count = sum_by_participant(person, len(logs.participants), np.ones(len(person)))
    sums = sum_by_participant(person, len(logs.participants), send)
    variables = response.find_variables(logs, None if study is None else study.variable_kinds)
    influences = find_influences(fitted) if fitted.pooled_ and int((count > 0).sum()) > 1 else None
    coefficients = estimate_coefficients(
        fitted, draws=draws, seed=seed, most_people=most_people, progress=progress, influences=influences
    )
    importances = response.measure_importances(fitted, variables)
    chosen = response.choose_variables(fitted, variables, importances)
    curves = response.trace_curves(fitted, chosen, clip=clip, seed=seed, influences=influences)
    return Explanation(
        fitted=fitted,
        study=study,
        audit=audit,
        variables=variables,
        coefficients=coefficients,
        curves=curves,
        disagreements=response.find_disagreements(coefficients, curves, logs.action_names),
        importances=importances,
        courses=response.count_courses(logs, used, send),
        send_rates=np.where(count > 0, sums / np.where(count > 0, count, 1.0), np.nan),
        send_rate=float(send.mean()),
        logged_rate=float((logs.action[used] > 0).mean()),
        consequences=response.find_consequences(fitted),
        effect_courses=response.find_effect_courses(fitted),
        differences=find_differences(fitted),
    )
