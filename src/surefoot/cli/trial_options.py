"""What the commands around a trial share: its study file, its database, and the extra that they need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from surefoot.service.database.databases import Database
    from surefoot.service.trial.trial import Trial

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


def need_service() -> None:
    """One line instead of a traceback where the extra is not installed."""
    from importlib.util import find_spec

    from surefoot.errors import InputError

    for module in ("fastapi", "uvicorn", "sqlalchemy", "alembic"):
        if find_spec(module) is None:
            raise InputError(f"the decision service needs {module}; install it with: pip install 'surefoot[service]'")


def open_database(url: str | None) -> Database:
    """The database of a trial, which exists; only `serve` and `restore` make one."""
    need_service()
    from surefoot.service.database import databases

    database = databases.connect(url, create=False)
    typer.echo(f"surefoot: using {database.name}", err=True)
    databases.prepare(database, create=False)
    return database


def open_trial(study: Path, url: str | None) -> Trial:
    """The trial of a study file, in a database that exists."""
    from surefoot.study import Study

    loaded = Study.load(study)
    database = open_database(url)
    database.close()
    from surefoot.service.trial import trial

    return trial.open_trial(loaded, database.url)
