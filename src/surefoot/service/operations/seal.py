"""Seals: the ledger's last hash, kept outside the database, where whoever can change the database cannot reach it."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.evidence import EVIDENCE
from surefoot.service.database.schema import ledger, studies

FORMAT = "surefoot-seal-1"
URL_SECONDS = 10


@dataclass(frozen=True)
class Seal:
    """The state of the ledger at one moment."""

    sealed_at: datetime
    position: int
    hash: str
    study: str
    """SHA-256 of the study's text."""
    counts: dict[str, int]
    """Rows of each kind."""

    @property
    def words(self) -> str:
        return f"{self.sealed_at:%Y-%m-%d %H:%M} UTC"

    def to_line(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self), "sealed_at": self.sealed_at.isoformat()}) + "\n"


def make_seal(database: Database) -> Seal:
    """The seal of what is there now."""
    with database.snapshot() as connection:
        last = connection.execute(sa.select(ledger).order_by(ledger.c.position.desc()).limit(1)).first()
        if last is None:
            raise InputError("there is nothing to seal yet: the trial has not begun")
        study = connection.scalar(sa.select(studies.c.id).order_by(studies.c.first_used.desc()).limit(1))
        counts = {
            kind: int(connection.scalar(sa.select(sa.func.count()).select_from(evidence.select().subquery())) or 0)
            for kind, evidence in EVIDENCE.items()
        }
    return Seal(now(), last.position, bytes(last.hash).hex(), str(study), counts)


def read_seals(path: Path) -> list[Seal]:
    """The seals of a file, one JSON object a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as seals ({type(error).__name__})") from error
    seals = [_parse_seal(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not seals:
        raise InputError(f"{path}: holds no seal")
    return seals


def _parse_seal(line: str, where: str) -> Seal:
    try:
        fields: dict[str, Any] = json.loads(line)
        if fields.pop("format") != FORMAT:
            raise ValueError
        moment = datetime.fromisoformat(fields.pop("sealed_at"))
        seal = Seal(
            moment, int(fields.pop("position")), str(fields.pop("hash")), str(fields.pop("study")), fields.pop("counts")
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: not a seal; surefoot seal writes them") from error
    if moment.tzinfo is None:
        raise InputError(f"{where}: the seal's time has no zone")
    return seal


def find_broken(database: Database, seals: Sequence[Seal]) -> list[Seal]:
    """Earlier seals that the ledger no longer fits: something before them was rewritten or removed."""
    wanted = sa.select(ledger.c.position, ledger.c.hash).where(ledger.c.position.in_({seal.position for seal in seals}))
    with database.autocommit() as connection:
        hashes = {row.position: bytes(row.hash).hex() for row in connection.execute(wanted)}
    return [seal for seal in seals if hashes.get(seal.position) != seal.hash]


def append_seal(seal: Seal, path: Path) -> None:
    """Add a line to a file, on the disk when this returns; nothing in the file is ever changed."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    with os.fdopen(handle, "wb") as file:
        file.write(seal.to_line().encode())
        file.flush()
        os.fsync(file.fileno())


def send_seal(seal: Seal, url: str) -> None:
    """POST a seal as JSON; anything but a 2xx is an error."""
    body = seal.to_line().encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - http and https only, by the caller
    try:
        with urllib.request.urlopen(request, timeout=URL_SECONDS):  # noqa: S310
            return
    except (urllib.error.URLError, OSError, ValueError) as error:
        why = f"status {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        raise InputError(f"the seal could not be sent ({why}); nothing outside has it yet") from error
