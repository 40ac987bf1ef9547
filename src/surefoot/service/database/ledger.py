"""The ledger: one chain of hashes over everything that is evidence.

Each transaction that adds evidence adds one block: the digests of its rows, and
hash = SHA-256(hash before ‖ SHA-256(time, digests)). Whoever changes, deletes or inserts a row afterwards must rewrite every
hash after it, and a hash kept outside (`surefoot seal`) shows that.

A row may have two digests. The first covers what must always stay: participant, time, draw. The second covers what a
participant may have erased, with a random salt that is erased with it, so that nobody can try values until one fits.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from math import inf
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from surefoot.service.database import schema
from surefoot.service.database.clock import now, to_microseconds
from surefoot.service.database.direct import DirectStatement, execute_text
from surefoot.service.database.schema import ledger, list_erasable

SALT_BYTES = 16
CHUNK = 1000
"""Blocks in memory at a time."""
BEGINNING = bytes(32)
"""The hash before the first block."""
PENDING = "surefoot_ledger"
LOCK_LEDGER = "SELECT pg_advisory_xact_lock(7355204)"
"""In PostgreSQL one transaction at a time extends the chain; any number, the same for all."""
COPIED_VALUES = ("outcome", "expected", "value")
"""Keys of an update's result that repeat, or follow from, what one participant sent: erased with it, and so not hashed. The
decision and the outcome that they come from are."""
CHAIN = "surefoot_chain"
"""The function `chain`, as SQLite's connections know it."""
_HASHES = {
    "postgresql": "sha256(coalesce(last.hash, :beginning) || :digest)",
    "sqlite": f"{CHAIN}(coalesce(last.hash, :beginning), :digest)",
}
_BLOCKS = {
    dialect: "INSERT INTO ledger (position, recorded_at, entries, hash) "  # noqa: S608 - our own words
    f"SELECT coalesce(last.position, 0) + 1, CAST(:recorded_at AS bigint), :entries, {chained} FROM (SELECT 1) AS always "
    "LEFT JOIN (SELECT position, hash FROM ledger ORDER BY position DESC LIMIT 1) AS last ON true"
    for dialect, chained in _HASHES.items()
}
CHAIN_BLOCK = DirectStatement("surefoot_chain_block", {dialect: sa.text(block) for dialect, block in _BLOCKS.items()})
"""Read the last block and add the next one in one statement."""
_COLUMNS = ", ".join(schema.decisions.c.keys())
_ADDED = (
    f"INSERT INTO decisions ({_COLUMNS}) "  # noqa: S608 - our own words
    f"SELECT {_COLUMNS} FROM json_populate_recordset(CAST(NULL AS decisions), CAST(:rows AS json))"
)
CHAIN_DECISIONS = DirectStatement(
    "surefoot_chain_decisions", {"postgresql": sa.text(f"WITH added AS ({_ADDED}) {_BLOCKS['postgresql']}")}
)
"""The same with the decisions of the block, however many."""
_INSERT_DECISIONS = str(sa.insert(schema.decisions).compile(dialect=sqlite.dialect(paramstyle="named")))


@dataclass(frozen=True)
class Evidence:
    """One kind of entry in the ledger: a row of a table is recorded as it exactly once, unless the kind repeats.

    Columns that are null are not hashed: one that a later schema version adds is null in earlier rows, whose digests hold.
    """

    kind: str
    table: sa.Table
    moment: str
    """The column that says when the row was made; empty where none does."""
    key: tuple[str, ...] = ("id",)
    """Columns that name the row; the first is the table's primary key."""
    columns: tuple[str, ...] | None = None
    """Columns to hash besides the key; None: all that cannot be erased."""
    only_if: str | None = None
    """A column: the row is this kind of evidence once it is filled."""
    forms: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """How a column is written before it is hashed, where not as it is."""
    repeats: bool = False
    """Whether rows may be changed and deleted, each time with an entry: the last one counts, one without a digest says that
    the row was deleted."""
    ignored: tuple[str, ...] = ()
    """Keys of rows that are no evidence."""

    @cached_property
    def content(self) -> dict[str, str | None]:
        """The columns that may be erased, hashed apart with the row's salt."""
        return list_erasable(self.table) if self.columns is None else {}

    @cached_property
    def _hashed(self) -> tuple[str, ...]:
        if self.columns is not None:
            return (*self.key, *self.columns)
        return tuple(column.name for column in self.table.c if column.name not in self.content and column.name != "salt")

    def identify(self, row: Mapping[Any, Any]) -> list[Any]:
        """The row's name in the ledger."""
        return [row[name] for name in self.key]

    def digest(self, row: Mapping[Any, Any]) -> str:
        """Of the columns that stay."""
        values = {name: row[name] for name in self._hashed if row[name] is not None}
        values |= {name: form(values[name]) for name, form in self.forms.items() if name in values}
        return _hash(self.kind, values)

    def digest_content(self, row: Mapping[Any, Any]) -> str:
        """Of the columns that may be erased."""
        content = {name: row[name] for name in self.content if row[name] is not None}
        return _hash(self.kind, row["salt"].hex(), content)

    def blanks(self, row_id: Any) -> dict[str, str | None]:
        """The content of an erased row."""
        return {name: blank and blank.replace("{id}", str(row_id)) for name, blank in self.content.items()}

    def select(self) -> sa.Select[Any]:
        """The rows that are evidence of this kind."""
        names = (*self._hashed, *self.content, *(("salt",) if self.content else ()))
        query = sa.select(*(self.table.c[name] for name in dict.fromkeys(names)))
        if self.ignored:
            query = query.where(self.table.c[self.key[0]].not_in(self.ignored))
        return query if self.only_if is None else query.where(self.table.c[self.only_if].is_not(None))

    def describe(self, key: list[Any]) -> str:
        """A row in words: `decision 5f0c (participant_id p-017, decision_idx 3)`."""
        details = ", ".join(f"{name} {value}" for name, value in zip(self.key[1:], key[1:], strict=False))
        return f"{self.kind} {key[0]}" + (f" ({details})" if details else "")


