"""Whether tables, columns, indexes, constraints, triggers and rules are those that this release makes."""

import re
from collections.abc import Iterator
from functools import cache

import sqlalchemy as sa

from surefoot.service.database.faults import describe_fault
from surefoot.service.database.schema import metadata

Objects = dict[str, str]
"""Every object by its kind and name, with its definition."""
SQLITE = {
    "table": "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name = :table",
    "index": "SELECT :table || ' on ' || (SELECT group_concat(name, ', ') FROM pragma_index_info(list.name)), "
    "list.\"unique\" || ' ' || partial FROM pragma_index_list(:table) AS list",
    "trigger": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table",
}
_OF_TABLE = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
_CHOSEN = "WHERE n.nspname = :schema AND c.relname = :table AND c.relkind = 'r'"
POSTGRESQL = {
    "column": "SELECT c.relname || '.' || a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, "
    f"pg_get_expr(v.adbin, v.adrelid)) {_OF_TABLE} JOIN pg_attribute a ON a.attrelid = c.oid "
    "LEFT JOIN pg_attrdef v ON v.adrelid = c.oid AND v.adnum = a.attnum "
    f"{_CHOSEN} AND a.attnum > 0 AND NOT a.attisdropped",
    # Of the newest of some rows, found by their number, whoever makes numbers go down chooses which it is.
    "sequence": "SELECT c.relname || '.' || a.attname, concat_ws(' ', s.seqincrement, s.seqmin, s.seqmax, s.seqcycle) "
    f"{_OF_TABLE} JOIN pg_depend d ON d.refobjid = c.oid AND d.deptype = 'a' JOIN pg_sequence s ON s.seqrelid = d.objid "
    f"JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid {_CHOSEN}",
    "index": f"SELECT i.relname, pg_get_indexdef(x.indexrelid) || ' ' || x.indisvalid {_OF_TABLE} "
    f"JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid {_CHOSEN}",
    "constraint": f"SELECT c.relname || '.' || o.conname, pg_get_constraintdef(o.oid) {_OF_TABLE} "
    f"JOIN pg_constraint o ON o.conrelid = c.oid {_CHOSEN}",
    "trigger": "SELECT t.tgname, pg_get_triggerdef(t.oid) || ' ' || CAST(t.tgenabled AS text) || ' ' || p.prosrc "
    f"{_OF_TABLE} JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal "
    f"JOIN pg_proc p ON p.oid = t.tgfoid {_CHOSEN}",
    # A temporary trigger calls the function of the schema, which may be a changed one: so it is compared by itself.
    "function": f"SELECT p.proname, p.prosrc {_OF_TABLE} JOIN pg_proc p ON p.pronamespace = n.oid {_CHOSEN} "
    "AND p.proname = 'surefoot_append_only'",
    "rule": f"SELECT c.relname || '.' || r.rulename, pg_get_ruledef(r.oid) {_OF_TABLE} "
    f"JOIN pg_rewrite r ON r.ev_class = c.oid {_CHOSEN}",
    "row security": f"SELECT c.relname, 'on' {_OF_TABLE} {_CHOSEN} AND c.relrowsecurity",
}


def find_schema_differences(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """Every object that is not as this release makes it, and what is wrong with it; changes nothing."""
    if connection.dialect.name == "sqlite":
        expected = _make_sqlite_objects()
        actual = _describe(connection, SQLITE)
    else:
        schema = str(connection.scalar(sa.text("SELECT current_schema()")))
        actual = _describe(connection, POSTGRESQL, schema)
        try:
            expected = _make_temporary_objects(connection, schema)
        except sa.exc.DBAPIError as error:
            yield "database", f"its tables cannot be compared with this release's ({describe_fault(error)})"
            return
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            yield name, "was dropped: this release has it"
        elif name not in expected:
            yield name, "was added: this release does not have it"
        elif actual[name] != expected[name]:
            yield name, "was changed: this release has it otherwise"


@cache
def _make_sqlite_objects() -> Objects:
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.connect() as connection:
        objects = _describe(connection, SQLITE)
    engine.dispose()
    return objects


def _make_temporary_objects(connection: sa.Connection, schema: str) -> Objects:
    """The release's own tables as temporary ones, which are gone again afterwards: PostgreSQL writes definitions in its own
    words, and only its words can be compared."""
    point = connection.begin_nested()
    try:
        connection.execute(
            sa.text("SELECT set_config('search_path', 'pg_temp, ' || quote_ident(:schema), true)"), {"schema": schema}
        )
        metadata.create_all(connection, checkfirst=False)
        temporary = "SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()"
        return _describe(connection, POSTGRESQL, str(connection.scalar(sa.text(temporary))))
    finally:
        point.rollback()


def _describe(connection: sa.Connection, queries: dict[str, str], schema: str = "") -> Objects:
    objects: Objects = {}
    for table in metadata.tables:
        for kind, query in queries.items():
            given = {"table": table, "schema": schema} if schema else {"table": table}
            for name, definition in connection.execute(sa.text(query), given):
                # Which schema the tables are in is not part of their definition.
                plain = re.sub(rf"\b({re.escape(schema)}|pg_temp|public)\.", "", definition) if schema else definition
                text = " ".join(plain.split())
                objects |= _split_table(name, text) if kind == "table" else {f"{kind} {name}": text}
    return objects


def _split_table(table: str, statement: str) -> Objects:
    """The columns and constraints of SQLite's CREATE TABLE, in any order: a column that was added later is the last.

    SQLite's own lists of columns leave out checks, defaults and collations.

    >>> _split_table("t", "CREATE TABLE t ( a TEXT NOT NULL, CHECK (a IN ('x', 'y')) )")
    {'options t': '', 'column t.a': 'TEXT NOT NULL', "constraint t.CHECK (a IN ('x', 'y'))": ''}
    """
    body, _, options = statement.partition("(")[2].rpartition(")")
    objects = {f"options {table}": options.strip()}
    # A comma that as many brackets are closed before as were opened.
    item = ""
    for part in body.split(","):
        item = f"{item},{part}" if item else part
        if item.count("(") == item.count(")"):
            name, _, definition = item.strip().partition(" ")
            is_column = name.upper() not in ("CONSTRAINT", "UNIQUE", "CHECK", "PRIMARY", "FOREIGN")
            objects |= {f"column {table}.{name}": definition} if is_column else {f"constraint {table}.{item.strip()}": ""}
            item = ""
    return objects
