"""`surefoot demo`: every step of an analysis in a minute, on a simulated trial."""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from surefoot.atomic_files import json_text, new_folder
from surefoot.cli.application import AsJson, app, print_json
from surefoot.errors import InputError

FORMAT = "surefoot demo 1"
REHEARSE = "rehearse logs.csv --plan rehearsal.toml --jobs 1 --html rehearsal.html"
INPUTS = ("logs.csv", "study.toml", "rehearsal.toml")


class Step(NamedTuple):
    """A command, the question that it answers, and how its results are described."""

    title: str
    question: str
    command: str
    describe: Callable[[dict[str, Any]], list[str]]

    @property
    def report(self) -> str:
        """The page that the command writes; for a fit its manifest."""
        return self.command.split()[-1] if "--html" in self.command else "fitted/manifest.json"


def _describe_screen(screen: dict[str, Any]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in screen["counts"]:
        by_reason.setdefault(row["reason"], []).append(f"{row['values']:,} of {row['column']}")
    blind = "as often after a suggestion as after nothing, so removing them neither creates nor hides an effect"
    unsafe = "more often after one action than after the other: that is an effect of the prompt, not an artefact"
    return [
        f"{screen['flagged_values']:,} values cannot be trusted and count as missing from here on.",
        *(f"{reason.capitalize()}: {', '.join(columns)}." for reason, columns in by_reason.items()),
        f"They occur {blind if screen['blind_to_treatment'] else unsafe}.",
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


STEPS = tuple(
    Step(title, question, f"surefoot {command}", describe)
    for title, question, command, describe in (
        ("Screen", "Which values cannot be trusted?", "screen logs.csv --html screen.html", _describe_screen),
        ("Fit", "When should a suggestion be sent?", "fit logs.csv --out fitted --force", _describe_fit),
        ("Audit", "What did the fit remove, and was that safe?", "audit logs.csv --html audit.html", _describe_audit),
        ("Explain", "What does the policy do, and why?", "explain logs.csv --html explain.html", _list_sentences),
        ("Evaluate", "What is the policy worth?", "evaluate logs.csv --html evaluate.html", _list_sentences),
        ("Effect", "Did the suggestions help, and for whom?", "effects logs.csv --html effects.html", _list_sentences),
        ("Rehearse", "How would the next trial turn out?", REHEARSE, _describe_rehearsal),
    )
)
NEXT = (
    ("How many people does the next trial need?",
     "surefoot size --days 28 --per-day 5 --effect 0.1 --pilot logs.csv --html size.html"),
    ("For logs of your own: look at the file and write a first study.toml to edit.",
     "surefoot init logs.csv --out first.toml --force"),
    ("All commands.", "surefoot --help"),
)  # fmt: skip
"""Next commands."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Folder to make; an earlier demo in it is replaced.")] = Path("surefoot-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated trial.")] = 0,
    open_page: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page in the browser; by default where there is a screen."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a small dirty trial, then screen, fit, audit, explain, evaluate and rehearse it, in a minute.

    Makes a folder with the logs, their study.toml and every report, and one page that links them, with the commands that
    made them. It needs no file of yours.
    """
    replace = _check_folder(folder)
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


def _run_steps(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """Fill the folder; gives the content of its demo.json."""
    from pyarrow import csv

    from surefoot.datasets import demo_trial
    from surefoot.reports.render import render

    total = len(STEPS) + 1
    typer.echo(f"1 of {total}: simulate", err=True)
    csv.write_csv(demo_trial.simulate_logs(seed), folder / "logs.csv")
    (folder / "study.toml").write_text(demo_trial.study_text(), encoding="utf-8")
    (folder / "rehearsal.toml").write_text(demo_trial.plan_text(), encoding="utf-8")
    results = []
    for number, step in enumerate(STEPS, start=2):
        typer.echo(f"{number} of {total}: {step.title.lower()}", err=True)
        printed = StringIO()
        # As if it were typed in the folder.
        with chdir(folder), redirect_stdout(printed), redirect_stderr(StringIO()):
            app([*shlex.split(step.command)[1:], "--json"], standalone_mode=False)
        result = {"title": step.title, "question": step.question, "command": step.command, "report": step.report}
        results.append({**result, "found": step.describe(json.loads(printed.getvalue()))})
    inputs = {file: _hash_file(folder / file) for file in INPUTS}
    summary = {"format": FORMAT, "seed": seed, "inputs": inputs, "steps": results}
    words: dict[str, Any] = {"title": "A trial in a minute", "folder": name, "trial": demo_trial, "seed": seed}
    page = render("demo.html", **words, steps=results, following=NEXT)
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "demo.json").write_text(json_text(summary) + "\n", encoding="utf-8")
    return summary
