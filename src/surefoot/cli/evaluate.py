"""`surefoot evaluate`: what a policy is worth, from logs of another."""

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
    from surefoot.data.trajectories import Trajectories
    from surefoot.evaluation import OffPolicy
    from surefoot.learning.methods import Method
    from surefoot.policies.policies import Policies
    from surefoot.reports.reward_units import RewardUnit


@app.command()
def evaluate(
    logs: Logs,
    study: StudyFile = Path("study.toml"),
    policies: Annotated[
        Path | None,
        typer.Option(help="Policies learned from other logs (.json or .parquet); else the study's method, cross-fitted."),
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
    from surefoot.evaluation import evaluate as evaluate_policies
    from surefoot.evaluation.page import render_page

    studied = LoadedStudy.of(logs, study)
    judged: dict[str, Method | Policies] = {studied.study.method_name: studied.study.method()}
    if policies is not None:
        judged = {policies.stem: _given(policies, studied.read.logs)}
    kept, note = _without_removed(studied) if without_removed else (studied.read.logs, "")
    method = studied.study.method()
    found = evaluate_policies(
        *(kept, judged),
        cross_fit=cross_fit,
        critic=critic,
        clip_probabilities=studied.study.clip_probabilities,
        long_run=long_run,
        max_gap=method.max_gap,
        day_boundary=method.day_boundary,
    )
    source = f"{studied.source}. {note}"
    title = f"Value from {logs.name}"
    with write_outputs({html: render_page(found, title=title, unit=studied.unit, source=source)} if html else {}):
        if as_json:
            print_json(found.to_dict())
        else:
            _print_values(found, studied.unit, note)


def _given(path: Path, logs: Trajectories) -> Policies:
    """Policies from a file, if they speak of the same states and actions as the study."""
    from surefoot.errors import InputError
    from surefoot.policies.policies import load

    given = load(path)
    for what, theirs, ours in (
        ("states", given.state_names, logs.state_names),
        ("actions", given.action_names, logs.action_names),
    ):
        if theirs != ours:
            raise InputError(f"{path}: its {what} are {list(theirs)}, the study's are {list(ours)}")
    return given


def _without_removed(studied: LoadedStudy) -> tuple[Trajectories, str]:
    import numpy as np

    logs, removed = studied.read.logs, studied.fitted().weights_ == 0
    note = f"{int(removed.sum())} rewards that the robust fit removed count as missing."
    return logs.with_values(reward=np.where(removed, np.nan, logs.reward)), note


def _print_values(found: OffPolicy, unit: RewardUnit, note: str) -> None:
    from math import isnan

    from rich.markup import escape

    from surefoot.evaluation import LOGGED, find_estimator
    from surefoot.evaluation.page import write_headlines
    from surefoot.inference.intervals import describe_roughness
    from surefoot.reports.numbers import format_interval, format_number, format_value

    out, few = console(), describe_roughness(found.people)
    note = f"{few}. {note}" if few else note
    out.print(
        f"{found.people} people, {found.decision_points} usable decision points; {found.critic} critic, cross-fitted by "
        f"{found.cross_fit}. Mean {unit} per decision point, states as logged. {note}",
        markup=False,
    )
    for sentence in write_headlines(found, unit):
        out.print(f"- {sentence}", markup=False, highlight=False)
    out.print()
    table = new_table("policy", "estimator", "value", "95 % interval", "more", "95 % interval", text=2)
    for value in found.values:
        if value.policy == LOGGED:
            table.add_row(LOGGED, "mean", format_value(value.value), format_interval(value.value), "–", "–")
            continue
        ends = "–" if isnan(value.difference.low) else format_interval(value.difference)
        estimate = (find_estimator(value.estimator).label, format_value(value.value), format_interval(value.value))
        table.add_row(escape(value.policy), *estimate, format_value(value.difference), ends)
    out.print(table)
    overlap = new_table("policy", "sends at", "effective sample", "largest ratio")
    for row in found.overlap:
        rate, size = f"{100 * row.send_rate:.0f} %", f"{row.effective_sample_size:.0f} of {found.decision_points}"
        overlap.add_row(escape(row.policy), rate, size, format_number(row.largest_ratio))
    out.print(overlap)
    for row in found.overlap:
        if row.warning:
            out.print(f"look: {row.policy}: {row.warning}", markup=False)
    _print_long_run(found, unit)


def _print_long_run(found: OffPolicy, unit: RewardUnit) -> None:
    from rich.markup import escape

    from surefoot.evaluation.page import long_run_headline
    from surefoot.reports.numbers import format_interval, format_value

    if not found.long_run:
        return
    out = console()
    out.print()
    for row in found.long_run:
        if row.policy != "never":
            out.print(f"- {long_run_headline(row, unit)}", markup=False, highlight=False)
    out.print()
    table = new_table("policy", "immediate", "long run", "95 % interval", "more than never", "95 % interval")
    for row in found.long_run:
        beside = ("–", "–") if row.policy == "never" else (format_value(row.difference), format_interval(row.difference))
        immediate = format_value(found.value(row.policy).value)
        table.add_row(escape(row.policy), immediate, format_value(row.value), format_interval(row.value), *beside)
    out.print(table)
