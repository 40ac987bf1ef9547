"""The ledger: one chain of hashes over everything that is evidence.

Each transaction that adds evidence adds one block: the digests of its rows, and
hash = SHA-256(hash before ‖ SHA-256(time, digests)). Whoever changes, deletes or inserts a row afterwards must rewrite every
hash after it, and a hash kept outside (`surefoot seal`) shows that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.evidence import EVIDENCE
from surefoot.service.database.schema import Instant, ledger, to_microseconds

BEGINNING = bytes(32)
"""The hash before the first block."""
PENDING = "surefoot_ledger"
LAST = sa.select(ledger.c.position, ledger.c.hash).order_by(ledger.c.position.desc()).limit(1)
INSERT = sa.insert(ledger)
_EXTEND = sa.text("SELECT surefoot_extend_ledger(:recorded_at, :entries, :digest)").bindparams(
    sa.bindparam("recorded_at", type_=Instant)
)


def record(connection: sa.Connection, kind: str, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Enter rows into the ledger when this transaction ends."""
    connection.info.setdefault(PENDING, []).extend(make_entry(kind, row) for row in rows)


def make_entry(kind: str, row: Mapping[Any, Any]) -> list[Any]:
    """What the ledger holds of a row: kind, key, digest, and the digest of what may be erased."""
    evidence = EVIDENCE[kind]
    entry = [kind, evidence.identify(row), evidence.digest(row)]
    return [*entry, evidence.digest_content(row)] if evidence.content else entry


def insert_recorded(connection: sa.Connection, kind: str, row: dict[str, Any]) -> Any:
    """Insert a row and enter it into the ledger; its primary key."""
    table = EVIDENCE[kind].table
    added: Any = connection.execute(sa.insert(table), row).inserted_primary_key
    key_name = table.primary_key.columns.keys()[0]
    record(connection, kind, [{**row, key_name: added[0]}])
    return added[0]


def insert_new_recorded(
    connection: sa.Connection, kind: str, insert_new: Any, rows: list[dict[str, Any]], known_by: str
) -> None:
    """Insert rows that are not there yet, and enter into the ledger those that were not; `known_by` is unique to each."""
    evidence = EVIDENCE[kind]
    by = {row[known_by]: row for row in rows}
    key_column = next(iter(evidence.table.primary_key.columns))
    added = connection.execute(
        insert_new.returning(key_column.label("own"), evidence.table.c[known_by].label("known")), rows
    )
    record(connection, kind, [{**by[new.known], key_column.name: new.own} for new in added])


def write_pending(connection: sa.Connection) -> None:
    """Add a block of what this transaction recorded: its last statement, so that others wait for no more than the commit."""
    entries = connection.info.pop(PENDING, None)
    if entries:
        extend(connection, entries)


def extend(connection: sa.Connection, entries: list[list[Any]]) -> None:
    """Add one block to the chain; one transaction at a time."""
    block = make_block(entries)
    if connection.dialect.name == "postgresql":
        # One statement: it waits for its turn, reads the last hash and adds the block.
        connection.execute(_EXTEND, block)
    else:
        connection.execute(INSERT, chain_block(connection.execute(LAST).mappings().first(), block))


def make_block(entries: list[list[Any]]) -> dict[str, Any]:
    """A block that has no place in the chain yet."""
    moment = now()
    text = json.dumps(entries, separators=(",", ":"))
    return {"recorded_at": moment, "entries": text, "digest": digest_block(moment, text)}


def chain_block(last: Mapping[Any, Any] | None, block: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a block that follows the last one; None: it is the first."""
    position, before = (0, BEGINNING) if last is None else (last["position"], last["hash"])
    kept = {name: block[name] for name in ("recorded_at", "entries")}
    return {"position": position + 1, **kept, "hash": chain(before, block["digest"])}


def digest_block(moment: datetime, entries: str) -> bytes:
    """Of a block's time and entries."""
    return hashlib.sha256(f"{to_microseconds(moment)}\n{entries}".encode()).digest()


def chain(before: bytes, digest: bytes) -> bytes:
    """The hash of a block that follows another.

    >>> chain(BEGINNING, digest_block(now().replace(year=2026, month=1, day=1), "[]")) != BEGINNING
    True
    """
    return hashlib.sha256(bytes(before) + digest).digest()
