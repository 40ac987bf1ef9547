"""Recording decision points: what they are decided on is what the database holds at the moment that they are added.

SQLite has one writer: it reads, decides and adds in one transaction. PostgreSQL is on the other side of a wire: what is
known of a participant is remembered, and one call adds the decisions if it still holds; else nothing, and it is read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from surefoot.service.database import ledger
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import decisions, to_microseconds
from surefoot.service.database.sqlite_statements import SqliteStatement
from surefoot.service.trial.point_query import QUERIES, STORED, TOKENS, Point, index_points, read_points

Row = dict[str, Any]
ATTEMPTS = 20
"""Each that fails means that another worker decided for one of these participants meanwhile."""
REMEMBERED = 10_000
"""Participants of whom a process remembers what it last read."""
READ = SqliteStatement(QUERIES["sqlite"])
INSERT = SqliteStatement(sa.insert(decisions))
LAST_BLOCK = SqliteStatement(ledger.LAST)
INSERT_BLOCK = SqliteStatement(ledger.INSERT)
RECORD = "SELECT surefoot_record_decisions(%s::json, %s::json, %s, %s, %s)"


@dataclass(frozen=True)
class DecidedPoints:
    """What becomes of decision points."""

    found: Mapping[Point, Row]
    """What was known of each."""
    new: Mapping[Point, Row]
    """Rows to add."""
    wrong: Mapping[Point, Exception]
    """What is wrong with those that cannot be decided."""


Decide = Callable[[Mapping[Point, Row]], DecidedPoints]
"""Decides on what is known of decision points; called again when that has changed."""


class PointRecords:
    """The decision points of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Row] = {}
        """Of PostgreSQL's participants: what holds for their next decision point, as far as this process knows."""

    def record(self, points: Collection[Point], decide: Decide) -> DecidedPoints:
        """Add what is decided on these points, all of it or nothing; on the disk when this returns."""
        return (self._record_in_sqlite if self._database.is_sqlite else self._record_in_postgresql)(points, decide)

    def _record_in_sqlite(self, points: Collection[Point], decide: Decide) -> DecidedPoints:
        with self._database.driver_transaction() as driver:
            given = {"points": json.dumps(list(dict.fromkeys(points)))}
            decided = decide(index_points(READ.fetch(driver, given)))
            if decided.new:
                INSERT.write(driver, list(decided.new.values()))
                last = LAST_BLOCK.fetch(driver, {})
                INSERT_BLOCK.write(driver, [ledger.chain_block(last[0] if last else None, _make_block(decided))])
        return decided

    def _record_in_postgresql(self, points: Collection[Point], decide: Decide) -> DecidedPoints:
        for _ in range(ATTEMPTS):
            recalled = self._recall(points)
            decided = decide(recalled or self._read(points))
            # Nobody is refused on what was only remembered.
            if not (recalled and decided.wrong) and (not decided.new or self._add_if_unchanged(decided)):
                self._remember(decided)
                return decided
            for participant, _ in points:
                self._known.pop(participant, None)
        raise sa.exc.TimeoutError("other workers decided for these participants all the time")

    def _recall(self, points: Collection[Point]) -> dict[Point, Row] | None:
        """What is known of these points without asking the database; None unless all are new."""
        found = {}
        for participant, index in points:
            known = self._known.get(participant)
            if known is None or (known["last_idx"] is not None and index <= known["last_idx"]):
                return None
            found[participant, index] = known
        return found

    def _remember(self, decided: DecidedPoints) -> None:
        if len(self._known) > REMEMBERED:
            self._known.clear()
        for point, row in decided.found.items():
            if row["known"] is not None:
                new = decided.new.get(point)
                last = {} if new is None else {"last_idx": point[1], "last_at": new["decided_at"]}
                self._known[point[0]] = {**row, **dict.fromkeys(STORED), **last}

    def _read(self, points: Collection[Point]) -> dict[Point, Row]:
        with self._database.autocommit() as connection:
            return read_points(connection, points)

    def _add_if_unchanged(self, decided: DecidedPoints) -> bool:
        assumed = [
            {"participant_id": point[0], **{name: decided.found[point][name] for name in TOKENS}} for point in decided.new
        ]
        added = [_to_json(row) for row in decided.new.values()]
        block = _make_block(decided)
        sealed = (to_microseconds(block["recorded_at"]), block["entries"], block["digest"])
        return bool(self._database.call_driver(RECORD, (json.dumps(assumed), json.dumps(added), *sealed)))


def _make_block(decided: DecidedPoints) -> dict[str, Any]:
    return ledger.make_block([ledger.make_entry("decision", row) for row in decided.new.values()])


def _to_json(row: Row) -> Row:
    """A row as PostgreSQL reads it from JSON."""
    moments = {name: to_microseconds(row[name]) for name in ("decided_at", "received_at")}
    return {**row, **moments, "salt": f"\\x{row['salt'].hex()}"}
