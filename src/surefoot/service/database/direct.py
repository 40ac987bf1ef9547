"""Statements that go straight to the driver, for what every decision needs.

SQLAlchemy writes their text, once for each kind of database, and keeps the connections. Executing them costs half of what
SQLAlchemy's own way to the driver does. PostgreSQL prepares each once for a connection, and takes it in one message with
what begins or ends the transaction: a group of decisions waits for the server twice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

Row = dict[str, Any]


@dataclass(frozen=True)
class Compiled:
    """A statement in the words of one kind of database."""

    text: str
    preparation: str | None
    """What PostgreSQL prepares, which `text` executes."""
    constants: Mapping[str, Any]
    """Parameters that the statement itself gives."""
    columns: tuple[str, ...]
    processors: tuple[tuple[str, Any], ...]
    """Columns whose values the driver does not return as they are meant, each with what makes them so."""


@dataclass(frozen=True, eq=False)
class DirectStatement:
    """A statement in each dialect, with its parameters by name."""

    name: str
    statements: Mapping[str, sa.Select[Any] | sa.TextClause]
    _compiled: dict[str, Compiled] = field(default_factory=dict)

    def execute(
        self, connection: sa.Connection, parameters: Mapping[str, Any], *, before: str = "", after: str = ""
    ) -> list[Row]:
        """The rows that the statement returns; the driver's errors are raised as SQLAlchemy's.

        PostgreSQL gets the statements `before` and `after` it in the same message; SQLite, which has no messages, never.
        """
        compiled = self.compile_for(connection.dialect)
        text = compiled.text
        if compiled.preparation is not None:
            text = f"{before}{text}{after}"
            if self.name not in connection.info:
                execute_text(connection, compiled.preparation)
                connection.info[self.name] = "prepared"
        cursor = execute_text(connection, text, {**compiled.constants, **parameters})
        if not compiled.columns:
            return []
        while text is not compiled.text and cursor.nextset():
            pass  # to the last result, which has the rows
        rows = [dict(zip(compiled.columns, values, strict=True)) for values in cursor.fetchall()]
        for row in rows:
            for name, process in compiled.processors:
                row[name] = process(row[name])
        return rows

    def compile_for(self, dialect: sa.Dialect) -> Compiled:
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = self._compile(dialect)
        return compiled

    def _compile(self, dialect: sa.Dialect) -> Compiled:
        statement = self.statements[dialect.name]
        is_sqlite = dialect.name == "sqlite"
        options: Any = {"paramstyle": "named" if is_sqlite else "numeric_dollar"}
        compiled: Any = statement.compile(dialect=type(dialect)(**options))
        text = str(compiled)
        preparation = None
        if not is_sqlite:
            preparation = f"PREPARE {self.name} AS {text}"
            text = f"EXECUTE {self.name} ({', '.join(f'%({name})s' for name in compiled.positiontup)})"
        columns = () if isinstance(statement, sa.TextClause) else tuple(statement.selected_columns)
        processors = {
            str(column.key): column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns
        }
        return Compiled(
            text,
            preparation,
            {name: value for name, value in compiled.params.items() if value is not None},
            tuple(processors),
            tuple((name, process) for name, process in processors.items() if process is not None),
        )


def execute_text(connection: sa.Connection, text: str, parameters: Mapping[str, Any] | None = None) -> Any:
    """The driver's cursor after a statement, or several for PostgreSQL, whose driver writes the parameters into the text."""
    driver: Any = connection.connection.driver_connection
    with _translate_errors(connection, text):
        if connection.dialect.name == "sqlite":
            return driver.execute(text, parameters or {})
        from psycopg import ClientCursor

        return ClientCursor(driver).execute(text, parameters)


def commit(connection: sa.Connection) -> None:
    """Commit what direct statements did; nothing happens when the last of them did so."""
    driver: Any = connection.connection.driver_connection
    with _translate_errors(connection, "COMMIT"):
        driver.commit()


@contextmanager
def _translate_errors(connection: sa.Connection, text: str) -> Iterator[None]:
    """Raise the driver's errors as SQLAlchemy's."""
    base = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except base as error:
        translated = sa.exc.DBAPIError.instance(text, None, error, base, hide_parameters=True, dialect=connection.dialect)
        raise translated from error
