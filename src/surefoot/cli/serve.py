"""`surefoot serve`, `surefoot keys` and `surefoot db`: running the decision service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.application import app

if TYPE_CHECKING:
    from surefoot.service.database.databases import Database

StudyFile = Annotated[Path, typer.Option("--study", help="The study, with a [trial] section.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="SUREFOOT_DATABASE",
        show_envvar=True,
        help="sqlite:///trial.db or postgresql://user@host/trial; by default surefoot.db in this folder.",
    ),
]
STUDY = Path("study.toml")

keys = typer.Typer(no_args_is_help=True, help="API keys of the decision service.")
database_commands = typer.Typer(no_args_is_help=True, help="The decision service's database.")
app.add_typer(keys, name="keys")
app.add_typer(database_commands, name="db")


def need_service() -> None:
    """One line instead of a traceback where the extra is not installed."""
    from importlib.util import find_spec

    from surefoot.errors import InputError

    for module in ("fastapi", "uvicorn", "sqlalchemy", "alembic"):
        if find_spec(module) is None:
            raise InputError(f"the decision service needs {module}; install it with: pip install 'surefoot[service]'")


def open_database(url: str | None) -> Database:
    """The database of a trial, with its tables."""
    need_service()
    from surefoot.service.database import databases

    found = databases.connect(url)
    databases.prepare(found)
    return found


@app.command()
def serve(
    study: StudyFile = STUDY,
    database: DatabaseUrl = None,
    host: Annotated[str, typer.Option(help="Address to listen at; keep it local behind a reverse proxy.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer.")] = 1,
) -> None:
    """Run a trial: randomise, record, learn each night."""
    need_service()
    from surefoot.service.database import clock
    from surefoot.service.database.databases import DEFAULT_URL
    from surefoot.service.server import listen
    from surefoot.service.trial.trial import open_service
    from surefoot.study import Study

    url = database or DEFAULT_URL
    if clock.simulated() is not None:
        typer.echo(f"surefoot: {clock.VARIABLE} sets the clock: this is a simulation, not a trial", err=True)
    # Opened once here: mistakes are one line, and the tables exist before several workers start.
    open_service(Study.load(study), url).close()
    os.environ["SUREFOOT_STUDY"], os.environ["SUREFOOT_DATABASE"] = str(study.resolve()), url
    listen("surefoot.service.app:from_environment", host, port, workers)


@keys.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="app, analyst or admin.")],
    label: Annotated[str, typer.Option(help="For whom or what, to recognise it later.")] = "",
    database: DatabaseUrl = None,
) -> None:
    """Make a key and print it: this is the only time that it can be read."""
    found = open_database(database)
    from surefoot.service.access.keys import create

    typer.echo(create(found, role, label))


@keys.command("list")
def list_keys(database: DatabaseUrl = None) -> None:
    """All keys, without what is secret."""
    found = open_database(database)
    from surefoot.service.access.keys import listed

    for key in listed(found):
        ended = f"revoked {key['revoked_at']:%Y-%m-%d %H:%M} UTC" if key["revoked_at"] else "valid"
        typer.echo(f"{key['prefix']}  {key['role']:<7}  {key['created_at']:%Y-%m-%d}  {ended}  {key['label']}")


@keys.command("revoke")
def revoke_key(
    prefix: Annotated[str, typer.Argument(help="As surefoot keys list shows it.")], database: DatabaseUrl = None
) -> None:
    """End a key at once."""
    found = open_database(database)
    from surefoot.service.access.keys import revoke

    revoke(found, prefix)
    typer.echo(f"revoked {prefix}")


@database_commands.command("upgrade")
def upgrade_database(database: DatabaseUrl = None) -> None:
    """Bring the tables to the form that this version needs; make a backup first."""
    need_service()
    from surefoot.service.database import databases

    found = databases.connect(database)
    databases.upgrade(found)
    typer.echo(f"the database has form {databases.revision(found)}")