def _plain(value: datetime | bytes | memoryview) -> Any:
    """What JSON does not know."""
    return to_microseconds(value) if isinstance(value, datetime) else bytes(value).hex()


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True, default=_plain).encode


def _hash(*values: Any) -> str:
    return hashlib.sha256(_encode(values).encode()).hexdigest()


def without_copies(result: str) -> str:
    """An update's result without values of single decision points."""
    content = json.loads(result)
    for name in ("removed_rows", "implausible_rows"):
        if name in content:
            content[name] = [{key: row[key] for key in row if key not in COPIED_VALUES} for row in content[name]]
    return json.dumps(content, sort_keys=True)


def without_recipients(content: str) -> str:
    """A message without the list of those who lack it, which shrinks while it is sent."""
    return json.dumps({name: value for name, value in json.loads(content).items() if name != "to"}, sort_keys=True)


_KINDS = (
    Evidence("study", schema.studies, "first_used"),
    Evidence("secret", schema.secrets, "", ("name",)),
    Evidence("key", schema.keys, "created_at", ("prefix",), ("digest", "role", "label", "created_at", "expires_at")),
    Evidence("key revoked", schema.keys, "revoked_at", ("prefix",), ("revoked_at",), only_if="revoked_at"),
    Evidence("participant", schema.participants, "registered_at"),
    Evidence("participant event", schema.participant_events, "happened_at", ("id", "participant_id", "kind")),
    Evidence("update", schema.updates, "created_at", columns=("started_by", "created_at")),
    Evidence(
        "update ended",
        schema.updates,
        "finished_at",
        columns=("state", "finished_at", "findings", "result", "message", "read_at", "learned_from"),
        only_if="finished_at",
        forms={"result": without_copies},
    ),
    Evidence("policy", schema.policies, "created_at"),
    Evidence("activation", schema.activations, "activated_at", ("id", "policy_id")),
    Evidence("decision", schema.decisions, "received_at", ("id", "participant_id", "decision_idx")),
    Evidence("outcome", schema.outcomes, "received_at", ("id", "decision_id")),
    Evidence("alert", schema.alerts, "raised_at", ("id", "occasion"), ("kind", "message", "raised_at")),
    Evidence("alert closed", schema.alerts, "closed_at", ("id", "occasion"), ("closed_at",), only_if="closed_at"),
    Evidence("job", schema.scheduled, "", ("job",), repeats=True, ignored=schema.SIGNS_OF_LIFE),
    Evidence(
        "message",
        schema.messages,
        "created_at",
        ("id", "occasion"),
        ("channel", "kind", "content", "created_at"),
        forms={"content": without_recipients},
    ),
    Evidence("message sent", schema.messages, "sent_at", ("id", "occasion"), ("sent_at", "delivery"), only_if="sent_at"),
    Evidence("staff action", schema.staff_actions, "done_at", ("id", "action")),
    Evidence("erasure", schema.erasures, "erased_at", ("id", "participant_id")),
    Evidence("adverse event", schema.adverse_events, "recorded_at", ("id", "participant_id")),
)
EVIDENCE = {evidence.kind: evidence for evidence in _KINDS}


def read_positions(connection: sa.Connection, *kinds: str) -> dict[tuple[str, Any], float]:
    """The place in the ledger of every entry of these kinds, by kind and key; what it does not know comes last."""
    positions: dict[tuple[str, Any], float] = defaultdict(lambda: inf)
    ordered = sa.select(ledger.c.entries).order_by(ledger.c.position)
    with connection.execute(ordered, execution_options={"yield_per": CHUNK}) as blocks:
        entries = (entry for text in blocks.scalars() for entry in parse_entries(text))
        for position, (kind, key, *_) in enumerate(entries):
            if kind in kinds:
                positions[kind, key[0]] = position
    return positions


def parse_entries(text: Any) -> list[list[Any]]:
    """The entries of a block; none where somebody wrote something else there, which the block's hash shows."""
    try:
        entries = json.loads(text)
    except (TypeError, ValueError):
        return []
    readable = isinstance(entries, list) and all(isinstance(entry, list) and len(entry) >= 3 for entry in entries)
    return entries if readable and all(isinstance(entry[1], list) and entry[1] for entry in entries) else []


