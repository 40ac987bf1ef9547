"""The application, and what its commands share: options, reading a study with its logs, progress and output."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from surefoot.atomic_files import check_output, json_text, write_texts
from surefoot.errors import FitWarning, InputError
from surefoot.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from surefoot.audit import Audit
    from surefoot.learning.methods import Method
    from surefoot.numerics.parallel import Progress
    from surefoot.reports.summaries import ShownResult
    from surefoot.study.draft import Draft

PANELS = {
    panel: tuple(commands.split())
    for panel, commands in {
        "Look at data": "link init screen import",
        "Learn": "fit audit explain evaluate prior",
        "Plan": "size rehearse",
        "Analyse": "effects personalised",
        "Run a trial": "serve update keys policies alerts replay seal export report erase backup restore db qualify",
        "Research": "reproduce demo",
        "This installation": "doctor",
    }.items()
}
"""Every command by the panel of `surefoot --help` that lists it, in the order of a trial."""


class CommandsByPanel(typer.core.TyperGroup):
    """The commands in the order of their panels."""

    def list_commands(self, ctx: Any) -> list[str]:
        panels = {name: panel for panel, names in PANELS.items() for name in names}
        for name, panel in panels.items():
            command: Any = self.commands[name]
            command.rich_help_panel = panel
        return list(panels)


app = typer.Typer(
    name="surefoot",
    cls=CommandsByPanel,
    help="Robust contextual bandits for mobile-health interventions.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"surefoot {__version__}")
        raise typer.Exit


@app.callback()
def surefoot(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Robust contextual bandits for mobile-health interventions."""


def check_writable(path: Path | None) -> Path | None:
    """Refuse an output that cannot be written, before anything is computed for it."""
    if path is not None:
        check_output(path)
    return path


LOG_FILES = "Logged decision points: .csv, .tsv, .parquet, .xlsx or a folder of .parquet"
Logs = Annotated[Path, typer.Argument(help=f"{LOG_FILES}.")]
StudyFile = Annotated[
    Path, typer.Option(help="The study file, which `surefoot init` drafts: what the columns mean and what to fit.")
]
STUDY = Path("study.toml")
HtmlFile = Annotated[Path | None, typer.Option(help="Also write an HTML page with plots.", callback=check_writable)]
CsvFile = Annotated[Path | None, typer.Option(help="Also write the table as CSV.", callback=check_writable)]
LatexFile = Annotated[Path | None, typer.Option(help="Also write the table as LaTeX (booktabs).", callback=check_writable)]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON on standard output.")]
Jobs = Annotated[int, typer.Option(help="Number of processes; 0 means one per core. Results do not depend on it.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler. Without it, Dask starts workers on this machine.")
]


def refuse_existing(out: Path, *, force: bool) -> None:
    """Refuse to replace a file, or one that cannot be written."""
    if out.is_file() and not force:
        raise InputError(f"{out}: is already there; choose another name with --out or replace it with --force")
    check_output(out)


def write_draft(draft: Draft, out: Path, *commands: str) -> None:
    """Write a first file, and print its warnings and the next commands."""
    for message in draft.warnings:
        print_warning(message)
    write_texts({out: draft.text})
    typer.echo(f"Written: {out}\nRead it and correct the guesses. Then:")
    for command in commands:
        typer.echo(f"  surefoot {command}")


class LoadedStudy:
    """A study and its logs."""

    def __init__(self, logs: Path, study: Path) -> None:
        from surefoot.study import Study

        self.study = Study.load(study)
        self.read = self.study.read(logs)
        self.source = name_source(logs, study)
        for message in [] if self.read.screen is None else self.read.screen.warnings():
            print_warning(message)

    def fit_method(self) -> Method:
        """The study's method, fitted to the logs."""
        with print_fit_warnings():
            return self.study.method().fit(self.read.logs)

    def audit_fit(self, fitted: Method) -> Audit:
        from surefoot.audit import audit

        read = self.read
        return audit(
            fitted, raw_outcome=read.raw_outcome, implausible=read.implausible, study=self.study, screen=read.screen
        )


def name_source(logs: Path, study: Path) -> str:
    """The files of a result, as its page names them."""
    return f"{logs.name}, as described by {study.name}"


def print_warning(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"surefoot: warning: {message}", err=True)


