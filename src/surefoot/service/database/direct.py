"""Statements that go straight to the driver, for what every decision needs.

SQLAlchemy writes their text, once for each kind of database, and keeps the connections. Executing them costs half of what
SQLAlchemy's own way to the driver does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

Row = dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """A statement in the words of one kind of database."""

    text: str
    constants: Mapping[str, Any]
    """Parameters that the statement itself gives."""
    columns: tuple[str, ...]
    processors: tuple[tuple[str, Any], ...]
    """Columns whose values the driver does not return as they are meant, each with what makes them so."""


@dataclass(frozen=True, eq=False)
class DirectStatement:
    """A statement in each dialect, with its parameters by name."""

    statements: Mapping[str, sa.Select[Any] | sa.TextClause]
    _compiled: dict[str, Compiled] = field(default_factory=dict)

    def execute(self, connection: sa.Connection, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows that the statement returns; the driver's errors are raised as SQLAlchemy's."""
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = self._compile(dialect)
        cursor = execute_text(connection, compiled.text, {**compiled.constants, **parameters})
        if not compiled.columns:
            return []
        rows = [dict(zip(compiled.columns, values, strict=True)) for values in cursor.fetchall()]
        for row in rows:
            for name, process in compiled.processors:
                row[name] = process(row[name])
        return rows

    def _compile(self, dialect: sa.Dialect) -> Compiled:
        statement = self.statements[dialect.name]
        compiled = statement.compile(dialect=dialect)
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        columns = () if isinstance(statement, sa.TextClause) else tuple(statement.selected_columns)
        processors = {
            str(column.key): column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns
        }
        return Compiled(
            str(compiled),
            constants,
            tuple(processors),
            tuple((name, process) for name, process in processors.items() if process is not None),
        )


def execute_text(connection: sa.Connection, text: str, parameters: Mapping[str, Any] | None = None) -> Any:
    """The driver's cursor after a statement."""
    driver: Any = connection.connection.driver_connection
    try:
        return driver.execute(text) if parameters is None else driver.execute(text, parameters)
    except connection.dialect.loaded_dbapi.Error as error:
        raise sa.exc.DBAPIError.instance(
            text, None, error, connection.dialect.loaded_dbapi.Error, hide_parameters=True, dialect=connection.dialect
        ) from error