def record(connection: sa.Connection, kind: str, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Enter rows into the ledger when this transaction ends."""
    connection.info.setdefault(PENDING, []).extend(make_entry(kind, row) for row in rows)


def set_job(connection: sa.Connection, job: str, moment: datetime) -> None:
    """Remember when a job was claimed, or last done; entered into the ledger if that changes."""
    row = {"job": job, "taken_at": moment}
    mine = schema.scheduled.c.job == job
    changes = sa.and_(mine, schema.scheduled.c.taken_at != moment)
    if connection.execute(sa.update(schema.scheduled).where(changes).values(taken_at=moment)).rowcount:
        if job not in schema.SIGNS_OF_LIFE:
            record(connection, "job", [row])
    else:
        claim_new_job(connection, job, moment)


def claim_new_job(connection: sa.Connection, job: str, moment: datetime) -> bool:
    """Add a job that nobody has claimed; False when somebody has."""
    row = {"job": job, "taken_at": moment}
    added = insert_new(connection, schema.scheduled).returning(schema.scheduled.c.job)
    is_new = connection.scalar(added, row) is not None
    if is_new and job not in schema.SIGNS_OF_LIFE:
        record(connection, "job", [row])
    return is_new


def release_jobs(connection: sa.Connection, *conditions: Any) -> None:
    """Delete jobs, so that they can be claimed again."""
    deleted = connection.scalars(sa.delete(schema.scheduled).where(*conditions).returning(schema.scheduled.c.job))
    entries = [["job", [job], None] for job in deleted if job not in schema.SIGNS_OF_LIFE]
    connection.info.setdefault(PENDING, []).extend(entries)


def make_entry(kind: str, row: Mapping[Any, Any]) -> list[Any]:
    """Kind, key, digest, and the digest of erasable content."""
    evidence = EVIDENCE[kind]
    content = [evidence.digest_content(row)] if evidence.content else []
    return [kind, evidence.identify(row), evidence.digest(row), *content]


def insert_recorded(connection: sa.Connection, kind: str, row: dict[str, Any]) -> Any:
    """Insert a row and enter it into the ledger; its primary key."""
    evidence = EVIDENCE[kind]
    added: Any = connection.execute(sa.insert(evidence.table), row).inserted_primary_key
    record(connection, kind, [{**row, evidence.key[0]: added[0]}])
    return added[0]


def insert_new(connection: sa.Connection, table: sa.Table) -> Any:
    """An INSERT that skips rows that exist already."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return insert(table).on_conflict_do_nothing()


def insert_new_recorded(connection: sa.Connection, kind: str, rows: list[dict[str, Any]], known_by: str) -> None:
    """Insert rows that do not exist yet, and enter those into the ledger; `known_by` names a column that is unique."""
    evidence = EVIDENCE[kind]
    by = {row[known_by]: row for row in rows}
    columns = (evidence.table.c[evidence.key[0]].label("row_key"), evidence.table.c[known_by].label("known_by"))
    added = connection.execute(insert_new(connection, evidence.table).returning(*columns), rows)
    record(connection, kind, [{**by[new.known_by], evidence.key[0]: new.row_key} for new in added])


def insert_decisions(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """Insert decisions with their block, in a transaction that has locked the ledger: its last statement.

    PostgreSQL inserts, extends the chain and commits in one message.
    """
    stored = [{**row, **{name: to_microseconds(row[name]) for name in schema.MOMENTS}} for row in rows]
    block = _make_block([make_entry("decision", row) for row in stored])
    if connection.dialect.name == "postgresql":
        text = schema.to_json([{**row, "salt": f"\\x{row['salt'].hex()}"} for row in stored])
        CHAIN_DECISIONS.execute(connection, {**block, "rows": text}, after="; COMMIT")
    else:
        for row in stored:
            execute_text(connection, _INSERT_DECISIONS, row)
        CHAIN_BLOCK.execute(connection, block)


def write_pending(connection: sa.Connection, *, locked: bool) -> None:
    """Add a block of everything that this transaction recorded, at its end, so that others wait for the commit only."""
    entries = connection.info.pop(PENDING, None)
    if not entries:
        return
    if not locked:
        connection.exec_driver_sql(LOCK_LEDGER)
    CHAIN_BLOCK.execute(connection, _make_block(entries))


def _make_block(entries: list[list[Any]]) -> dict[str, Any]:
    """The parameters of `CHAIN_BLOCK`."""
    moment = now()
    text = json.dumps(entries, separators=(",", ":"))
    block = {"recorded_at": to_microseconds(moment), "entries": text}
    return {**block, "digest": digest_block(moment, text), "beginning": BEGINNING}


def digest_block(moment: datetime, entries: str) -> bytes:
    """Of a block's time and entries."""
    return hashlib.sha256(f"{to_microseconds(moment)}\n{entries}".encode()).digest()


def chain(before: bytes, digest: bytes) -> bytes:
    """The hash of a block that follows another."""
    return hashlib.sha256(bytes(before) + digest).digest()
