"""The application that the commands belong to."""

from __future__ import annotations

from typing import Annotated

import typer

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
