"""A scratch trial in the given database, made for the qualification apart from the trial's own tables and removed again."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.service.database import databases
from surefoot.service.trial.trial import Trial, open_trial
from surefoot.study import Study


@contextmanager
def scratch_url(url: str) -> Iterator[str]:
    """The URL of an empty place beside the trial: of SQLite a file in the same folder, of PostgreSQL a schema."""
    name = f"surefoot_qualification_{secrets.token_hex(4)}"
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(str(parsed.database)).resolve().parent / f"{name}.db"
        try:
            yield f"sqlite:///{path}"
        finally:
            for file in path.parent.glob(f"{name}.db*"):
                file.unlink()
        return
    given = databases.connect(url)
    with given.engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema(name))
    try:
        options = f"-c search_path={name}"
        yield parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)
    finally:
        with given.engine.begin() as connection:
            connection.execute(sa.schema.DropSchema(name, cascade=True))
        given.close()


@contextmanager
def scratch_trial(study: Study, url: str) -> Iterator[Trial]:
    """A new trial of the study in a scratch place."""
    with scratch_url(url) as scratch:
        trial = open_trial(study, scratch)
        try:
            yield trial
        finally:
            trial.close()
