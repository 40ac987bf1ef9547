"""`surefoot evaluate`: the value of a policy, estimated from logs of another."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import (
    AsJson,
    HtmlFile,
    LoadedStudy,
    Logs,
    StudyFile,
    console,
    print_json,
    write_outputs,
)

if TYPE_CHECKING:
    from surefoot.data.locations import Location
    from surefoot.data.trajectories import Trajectories
    from surefoot.learning.methods import Method
    from surefoot.policies.policies import Policies
    from surefoot.study import Study


@app.command()
def evaluate(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    policies: Annotated[
        str | None,
        typer.Option(
            help="Policies from other logs: a fit's folder or a file, path or URL; else the study's method, cross-fitted."
        ),
    ] = None,
    cross_fit: Annotated[
        str | None, typer.Option(help="`person` or `time`; by default as the study's pooling asks.")
    ] = None,
    critic: Annotated[str, typer.Option(help="Model of the reward: `ridge`, `capped` or `high-breakdown`.")] = "ridge",
    without_removed: Annotated[
        bool, typer.Option("--without-removed", help="Count rewards that the study's robust fit removed as missing.")
    ] = False,
    long_run: Annotated[
        bool, typer.Option("--long-run", help="Also what policies are worth once they have been in force for long.")
    ] = False,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the value of a policy beside never, always and what was logged, with intervals over people."""
    from surefoot.data.locations import locate
    from surefoot.evaluation import evaluate as evaluate_policies
    from surefoot.log_checks import check_logs

    studied = LoadedStudy.of(logs, study)
    judged: dict[str, Method | Policies] = {studied.study.method_name: studied.study.method()}
    if policies is not None:
        location = locate(policies)
        judged = {PurePath(location.name).stem: _load_policies(location, studied.study)}
    logs_judged, note = _without_removed(studied) if without_removed else (studied.read.logs, "")
    values = evaluate_policies(
        logs_judged,
        judged,
        cross_fit=cross_fit,
        critic=critic,
        long_run=long_run,
        unit=studied.unit,
        checks=check_logs(studied.read, studied.study),
        **_describe(studied.study),
    )
    source = f"{studied.source}. {note}"
    title = f"Value from {logs.name}"
    with write_outputs({html: values.to_html(title=title, source=source)} if html else {}):
        if as_json:
            print_json({**values.to_dict(), "sentences": values.headlines()})
        else:
            values.print_summary(console(), note)


def _describe(study: Study) -> dict[str, Any]:
    """What the study says about limits, the policy that made the logs, and which decision points follow each other."""
    method = study.method()
    return {
        "clip_probabilities": study.clip_probabilities,
        "collection": study.collection,
        "max_gap": method.max_gap,
        "day_boundary": method.day_boundary,
    }


def _load_policies(path: Location, study: Study) -> Policies:
    """Policies from a file, if they read the same states and actions as the study, and in the same way."""
    from surefoot.fitting import FittedStudy
    from surefoot.policies.policies import load
    from surefoot.study.policy_reading import check_names, check_policies

    # A fit's folder also says whose decision points it was learned from. In it policies.parquet may be a folder.
    folder = path if path.is_dir() and path.suffix != ".parquet" else path.parent
    from_fit = folder is path or (folder / "manifest.json").is_file()
    given = FittedStudy.load(folder).policies if from_fit else load(path)
    # Policies that were saved from Python know no study; their names are all there is to compare.
    check = check_names if given.made_for is None else check_policies
    check(study, given, str(path))
    return given


def _without_removed(studied: LoadedStudy) -> tuple[Trajectories, str]:
    import numpy as np

    logs = studied.read.logs
    removed = studied.fit_method().weights_ == 0
    note = f"{int(removed.sum())} rewards that the robust fit removed count as missing."
    return logs.with_values(reward=np.where(removed, np.nan, logs.reward)), note
