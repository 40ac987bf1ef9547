"""Values as text: what the command line prints and what a notebook shows as `found.summary()`."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from rich.markup import escape

from surefoot.evaluation.estimators import find_estimator
from surefoot.evaluation.headlines import describe_long_run, write_headlines
from surefoot.evaluation.values import LOGGED, PolicyValues
from surefoot.inference.intervals import describe_roughness
from surefoot.log_checks import list_warnings
from surefoot.reports.numbers import format_interval, format_number, format_value
from surefoot.reports.summaries import make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_values(found: PolicyValues, console: Console, note: str = "") -> None:
    """Sentences, then the values by every estimator, how far the logs speak about each policy, and the long run."""
    for warning in list_warnings(found.checks):
        console.print(warning, markup=False, highlight=False)
    few = describe_roughness(found.people)
    console.print(
        f"{found.people} people, {found.decision_points} usable decision points; {found.critic} critic, cross-fitted by "
        f"{found.cross_fit}. Mean {found.unit} per decision point, states as logged. {f'{few}. ' if few else ''}{note}",
        markup=False,
    )
    for sentence in write_headlines(found):
        console.print(f"- {sentence}", markup=False, highlight=False)
    for text in found.notes:
        console.print(f"look: {text}", markup=False, highlight=False)
    console.print()
    table = make_table("policy", "estimator", "value", "95 % interval", "more", "95 % interval", text=2)
    for value in found.values:
        if value.policy == LOGGED:
            table.add_row(LOGGED, "mean", format_value(value.value), format_interval(value.value), "–", "–")
            continue
        ends = "–" if isnan(value.difference.low) else format_interval(value.difference)
        estimate = (find_estimator(value.estimator).label, format_value(value.value), format_interval(value.value))
        table.add_row(escape(value.policy), *estimate, format_value(value.difference), ends)
    console.print(table)
    _print_overlap(found, console)
    _print_long_run(found, console)


def _print_overlap(found: PolicyValues, console: Console) -> None:
    actions = [f"{escape(name)} %" for name in found.action_names]
    table = make_table("policy", *actions, "effective sample", "largest ratio")
    for row in found.overlap:
        rates = [f"{100 * rate:.0f}" for rate in row.action_rates]
        size = f"{row.effective_sample_size:.0f} of {found.decision_points}"
        table.add_row(escape(row.policy), *rates, size, format_number(row.largest_ratio))
    console.print(table)
    for row in found.overlap:
        console.print(f"{row.policy}: {row.what}", markup=False, highlight=False)
    for row in found.overlap:
        if row.warning:
            console.print(f"look: {row.policy}: {row.warning}", markup=False)


def _print_long_run(found: PolicyValues, console: Console) -> None:
    if not found.long_run:
        return
    console.print()
    for row in found.long_run:
        if row.policy != "never":
            console.print(f"- {describe_long_run(row, found.unit)}", markup=False, highlight=False)
    console.print()
    table = make_table("policy", "immediate", "long run", "95 % interval", "more than never", "95 % interval")
    for row in found.long_run:
        beside = ("–", "–") if row.policy == "never" else (format_value(row.difference), format_interval(row.difference))
        immediate = format_value(found.value(row.policy).value)
        table.add_row(escape(row.policy), immediate, format_value(row.value), format_interval(row.value), *beside)
    console.print(table)
