"""The erasure list: what was erased, in a file beside the backups, so that restoring an old one does not bring it back."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import erasures, participants
from surefoot.service.trial.erasure import Erasure, erase_content, scrub_database

NAME = "erasures.jsonl"


def write_erasure_list(database: Database, folder: Path) -> Path:
    """Add to a folder's list what this database has erased; what is on the list stays."""
    columns = (erasures.c.participant_id, erasures.c.received_before, erasures.c.erased_at, erasures.c.reason)
    with database.autocommit() as connection:
        own = [_to_line(dict(row)) for row in connection.execute(sa.select(*columns).order_by(erasures.c.id)).mappings()]
    path = folder / NAME
    lines = list(dict.fromkeys([*_read_lines(path), *own]))
    with atomic_write(path, private=True) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
    return path


def _to_line(row: dict[str, Any]) -> str:
    return json.dumps(row, default=datetime.isoformat) + "\n"


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []


def apply_erasure_list(database: Database, path: Path, by: str) -> Erasure:
    """Erase again what the list names and the database still holds."""
    decisions = outcomes = 0
    with database.transaction() as connection:
        known = set(connection.scalars(sa.select(participants.c.id)))
        for number, line in enumerate(_read_lines(path), 1):
            whom, before, reason = _parse_line(line, f"{path}, line {number}")
            if whom is None or whom in known:
                erased = erase_content(connection, whom, before, reason=f"restored, erased before: {reason}", by=by)
                decisions, outcomes = decisions + erased.decisions, outcomes + erased.outcomes
    if decisions or outcomes:
        scrub_database(database)
    return Erasure(decisions, outcomes)


def _parse_line(line: str, where: str) -> tuple[str | None, datetime | None, str]:
    try:
        found = json.loads(line)
        before = found["received_before"]
        whom = found["participant_id"]
        # Somebody who was erased whole stays erased, also what came after the backup was made.
        return whom, None if before is None else datetime.fromisoformat(before), str(found["reason"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{where}: not an erasure; surefoot backup and surefoot erase write the list") from error
