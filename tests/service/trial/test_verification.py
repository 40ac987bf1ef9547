"""Tampering shows: every manipulation that somebody with the database could try is found, and named by what and where."""

# ruff: noqa: S608 - the SQL is our own

import json
import sqlite3
from contextlib import contextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.service import access
from surefoot.service.database import databases, ledger, schema
from surefoot.service.database.clock import now
from surefoot.service.database.ledger import EVIDENCE
from surefoot.service.messages import Channel, add_message, deliver_messages
from surefoot.service.trial.alerts import close_alert, raise_alert
from surefoot.service.trial.participants import set_pause
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.upkeep import SEALED
from surefoot.service.trial.verification import Seal, make_seal, replay, verify
from surefoot.study import Study
from tests.service.support.trials import STUDY, answer, erase, fill, update

HOUR = 3_600_000_000


def fill_trial(trial):
    """Something of every kind."""
    fill(trial, people=2, points=24)
    update(trial)
    answer(trial)
    kept, ended = (access.create_key(trial.database, role) for role in ("analyst", "admin"))
    access.revoke_key(trial.database, ended)
    set_pause(trial, "p1", paused=True, reason="in hospital", by="key abc")
    with trial.database.transaction() as connection:
        for occasion in ("first", "second"):
            raise_alert(connection, kind="no-data", occasion=occasion, message="silence")
    close_alert(trial.database, 2, "key abc")
    with trial.database.transaction() as connection:
        for job in ("update:2026-03-01", "update:2026-03-02", "update:2026-03-03"):
            ledger.claim_new_job(connection, job, now())
        ledger.release_jobs(connection, schema.scheduled.c.job == "update:2026-03-03")
        ledger.set_job(connection, "update:2026-03-02", now())
        ledger.set_job(connection, "schedule: looked", now())
    channel = Channel("email", lambda message: None)
    for number in (1, 2):
        add_message(trial, [channel], f"alert:{number}", "no-data", "silence", now())
        deliver_messages(trial, Channel("email" if number == 1 else "other", lambda message: None), now())
    with trial.database.transaction() as connection:
        action = {"done_at": now(), "done_by": "key abc", "action": "exported", "subject": "decisions"}
        ledger.insert_recorded(connection, "staff action", {**action, "detail": ""})
        ledger.insert_recorded(connection, "staff action", {**action, "detail": "again"})
    return kept


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A sealed trial, as the bytes of a SQLite file, and its seal."""
    path = tmp_path_factory.mktemp("trial") / "trial.db"
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{path}")
    fill_trial(trial)
    made = make_seal(trial.database)
    trial.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes(), made


@pytest.fixture
def copy(original, tmp_path):
    path = tmp_path / "trial.db"
    path.write_bytes(original[0])
    database = databases.connect(f"sqlite:///{path}")
    yield database
    database.close()


@contextmanager
def without_triggers(path):
    """By another program, which does not know of foreign keys, and by somebody who puts the triggers back."""
    with sqlite3.connect(path) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.commit()
        yield connection
        for _, sql in triggers:
            connection.execute(sql)
    connection.close()


def run(database, *statements):
    with without_triggers(database.engine.url.database) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement


def found(database, *seals):
    return [f"{discrepancy.subject}: {discrepancy.problem}" for discrepancy in verify(database, seals).discrepancies]


FIRST = "participant_id = 'p0' AND decision_idx = 3"
DECISION = "(participant_id p0, decision_idx 3): was changed"
ROW = "(SELECT * FROM decisions WHERE participant_id = 'p0' AND decision_idx = 3)"


def changed(column, value, where=FIRST, table="decisions"):
    return f"UPDATE {table} SET {column} = {value} WHERE {where}"


MANIPULATIONS = {
    "probability": (changed("probability", 0.9), DECISION),
    "probabilities": (changed("probabilities", "'[0.1, 0.9]'"), DECISION),
    "action": (changed("action", "1 - action"), DECISION),
    "draw": (changed("uniform", "uniform + 1e-9"), DECISION),
    "random key": (changed("random_key", "'draw-1:2:p0:4'"), DECISION),
    "availability": (changed("available", "1 - available"), DECISION),
    "availability reasons": (changed("availability_reasons", """'["asleep"]'"""), "(availability_reasons, context, state)"),
    "context": (changed("context", """'{"weather": 1.0}'"""), "(availability_reasons, context, state)"),
    "state": (changed("state", "'[0, 0, 0]'"), "(availability_reasons, context, state)"),
    "context and its salt": (changed("context = '{}', salt", "zeroblob(16)"), "(availability_reasons, context, state)"),
    "source": (changed("source", "'policy'"), DECISION),
    "fallback reasons": (changed("fallback_reasons", """'["missing: weather"]'"""), DECISION),
    "policy of a decision": (changed("policy_id", 1), DECISION),
    "study of a decision": (changed("study_id", "'x'"), DECISION),
    "decision re-dated by the participant's clock": (changed("decided_at", f"decided_at - {HOUR}"), DECISION),
    "decision re-dated by the server's clock": (changed("received_at", f"received_at - {HOUR}"), DECISION),
    "decision given to somebody else": (changed("participant_id = 'p9', id", "id"), DECISION),
    "decision index": (changed("decision_idx", 900), DECISION),
    "reply": (changed("reply", "'{}'"), DECISION),
    "decision deleted from the middle": (
        f"DELETE FROM decisions WHERE {FIRST}",
        "decision_idx 3): was recorded and is no longer",
    ),
    "last decision deleted": (
        "DELETE FROM decisions WHERE decision_idx = 1000",
        "decision_idx 1000): was recorded and is no",
    ),
    "decision inserted": (
        "INSERT INTO decisions SELECT 'f00', participant_id, 500, decided_at, received_at, study_id, available, "
        "availability_reasons, context, state, action, probabilities, source, fallback_reasons, policy_id, random_key, "
        f"uniform, probability, reply, salt FROM {ROW}",
        "decision f00 (participant_id p0, decision_idx 500): was inserted",
    ),
    "two decisions swapped": (
        "UPDATE decisions SET decision_idx = CASE decision_idx WHEN 3 THEN -4 ELSE -3 END "
        "WHERE participant_id = 'p0' AND decision_idx IN (3, 4)",
        DECISION,
    ),
    "decision emptied": (
        changed("salt = NULL, context = '{}', state = '[]', availability_reasons", "'[]'"),
        "was emptied without an erasure on record",
    ),
    "decision half emptied": (changed("salt", "NULL"), "was erased, but holds something else"),
    "outcome": (changed("outcome", 99, "id = 5", "outcomes"), "outcome 5 "),
    "outcome made missing": (changed("outcome", "NULL", "id = 5", "outcomes"), "outcome 5 "),
    "outcome re-dated": (changed("observed_at", f"observed_at + {HOUR}", "id = 5", "outcomes"), "outcome 5 "),
    "outcome made late": (changed("late", 1, "id = 5", "outcomes"), "outcome 5 "),
    "outcome given to another decision": (
        changed("decision_id", "(SELECT decision_id FROM outcomes WHERE id = 6)", "id = 5", "outcomes"),
        "outcome 5 ",
    ),
    "outcome deleted": ("DELETE FROM outcomes WHERE id = 5", "outcome 5 "),
    "correction's trace removed": (
        "DELETE FROM outcomes WHERE id = (SELECT max(id) FROM outcomes)",
        ": was recorded and is no",
    ),
    "outcome inserted": (
        "INSERT INTO outcomes SELECT 9999, decision_id, 'f', 50.0, observed_at, received_at, late, NULL, salt "
        "FROM outcomes WHERE id = 5",
        "outcome 9999 ",
    ),
    "echoed probability": (changed("echoed_probability", 0.5, "id = 5", "outcomes"), "outcome 5 "),
    "coefficients of a policy": ("UPDATE policies SET content = replace(content, '0.', '1.')", "policy 1: was changed"),
    "policy accepted": ("UPDATE policies SET accepted = 1 - accepted", "policy 1: was changed"),
    "activation re-dated": (f"UPDATE activations SET activated_at = activated_at - {HOUR}", "activation 1 (policy_id 1)"),
    "activation by another": ("UPDATE activations SET activated_by = 'key def'", "activation 1 (policy_id 1)"),
    "activation removed": ("DELETE FROM activations", "activation 1 (policy_id 1): was recorded and is no longer"),
    "activation inserted": ("INSERT INTO activations VALUES (7, 1, 0, 'x')", "activation 7 (policy_id 1): was inserted"),
    "key's role": ("UPDATE keys SET role = 'admin' WHERE role = 'analyst'", "key "),
    "key's expiry": ("UPDATE keys SET expires_at = 1 WHERE role = 'analyst'", "key "),
    "key re-dated": (f"UPDATE keys SET created_at = created_at - {HOUR}", "key "),
    "key deleted": ("DELETE FROM keys WHERE role = 'analyst'", "key "),
    "key inserted": ("INSERT INTO keys VALUES ('f', zeroblob(32), 'admin', '', 0, NULL, NULL)", "key f: was inserted"),
    "key un-revoked": ("UPDATE keys SET revoked_at = NULL", "key revoked "),
    "revocation re-dated": ("UPDATE keys SET revoked_at = 5 WHERE revoked_at IS NOT NULL", "key revoked "),
    "staff action removed": (
        "DELETE FROM staff_actions WHERE id = 1",
        "staff action 1 (action created a key): was recorded",
    ),
    "staff action changed": ("UPDATE staff_actions SET done_by = 'x' WHERE id = 1", "staff action 1 (action created a key)"),
    "staff action re-dated": ("UPDATE staff_actions SET done_at = 0 WHERE id = 2", "staff action 2 "),
    "participant's registration re-dated": (
        "UPDATE participants SET registered_at = 0 WHERE id = 'p0'",
        "participant p0: was",
    ),
    "participant inserted": ("INSERT INTO participants VALUES ('p9', 0)", "participant p9: was inserted"),
    "participant deleted": ("DELETE FROM participants WHERE id = 'p1'", "participant p1: was recorded and is no longer"),
    "pause removed": ("DELETE FROM participant_events", "participant event 1 (participant_id p1, kind paused)"),
    "reason of a pause": ("UPDATE participant_events SET reason = 'x'", "participant event 1 "),
    "alert deleted": ("DELETE FROM alerts WHERE id = 1", "alert 1 (occasion first): was recorded and is no longer"),
    "alert rewritten": ("UPDATE alerts SET message = 'all is well' WHERE id = 1", "alert 1 (occasion first): was changed"),
    "alert re-dated": (f"UPDATE alerts SET raised_at = raised_at - {HOUR} WHERE id = 2", "alert 2 "),
    "alert closed by hand": (
        "UPDATE alerts SET closed_at = 5 WHERE id = 1",
        "alert closed 1 (occasion first): was inserted",
    ),
    "closing of an alert re-dated": ("UPDATE alerts SET closed_at = 5 WHERE id = 2", "alert closed 2 "),
    "erasure inserted": (
        "INSERT INTO erasures VALUES (1, 'p0', NULL, 'x', 0, 'x', 9, 9, 0)",
        "erasure 1 (participant_id p0)",
    ),
    "findings of an update": ("""UPDATE updates SET findings = '[]'""", "update ended 1: was changed"),
    "result of an update": ("UPDATE updates SET result = '{'", "update ended 1: was changed"),
    "state of an update": ("UPDATE updates SET state = 'refused'", "update ended 1: was changed"),
    "who started an update": ("UPDATE updates SET started_by = 'x'", "update 1: was changed"),
    "update deleted": ("DELETE FROM updates", "update 1: was recorded and is no longer"),
    "slot of an update": ("UPDATE updates SET slot = 1", "update 1: takes the slot of updates"),
    "night claimed by hand": (
        "INSERT INTO scheduled VALUES ('update:2026-03-09', 0)",
        "job update:2026-03-09: was inserted: the ledger does not know it",
    ),
    "night claimed again by hand": (
        "INSERT INTO scheduled VALUES ('update:2026-03-03', 0)",
        "job update:2026-03-03: was ins",
    ),
    "claim of a night removed": (
        "DELETE FROM scheduled WHERE job = 'update:2026-03-01'",
        "job update:2026-03-01: was recorded",
    ),
    "claim of a night re-dated": (
        f"UPDATE scheduled SET taken_at = taken_at + {HOUR}",
        "job update:2026-03-02: was changed",
    ),
    "message marked as sent": (
        "UPDATE messages SET sent_at = 5 WHERE id = 2",
        "message sent 2 (occasion alert:2): was inserted",
    ),
    "message sent again": (
        "UPDATE messages SET sent_at = NULL WHERE id = 1",
        "message sent 1 (occasion alert:1): was recorded",
    ),
    "message reworded": (
        """UPDATE messages SET content = replace(content, 'silence', 'all is well') WHERE id = 2""",
        "message 2 (occasion alert:2): was changed since it was recorded",
    ),
    "message deleted": ("DELETE FROM messages WHERE id = 2", "message 2 (occasion alert:2): was recorded and is no longer"),
    "secret": ("UPDATE secrets SET value = zeroblob(32)", "secret draws: was changed"),
    "study's text": ("UPDATE studies SET text = text || ' '", "study "),
    "study re-dated": ("UPDATE studies SET first_used = 0", "study "),
    "block changed": ("UPDATE ledger SET entries = '[]' WHERE position = 9", "ledger block 9: was changed"),
    "block re-dated": ("UPDATE ledger SET recorded_at = 0 WHERE position = 9", "ledger block 9: was changed"),
    "block removed": ("DELETE FROM ledger WHERE position = 9", "ledger block 10: follows block 8"),
    "block inserted": ("INSERT INTO ledger SELECT 9999, 0, '[]', hash FROM ledger WHERE position = 9", "ledger block 9999"),
    "all blocks removed": ("DELETE FROM ledger", "study "),
}


def test_an_honest_trial_passes_with_and_without_its_seal(copy, original):
    assert found(copy) == [] and found(copy, original[1]) == []
    checked = verify(copy)
    assert checked.entries["decision"] == original[1].counts["decision"] == 49
    assert {kind for kind, number in checked.entries.items() if number} == set(EVIDENCE) - {"erasure", "adverse event"}


@pytest.mark.parametrize(("statement", "named"), MANIPULATIONS.values(), ids=MANIPULATIONS)
def test_a_manipulation_is_found_and_named(copy, statement, named):
    run(copy, statement)
    told = found(copy)
    assert any(named in one for one in told), told


def rewrite(database):
    """What somebody can do who has the database and knows how the ledger is made: every digest and hash anew."""
    with without_triggers(database.engine.url.database), database.engine.begin() as connection:
        blocks = connection.execute(sa.select(schema.ledger).order_by(schema.ledger.c.position)).all()
        before = ledger.BEGINNING
        for block in blocks:
            entries = []
            for kind, key, *_ in json.loads(block.entries):
                one = EVIDENCE[kind]
                row = connection.execute(one.select().where(one.table.c[one.key[0]] == key[0])).mappings().first()
                if row is not None:
                    entries.append(ledger.make_entry(kind, row))
            text = json.dumps(entries, separators=(",", ":"))
            before = ledger.chain(before, ledger.digest_block(block.recorded_at, text))
            own = schema.ledger.c.position == block.position
            connection.execute(sa.update(schema.ledger).where(own).values(entries=text, hash=before))


REWRITTEN = ("probability", "decision deleted from the middle", "outcome", "activation re-dated", "key's role", "secret")


@pytest.mark.parametrize("name", REWRITTEN)
def test_only_the_seal_shows_a_chain_that_was_rewritten_whole(copy, original, name):
    run(copy, MANIPULATIONS[name][0])
    rewrite(copy)
    assert found(copy) == [], "whoever rewrites everything leaves no trace inside"
    assert f"ledger block {original[1].position}: is not what the seal of {original[1].words} holds" in found(
        copy, original[1]
    )


def test_a_chain_that_was_cut_off_is_shorter_than_its_seal(copy, original):
    last = original[1].position
    run(copy, "DELETE FROM staff_actions WHERE action = 'exported'", f"DELETE FROM ledger WHERE position = {last}")
    assert found(copy) == []
    assert (
        f"the ledger ends at block {last - 1}, the seal was made at block {last}: blocks were removed"
        in found(copy, original[1])[0]
    )


def test_what_is_dated_before_a_seal_but_recorded_after_it_is_found(copy, original):
    row = {"participant_id": "p0", "kind": "resumed", "reason": "x", "done_by": "x"}
    with copy.transaction() as connection:
        ledger.insert_recorded(
            connection, "participant event", {**row, "happened_at": original[1].sealed_at - timedelta(hours=1)}
        )
        ledger.insert_recorded(connection, "participant event", {**row, "happened_at": now()})
    assert found(copy) == []
    (told,) = found(copy, original[1])
    assert "participant event 2" in told and "was recorded after the seal" in told


CHANGED_OBJECTS = {
    "trigger dropped": ("DROP TRIGGER decisions_no_update", "trigger decisions_no_update: was dropped"),
    "trigger added": (
        "CREATE TRIGGER quiet BEFORE INSERT ON alerts BEGIN SELECT RAISE(IGNORE); END",
        "trigger quiet: was added: this release does not have it",
    ),
    "trigger emptied": (
        "CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT 1; END",
        "trigger ledger_no_delete: was changed",
    ),
    "index dropped": ("DROP INDEX ix_decisions_received_at", "index decisions on received_at: was dropped"),
    "index added": ("CREATE INDEX extra ON alerts (kind)", "index alerts on kind: was added"),
    "column added": ("ALTER TABLE decisions ADD COLUMN note TEXT", "column decisions.note: was added"),
    "draws refused by a check": (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
        "replace(sql, 'uniform DOUBLE NOT NULL', 'uniform DOUBLE NOT NULL CHECK (uniform > 0.4)'); "
        "PRAGMA writable_schema = RESET",
        "column decisions.uniform: was changed",
    ),
    "constraint added": (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
        "replace(sql, 'CONSTRAINT pk_outcomes', 'CHECK (outcome < 1), CONSTRAINT pk_outcomes'); "
        "PRAGMA writable_schema = RESET",
        "constraint outcomes.CHECK (outcome < 1): was added",
    ),
    "table dropped": ("DROP TABLE ended_sessions", "column ended_sessions.digest: was dropped"),
}


@pytest.mark.parametrize(("statement", "named"), CHANGED_OBJECTS.values(), ids=CHANGED_OBJECTS)
def test_a_changed_schema_is_found_and_named(copy, statement, named):
    with sqlite3.connect(copy.engine.url.database) as connection:
        if "ledger_no_delete" in statement:
            connection.execute("DROP TRIGGER ledger_no_delete")
        connection.executescript(statement)
    connection.close()
    messages = found(copy)
    assert any(named in message for message in messages), messages


@pytest.mark.parametrize(("table", "check"), [("studies", "record of study"), ("secrets", "uniform number")])
def test_replay_names_what_is_gone_and_goes_on(copy, table, check):
    run(copy, f"DELETE FROM {table}")
    differences = replay(copy).differences
    assert len(differences) == 49 and all(difference.check.startswith(check) for difference in differences)
    assert any("is no longer there" in message for message in found(copy))


UNREADABLE = {
    "alerts": ("raised_at", "alert 1"),
    "ledger": ("entries", "ledger block 1: was changed"),
    "secrets": ("value", "secret draws: was changed"),
    "studies": ("text", "study "),
    "updates": ("result", "update ended 1: was changed since it was recorded, and cannot be read"),
    "decisions": ("context", "decision "),
    "outcomes": ("salt", "outcome 1"),
}


@pytest.mark.parametrize("table", UNREADABLE)
def test_what_cannot_be_read_is_named(copy, table):
    """SQLite takes anything in any column."""
    column, named = UNREADABLE[table]
    run(copy, f"UPDATE {table} SET {column} = 'null'")
    replay(copy)
    messages = found(copy)
    assert any(message.startswith(named) for message in messages), messages


def test_erased_content_that_was_put_back_is_found(tmp_path):
    """With its salt: the digest of the content fits again."""
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{tmp_path}/trial.db")
    fill(trial, people=2, points=2)
    with trial.database.autocommit() as connection:
        row = connection.execute(sa.select(schema.decisions).where(schema.decisions.c.participant_id == "p0")).first()
    erase(trial)
    assert found(trial.database) == []
    with without_triggers(tmp_path / "trial.db") as connection:
        values = (row.context, row.state, row.availability_reasons, row.salt, row.id)
        connection.execute("UPDATE decisions SET context=?, state=?, availability_reasons=?, salt=? WHERE id=?", values)
    assert found(trial.database) == [f"decision {row.id}: was erased, and holds content again"]
    trial.close()


def test_a_seal_with_another_study_or_a_file_without_its_last_line_is_found(copy, original):
    made = original[1]
    other = Seal(made.sealed_at, made.position, made.hash, "0" * 64, made.counts)
    assert found(copy, other) == [
        f"seal of {made.words}: names the study 000000000000, the ledger {made.study[:12]}",
    ]
    later = make_seal(copy)
    with copy.transaction() as connection:
        for seal in (made, later):
            access.record_action(connection, "test", SEALED, "seals.jsonl", f"block {seal.position:,}")
        access.record_action(connection, "test", SEALED, "another place", "block 3")
    assert found(copy, made, later) == []
    second = Seal(made.sealed_at, 3, "", made.study, {})
    assert any("block 3" in message for message in found(copy, second))
    cut = make_seal(copy)
    with copy.transaction() as connection:
        access.record_action(connection, "test", SEALED, "seals.jsonl", f"block {cut.position:,}")
    (message,) = found(copy, made, later)
    assert f"(block {cut.position:,}): was put into seals.jsonl, and is not among the seals" in message


def test_seals_of_another_chain_are_named(copy, original):
    made = original[1]
    later = made.sealed_at + timedelta(days=1)
    other = Seal(later, made.position, "0" * 64, made.study, made.counts)
    shorter = Seal(later, made.position - 1, "0" * 64, made.study, made.counts)
    for seal in (other, shorter):
        assert f"ledger block {seal.position}: is not what the seal of {seal.words} holds" in found(copy, made, seal)
    counted = Seal(later, made.position, made.hash, made.study, {**made.counts, "decision": 50})
    assert "counted 50 of the kind 'decision', the ledger has 49" in found(copy, counted)[0]


def test_an_entry_twice_is_named(copy):
    with copy.transaction() as connection:
        row = connection.execute(sa.select(schema.participants)).mappings().first()
        ledger.record(connection, "participant", [row])
    assert found(copy) == ["participant p0: was recorded twice"]


def test_every_column_of_the_evidence_is_hashed_or_left_out_on_purpose():
    left_out = {
        "updates": {"slot", "beat_at", "host", "process"},
        "messages": {"due_at", "attempts", "error"},
        "alerts": {"times"},
    }
    left_out |= {table: {"salt"} for table in ("decisions", "outcomes", "adverse_events")}
    seen = {}
    for one in EVIDENCE.values():
        seen.setdefault(one.table.name, set()).update(column.name for column in one.select().selected_columns)
    for name, columns in seen.items():
        assert columns | left_out.get(name, set()) == {column.name for column in schema.metadata.tables[name].c}, name


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_postgres_keeps_the_same_chain(trial):
    fill_trial(trial)
    made = make_seal(trial.database)
    assert found(trial.database, made) == []
    with trial.database.engine.begin() as connection:
        for table in ("decisions", "outcomes", "ledger"):
            connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        connection.exec_driver_sql(MANIPULATIONS["action"][0])
        connection.exec_driver_sql(MANIPULATIONS["outcome deleted"][0])
        connection.exec_driver_sql(MANIPULATIONS["block removed"][0])
    told = "\n".join(found(trial.database, made))
    assert DECISION in told and "outcome 5 " in told and "ledger block 10: follows block 8" in told
    assert "trigger decisions_no_update: was changed: this release has it otherwise" in told
