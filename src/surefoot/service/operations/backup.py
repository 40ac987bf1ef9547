"""Backup and restore: the whole trial in one file that any database of ours can be restored from."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.service.database import databases
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import metadata
from surefoot.version import __version__

FORMAT = "surefoot-backup-1"
BATCH = 1000


def back_up(database: Database, path: Path) -> dict[str, int]:
    """Write all tables as they are at one moment, while the service goes on; rows of each table.

    The file holds the study's secret: only its owner may read it.
    """
    counts, hashes = {}, {}
    with (
        atomic_write(path, private=True) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
        database.snapshot() as connection,
    ):
        for table in metadata.sorted_tables:
            digest, count = hashlib.sha256(), 0
            with archive.open(f"{table.name}.jsonl", "w", force_zip64=True) as file:
                for line in _dump_lines(connection, table):
                    file.write(line)
                    digest.update(line)
                    count += 1
            counts[table.name], hashes[table.name] = count, digest.hexdigest()
        manifest = {
            "format": FORMAT,
            "surefoot": __version__,
            "revision": databases.newest_schema_version(),
            "rows": counts,
            "sha256": hashes,
        }
        archive.writestr("manifest.json", json.dumps(manifest, indent=2))
    return counts


def _dump_lines(connection: sa.Connection, table: sa.Table) -> Iterator[bytes]:
    # As the database holds them: moments stay microseconds.
    raw = [sa.type_coerce(column, _raw_type(column)).label(column.name) for column in table.c]
    ordered = sa.select(*raw).order_by(*table.primary_key.columns)
    for row in connection.execution_options(yield_per=BATCH).execute(ordered).mappings():
        values = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
        yield json.dumps(values, allow_nan=False).encode() + b"\n"


def _raw_type(column: sa.Column[Any]) -> Any:
    return sa.BigInteger() if type(column.type).__name__ == "Instant" else column.type


def restore(path: Path, database: Database) -> dict[str, int]:
    """Fill an empty database from a backup, whole or not at all; rows of each table."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            if manifest.get("format") != FORMAT:
                raise InputError(f"{path}: not a backup of this kind")
            return _fill_database(archive, manifest, path, database)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as a backup ({type(error).__name__})") from error


def _fill_database(archive: zipfile.ZipFile, manifest: dict[str, Any], path: Path, database: Database) -> dict[str, int]:
    if manifest["revision"] != databases.newest_schema_version():
        raise InputError(
            f"{path}: made with schema version {manifest['revision']}, "
            f"this release needs {databases.newest_schema_version()}; "
            f"restore it with surefoot {manifest['surefoot']} and then run surefoot db upgrade"
        )
    databases.prepare(database)
    counts = {}
    with database.transaction() as connection:
        for table in metadata.sorted_tables:
            if connection.scalar(sa.select(sa.func.count()).select_from(table)):
                raise InputError(f"the database has rows in '{table.name}' already; restore into an empty one")
        for table in metadata.sorted_tables:
            counts[table.name] = _fill_table(archive, manifest, path, connection, table)
    return counts


def _fill_table(
    archive: zipfile.ZipFile, manifest: dict[str, Any], path: Path, connection: sa.Connection, table: sa.Table
) -> int:
    digest, count, batch = hashlib.sha256(), 0, []
    columns = [sa.Column(column.name, _raw_type(column)) for column in table.c]
    plain = sa.Table(table.name, sa.MetaData(), *columns)
    binary = [column.name for column in table.c if isinstance(column.type, sa.LargeBinary)]
    with archive.open(f"{table.name}.jsonl") as file:
        for line in file:
            digest.update(line)
            row = json.loads(line)
            batch.append({**row, **{name: bytes.fromhex(row[name]) for name in binary}})
            count += 1
            if len(batch) == BATCH:
                connection.execute(sa.insert(plain), batch)
                batch = []
    if batch:
        connection.execute(sa.insert(plain), batch)
    if digest.hexdigest() != manifest["sha256"][table.name]:
        raise InputError(f"{path}: table '{table.name}' is not what was backed up; take another backup")
    if connection.dialect.name == "postgresql" and "id" in table.c and isinstance(table.c.id.type, sa.BigInteger):
        # Numbering goes on after the last row that was restored.
        last = sa.select(sa.func.max(table.c.id)).scalar_subquery()
        sequence = sa.func.pg_get_serial_sequence(table.name, "id")
        connection.execute(sa.select(sa.func.setval(sequence, sa.func.coalesce(last, 1), last.is_not(None))))
    return count
