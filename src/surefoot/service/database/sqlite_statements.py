"""Statements for SQLite's own driver: compiled once, without the work that SQLAlchemy does at every execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

DIALECT = sqlite.dialect(paramstyle="named")


class SqliteStatement:
    """A statement of SQLAlchemy's, with its types, for a connection of `Database.driver_transaction`."""

    def __init__(self, statement: sa.Insert | sa.Select[Any]) -> None:
        compiled = statement.compile(dialect=DIALECT)
        self._text = str(compiled)
        self._fixed = compiled.params
        given = {name: _find_processor(bind.type, "bind_processor") for name, bind in compiled.binds.items()}
        self._encoders = {name: encode for name, encode in given.items() if encode is not None}
        columns = statement.selected_columns if isinstance(statement, sa.Select) else ()
        self._names = [column.name for column in columns]
        read = {column.name: _find_processor(column.type, "result_processor", None) for column in columns}
        self._decoders = {name: decode for name, decode in read.items() if decode is not None}

    def fetch(self, driver: Any, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows that it finds."""
        rows = [dict(zip(self._names, row, strict=True)) for row in driver.execute(self._text, self._encode(given))]
        for row in rows:
            for name, decode in self._decoders.items():
                row[name] = decode(row[name])
        return rows

    def write(self, driver: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute it for every row."""
        driver.executemany(self._text, [self._encode(row) for row in rows])

    def _encode(self, given: Mapping[str, Any]) -> dict[str, Any]:
        values = {**self._fixed, **given}
        for name, encode in self._encoders.items():
            values[name] = encode(values[name])
        return values


def _find_processor(kind: sa.types.TypeEngine[Any], name: str, *more: Any) -> Any:
    return getattr(kind.dialect_impl(DIALECT), name)(DIALECT, *more)
