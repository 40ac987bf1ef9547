"""The command line: thin. Every command parses its arguments and calls the library."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from surefoot.errors import InputError
from surefoot.version import __version__

app = typer.Typer(
    name="surefoot",
    help="Robust contextual bandits for mobile-health interventions.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"surefoot {__version__}")
        raise typer.Exit


@app.callback()
def surefoot(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Robust contextual bandits for mobile-health interventions."""


def main() -> None:
    """Run a command. What its user can mend is one line on standard error and exit code 2; Ctrl-C exits with 130."""
    try:
        app()
    except InputError as error:
        typer.echo(f"surefoot: {error}", err=True)
        sys.exit(2)


# Every module adds its commands to the app.
from surefoot.cli import audit, evaluate, explain, fit, imports, init  # noqa: E402, F401
