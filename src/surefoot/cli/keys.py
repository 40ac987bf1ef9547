"""`surefoot keys`: API keys of the decision service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from surefoot.cli.application import app
from surefoot.cli.trial_options import DatabaseUrl, open_database

keys = typer.Typer(no_args_is_help=True, help="API keys of the decision service.")
app.add_typer(keys, name="keys")


@keys.command("create")
def create_key(
    role: Annotated[str, typer.Option(help="app, analyst, coordinator, monitor or admin.")],
    label: Annotated[str, typer.Option(help="For whom or what, to recognise it later.")] = "",
    days: Annotated[float | None, typer.Option(help="How long it is good; by default the study's key_days.")] = None,
    database: DatabaseUrl = None,
) -> None:
    """Make a key and print it: this is the only time that it can be read."""
    opened = open_database(database)
    from surefoot.service.access.keys import create_key
    from surefoot.service.access.staff_trail import name_operator
    from surefoot.service.trial.trial import read_newest_settings

    with opened.autocommit() as connection:
        good_for = read_newest_settings(connection).key_days if days is None else days
    typer.echo(create_key(opened, role, label, days=good_for, by=name_operator()))


@keys.command("list")
def list_keys(database: DatabaseUrl = None) -> None:
    """All keys, without what is secret."""
    opened = open_database(database)
    from surefoot.service.access.keys import list_keys

    for key in list_keys(opened):
        typer.echo(f"{key['prefix']}  {key['role']:<11}  {key['created_at']:%Y-%m-%d}  {_describe_end(key)}  {key['label']}")


def _describe_end(key: dict[str, Any]) -> str:
    from surefoot.service.database.clock import now

    if key["revoked_at"]:
        return f"revoked {key['revoked_at']:%Y-%m-%d %H:%M} UTC"
    if key["expires_at"] is None:
        return "valid"
    return f"{'expired' if key['expires_at'] <= now() else 'valid until'} {key['expires_at']:%Y-%m-%d}"


@keys.command("revoke")
def revoke_key(
    prefix: Annotated[str, typer.Argument(help="As surefoot keys list shows it.")], database: DatabaseUrl = None
) -> None:
    """End a key: within a second no worker takes it any more."""
    opened = open_database(database)
    from surefoot.service.access.keys import revoke_key
    from surefoot.service.access.staff_trail import name_operator

    revoke_key(opened, prefix, by=name_operator())
    typer.echo(f"revoked {prefix}")
