"""Planning a study and reproducing the paper: `surefoot size`, `rehearse` and `reproduce`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli import application
from surefoot.errors import InputError, require_known

QUICK_REPLICATES = 3

SIZE_EXAMPLES = """**Examples**

    surefoot size --days 42 --per-day 5 --effect 0.1 --availability 0.7

    surefoot size --days 42 --per-day 5 --effect mean=0.1,initial=0,peak_day=29 --probability 0.4

    surefoot size --days 30 --per-day 3 --outcome binary --baseline 0.3 --effect 0.2 --people 40

    surefoot size --days 42 --per-day 5 --effect 0.15 --pilot logs.csv --study study.toml

    surefoot size --days 42 --per-day 5 --arm "walk: effect=0.1, probability=0.3" --arm "rest: effect=0.05, probability=0.3"
"""
OverDays = Annotated[
    str | None,
    typer.Option(
        help="A number, a number for each day, or a trend mean=…,initial=…,peak_day=…. Unit: standard deviations of the "
        "outcome; with --pilot or --sd the outcome's own unit."
    ),
]


@application.app.command(epilog=SIZE_EXAMPLES)
def size(
    days: Annotated[int, typer.Option(help="Days of the study.")],
    per_day: Annotated[int, typer.Option(help="Decision points on each day.")],
    effect: OverDays = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            help='One of several treatments: "walk: effect=0.1, probability=0.3"; repeated, in place of --effect. Numbers '
            "for each day have blanks between."
        ),
    ] = None,
    compare: Annotated[str, typer.Option(help="With --arm: test against `nothing`, or against `each other`.")] = "nothing",
    outcome: Annotated[
        str, typer.Option(help="`continuous`, or `binary`, where the effect is a log relative risk.")
    ] = "continuous",
    probability: Annotated[
        str | None, typer.Option(help="Probability of sending: a number, or a number for each day. Default: 0.5.")
    ] = None,
    availability: Annotated[
        str | None, typer.Option(help="Expected share of available decision points, in the form of --effect.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Binary outcome: its probability if nothing is sent.")] = None,
    sd: Annotated[float | None, typer.Option(help="Continuous outcome: its standard deviation given the controls.")] = None,
    effect_sd: Annotated[float | None, typer.Option(help="Standard deviation of the effect between people (σ_b).")] = None,
    moderator: Annotated[
        list[str] | None, typer.Option(help='A moderator, such as "home: effect=0.2, sd=0.5"; may be repeated.')
    ] = None,
    test_moderators: Annotated[bool, typer.Option("--test-moderators", help="Test only the moderators.")] = False,
    test: Annotated[
        str | None, typer.Option(help="Shape of the tested effect over days: `constant`, `linear` or `quadratic`.")
    ] = None,
    controls: Annotated[int, typer.Option(help="Number of coefficients of the controls, including the intercept.")] = 3,
    power: Annotated[float | None, typer.Option(help="Required power. Default: 0.8, unless --people is given.")] = None,
    people: Annotated[int | None, typer.Option(help="Number of participants, to compute the power.")] = None,
    level: Annotated[float, typer.Option(help="Significance level of the test.")] = 0.05,
    pilot: Annotated[
        Path | None, typer.Option(help="Pilot logs, which give the values that are not given as options.")
    ] = None,
    study: Annotated[Path, typer.Option(help="The study file of the pilot.")] = application.STUDY,
    html: application.HtmlFile = None,
    csv: application.CsvFile = None,
    latex: application.LatexFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Compute how many participants a trial needs, or its power, with sentences for the protocol."""
    from surefoot.data.frames import csv_text
    from surefoot.sample_size import Moderator, SampleSize, estimate_nuisance, several_arms, size_trial

    numbers = {"sd": sd, "effect_sd": effect_sd, "controls": controls, "power": power, "people": people, "level": level}
    trends = {"effect": effect, "probability": probability, "availability": availability, "baseline": baseline}
    example = "walk: effect=0.1, probability=0.3"
    arms = dict(_parse_named(text, "treatment", ("effect", "probability"), example) for text in arm or ())
    named = [_parse_named(text, "moderator", ("effect", "sd"), "home: effect=0.2, sd=0.5") for text in moderator or ()]
    moderators = [Moderator(name, *map(application.parse_number, values)) for name, values in named]
    options: dict[str, Any] = {
        **numbers,
        **{name: None if text is None else _parse_trend(text) for name, text in trends.items()},
        "moderators": moderators or None,
        "test_moderators": test_moderators or None,
        "test": test,
    }
    given = {name: value for name, value in options.items() if value is not None}
    trial: SampleSize
    if arms:
        single = ("effect", "probability", "effect_sd", "moderators", "test_moderators")
        refused = [name for name in single if name in given]
        if refused or pilot is not None:
            raise InputError(f"several treatments are sized without {', '.join([*refused, 'a pilot'])}; leave it out")
        if (outcome == "binary") != ("baseline" in given):
            raise InputError("several treatments with a binary outcome need --outcome binary and --baseline; give both")
        # Numbers for every day have blanks between.
        effects = {name: _parse_trend(",".join(effect.split())) for name, (effect, _) in arms.items()}
        chances = {name: _parse_trend(",".join(chance.split())) for name, (_, chance) in arms.items()}
        trial = several_arms(days, per_day, effects=effects, probabilities=chances, compare=compare, **given)
    else:
        nuisance = None
        if pilot is not None:
            loaded = application.LoadedStudy(pilot, study)
            nuisance = estimate_nuisance(loaded.study, loaded.read, binary=outcome == "binary")
        trial = size_trial(outcome, days, per_day, pilot=nuisance, **given)
    texts = {csv: csv_text(trial.to_frame("pyarrow")), latex: trial.to_latex(), html: trial.to_html() if html else ""}
    with application.write_outputs(texts):
        if as_json:
            application.print_json(trial.to_dict())
        else:
            typer.echo(trial.summary())


