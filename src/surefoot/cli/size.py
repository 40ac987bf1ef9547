"""`surefoot size`: how many people, or with which power."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, HtmlFile, LoadedStudy, print_json, write_outputs
from surefoot.cli.option_values import parse_number, parse_values

if TYPE_CHECKING:
    from surefoot.sample_size import Moderator
    from surefoot.sample_size.pilot import Pilot

EXAMPLES = """**Examples**

    surefoot size --days 42 --per-day 5 --effect 0.1 --availability 0.7

    surefoot size --days 42 --per-day 5 --effect mean=0.1,initial=0,peak_day=29 --probability 0.4

    surefoot size --days 30 --per-day 3 --outcome binary --baseline 0.3 --effect 0.2 --people 40

    surefoot size --days 42 --per-day 5 --effect 0.15 --pilot logs.csv --study study.toml
"""
OverDays = Annotated[
    str,
    typer.Option(
        help="A number, numbers for every day, or mean=…,initial=…,peak_day=… of a trend; in standard deviations of the "
        "outcome, or in its own units with --pilot or --sd."
    ),
]


@app.command(epilog=EXAMPLES)
def size(
    days: Annotated[int, typer.Option(help="Days of the study.")],
    per_day: Annotated[int, typer.Option(help="Decision points on each day.")],
    effect: OverDays,
    outcome: Annotated[str, typer.Option(help="`continuous`; `binary`: effect is a log relative risk.")] = "continuous",
    probability: Annotated[str, typer.Option(help="Of treatment: a number, or numbers for every day.")] = "0.5",
    availability: Annotated[str | None, typer.Option(help="Expected share of available decision points; as effect.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Binary: probability of the outcome without treatment.")] = None,
    sd: Annotated[float | None, typer.Option(help="Continuous: standard deviation of the outcome given controls.")] = None,
    effect_sd: Annotated[float | None, typer.Option(help="How much the effect differs between people (σ_b).")] = None,
    moderator: Annotated[list[str] | None, typer.Option(help='"home: effect=0.2, sd=0.5"; may be repeated.')] = None,
    test_moderators: Annotated[bool, typer.Option("--test-moderators", help="Test the moderators alone.")] = False,
    test: Annotated[str | None, typer.Option(help="Shape that is tested: `constant`, `linear` or `quadratic`.")] = None,
    controls: Annotated[int, typer.Option(help="Coefficients of the controls, with the intercept.")] = 3,
    power: Annotated[float | None, typer.Option(help="Wanted power; 0.8 unless people are given.")] = None,
    people: Annotated[int | None, typer.Option(help="Number of people, to learn the power.")] = None,
    level: Annotated[float, typer.Option(help="Of the test.")] = 0.05,
    pilot: Annotated[Path | None, typer.Option(help="Pilot logs, which say what is not given here.")] = None,
    study: Annotated[Path, typer.Option(help="The pilot's study.")] = Path("study.toml"),
    html: HtmlFile = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table over effect sizes as CSV.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Also write the table as LaTeX (booktabs).")] = None,
    as_json: AsJson = False,
) -> None:
    """People needed for a power, or the power with so many people, and the sentence for the protocol."""
    from surefoot.sample_size.page import page
    from surefoot.sample_size.sized_trial import size_trial

    numbers = {"sd": sd, "effect_sd": effect_sd, "controls": controls, "power": power, "people": people, "level": level}
    trends = {"effect": effect, "probability": probability, "availability": availability, "baseline": baseline}
    options: dict[str, Any] = {
        **numbers,
        **{name: None if text is None else _over_days(text) for name, text in trends.items()},
        "moderators": [_moderator(text) for text in moderator] if moderator else None,
        "test_moderators": test_moderators or None,
        "test": test,
    }
    given = {name: value for name, value in options.items() if value is not None}
    trial = size_trial(outcome, days, per_day, pilot=None if pilot is None else _pilot(pilot, study, outcome), **given)
    texts = {csv: trial.to_csv() if csv else "", latex: trial.to_latex() if latex else "", html: page(trial) if html else ""}
    with write_outputs(texts):
        if as_json:
            print_json(trial.to_dict())
        else:
            typer.echo(trial.to_text())


def _pilot(logs: Path, study: Path, outcome: str) -> Pilot:
    from surefoot.sample_size.pilot import estimate_nuisance

    loaded = LoadedStudy.of(logs, study)
    return estimate_nuisance(loaded.study, loaded.read, binary=outcome == "binary")


def _over_days(text: str) -> Any:
    """`0.1`; `0.1,0.2,…` for every day; `mean=0.1,initial=0` of a trend."""
    if "=" in text:
        return parse_values(text)
    values = [parse_number(part) for part in text.split(",")]
    return values[0] if len(values) == 1 else values


def _moderator(text: str) -> Moderator:
    """`home: effect=0.2, sd=0.5`."""
    from surefoot.errors import InputError
    from surefoot.sample_size import Moderator

    name, _, numbers = text.partition(":")
    values = parse_values(numbers)
    if set(values) != {"effect", "sd"}:
        raise InputError(f"'{text}' is not a moderator; write \"home: effect=0.2, sd=0.5\"")
    return Moderator(name.strip(), **values)
