"""Backup and restore: the whole trial in one file, which any database of ours can be restored from.

A file whose name ends with `.age` is encrypted by a passphrase in the format of age (age-encryption.org), which other tools
read too. What was erased after a backup was made stands in a list next to the backups, as do participants who withdrew and
keys that were revoked. A restore ends it again in the transaction that brings the rows back, so that erased content never
returns, not even for a moment. What the schedule erased
because it was old is a question: the clock may have been wrong.
"""

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.service.access import end_key, record_action
from surefoot.service.database import databases
from surefoot.service.database.clock import Instant, now
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import erasures, keys, metadata, participant_events, participants
from surefoot.service.operations.encrypted_files import encrypt_file, is_encrypted, open_encrypted
from surefoot.service.trial.participants import WITHDRAWN, Erasure, erase_content, scrub_database, withdraw_participant
from surefoot.service.trial.trial import read_newest_settings
from surefoot.version import __version__

FORMAT = "surefoot-backup-1"
BATCH = 1000
ERASURE_LIST = "erasures.jsonl"
ALEMBIC = "alembic_version"
"""The table of the schema version, which is in the manifest."""
PASSPHRASE = "SUREFOOT_BACKUP_PASSPHRASE"  # noqa: S105 - the name of a variable
SHORTEST = 12
ENCRYPTED = ".age"
Expired = Literal["erase", "keep"]


def _make_raw_table(table: sa.Table) -> sa.Table:
    """A table as the database holds it: moments stay microseconds."""
    types = {column.name: sa.BigInteger() if isinstance(column.type, Instant) else column.type for column in table.c}
    keys = table.primary_key.columns.keys()
    columns = [sa.Column(name, kind, primary_key=name in keys, autoincrement=False) for name, kind in types.items()]
    return sa.Table(table.name, sa.MetaData(), *columns)


def read_passphrase() -> str:
    """The passphrase of encrypted backups."""
    passphrase = os.environ.get(PASSPHRASE, "")
    if len(passphrase) < SHORTEST:
        raise InputError(f"encrypted backups need a passphrase of {SHORTEST} characters or more; set {PASSPHRASE}")
    return passphrase


def back_up(database: Database, path: Path) -> dict[str, int]:
    """Write all tables as they are at one moment, while the service goes on; rows of each table.

    The file holds the study's secret: only its owner may read it. The tables are those of the database, also where a
    release before this one made them.
    """
    passphrase = read_passphrase() if path.suffix == ENCRYPTED else None
    with atomic_write(path, private=True) as temporary:
        if passphrase is None:
            return _write_archive(database, temporary)
        with encrypt_file(temporary, passphrase) as stream:
            return _write_archive(database, stream)


def _write_archive(database: Database, target: Any) -> dict[str, int]:
    """Into a file or a stream."""
    counts: dict[str, int] = {}
    hashes = {}
    revision = databases.schema_version(database)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive, database.snapshot(unlimited=True) as connection:
        stored = sa.MetaData()
        stored.reflect(connection)
        for table in stored.sorted_tables:
            if table.name == ALEMBIC:
                continue
            digest = hashlib.sha256()
            counts[table.name] = 0
            ordered = sa.select(table).order_by(*table.primary_key.columns)
            with (
                connection.execution_options(yield_per=BATCH).execute(ordered) as rows,
                archive.open(f"{table.name}.jsonl", "w", force_zip64=True) as file,
            ):
                for row in rows.mappings():
                    values = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
                    line = json.dumps(values, allow_nan=False).encode() + b"\n"
                    file.write(line)
                    digest.update(line)
                    counts[table.name] += 1
            hashes[table.name] = digest.hexdigest()
        manifest = {"format": FORMAT, "surefoot": __version__, "revision": revision, "rows": counts, "sha256": hashes}
        archive.writestr("manifest.json", json.dumps(manifest, indent=2))
    return counts


def _open_archive(path: Path) -> zipfile.ZipFile:
    """A backup for reading, whether it is encrypted or not."""
    return zipfile.ZipFile(open_encrypted(path, read_passphrase()) if is_encrypted(path) else path)


def write_erasure_list(database: Database, folder: Path) -> Path:
    """Add to a folder's list what this database has ended for good: content, participations, keys. What is on it stays."""
    withdrawn = participant_events.c.kind == WITHDRAWN
    queries = (
        sa.select(erasures.c.participant_id, erasures.c.received_before, erasures.c.erased_at, erasures.c.reason),
        sa.select(participant_events.c.participant_id.label("withdrawn"), participant_events.c.reason).where(withdrawn),
        sa.select(keys.c.prefix.label("revoked_key")).where(keys.c.revoked_at.is_not(None)),
    )
    with database.snapshot() as connection:
        rows = [row for query in queries for row in connection.execute(query).mappings()]
    path = folder / ERASURE_LIST
    before = _read_lines(path)
    lines = list(dict.fromkeys([*before, *(json.dumps(dict(row), default=datetime.isoformat) + "\n" for row in rows)]))
    if lines != before or not path.exists():
        with atomic_write(path, private=True) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
    return path


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []


@dataclass(frozen=True)
class Restoration:
    """What a restore brought back, and what it erased again."""

    rows: dict[str, int]
    """By table, as they were backed up."""
    erased: Erasure
    """Content that was erased after the backup was made, or that the study keeps no longer."""
    erasure_list: Path | None
    """The list that was applied; None where there is none next to the backup."""


