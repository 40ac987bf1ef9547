"""`surefoot keys`: API keys of the decision service."""

from __future__ import annotations

from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, open_database

keys = typer.Typer(no_args_is_help=True, help="API keys of the decision service.")
app.add_typer(keys, name="keys")


@keys.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="app, analyst or admin.")],
    label: Annotated[str, typer.Option(help="For whom or what, to recognise it later.")] = "",
    database: DatabaseUrl = None,
) -> None:
    """Make a key and print it: this is the only time that it can be read."""
    found = open_database(database)
    from surefoot.service.access.keys import create_key

    typer.echo(create_key(found, role, label))


@keys.command("list")
def list_keys(database: DatabaseUrl = None) -> None:
    """All keys, without what is secret."""
    found = open_database(database)
    from surefoot.service.access.keys import list_keys

    for key in list_keys(found):
        ended = f"revoked {key['revoked_at']:%Y-%m-%d %H:%M} UTC" if key["revoked_at"] else "valid"
        typer.echo(f"{key['prefix']}  {key['role']:<7}  {key['created_at']:%Y-%m-%d}  {ended}  {key['label']}")


@keys.command("revoke")
def revoke_key(
    prefix: Annotated[str, typer.Argument(help="As surefoot keys list shows it.")], database: DatabaseUrl = None
) -> None:
    """End a key at once."""
    found = open_database(database)
    from surefoot.service.access.keys import revoke_key

    revoke_key(found, prefix)
    typer.echo(f"revoked {prefix}")
