"""The command line: thin. Every command parses its arguments and calls the library."""

import gc
import sys

# Collecting garbage during the imports would take a tenth of the time until the command answers.
gc.disable()

import typer  # noqa: E402

# Importing a module adds its commands to the application.
from surefoot.cli import analyse, demo, doctor, files, link, operate, plan, serve  # noqa: E402, F401
from surefoot.cli.application import app  # noqa: E402
from surefoot.errors import InputError  # noqa: E402

gc.freeze()
gc.enable()


def main() -> None:
    """Run a command. A mistake of the user is one line on standard error and exit code 2; Ctrl-C exits with 130."""
    try:
        app()
    except InputError as error:
        typer.echo(f"surefoot: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        # A full disk or a lost drive is no fault of the program.
        file = f"{error.filename}: " if error.filename else ""
        typer.echo(f"surefoot: {file}{error.strerror or error}", err=True)
        sys.exit(1)
