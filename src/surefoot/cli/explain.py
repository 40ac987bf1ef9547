"""`surefoot explain`: a policy in words, numbers and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import (
    AsJson,
    HtmlFile,
    LoadedStudy,
    Logs,
    StudyFile,
    console,
    new_table,
    print_json,
    write_outputs,
)

if TYPE_CHECKING:
    from surefoot.explain import Explanation
    from surefoot.explain.policy_card import Card


@app.command()
def explain(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    html: HtmlFile = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the policy card as Markdown.")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain the study's policy: coefficients with intervals, what carries it, how it answers, whom it treats when."""
    from surefoot.audit import audit
    from surefoot.explain import explain as explain_fit
    from surefoot.explain.page import render_page
    from surefoot.explain.policy_card import make_card

    studied = LoadedStudy.of(logs, study)
    fitted, described = studied.fitted(), studied.study
    scaling = {
        name: (variable.scaling.centre, variable.scaling.scale)
        for name, variable in described.state.items()
        if variable.scaling is not None
    }
    found = explain_fit(fitted, limited=described.clip_probabilities, scaling=scaling)
    verdict = audit(fitted, raw_reward=studied.read.raw_reward, implausible=studied.read.implausible).verdict
    limits = (described.probability_limits.minimum, described.probability_limits.maximum)
    sheet = make_card(
        found,
        title=f"Policy card: {logs.name}",
        method=described.method_name,
        limits=limits,
        descriptions=described.descriptions,
        transform=described.reward.transform,
        verdict=verdict,
    )
    texts: dict[Path | None, str] = {markdown: sheet.markdown()} if markdown else {}
    if html:
        texts[html] = render_page(found, sheet, source=studied.source)
    with write_outputs(texts):
        if as_json:
            print_json(found.to_dict())
        else:
            _print_explanation(found, sheet)


def _print_explanation(found: Explanation, sheet: Card) -> None:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    from surefoot.reports.numbers import format_interval, format_number, format_value

    out = console()
    for heading, sentences in sheet.sections:
        out.print(f"[bold]{escape(heading)}[/]")
        for sentence in sentences:
            out.print(Padding(Text(sentence), (0, 0, 0, 2)))
    per_participant = not found.fitted.pooled_
    out.print(
        "\n[bold]Coefficients[/]"
        + (": mean over people; > 0, < 0: people whose own interval lies there" if per_participant else "")
    )
    more = ("> 0", "< 0") if per_participant else ()
    table = new_table("part", "action", "feature", "value", "95 % interval", *more, text=3)
    for row in found.coefficients.rows:
        counts = (str(row.people_above), str(row.people_below)) if per_participant else ()
        names = (row.part, escape(row.action), escape(row.feature))
        table.add_row(*names, format_value(row.interval), format_interval(row.interval), *counts)
    out.print(table)
    out.print("[bold]How it answers[/], from the 5 % to the 95 % point of each state variable")
    answers = new_table("state variable", "from", "to", "probability of sending")
    for curve in found.curves:
        first, last = (f"{100 * (1 - curve.probability[place, 0]):.0f} %" for place in (0, -1))
        ends = (format_number(float(curve.grid[0])), format_number(float(curve.grid[-1])))
        answers.add_row(escape(curve.variable), *ends, f"{first} → {last}")
    out.print(answers)
