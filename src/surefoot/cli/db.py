"""`surefoot db`: the schema of a trial's database."""

from __future__ import annotations

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, need_service

database_commands = typer.Typer(no_args_is_help=True, help="The decision service's database.")
app.add_typer(database_commands, name="db")


@database_commands.command("upgrade")
def upgrade_database(database: DatabaseUrl = None) -> None:
    """Bring the tables to the schema version that this release needs; make a backup first."""
    need_service()
    from surefoot.errors import InputError
    from surefoot.service.database import databases

    opened = databases.connect(database, create=False)
    typer.echo(f"surefoot: using {opened.name}", err=True)
    if databases.schema_version(opened) is None:
        raise InputError(f"{opened.name} holds no trial; {databases.NO_TRIAL}")
    databases.upgrade(opened)
    typer.echo(f"the database has schema version {databases.schema_version(opened)}")