@contextmanager
def print_fit_warnings(*, most: int | None = None, manifest: str = "") -> Iterator[None]:
    """Print each warning of a fit as a line on standard error; `manifest` is the file that holds all of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        yield
    messages = list(dict.fromkeys(str(warning.message) for warning in caught))
    for message in messages[:most]:
        print_warning(message)
    if most is not None and len(messages) > most:
        typer.echo(f"surefoot: {len(messages) - most} more warnings in {manifest}", err=True)


@contextmanager
def explain_interruption(*, is_resumable: bool = True) -> Iterator[None]:
    """Say after Ctrl-C whether finished parts are kept."""
    try:
        yield
    except KeyboardInterrupt:
        message = "surefoot: interrupted. Finished parts are kept; run the same command to continue."
        typer.echo(message if is_resumable else "Interrupted. With --out finished parts are kept.", err=True)
        raise


@contextmanager
def show_progress(doing: str, done: str, *, pause: float = 0.0) -> Iterator[Progress]:
    """Progress in people: a bar on a terminal, elsewhere lines on standard error, at least `pause` seconds apart."""
    if sys.stderr.isatty():
        with _show_bar(doing, "people") as update:
            yield update
        return
    last = time.monotonic()

    def print_line(people: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= pause:
            typer.echo(f"{done} {people:,} of {total:,} people", err=True)
            last = time.monotonic()

    yield print_line


@contextmanager
def show_units(command: str) -> Iterator[Progress]:
    """Progress in units of work: a bar on a terminal, elsewhere a line on standard error every ten seconds."""
    if sys.stderr.isatty():
        with _show_bar(command, "units") as update:
            yield update
        return
    start = last = time.monotonic()
    units = None
    finished = earlier = 0

    def print_line(done: int, total: int) -> None:
        nonlocal units, finished, earlier, last
        finished = done
        now = time.monotonic()
        if units is None:
            units = total
            earlier = done
            typer.echo(f"{command}: {total} units of work" + (f", {done} of them done before" if done else ""), err=True)
        elif now - last >= 10 and done < total:
            left = (now - start) / (done - earlier) * (total - done)
            typer.echo(f"{command}: {done} of {total}, about {left:.0f} s left", err=True)
            last = now

    try:
        yield print_line
    finally:
        if units is not None:
            typer.echo(f"{command}: {finished} of {units} units done", err=True)


@contextmanager
def _show_bar(doing: str, unit: str) -> Iterator[Progress]:
    from rich import progress
    from rich.console import Console

    columns = (progress.TextColumn(doing), progress.BarColumn(), progress.MofNCompleteColumn(), progress.TextColumn(unit))
    console = Console(stderr=True)
    with progress.Progress(*columns, progress.TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def make_console() -> Console:
    """Standard output; 80 columns where it is not a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=80)


@contextmanager
def write_outputs(texts: Mapping[Path | None, str]) -> Iterator[None]:
    """Write all files or none, and name them on standard error after the block has printed its results."""
    wanted = {path: text for path, text in texts.items() if path is not None}
    write_texts(wanted)
    yield
    for path in wanted:
        typer.echo(f"Written: {path}", err=True)


def print_json(data: Any) -> None:
    """Strict JSON on standard output."""
    typer.echo(json_text(data))


def show_result(
    result: ShownResult,
    html: Path | None,
    *,
    as_json: bool,
    title: str | None = None,
    source: str,
    texts: Mapping[Path | None, str] | None = None,
    more_data: Mapping[str, Any] | None = None,
    note: str = "",
) -> None:
    """Write the page and the texts, then print the result as JSON, with further data, or its summary and the note."""
    page = result.to_html(title=title, source=source) if html else ""
    with write_outputs({**(texts or {}), html: page}):
        if as_json:
            print_json({**result.to_dict(), **(more_data or {})})
        else:
            result.print_summary(make_console())
            if note:
                typer.echo(note)


def split_names(text: str | None) -> list[str] | None:
    """Names with commas between; None where no text was given.

    >>> split_names("home, day")
    ['home', 'day']
    """
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def parse_number(text: str) -> float:
    """A number, or an error that shows the text."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"'{text}' is not a number") from None


def parse_values(text: str) -> dict[str, float]:
    """Assignments with commas between; a name may contain `=`.

    >>> parse_values("location=home=1, day=0")
    {'location=home': 1.0, 'day': 0.0}
    """
    values: dict[str, float] = {}
    for assignment in split_names(text) or ():
        name, sign, value = assignment.rpartition("=")
        if not sign or not name.strip():
            raise InputError(f"'{assignment}' is not an assignment; write for example \"home=1, day=0\"")
        values[name.strip()] = parse_number(value)
    return values
