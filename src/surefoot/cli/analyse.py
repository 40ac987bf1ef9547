"""Analyses of logs and policies: `surefoot audit`, `explain`, `evaluate`, `effects` and `personalised`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.atomic_files import json_text
from surefoot.cli import application
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.data.locations import Location
    from surefoot.learning.methods import Method
    from surefoot.policies.policies import Policies
    from surefoot.study import Study
    from surefoot.study.trial_section import EffectsSection


@application.app.command()
def audit(
    logs: application.Logs,
    study: application.StudyFile = application.STUDY,
    html: application.HtmlFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Check what the fit removed and whether that was safe. Each check is fine, look or unsafe, with a reason."""
    loaded = application.LoadedStudy(logs, study)
    result = loaded.audit_fit(loaded.fit_method())
    title = f"Audit of {logs.name}"
    application.show_result(result, html, as_json=as_json, title=title, source=loaded.source)


@application.app.command()
def explain(
    logs: application.Logs,
    study: application.StudyFile = application.STUDY,
    html: application.HtmlFile = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the policy card as Markdown.", callback=application.check_writable)
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Compute intervals for all participants, not for 400 drawn at random.")
    ] = False,
    as_json: application.AsJson = False,
) -> None:
    """Explain the study's policy: what it does, for whom, when, and whether that agrees with the effects."""
    from surefoot.explain import explain as explain_fit
    from surefoot.explain.coefficients import OWN_PEOPLE

    loaded = application.LoadedStudy(logs, study)
    fitted = loaded.fit_method()
    with application.show_progress("explaining", "explained", pause=5.0) as progress:
        explanation = explain_fit(
            fitted,
            study=loaded.study,
            audit=loaded.audit_fit(fitted),
            progress=progress,
            most_people=None if everybody else OWN_PEOPLE,
        )
    title = f"Policy card: {logs.name}"
    card = explanation.card(title)
    application.show_result(
        explanation,
        html,
        as_json=as_json,
        title=title,
        source=loaded.source,
        texts={markdown: card.markdown()},
        more_data={"card": dict(card.sections)},
    )


