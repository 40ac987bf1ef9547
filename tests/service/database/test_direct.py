"""Statements that go straight to the driver give what SQLAlchemy's own way gives: rows, types and errors."""

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.pq import TransactionStatus

from surefoot.service.database.databases import BEGIN_ALONE
from surefoot.service.database.direct import DirectStatement, execute_text
from surefoot.service.database.ledger import insert_decisions
from surefoot.service.database.schema import decisions
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import READ_POINTS, decide, decide_batch, read_points
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.verification import verify
from tests.service.support.client import request

IDLE = TransactionStatus.IDLE
INTRANS = TransactionStatus.INTRANS
AWKWARD = ["quote ' \" backslash \\ \\u0041 percent %(id)s :id", "ünï 漢 😀 \u2028", "\t\n{}[]"]


@pytest.fixture
def decided(trial):
    """A trial with a decision of two participants each; a third has none."""
    for participant in ("p1", "p2", "p3"):
        register_participant(trial.database, participant)
    decide_batch(trial, [DecisionRequest(**request(participant, 0)) for participant in ("p1", "p2")])
    return trial


def test_rows_equal_those_of_sqlalchemy(decided):
    points = [("p1", 0), ("p1", 1), ("p2", 0), ("p3", 0), ("nobody", 5)]
    with decided.database.autocommit() as connection:
        direct = read_points(connection, points)
        given = {"points": json.dumps([{"participant_id": person, "decision_idx": index} for person, index in points])}
        rows = connection.execute(READ_POINTS.statements[connection.dialect.name], given).mappings().all()
    assert list(direct.values()) == [dict(row) for row in rows]
    kinds = [[type(value) for value in row.values()] for row in direct.values()]
    assert kinds == [[type(value) for value in row.values()] for row in rows]
    assert direct["p1", 0]["reply"] is not None
    assert direct["nobody", 5]["known"] is None


def test_earlier_decisions_are_looked_up_by_their_index(trial):
    """A plan is kept from when the table was empty: one that reads the whole table would slow every later decision."""
    if trial.database.is_sqlite:
        pytest.skip("SQLite always joins by the index")
    text = READ_POINTS.compile_for(trial.database.engine.dialect).text
    given = {"points": json.dumps([{"participant_id": "p1", "decision_idx": 0}])}
    with trial.database.decision_transaction() as connection:
        READ_POINTS.execute(connection, given)
        constants = READ_POINTS.compile_for(connection.dialect).constants
        plan = execute_text(connection, f"EXPLAIN {text}", {**constants, **given}).fetchall()
    lines = [line for (line,) in plan if " on decisions" in line]
    assert len(lines) == 5
    assert all("Index" in line for line in lines), lines


@pytest.mark.parametrize("size", [1, 2, 40])
def test_decisions_are_stored_as_they_are(decided, size):
    """Text, moments, bytes and numbers come back equal, whatever way they took to the database."""
    with decided.database.autocommit() as connection:
        stored = dict(connection.execute(sa.select(decisions)).mappings().first())
    numbers = [0.1 + 0.2, 5e-324, 1 / 3, 2**-53, 0.0, 1.0, 1 - 2**-53]
    rows = []
    for index, number, text in zip(range(size), 10 * numbers, 20 * AWKWARD, strict=False):
        unique = {"id": uuid.uuid4().hex, "decision_idx": index + 1, "salt": bytes(range(index, index + 16))}
        rows.append({**stored, **unique, "uniform": number, "availability_reasons": text, "context": text, "reply": text})
    with decided.database.transaction(alone=True) as connection:
        insert_decisions(connection, rows)
    query = sa.select(decisions).where(decisions.c.decision_idx > 0).order_by(decisions.c.decision_idx)
    with decided.database.autocommit() as connection:
        assert [dict(row) for row in connection.execute(query).mappings()] == rows
    assert verify(decided.database).discrepancies == [], "the chain holds them"


def test_a_refused_decision_leaves_neither_a_row_nor_a_block(decided):
    with decided.database.autocommit() as connection:
        stored = dict(connection.execute(sa.select(decisions)).mappings().first())
        blocks = connection.scalar(sa.text("SELECT count(*) FROM ledger"))
    twice = [{**stored, "id": uuid.uuid4().hex, "decision_idx": index} for index in (7, 7)]
    with pytest.raises(sa.exc.IntegrityError), decided.database.transaction(alone=True) as connection:
        insert_decisions(connection, twice)
    with decided.database.autocommit() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM decisions")) == 2
        assert connection.scalar(sa.text("SELECT count(*) FROM ledger")) == blocks


def test_errors_are_sqlalchemys_and_tell_no_values(decided):
    statement = sa.text("SELECT * FROM nowhere WHERE id = :id")
    direct = DirectStatement("nowhere", {"sqlite": statement, "postgresql": statement})
    with decided.database.autocommit() as connection:
        with pytest.raises(sa.exc.DBAPIError) as caught:
            direct.execute(connection, {"id": "a participant"})
        with pytest.raises(type(caught.value)):
            connection.execute(statement, {"id": "a participant"})
        assert "a participant" not in str(caught.value)
        assert execute_text(connection, "SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_group_of_decisions_sends_two_messages(decided, monkeypatch):
    """The server plans nothing again, and the last message commits."""
    sent = []
    execute = psycopg.ClientCursor.execute

    def keep(cursor, text, *arguments):
        assert cursor.connection.info.transaction_status == (IDLE if not sent else INTRANS)
        sent.append(text)
        return execute(cursor, text, *arguments)

    monkeypatch.setattr(psycopg.ClientCursor, "execute", keep)
    monkeypatch.setattr(psycopg.Connection, "commit", lambda connection: sent.append(connection.info.transaction_status))
    decide_batch(decided, [DecisionRequest(**request(participant, 1)) for participant in ("p1", "p2", "p3")])
    read, write, status = sent
    assert read.startswith(BEGIN_ALONE + "EXECUTE")
    assert write.startswith("EXECUTE") and write.endswith("; COMMIT")
    assert status == IDLE


def test_prepared_statements_outlive_a_rollback(decided):
    """The driver forgets its own after each, and the server with it."""
    for index in (1, 2):
        with pytest.raises(ZeroDivisionError), decided.database.transaction(alone=True) as connection:
            for _ in range(10):
                read_points(connection, [("p1", index)])
                connection.execute(sa.select(decisions)).all()
            raise ZeroDivisionError
        assert decide_batch(decided, [DecisionRequest(**request("p1", index))])


def test_the_connection_of_decisions_is_kept_until_an_error_or_the_end(decided):
    with decided.database.decision_transaction() as connection:
        kept = connection
    with pytest.raises(ZeroDivisionError), decided.database.decision_transaction() as connection:
        assert connection is kept
        raise ZeroDivisionError
    assert kept.closed
    with decided.database.decision_transaction() as connection:
        driver = connection.connection.driver_connection
        begun = driver.in_transaction if connection.dialect.name == "sqlite" else driver.info.transaction_status == INTRANS
        assert begun and not connection.closed
    decided.close()
    assert connection.closed


def test_many_threads_that_decide_keep_one_connection(decided):
    """More threads than the pool has connections, all alive until the last has its answer."""
    together = threading.Barrier(15)

    def ask(index):
        together.wait(30)
        reply = decide(decided, DecisionRequest(**request("p1", 1)))
        together.wait(30)
        return reply

    with ThreadPoolExecutor(15) as pool:
        replies = list(pool.map(ask, range(15)))
    assert len(set(replies)) == 1
    assert decided.database.engine.pool.checkedout() == 1
