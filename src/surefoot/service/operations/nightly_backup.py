"""The nightly backup: into a folder, encrypted, the newest ones kept; a failure is an alert and is tried again each hour."""

from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.access import record_action
from surefoot.service.database.schema import staff_actions
from surefoot.service.operations.backup import ENCRYPTED, back_up, write_erasure_list
from surefoot.service.trial.alerts import count_alert
from surefoot.service.trial.trial import Trial
from surefoot.service.trial.upkeep import BACKED_UP
from surefoot.service.updates.schedule import claim_job, find_last_moment

PATTERN = "trial-????-??-??.zip*"
UNFINISHED = f".{PATTERN}"
HOUR = 3600.0
"""Another worker tries again after this many seconds, when the one before is gone."""


def run_nightly_backup(trial: Trial, at: datetime) -> Path | None:
    """Make the backup of the last night, unless it is there or another worker makes it; its file, if one was made."""
    settings = trial.settings.backup
    due = None if settings.folder is None else find_last_moment(trial, settings.at, at)
    if settings.folder is None or due is None:
        return None
    folder = Path(settings.folder)
    path = folder / f"trial-{due.date().isoformat()}.zip{ENCRYPTED if settings.encrypted else ''}"
    if path.exists():
        # Whoever withdraws or is erased after a backup stays so when it is restored.
        write_erasure_list(trial.database, folder)
        done = sa.select(staff_actions.c.id).where(staff_actions.c.action == BACKED_UP, staff_actions.c.subject == path.name)
        with trial.database.transaction() as connection:
            # The process that made it was killed before it could record that: a file with its name is whole.
            if connection.scalar(done.limit(1)) is None:
                record_action(connection, "schedule", BACKED_UP, path.name)
        return None
    if not claim_job(trial, f"backup:{due.date().isoformat()}:{at.astimezone(UTC):%Y-%m-%dT%H}", at):
        return None
    try:
        counts = back_up(trial.database, path)
        write_erasure_list(trial.database, folder)
    except Exception as error:
        # Our own errors name the folder or the passphrase; others might hold anything.
        words = str(error) if isinstance(error, InputError) else type(error).__name__
        message = f"the backup of the night of {due.date().isoformat()} failed: {words}"
        with trial.database.transaction() as connection:
            count_alert(connection, kind="backup", message=message, at=at)
        return None
    with trial.database.transaction() as connection:
        record_action(connection, "schedule", BACKED_UP, path.name, f"{counts['decisions']} decisions")
    _remove_old(folder, path, settings.keep)
    return path


def _remove_old(folder: Path, newest: Path, keep: int) -> None:
    """Remove all but the newest ones, and what killed processes left half written.

    A name after the newest one's was given by a clock that was ahead: it must not push out real backups.
    """
    backups = list_backups(folder)
    from_the_past = [path for path in backups if path.name <= newest.name]
    dated_ahead = [path for path in backups if path.name > newest.name]
    for old in [*from_the_past, *dated_ahead][keep:]:
        old.unlink()
    for unfinished in folder.glob(UNFINISHED):
        if unfinished.stat().st_mtime < newest.stat().st_mtime - HOUR:
            unfinished.unlink(missing_ok=True)


def list_backups(folder: Path) -> list[Path]:
    """The nightly backups in a folder, the newest first."""
    return sorted(folder.glob(PATTERN), key=lambda path: path.name, reverse=True) if folder.is_dir() else []
