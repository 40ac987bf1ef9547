"""`surefoot demo`: every step of an analysis in a minute, on a simulated trial."""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from surefoot.atomic_files import json_text, new_folder
from surefoot.cli.application import AsJson, app, print_json
from surefoot.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "surefoot demo 1"
REHEARSE = "rehearse logs.csv --plan rehearsal.toml --jobs 1 --html rehearsal.html"
INPUTS = ("logs.csv", "study.toml", "rehearsal.toml")


class Estimate(NamedTuple):
    """A difference of the logarithm of the outcome, with its 95 % interval."""

    value: float
    low: float
    high: float


class Answer(NamedTuple):
    """A number of the front page: how much more of the outcome one choice gives than another."""

    title: str
    """Of the step that gives it."""
    question: str
    counted: str
    """The outcomes that count."""
    change: Estimate

    @property
    def percent(self) -> Estimate:
        """The change in per cent of the outcome."""
        from surefoot.reports.numbers import log_to_percent

        return Estimate(*map(log_to_percent, self.change))


class Step(NamedTuple):
    """A command, the question that it answers, and how its results are described."""

    title: str
    question: str
    command: str
    describe: Callable[[dict[str, Any]], list[str]]
    list_answers: Callable[[dict[str, Any]], list[Answer]] = lambda _: []

    @property
    def report(self) -> str:
        """The page that the command writes; for a fit its manifest."""
        return self.command.split()[-1] if "--html" in self.command else "fitted/manifest.json"


