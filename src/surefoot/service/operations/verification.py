"""Verification: the ledger against itself, every row against the ledger, and both against seals that are kept outside.

A seal is the ledger's last hash, kept where whoever can change the database cannot reach it.
"""

import json
import os
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.ledger import BEGINNING, EVIDENCE, Evidence, chain, digest_block
from surefoot.service.database.schema import decisions, erasures, ledger, outcomes, studies

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


def _parse_seal(line: str, location: str) -> Seal:
    try:
        fields: dict[str, Any] = json.loads(line)
        if fields.pop("format") != FORMAT:
            raise ValueError
        moment = datetime.fromisoformat(fields.pop("sealed_at"))
        seal = Seal(
            moment, int(fields.pop("position")), str(fields.pop("hash")), str(fields.pop("study")), fields.pop("counts")
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{location}: not a seal; surefoot seal writes them") from error
    if moment.tzinfo is None:
        raise InputError(f"{location}: the seal's time has no zone")
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


CHUNK = 500
"""Entries that are compared at a time: a trial of any size takes the same memory."""
CLOCK_TOLERANCE = timedelta(minutes=10)
"""A row that was recorded after a seal may be dated this long before it: clocks are set."""


@dataclass(frozen=True)
class Discrepancy:
    """Something that is not as it was recorded."""

    subject: str
    problem: str


@dataclass(frozen=True)
class Verification:
    """What was compared, and what does not fit."""

    blocks: int
    entries: Counter[str]
    """By kind."""
    erased: dict[str, int]
    """Decisions and outcomes whose content was erased, accountably."""
    discrepancies: list[Discrepancy]


def verify(database: Database, seals: Sequence[Seal] = ()) -> Verification:
    """Compare everything, as it is at one moment."""
    with database.snapshot() as connection:
        walk = _Walk(connection, seals)
        discrepancies = [*_compare_seals(seals), *walk.run(), *_find_unrecorded(connection, walk.entries)]
        discrepancies += _find_unaccounted_erasures(connection)
        erased = {table.name: _count(connection, sa.select(table.c.id).where(table.c.salt.is_(None))) for table in _ERASABLE}
    return Verification(walk.position, walk.entries, erased, discrepancies)


_ERASABLE = (decisions, outcomes)


def _count(connection: sa.Connection, query: sa.Select[Any]) -> int:
    return int(connection.scalar(sa.select(sa.func.count()).select_from(query.subquery())) or 0)


def _compare_seals(seals: Sequence[Seal]) -> Iterator[Discrepancy]:
    """Of two seals the later one is not of a shorter chain, and there is one hash at each position."""
    ordered = sorted(seals, key=lambda seal: seal.sealed_at)
    for before, after in pairwise(ordered):
        same_place = before.position == after.position and before.hash != after.hash
        if after.position < before.position or same_place:
            yield Discrepancy(f"seals of {before.words} and {after.words}", "contradict each other")


class _Walk:
    """Along the chain from its beginning."""

    def __init__(self, connection: sa.Connection, seals: Sequence[Seal]) -> None:
        self._connection = connection
        self._seals: dict[int, list[Seal]] = defaultdict(list)
        for seal in seals:
            self._seals[seal.position].append(seal)
        self._last_seal = max(seals, key=lambda seal: seal.position, default=None)
        self._pending: dict[str, list[tuple[list[Any], bool]]] = defaultdict(list)
        self._restored: list[int] = []
        """Positions of restores that are on record."""
        self.position = 0
        self.entries = Counter[str]()

    def run(self) -> Iterator[Discrepancy]:
        before = BEGINNING
        blocks = sa.select(ledger).order_by(ledger.c.position)
        for block in self._connection.execute(blocks, execution_options={"yield_per": CHUNK}):
            yield from self._check_block(block, before)
            before = bytes(block.hash)
            self.position = block.position
            for entry in json.loads(block.entries):
                if entry[0] == "staff action" and entry[1][1] == "restored":
                    self._restored.append(block.position)
                yield from self._take(entry, self._is_after_seals(block.position))
            yield from self._check_seals(block)
        for kind in list(self._pending):
            yield from self._compare(kind)
        for position, seals in self._seals.items():
            if position > self.position:
                words = f"the ledger ends at block {self.position}, the seal was made at block {position}: "
                words += self._explain_restore(position) or "blocks were removed"
                yield from (Discrepancy(f"seal of {seal.words}", words) for seal in seals)

    def _check_block(self, block: Any, before: bytes) -> Iterator[Discrepancy]:
        subject = f"ledger block {block.position}"
        if block.position != self.position + 1:
            yield Discrepancy(subject, f"follows block {self.position}: blocks between them were removed")
        elif bytes(block.hash) != chain(before, digest_block(block.recorded_at, block.entries)):
            yield Discrepancy(subject, "was changed: its hash does not follow from what it holds and the hash before")
        if self._is_after_seals(block.position):
            yield from self._check_date(subject, block.recorded_at)

    def _is_after_seals(self, position: int) -> bool:
        return self._last_seal is not None and position > self._last_seal.position

    def _check_date(self, subject: str, moment: datetime | None) -> Iterator[Discrepancy]:
        seal = self._last_seal
        if seal is not None and moment is not None and moment < seal.sealed_at - CLOCK_TOLERANCE:
            yield Discrepancy(
                subject, f"is dated {moment:%Y-%m-%d %H:%M} UTC but was recorded after the seal of {seal.words}"
            )

    def _check_seals(self, block: Any) -> Iterator[Discrepancy]:
        for seal in self._seals.get(block.position, ()):
            if bytes(block.hash).hex() != seal.hash:
                words = f"is not what the seal of {seal.words} holds"
                why = self._explain_restore(block.position)
                yield Discrepancy(f"ledger block {block.position}", f"{words}: {why}" if why else words)
            for kind, number in seal.counts.items():
                if self.entries[kind] != number:
                    words = f"counted {number} of the kind '{kind}', the ledger has {self.entries[kind]}"
                    yield Discrepancy(f"seal of {seal.words}", words)

    def _explain_restore(self, position: int) -> str:
        """Why a seal does not fit after an honest restore from a backup that is older than the seal."""
        restored = [block for block in self._restored if block <= position]
        if not restored:
            return ""
        return f"the trial was restored at block {restored[0]} from an older backup, and what followed that backup is lost"

    def _take(self, entry: list[Any], after_seals: bool) -> Iterator[Discrepancy]:
        kind = entry[0]
        if kind in EVIDENCE:
            self.entries[kind] += 1
            self._pending[kind].append((entry[1:], after_seals))
            if len(self._pending[kind]) == CHUNK:
                yield from self._compare(kind)

    def _compare(self, kind: str) -> Iterator[Discrepancy]:
        """Entries of one kind with the rows that they are of."""
        evidence = EVIDENCE[kind]
        pending = self._pending.pop(kind)
        key_column = evidence.table.c[evidence.key[0]]
        chosen = evidence.select().where(key_column.in_([entry[0][0] for entry, _ in pending]))
        rows = {row[evidence.key[0]]: row for row in self._connection.execute(chosen).mappings()}
        for (key, *digests), after_seals in pending:
            row = rows.get(key[0])
            subject = evidence.describe(key)
            if row is None:
                yield Discrepancy(subject, "was recorded and is no longer there")
                continue
            yield from (Discrepancy(subject, change) for change in _find_changes(evidence, row, key, digests))
            if after_seals:
                yield from self._check_date(subject, row.get(evidence.moment))


def _find_changes(evidence: Evidence, row: Any, key: list[Any], digests: list[str]) -> Iterator[str]:
    try:
        if evidence.identify(row) != key or evidence.digest(row) != digests[0]:
            yield "was changed since it was recorded"
    except ValueError:
        yield "was changed since it was recorded, and cannot be read"
    if not evidence.content:
        return
    names = ", ".join(evidence.content)
    if row["salt"] is None:
        if any(row[name] != blank for name, blank in evidence.blanks(key[0]).items()):
            yield f"was erased, but holds something else than nothing ({names})"
    elif evidence.digest_content(row) != digests[1]:
        yield f"was changed since it was recorded ({names})"


def _find_unrecorded(connection: sa.Connection, entries: Counter[str]) -> Iterator[Discrepancy]:
    """Rows that the ledger does not know; named one by one only where the numbers say that there are any."""
    for kind, evidence in EVIDENCE.items():
        rows = _count(connection, evidence.select())
        if rows == entries[kind]:
            continue
        known = Counter(_read_keys(connection, kind))
        key_column = evidence.table.c[evidence.key[0]]
        for row in connection.execute(evidence.select().order_by(key_column)).mappings():
            if not known[row[evidence.key[0]]]:
                yield Discrepancy(evidence.describe(evidence.identify(row)), "was inserted: the ledger does not know it")
        yield from (Discrepancy(f"{kind} {key}", "was recorded twice") for key, number in known.items() if number > 1)


def _read_keys(connection: sa.Connection, kind: str) -> Iterable[Any]:
    blocks = sa.select(ledger.c.entries).order_by(ledger.c.position)
    for text in connection.execute(blocks, execution_options={"yield_per": CHUNK}).scalars():
        yield from (entry[1][0] for entry in json.loads(text) if entry[0] == kind)


def _find_unaccounted_erasures(connection: sa.Connection) -> Iterator[Discrepancy]:
    """Content that is gone without an erasure on record."""
    allowed = sa.exists().where(
        sa.or_(erasures.c.participant_id.is_(None), erasures.c.participant_id == decisions.c.participant_id),
        sa.or_(erasures.c.received_before.is_(None), decisions.c.received_at < erasures.c.received_before),
        decisions.c.received_at <= erasures.c.erased_at,
    )
    queries = {
        "decision": sa.select(decisions.c.id).where(decisions.c.salt.is_(None), ~allowed),
        "outcome": sa.select(outcomes.c.id).join_from(outcomes, decisions).where(outcomes.c.salt.is_(None), ~allowed),
    }
    for kind, query in queries.items():
        for key in connection.scalars(query):
            yield Discrepancy(f"{kind} {key}", "was emptied without an erasure on record")