def _parse_trend(text: str) -> Any:
    """`0.1`; `0.1,0.2,…` for each day; `mean=0.1,initial=0` of a trend."""
    if "=" in text:
        return application.parse_values(text)
    values = [application.parse_number(number) for number in text.split(",")]
    return values[0] if len(values) == 1 else values


def _parse_named(text: str, noun: str, keys: Sequence[str], example: str) -> tuple[str, list[str]]:
    """The name, and the values of the keys in their order, of a text such as the example."""
    name, _, settings = text.partition(":")
    values: dict[str, str] = {}
    for setting in settings.split(","):
        key, _, value = setting.partition("=")
        values[key.strip()] = value
    if set(values) != set(keys):
        raise InputError(f"'{text}' is not a {noun}; write \"{example}\"")
    return name.strip(), [values[key] for key in keys]


REHEARSE_EXAMPLES = """**Examples**

    surefoot rehearse pilot.csv --html rehearsal.html

    surefoot rehearse pilot.csv --plan rehearsal.toml --trials 400 --out rehearsal

    surefoot rehearse --plan rehearsal.toml --json    # without a pilot: from the study's ranges

    surefoot rehearse --score rehearsal decisions.csv    # after the trial: was it as rehearsed?
"""


@application.app.command(epilog=REHEARSE_EXAMPLES)
def rehearse(
    pilot: Annotated[Path | None, typer.Argument(help="Logs of a pilot. Without them, the study's ranges are used.")] = None,
    study: application.StudyFile = application.STUDY,
    plan: Annotated[
        Path | None, typer.Option(help="Plan of the rehearsal: design, candidates, environments (docs/rehearsal.md).")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Number of simulated trials in each environment, instead of the plan's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results. Without it, nothing is written.")] = None,
    jobs: application.Jobs = 0,
    engine: Annotated[str, typer.Option(help="`processes` on this machine, or `dask` (a cluster).")] = "processes",
    scheduler: application.Scheduler = None,
    score: Annotated[
        Path | None, typer.Option(help="Folder of a rehearsal, to compare with the export of the trial.")
    ] = None,
    html: application.HtmlFile = None,
    as_json: application.AsJson = False,
) -> None:
    """Simulate the whole trial with several policies, and report which is safely better than a coin.

    By default this is a first look of about a minute. With --out, the same command continues after an interruption. With
    more --trials, it adds to the finished ones.
    """
    from surefoot.rehearsal import rehearse, score_rehearsal

    if score is not None:
        if pilot is None:
            raise InputError(
                f"--score {score} needs the trial's decisions; write surefoot rehearse --score {score} decisions.csv"
            )
        scored = score_rehearsal(score, pilot, study)
        application.show_result(scored, html, as_json=as_json, source=application.name_source(pilot, study))
        return
    typer.echo("rehearse: reading the pilot and fitting its people and effects", err=True)
    options: dict[str, Any] = {"trials": trials, "folder": out, "jobs": jobs, "engine": engine, "scheduler": scheduler}
    interruption = application.explain_interruption(is_resumable=out is not None)
    with interruption, application.print_fit_warnings(), application.show_units("rehearse") as progress:
        rehearsal = rehearse(pilot, study, plan, progress=progress, **options)
    if out is not None:
        rehearsal.save(out)
    source = application.name_source(pilot or Path("no pilot"), study) + (
        f", planned by {plan.name}" if plan is not None else ""
    )
    application.show_result(rehearsal, html, as_json=as_json, source=source)
    if out is not None:
        typer.echo(f"Written: {out}/ (answers.json, table.md, manifest.json)", err=True)


REPRODUCE_EXAMPLES = """Examples:

`surefoot reproduce --quick` all four experiments, 3 replicates

`surefoot reproduce s2 s4 --replicates 50 --out sweeps` two of them, more precisely

`surefoot reproduce s5` 200 people × 5 seeds: the error of every critic with up to a third of the data wrong

`surefoot reproduce s6` 100 people × 20 studies: unworn, stuck and miscoded values, with and without the screen

`surefoot reproduce s7` 20 replicates: outcomes of policies in the long run, and differences between people

`surefoot reproduce --json | jq '.claims[] | {name, verdict}'` the verdicts alone"""


@application.app.command(epilog=REPRODUCE_EXAMPLES)
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help="Any of s1 s2 s3 s4 (the paper's; by default all four), s5, s6 and s7 (beyond the paper)."),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Number of repetitions with different seeds, at least 2.")] = 20,
    quick: Annotated[bool, typer.Option("--quick", help=f"{QUICK_REPLICATES} replicates instead.")] = False,
    participants: Annotated[int, typer.Option(help="People in a simulated study.")] = 50,
    decision_points: Annotated[int, typer.Option(help="Decision points of each participant.")] = 210,
    steps: Annotated[int, typer.Option(help="Decision points for which a learned policy is run.")] = 5000,
    keep: Annotated[int, typer.Option(help="Number of decision points at the end of that run that are averaged.")] = 4000,
    ratio: Annotated[float, typer.Option(help="ψ, share of decision points with an outlier, if it is not varied.")] = 0.04,
    strength: Annotated[float, typer.Option(help="ν, strength of the outliers, if it is not varied.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    jobs: application.Jobs = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON and nothing else.")] = False,
) -> None:
    """Run the paper's four experiments and judge its claims, or run S5, S6 and S7, which go beyond the paper.

    Writes runs, tables, figures, a summary and a report to the folder. After an interruption, the same command continues.
    """
    from surefoot.experiments import coefficient_errors, long_run
    from surefoot.experiments.engine import run_experiment
    from surefoot.experiments.paper import EXPERIMENTS, Settings
    from surefoot.experiments.paper_report import run_paper
    from surefoot.numerics.parallel import count_processes

    processes = count_processes(jobs)
    further = {"s5": (coefficient_errors.S5,), "s6": (coefficient_errors.S6,), "s7": (long_run.S7, long_run.S7_PEOPLE)}
    known = (*EXPERIMENTS, *further)
    for name in experiments or ():
        require_known("experiment", name, known)
    # In the paper's order whatever the order of the arguments: the files are then the same.
    wanted = tuple(dict.fromkeys(sorted(experiments or EXPERIMENTS)))
    summary: dict[str, Any] = {}
    paper = Settings(
        experiments=tuple(name for name in wanted if name in EXPERIMENTS),
        replicates=QUICK_REPLICATES if quick else replicates,
        participants=participants,
        decision_points=decision_points,
        steps=steps,
        keep=keep,
        ratio=ratio,
        strength=strength,
        seed=seed,
    )
    if paper.experiments:
        paper.check()
        with application.show_units("reproduce") as progress:
            summary = run_paper(paper, out, jobs=processes, progress=progress)
    titles = {}
    for experiment in (experiment for name in wanted for experiment in further.get(name, ())):
        with application.show_units("reproduce") as progress:
            results = run_experiment(experiment, seed, out, quick=quick, jobs=processes, progress=progress)
        summary[experiment.name] = results
        titles[experiment.name] = experiment.title
    if as_json:
        application.print_json(summary)
    else:
        _print_summary(summary, titles, out)


