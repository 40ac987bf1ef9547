"""The explanation as text: what the command line prints and what a notebook shows as `explanation.summary()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from surefoot.explain.explained_policy import ExplainedPolicy
from surefoot.explain.policy_card import make_card
from surefoot.reports.numbers import format_interval, format_value
from surefoot.reports.summaries import make_table

if TYPE_CHECKING:
    from rich.console import Console


def print_explanation(explained: ExplainedPolicy, console: Console) -> None:
    """The card, and all coefficients as a table."""
    card = make_card(explained)
    if card.verdict:
        console.print(f"[bold]Audit of the fit: {card.verdict}[/]")
        for reason in card.reasons:
            console.print(Padding(Text(reason), (0, 0, 0, 2)))
    for heading, sentences in card.sections:
        console.print(f"[bold]{escape(heading)}[/]")
        for sentence in sentences:
            console.print(Padding(Text(sentence), (0, 0, 0, 2)))
    own = explained.coefficients.rows[0].people_above is not None
    about = ": mean over people; > 0, < 0: people whose own interval lies there" if own else ""
    console.print(f"\n[bold]All coefficients[/]{about}")
    table = make_table("part", "action", "feature", "value", "95 % interval", *(("> 0", "< 0") if own else ()), text=3)
    for row in explained.coefficients.rows:
        counts = (str(row.people_above), str(row.people_below)) if own else ()
        names = (row.part, escape(row.action), escape(row.feature))
        table.add_row(*names, format_value(row.interval), format_interval(row.interval), *counts)
    console.print(table)
