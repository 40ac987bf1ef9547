"""The command line: thin. Every command parses its arguments and calls the library."""

from __future__ import annotations

import gc
import sys

# What is imported stays. Looking for garbage meanwhile would take a tenth of the time until the command answers.
gc.disable()

import typer  # noqa: E402

# Importing a command's module adds the command to the application.
from surefoot.cli import (  # noqa: E402
    alerts,  # noqa: F401
    audit,  # noqa: F401
    backup,  # noqa: F401
    db,  # noqa: F401
    demo,  # noqa: F401
    effects,  # noqa: F401
    erase,  # noqa: F401
    evaluate,  # noqa: F401
    explain,  # noqa: F401
    export,  # noqa: F401
    fit,  # noqa: F401
    import_data,  # noqa: F401
    init,  # noqa: F401
    keys,  # noqa: F401
    policies,  # noqa: F401
    prior,  # noqa: F401
    qualify,  # noqa: F401
    rehearse,  # noqa: F401
    replay,  # noqa: F401
    reproduce,  # noqa: F401
    screen,  # noqa: F401
    seal,  # noqa: F401
    serve,  # noqa: F401
    size,  # noqa: F401
    update,  # noqa: F401
)
from surefoot.cli.application import app  # noqa: E402
from surefoot.errors import InputError  # noqa: E402

gc.freeze()
gc.enable()


def main() -> None:
    """Run a command. What the user can mend is one line on standard error and exit code 2; Ctrl-C exits with 130."""
    try:
        app()
    except InputError as error:
        typer.echo(f"surefoot: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        # A full disk, a drive that went away: nothing that our code did.
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"surefoot: {where}{error.strerror or error}", err=True)
        sys.exit(1)
