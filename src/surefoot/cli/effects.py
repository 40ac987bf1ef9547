"""`surefoot effects`: did the prompt help, on average, and for whom?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, Logs, StudyFile, print_json, write_outputs
from surefoot.cli.option_values import number_or_text, parse_number, parse_values, split_names

if TYPE_CHECKING:
    from surefoot.study.effects_section import EffectsSection

EXAMPLES = """**Examples**

    surefoot import heartsteps-v1 suggestions.csv --out v1

    surefoot effects v1/logs.parquet --study v1/study.toml --html effects.html

    surefoot effects logs.csv --moderators home,day --controls x,home,day --at "home=1, day=0"

    surefoot effects logs.csv --lag 0 --lag 1 --future none --json
"""


@app.command(epilog=EXAMPLES)
def effects(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    estimator: Annotated[str | None, typer.Option(help="`wcls`, `emee`, `emee2` or `dcee`.")] = None,
    outcome: Annotated[str | None, typer.Option(help="A column of the logs; the reward unless given.")] = None,
    moderators: Annotated[str | None, typer.Option(help="State variables, with commas between.")] = None,
    controls: Annotated[str | None, typer.Option(help="State variables, with commas between.")] = None,
    numerator: Annotated[str | None, typer.Option(help="A number, or a column that depends on moderators only.")] = None,
    lag: Annotated[list[int] | None, typer.Option(help="Outcome so many decision points later; may be repeated.")] = None,
    future: Annotated[str | None, typer.Option(help="Treatment until then: `observed` or `none`.")] = None,
    missing_as: Annotated[str | None, typer.Option(help="What a missing outcome stands for: 0, or steps=0,x=1.")] = None,
    at: Annotated[list[str] | None, typer.Option(help='Effect at "home=1, day=0"; may be repeated.')] = None,
    html: HtmlFile = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table as CSV.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Also write the table as LaTeX (booktabs).")] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate causal excursion effects: the study's `[effects]`, changed by what is given here."""
    from surefoot.data.frames import csv_text
    from surefoot.effects.study_effects import analyse_study
    from surefoot.study import Study

    described = Study.load(study)
    given = {
        "estimator": estimator,
        "outcome": outcome,
        "moderators": moderators,
        "controls": controls,
        "numerator": numerator,
        "lags": lag,
        "future": future,
        "missing_as": missing_as,
        "at": at,
    }
    report = analyse_study(described, logs, section=_change_effects(described, given))
    source = f"{logs.name}, as described by {study.name}"
    texts = {csv: csv_text(report.to_frame()) if csv else "", latex: report.to_latex() if latex else ""}
    texts[html] = report.to_html(title=f"Effects in {logs.name}", source=source) if html else ""
    with write_outputs(texts):
        if as_json:
            print_json(report.to_dict())
        else:
            typer.echo(report.summary())


PARSERS: dict[str, Callable[[Any], Any]] = {
    "moderators": split_names,
    "controls": split_names,
    "numerator": number_or_text,
    "missing_as": lambda text: parse_values(text) if "=" in text else parse_number(text),
    "at": lambda texts: [parse_values(text) for text in texts],
}
"""How the text of an option is read; the others are taken as they are."""


def _change_effects(study: Any, given: dict[str, Any]) -> EffectsSection:
    """The study's section with what was given on the command line; `at` goes when the moderators change."""
    from pydantic import ValidationError

    from surefoot.errors import InputError
    from surefoot.study import Study

    options = {name: PARSERS.get(name, lambda value: value)(value) for name, value in given.items() if value is not None}
    section = study.effects.model_dump(exclude_defaults=True)
    if "moderators" in options:
        section.pop("at", None)
    try:
        changed = Study.model_validate({**study.model_dump(by_alias=True), "effects": {**section, **options}})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{name}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": ")) from error
    return changed.effects
