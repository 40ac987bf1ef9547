"""`surefoot demo`: the whole way once, on a simulated trial, in a minute."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, print_json

FORMAT = "surefoot demo 1"
INPUTS = ("logs.csv", "study.toml", "rehearsal.toml")


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
    """The whole way in a minute: simulate a small dirty trial, screen it, fit, audit, explain, evaluate, and more.

    Makes a folder with the logs, their study.toml and every report, and one page that links them, with the commands that
    made them. It needs no file of yours.
    """
    from surefoot.atomic_files import new_folder

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
    wanted = _has_screen() and not as_json if open_page is None else open_page
    if wanted:
        import webbrowser

        webbrowser.open(page.as_uri())


def _check_folder(folder: Path) -> bool:
    """Whether there is an earlier demo to be replaced; anything else, or one that was worked in, is refused."""
    import json

    from surefoot.errors import InputError

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
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _run_steps(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """Fill the folder; gives what its demo.json says."""
    from pyarrow import csv

    from surefoot.atomic_files import json_text
    from surefoot.cli.demo_steps import NEXT, STEPS
    from surefoot.datasets.demo_trial import describe_trial, plan_text, simulate_logs, study_text
    from surefoot.reports.render import render

    with _show_steps(len(STEPS) + 1) as show:
        show("Simulate")
        csv.write_csv(simulate_logs(seed), folder / "logs.csv")
        (folder / "study.toml").write_text(study_text(), encoding="utf-8")
        (folder / "rehearsal.toml").write_text(plan_text(), encoding="utf-8")
        done = []
        for step in STEPS:
            show(step.title)
            findings = step.run(folder)
            done.append({"title": step.title, "question": step.question, "command": step.command,
                         "report": step.report, "found": findings})  # fmt: skip
    inputs = {file: _hash_file(folder / file) for file in INPUTS}
    summary = {"format": FORMAT, "seed": seed, "inputs": inputs, "steps": done}
    page = render("demo.html", title="A trial in a minute", folder=name, trial=describe_trial(), seed=seed,
                  steps=done, following=NEXT)  # fmt: skip
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "demo.json").write_text(json_text(summary) + "\n", encoding="utf-8")
    return summary


@contextmanager
def _show_steps(total: int) -> Iterator[Callable[[str], None]]:
    """How far it is, on standard error: a bar on a terminal, elsewhere a line for each step."""
    if not sys.stderr.isatty():
        lines = iter(range(1, total + 1))
        yield lambda title: typer.echo(f"{next(lines)} of {total}: {title.lower()}", err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    quiet = {"transient": True, "redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=Console(file=sys.stderr), **quiet) as bar:  # type: ignore[arg-type]
        task = bar.add_task("", total=total, completed=-1)
        yield lambda title: bar.update(task, description=f"{title:<10}", advance=1)


def _has_screen() -> bool:
    """Whether a browser can show itself; a text browser in the terminal would only be in the way."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
