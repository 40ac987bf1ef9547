"""Seals kept outside the database: on demand, and by the service itself after every update and every hour."""

import os
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.access import record_action
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import updates
from surefoot.service.trial.alerts import count_alert
from surefoot.service.trial.trial import Trial
from surefoot.service.trial.upkeep import SEALED
from surefoot.service.trial.verification import Seal, append_seal, find_broken, make_seal, read_seals, send_seal
from surefoot.service.updates.schedule import claim_job

VARIABLE = "SUREFOOT_SEALS"
"""Names the file or the URL that gets the service's own seals."""


def find_destination(database: Database, study: str = "") -> str:
    """What the environment names; by default a file next to the SQLite database, or in the working folder.

    Of several studies of one server each has a file of its own.
    """
    name = f"{database.engine.url.database}.seals.jsonl" if database.is_sqlite else "surefoot-seals.jsonl"
    to = os.environ.get(VARIABLE) or name
    return to if not study or _is_url(to) else str(Path(to).with_name(f"{study}-{Path(to).name}"))


def _is_url(to: str) -> bool:
    return to.startswith(("http://", "https://"))


def put_seal(database: Database, to: str, by: str) -> tuple[Seal, list[Seal]]:
    """Make a seal, put it into a file or send it to a URL, and record that; also earlier seals that no longer match."""
    new = make_seal(database)
    broken: list[Seal] = []
    subject = to
    if _is_url(to):
        send_seal(new, to)
        subject = str(urlsplit(to).hostname)  # the rest of a URL may hold a secret
    else:
        path = Path(to)
        broken = find_broken(database, read_seals(path)) if path.exists() else []
        append_seal(new, path)
    with database.transaction() as connection:
        record_action(connection, by, SEALED, subject, f"block {new.position:,}")
    return new, broken


def run_due_seals(trial: Trial, to: str, at: datetime) -> Seal | None:
    """Put a seal if an hour has begun or an update has ended since the last one, unless another worker does it."""
    with trial.database.autocommit() as connection:
        ended = connection.scalar(sa.select(sa.func.max(updates.c.id)).where(updates.c.finished_at.is_not(None)))
    jobs = [f"seal:{at.astimezone(UTC):%Y-%m-%dT%H}", *([] if ended is None else [f"seal:update:{ended}"])]
    claimed = [job for job in jobs if claim_job(trial, job, at)]
    if not claimed:
        return None
    try:
        new, broken = put_seal(trial.database, to, "schedule")
    except InputError as error:
        message = f"the seal of {at:%Y-%m-%d %H:%M} UTC failed: {error}"
    else:
        if not broken:
            return new
        message = f"{len(broken)} earlier seals no longer match the ledger; run surefoot replay --seal {to}"
    with trial.database.transaction() as connection:
        count_alert(connection, kind="seal", message=message, at=at)
    return None