def _describe_screen(screen: dict[str, Any]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in screen["counts"]:
        by_reason.setdefault(row["reason"], []).append(f"{row['values']:,} of {row['column']}")
    by_action = {
        "fine": "They are about as common after a suggestion as after nothing: no sign that removing them biases an effect.",
        "look": "Some are more common after one action than after the other. The page shows which.",
        "unsafe": "They are more common after one action than after the other, so removing them can bias an effect.",
    }
    return [
        f"{screen['flagged_values']:,} values cannot be trusted and count as missing from here on.",
        *(f"{reason.capitalize()}: {', '.join(columns)}." for reason, columns in by_reason.items()),
        by_action[screen["verdict"]],
    ]


def _describe_fit(manifest: dict[str, Any]) -> list[str]:
    used = manifest["used"]
    removed = manifest["removed"]
    return [
        f"{manifest['method']['name']} learned from {used:,} complete decision points of {manifest['people']} people.",
        f"Its critic removed {removed:,} of them ({100 * removed / used:.1f} %) that lie too far from the others.",
    ]


def _describe_audit(audit: dict[str, Any]) -> list[str]:
    concerns = [check for check in audit["checks"] if check["verdict"] != "fine"]
    number = len(audit["checks"])
    fine = f"{number - len(concerns)} of {number} checks are fine; the verdict is “{audit['verdict']}”."
    return [fine, *(f"{check['name'].capitalize()}: {check['reason']}." for check in concerns)]


def _describe_rehearsal(rehearsal: dict[str, Any]) -> list[str]:
    trials = f"From {rehearsal['trials']} simulated trials of each kind, for a first look"
    return [
        f"{trials}: {rehearsal['recommendation']['text']}.",
        *(f"{advice['environment'].capitalize()}: {advice['text']}." for advice in rehearsal["by_environment"]),
    ]


def _list_sentences(result: dict[str, Any]) -> list[str]:
    """Of the policy card, or of an analysis."""
    return list(result["card"]["What it does"] if "card" in result else result["sentences"])


NOW = "the next three hours"
WHOLE_TRIAL = "a whole trial"
ONE_SUGGESTION = "One suggestion instead of nothing"
ALWAYS = "Always instead of never"
POLICY = "The policy instead of the coin"
COMPARED = {"never", "always", "coin", "as logged"}
"""What the policy is compared with."""


def _answer_effect(effects: dict[str, Any]) -> list[Answer]:
    row = effects["effects"][0]
    return [Answer("Effect", ONE_SUGGESTION, NOW, Estimate(row["estimate"], row["low"], row["high"]))]


def _answer_evaluation(evaluation: dict[str, Any]) -> list[Answer]:
    contrasts = {(row["policy"], row["other"]): row["difference"] for row in evaluation["contrasts"]}
    values = {row["policy"]: row["difference"] for row in evaluation["values"] if row["estimator"] == "doubly robust"}
    (policy,) = values.keys() - COMPARED
    differences = {ALWAYS: contrasts["always", "never"], POLICY: values[policy]}
    return [Answer("Evaluate", question, NOW, _read_estimate(row)) for question, row in differences.items()]


def _answer_rehearsal(rehearsal: dict[str, Any]) -> list[Answer]:
    # "No effect" is rehearsed beside the effect of the pilot.
    candidates = {row["candidate"]: row for row in rehearsal["answers"] if row["environment"] != "no effect"}
    (policy,) = candidates.keys() - COMPARED
    differences = {ALWAYS: candidates["always"]["over_never"], POLICY: candidates[policy]["over_coin"]}
    return [Answer("Rehearse", question, WHOLE_TRIAL, _read_estimate(row)) for question, row in differences.items()]


def _read_estimate(row: dict[str, float]) -> Estimate:
    return Estimate(row["value"], row["low"], row["high"])


STEPS = tuple(
    Step(title, question, f"surefoot {command}", *functions)
    for title, question, command, *functions in (
        ("Screen", "Which values cannot be trusted?", "screen logs.csv --html screen.html", _describe_screen),
        ("Fit", "When should a suggestion be sent?", "fit logs.csv --out fitted --force", _describe_fit),
        ("Audit", "What did the fit remove, and was that safe?", "audit logs.csv --html audit.html", _describe_audit),
        ("Explain", "What does the policy do, and why?", "explain logs.csv --html explain.html", _list_sentences),
        ("Evaluate", "What is the policy worth?", "evaluate logs.csv --html evaluate.html", _list_sentences,
         _answer_evaluation),
        ("Effect", "Did the suggestions help, and for whom?", "effects logs.csv --html effects.html", _list_sentences,
         _answer_effect),
        ("Rehearse", "How would the next trial turn out?", REHEARSE, _describe_rehearsal, _answer_rehearsal),
    )
)  # fmt: skip
NEXT = (
    ("Which items of a journal's checklist do these files answer?",
     "surefoot report --checklist consort-ai --logs logs.csv --fit fitted"),
    ("How many people does the next trial need?",
     "surefoot size --days 28 --per-day 5 --effect 0.1 --pilot logs.csv --html size.html"),
    ("For logs of your own: look at the file and write a first study.toml to edit.",
     "surefoot init logs.csv --out first.toml --force"),
    ("All commands.", "surefoot --help"),
)  # fmt: skip
"""Next commands."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Folder to write; an earlier demo in it is replaced.")] = Path(
        "surefoot-demo"
    ),
    raw: Annotated[
        bool, typer.Option("--raw", help="Write raw files for `surefoot link` instead: decisions, minute steps, a survey.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated trial.")] = 0,
    open_page: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the front page in a browser. Default: if there is a screen."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a small trial with dirty data and analyse it with every command, in a minute.

    Writes a folder with the logs, their study.toml and every report. Its front page links the reports and shows the commands
    that made them.
    """
    replace = _check_folder(folder)
    if raw:
        _write_raw(folder, seed, replace=replace, as_json=as_json)
        return
    with new_folder(folder, replace=replace) as made:
        summary = _run_steps(made, folder.name, seed)
    page = (folder / "index.html").resolve()
    if as_json:
        print_json({"folder": str(folder), "page": str(page), **summary})
    else:
        for step in summary["steps"]:
            typer.echo(f"{step['title']}: {step['found'][0]}")
        typer.echo(f"Page: {page}")
    # A text browser in the terminal would only be in the way.
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    has_screen = sys.platform in ("darwin", "win32") or bool(display)
    if (has_screen and not as_json) if open_page is None else open_page:
        import webbrowser

        webbrowser.open(page.as_uri())


def _write_raw(folder: Path, seed: int, *, replace: bool, as_json: bool) -> None:
    from surefoot.datasets.demo_raw import simulate_raw

    texts = simulate_raw(seed)
    with new_folder(folder, replace=replace) as made:
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
        inputs = {name: _hash_file(made / name) for name in texts}
        (made / "demo.json").write_text(
            json_text({"format": FORMAT, "seed": seed, "inputs": inputs}) + "\n", encoding="utf-8"
        )
    if as_json:
        print_json({"folder": str(folder), "files": list(texts)})
        return
    typer.echo(f"Written: {', '.join(f'{folder}/{name}' for name in texts)}\nNext:\n  cd {folder}")
    typer.echo("  surefoot link init decisions.csv --stream steps.csv --stream survey.csv")


def _check_folder(folder: Path) -> bool:
    """Whether an earlier demo is to be replaced; anything else, or a demo whose files were edited, is refused."""
    if not (folder.exists() or folder.is_symlink()):
        return False
    remedy = "choose another with --folder"
    try:
        summary = json.loads((folder / "demo.json").read_text(encoding="utf-8"))
        is_demo = summary["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        is_demo = False
    if not is_demo:
        raise InputError(f"{folder}: is already there and is not a demo, so it stays as it is; {remedy}")
    for name, digest in summary["inputs"].items():
        if _hash_file(folder / name) != digest:
            raise InputError(f"{folder / name}: was changed since the demo wrote it, so the folder stays as it is; {remedy}")
    return True


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def draw_answers(answers: Sequence[Answer]) -> "Figure":
    """The answers with their intervals in per cent, those that count the same outcomes in one colour."""
    from surefoot.reports.figures import BLUE, INK, LEGEND, ORANGE, interval_bars, label_axes, new_figure

    figure, axes = new_figure(width=5.6, height=1.5 + 0.42 * len(answers))
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--")
    for counted, colour in ((NOW, BLUE), (WHOLE_TRIAL, ORANGE)):
        heights = [number for number, answer in enumerate(answers) if answer.counted == counted]
        values, ends = interval_bars([answers[number].percent for number in heights])
        style = {"color": colour, "markersize": 5, "linewidth": 1.6, "capsize": 3}
        axes.errorbar(values, heights, xerr=ends, fmt="o", label=f"counts {counted}", **style)
    axes.set_yticks(range(len(answers)), [f"{answer.question}\n({answer.title})" for answer in answers])
    axes.set_ylim(len(answers) - 0.5, -0.5)
    label_axes(axes, x="difference in steps (%)", y="")
    figure.legend(loc="outside lower center", ncols=2, **LEGEND)
    return figure


def _run_steps(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """Fill the folder; gives the content of its demo.json."""
    from pyarrow import csv

    from surefoot.datasets import demo_trial
    from surefoot.reports.render import inline_svg, render
    from surefoot.reports.summaries import to_plain

    total = len(STEPS) + 1
    typer.echo(f"1 of {total}: simulate", err=True)
    csv.write_csv(demo_trial.simulate_logs(seed), folder / "logs.csv")
    (folder / "study.toml").write_text(demo_trial.study_text(), encoding="utf-8")
    (folder / "rehearsal.toml").write_text(demo_trial.plan_text(), encoding="utf-8")
    results = []
    answers = []
    for number, step in enumerate(STEPS, start=2):
        typer.echo(f"{number} of {total}: {step.title.lower()}", err=True)
        printed = StringIO()
        # As if it were typed in the folder.
        with chdir(folder), redirect_stdout(printed), redirect_stderr(StringIO()):
            app([*shlex.split(step.command)[1:], "--json"], standalone_mode=False)
        printed_result = json.loads(printed.getvalue())
        result = {"title": step.title, "question": step.question, "command": step.command, "report": step.report}
        results.append({**result, "found": step.describe(printed_result)})
        answers += step.list_answers(printed_result)
    link_pages(folder)
    inputs = {file: _hash_file(folder / file) for file in INPUTS}
    answers.sort(key=lambda answer: (ONE_SUGGESTION, ALWAYS, POLICY).index(answer.question))
    summary = {"format": FORMAT, "seed": seed, "inputs": inputs, "steps": results, "answers": to_plain(answers)}
    reports = {step.title: step.report for step in STEPS}
    chart = inline_svg(draw_answers(answers), "Answers of the pages, in per cent of the steps") if answers else ""
    words: dict[str, Any] = {"title": "A trial in a minute", "folder": name, "trial": demo_trial, "seed": seed}
    page = render("demo.html", **words, steps=results, answers=answers, chart=chart, reports=reports, following=NEXT)
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "demo.json").write_text(json_text(summary) + "\n", encoding="utf-8")
    return summary


def link_pages(folder: Path) -> None:
    """Where a page names the command of another page, link that page."""
    pages = {step.command.split()[1]: step.report for step in STEPS if step.report.endswith(".html")}
    for report in pages.values():
        text = (folder / report).read_text(encoding="utf-8")
        for command, target in pages.items():
            name = f"<code>surefoot {command}</code>"
            link = f'<a href="{target}">{name}</a>'
            text = text.replace(link, name).replace(name, link)
        (folder / report).write_text(text, encoding="utf-8")