@application.app.command()
def evaluate(
    logs: application.Logs,
    study: application.StudyFile = application.STUDY,
    policies: Annotated[
        str | None,
        typer.Option(help="Policies from other logs: a folder of `surefoot fit`, or a file. Default: the study's method."),
    ] = None,
    cross_fit: Annotated[
        str | None, typer.Option(help="`person` or `time`; the default follows from the study's pooling.")
    ] = None,
    critic: Annotated[str, typer.Option(help="Model of the outcome: `ridge`, `capped` or `high-breakdown`.")] = "ridge",
    without_removed: Annotated[
        bool, typer.Option("--without-removed", help="Treat outcomes that the study's robust fit removed as missing.")
    ] = False,
    long_run: Annotated[
        bool, typer.Option("--long-run", help="Also estimate the value of each policy after a long time in use.")
    ] = False,
    html: application.HtmlFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Estimate the mean outcome of a policy, compared with never, always and the policy of the logs."""
    import numpy as np

    from surefoot.data.locations import locate
    from surefoot.evaluation import evaluate as evaluate_policies
    from surefoot.log_checks import check_logs

    loaded = application.LoadedStudy(logs, study)
    described = loaded.study
    method = described.method()
    judged: dict[str, Method | Policies] = {described.method_name: method}
    if policies is not None:
        location = locate(policies)
        judged = {PurePath(location.name).stem: _load_policies(location, described)}
    trajectories = loaded.read.logs
    note = ""
    if without_removed:
        removed = loaded.fit_method().weights_ == 0
        trajectories = trajectories.with_values(outcome=np.where(removed, np.nan, trajectories.outcome))
        note = f"{int(removed.sum())} outcomes that the robust fit removed count as missing."
    values = evaluate_policies(
        trajectories,
        judged,
        cross_fit=cross_fit,
        critic=critic,
        long_run=long_run,
        unit=described.outcome_unit,
        checks=check_logs(loaded.read, described),
        clip_probabilities=described.clip_probabilities,
        collection=described.collection,
        **described.list_steps(),
    )
    title = f"Value from {logs.name}"
    source = f"{loaded.source}. {note}"
    sentences = {"sentences": values.headlines()}
    application.show_result(values, html, as_json=as_json, title=title, source=source, more_data=sentences, note=note)


def _load_policies(path: Location, study: Study) -> Policies:
    """Policies from a file, if they read the same states and actions as the study, and in the same way."""
    from surefoot.fitting import FittedStudy
    from surefoot.policies.policies import load

    # A fit's folder also lists the decision points of the training data. In it policies.parquet may be a folder.
    folder = path if path.is_dir() and path.suffix != ".parquet" else path.parent
    from_fit = folder is path or (folder / "manifest.json").is_file()
    policies = FittedStudy.load(folder).policies if from_fit else load(path)
    study.check_policies(policies, str(path))
    return policies


EFFECTS_EXAMPLES = """**Examples**

    surefoot import heartsteps-v1 suggestions.csv --out v1

    surefoot effects v1/logs.parquet --study v1/study.toml --html effects.html

    surefoot effects logs.csv --moderators home,day --controls x,home,day --at "home=1, day=0"

    surefoot effects logs.csv --formula "steps ~ prompt * (weekend + C(location))"

    surefoot effects logs.csv --lag 0 --lag 1 --future none --json

    surefoot effects logs.csv --select-moderators weekend,location,day,steps_before

    surefoot effects logs.csv --missing imputed --html effects.html
"""


@application.app.command(epilog=EFFECTS_EXAMPLES)
def effects(
    logs: application.Logs,
    study: application.StudyFile = application.STUDY,
    estimator: Annotated[str | None, typer.Option(help="`wcls`, `dr-wcls`, `emee`, `emee2`, `dcee` or `mcee`.")] = None,
    outcome: Annotated[str | None, typer.Option(help="A column of the logs; by default that of `[outcome]`.")] = None,
    formula: Annotated[
        str | None,
        typer.Option(help='Outcome, moderators and controls: "steps ~ prompt * (weekend + C(location))".'),
    ] = None,
    moderators: Annotated[
        str | None, typer.Option(help="State variables by which the effect may differ, separated by commas.")
    ] = None,
    select_moderators: Annotated[
        str | None,
        typer.Option(help="Candidates among which half of the participants choose moderators, separated by commas."),
    ] = None,
    controls: Annotated[
        str | None, typer.Option(help="State variables that explain the outcome, separated by commas.")
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help="The regressor of `dr-wcls`, `dcee` and `mcee`: `linear`, `forest` or `boosting`.")
    ] = None,
    mediator: Annotated[
        str | None, typer.Option(help="Of `mcee`: a column of the logs through which prompts may act on the outcome.")
    ] = None,
    numerator: Annotated[
        str | None, typer.Option(help="Numerator of the weights: a number, or a column that depends on moderators only.")
    ] = None,
    lag: Annotated[
        list[int] | None, typer.Option(help="Decision points between a decision and its outcome; may be repeated.")
    ] = None,
    future: Annotated[str | None, typer.Option(help="Treatment during the lag: `observed` or `none`.")] = None,
    missing_as: Annotated[str | None, typer.Option(help="Value of a missing outcome, such as 0 or steps=0,x=1.")] = None,
    missing: Annotated[
        str | None, typer.Option(help="Primary analysis of missing outcomes: `complete`, `weighted` or `imputed`.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help='Values of the moderators, such as "home=1, day=0"; may be repeated.')
    ] = None,
    errors: Annotated[
        str | None, typer.Option(help="Standard errors: `usual` or `adaptive`. Default: those that are valid for the trial.")
    ] = None,
    html: application.HtmlFile = None,
    csv: application.CsvFile = None,
    latex: application.LatexFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Estimate whether prompts helped, and for whom (causal excursion effects).

    The study's `[effects]` section describes the analysis; options replace its keys.
    """
    from surefoot.data.frames import csv_text
    from surefoot.effects.study_effects import analyse_study
    from surefoot.study import Study

    described = Study.load(study)
    options: dict[str, Any] = {"estimator": estimator, "outcome": outcome, "lags": lag, "future": future, "errors": errors}
    options |= {
        "formula": formula,
        "moderators": application.split_names(moderators),
        "select": application.split_names(select_moderators),
        "controls": application.split_names(controls),
        "numerator": numerator,
        "learner": learner,
        "missing": missing,
        "mediator": mediator,
    }
    if numerator is not None:
        with suppress(ValueError):
            options["numerator"] = float(numerator)
    if missing_as is not None:
        options["missing_as"] = (
            application.parse_values(missing_as) if "=" in missing_as else application.parse_number(missing_as)
        )
    if at is not None:
        options["at"] = [application.parse_values(text) for text in at]
    report = analyse_study(described, logs, section=_change_effects(described, options))
    texts = {csv: csv_text(report.to_frame("pyarrow")), latex: report.to_latex()}
    source = application.name_source(logs, study)
    application.show_result(report, html, as_json=as_json, title=f"Effects in {logs.name}", source=source, texts=texts)


def _change_effects(study: Study, options: dict[str, Any]) -> EffectsSection:
    """The study's section with the options in place of its keys; a formula also replaces outcome, moderators and controls,
    new moderators remove `at`, and a new estimator removes what it has no use for."""
    from pydantic import ValidationError

    from surefoot.effects.estimators import ESTIMATORS
    from surefoot.study.toml_file import list_mistakes

    values = {name: value for name, value in options.items() if value is not None}
    section = study.effects.model_dump(exclude_defaults=True)
    replaced = {
        "formula": ["outcome", "moderators", "controls", "at"],
        "moderators": ["formula", "at"],
        "controls": ["formula"],
    }
    chosen = ESTIMATORS.get(options["estimator"])
    if chosen is not None:
        uses = {"numerator": chosen.weighs, "learner": chosen.learns or chosen.distal, "mediator": bool(chosen.parts)}
        replaced["estimator"] = [key for key, used in uses.items() if not used]
    for option in replaced.keys() & values.keys():
        section = {key: value for key, value in section.items() if key not in replaced[option]}
    try:
        changed = study.model_validate({**study.model_dump(by_alias=True), "effects": {**section, **values}})
    except ValidationError as error:
        key, words, _ = next(list_mistakes(error, type(study)))
        raise InputError(f"{'.'.join(key)}: {words}".removeprefix(": ")) from error
    return changed.effects


PERSONALISED_EXAMPLES = """**Examples**

    surefoot export decisions.csv

    surefoot personalised decisions.csv --study decisions.study.toml --html personalised.html

    surefoot personalised decisions.csv --resamples 999 --out personalised    # goes on after an interruption
"""


@application.app.command("personalised", epilog=PERSONALISED_EXAMPLES)
def show_personalisation(
    logs: Annotated[Path, typer.Argument(help="The decisions of a trial, with the files that `surefoot export` writes.")],
    study: application.StudyFile = application.STUDY,
    resamples: Annotated[int, typer.Option(help="Number of resampled trials without effects.")] = 199,
    seed: Annotated[int, typer.Option(help="Seed of the resampled trials.")] = 0,
    per_day: Annotated[
        int | None, typer.Option(help="Decision points a day, if neither the study nor the times show it.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for finished resamples and the results.")] = None,
    jobs: application.Jobs = 0,
    html: application.HtmlFile = None,
    csv: application.CsvFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Test whether the algorithm of a trial learned more about each participant than chance explains.

    The trial is rerun on outcomes without the effects of prompts. With --out, the same command continues after an
    interruption.
    """
    from surefoot.data.frames import csv_text
    from surefoot.personalisation import check_personalisation

    interruption = application.explain_interruption(is_resumable=out is not None)
    with interruption, application.print_fit_warnings(), application.show_units("personalised") as progress:
        result = check_personalisation(
            study, logs, resamples=resamples, seed=seed, per_day=per_day, folder=out, jobs=jobs, progress=progress
        )
    texts: dict[Path | None, str] = {csv: csv_text(result.to_frame("pyarrow"))}
    if out is not None:
        texts[out / "personalised.json"] = json_text(result.to_dict()) + "\n"
    source = application.name_source(logs, study)
    application.show_result(result, html, as_json=as_json, source=source, texts=texts)