def restore(path: Path, database: Database, *, by: str, expired: Expired | None = None) -> Restoration:
    """Fill an empty database from a backup and erase again what was erased since, whole or not at all.

    Content that the schedule erased since, or that is older than the study's `keep_days`, is erased again or kept as
    `expired` says; where it says nothing and there is such content, nothing is restored.
    """
    listed = path.parent / ERASURE_LIST
    try:
        with _open_archive(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if manifest.get("format") != FORMAT:
                raise InputError(f"{path}: not a backup of this kind")
            if manifest["revision"] != databases.newest_schema_version():
                raise InputError(
                    f"{path}: made with schema version {manifest['revision']}, "
                    f"this release needs {databases.newest_schema_version()}; "
                    f"restore it with surefoot {manifest['surefoot']} and then run surefoot db upgrade"
                )
            databases.prepare(database)
            with database.transaction() as connection:
                databases.lift_time_limit(connection)
                for table in metadata.sorted_tables:
                    if connection.scalar(sa.select(sa.func.count()).select_from(table)):
                        raise InputError(f"the database has rows in '{table.name}' already; restore into an empty one")
                counts = {}
                for table in metadata.sorted_tables:
                    counts[table.name], digest = _fill_table(archive, connection, table)
                    if digest != manifest["sha256"][table.name]:
                        raise InputError(f"{path}: table '{table.name}' is not what was backed up; take another backup")
                record_action(connection, by, "restored", path.name, f"{counts['decisions']} decisions")
                erased = _erase_again(connection, listed, expired, by)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as a backup ({type(error).__name__})") from error
    if erased.decisions or erased.outcomes:
        scrub_database(database)
    return Restoration(counts, erased, listed if listed.exists() else None)


def _fill_table(archive: zipfile.ZipFile, connection: sa.Connection, table: sa.Table) -> tuple[int, str]:
    """Number of rows that were inserted, and their hash."""
    digest = hashlib.sha256()
    count = 0
    with archive.open(f"{table.name}.jsonl") as file:
        while lines := list(islice(file, BATCH)):
            digest.update(b"".join(lines))
            connection.execute(sa.insert(_make_raw_table(table)), [_parse_row(line, table) for line in lines])
            count += len(lines)
    if connection.dialect.name == "postgresql" and "id" in table.c and isinstance(table.c.id.type, sa.BigInteger):
        # PostgreSQL numbers new rows after the last one that was copied.
        last = sa.select(sa.func.max(table.c.id)).scalar_subquery()
        sequence = sa.func.pg_get_serial_sequence(table.name, "id")
        connection.execute(sa.select(sa.func.setval(sequence, sa.func.coalesce(last, 1), last.is_not(None))))
    return count, digest.hexdigest()


def _parse_row(line: bytes, table: sa.Table) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line)
    for column in table.c:
        # The salt of content that was erased is null.
        if isinstance(column.type, sa.LargeBinary) and row[column.name] is not None:
            row[column.name] = bytes.fromhex(row[column.name])
    return row


def _erase_again(connection: sa.Connection, listed: Path, expired: Expired | None, by: str) -> Erasure:
    """Erase and end what the list names, and erase what has expired; somebody who was erased has left as well."""
    known = set(connection.scalars(sa.select(participants.c.id)))
    erased = []
    keep_days = read_newest_settings(connection).keep_days
    cuts = [] if keep_days is None else [now() - timedelta(days=keep_days)]
    for number, line in enumerate(_read_lines(listed), 1):
        try:
            erasure = json.loads(line)
            if "revoked_key" in erasure:
                end_key(connection, erasure["revoked_key"], by=by)
                continue
            if "withdrawn" in erasure:
                if erasure["withdrawn"] in known:
                    reason = f"restored, withdrew before: {erasure['reason']}"
                    withdraw_participant(connection, erasure["withdrawn"], reason=reason, by=by)
                continue
            participant_id = erasure["participant_id"]
            # Somebody who was erased whole stays erased, also what came after the backup was made.
            before = erasure["received_before"] and datetime.fromisoformat(erasure["received_before"])
            reason = f"restored, erased before: {erasure['reason']}"
        except (ValueError, KeyError, TypeError) as error:
            words = "not an erasure; surefoot backup and surefoot erase write the list"
            raise InputError(f"{listed}, line {number}: {words}") from error
        if participant_id is None:
            cuts.append(before)
        elif participant_id in known:
            withdraw_participant(connection, participant_id, reason=reason, by=by)
            erased.append(erase_content(connection, participant_id, before, reason=reason, by=by))
    if cuts and expired != "keep":
        again = erase_content(connection, None, max(cuts), reason="restored, no longer kept by the study", by=by)
        if expired is None and (again.decisions or again.outcomes):
            raise InputError(
                f"the backup holds {again.decisions:,} decisions and {again.outcomes:,} outcomes that the schedule erased "
                "since, or that are older than keep_days; check the server's clock, then say --expired erase to erase them "
                "again, or --expired keep. Nothing was restored"
            )
        erased.append(again)
    return Erasure(sum(erasure.decisions for erasure in erased), sum(erasure.outcomes for erasure in erased))