def _print_summary(summary: dict[str, Any], titles: dict[str, str], out: Path) -> None:
    from surefoot.reports.numbers import format_number
    from surefoot.reports.summaries import make_table

    console = application.make_console()
    if "claims" in summary:
        colours = {"holds": "green", "holds in part": "yellow", "does not hold": "red"}
        table = make_table("claim", "verdict", text=2)
        for claim in summary["claims"]:
            table.add_row(claim["claim"], f"[{colours[claim['verdict']]}]{claim['verdict']}[/]")
        console.print(table)
        if summary["caution"]:
            console.print(summary["caution"], style="yellow", highlight=False)
        for line in summary["filters_above_the_robust_form"]:
            console.print(f"A filter wins: {line}", style="dim")
        console.print(f"Report: {out / 'report.html'}", highlight=False, soft_wrap=True)
    for name, title in titles.items():
        table = make_table("", "data", "result", "limit", text=2)
        for row in summary[name]["limits"]:
            limit = "–" if row["limit"] is None else f"{'≤' if row['at_most'] else '≥'} {row['limit']:g}"
            style = "red" if row["held"] is False else None
            table.add_row(row["measure"], row["data"], format_number(row["value"]), limit, style=style)
        console.print(title, highlight=False)
        console.print(table)
        console.print(f"Table: {out / name}.md", highlight=False, soft_wrap=True)
