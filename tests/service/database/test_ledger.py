"""One chain, whoever writes: threads, workers, batches."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import decisions, ledger, outcomes
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide_batch, record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import make_seal, verify
from tests.service.support.client import LATER, request
from tests.service.support.trials import column, fill


def test_workers_extend_one_chain_together(trial, study, url):
    """Two connections pools, as two workers have; some transactions are repeats and some fail."""
    other = open_trial(study, url)
    for number in range(8):
        register_participant(trial.database, f"p{number}")

    def work(number):
        one = trial if number % 2 else other
        for index in range(6):
            replies = decide_batch(one, [DecisionRequest(**request(f"p{number}", index))])
            assert isinstance(replies[0], str)
        return one

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
        ids = column(trial, decisions.c.id)
        told = [Outcome(decision_id=one, outcome=1.0, timestamp=LATER) for one in ids]
        list(pool.map(lambda part: record_outcomes(trial if part % 2 else other, told), range(4)))
    checked = verify(trial.database)
    assert checked.discrepancies == []
    assert (checked.entries["decision"], checked.entries["outcome"]) == (48, 48)
    assert sorted(column(trial, ledger.c.position)) == list(range(1, checked.blocks + 1))
    other.close()


def test_a_batch_is_one_block(trial):
    for number in range(5):
        register_participant(trial.database, f"p{number}")
    before = len(column(trial, ledger.c.position))
    decide_batch(trial, [DecisionRequest(**request(f"p{number}")) for number in range(5)])
    assert len(column(trial, ledger.c.position)) == before + 1


def test_what_fails_leaves_nothing_in_the_ledger(trial):
    before = column(trial, ledger.c.position)
    with pytest.raises(RuntimeError), trial.database.transaction() as connection:
        insert_recorded(connection, "participant", {"id": "p9", "registered_at": now()})
        raise RuntimeError
    register_participant(trial.database, "p1")
    assert len(column(trial, ledger.c.position)) == len(before) + 1
    assert verify(trial.database).discrepancies == []


def test_the_database_allows_erasure_and_nothing_else(trial):
    fill(trial, people=1, points=6)
    erased = {"context": "{}", "state": "[]", "availability_reasons": "[]", "salt": None}
    refused = (
        sa.update(decisions).values(action=1),
        sa.update(decisions).values(context="{}"),
        sa.update(decisions).values(**erased, probability=0.7),
        sa.update(decisions).values({**erased, "context": '{"weather": 0}'}),
        sa.update(outcomes).values(outcome=None),
        sa.update(outcomes).values(outcome=None, echoed_probability=None, salt=None),
        sa.delete(decisions).where(decisions.c.decision_idx == 5),
        sa.update(ledger).values(entries="[]"),
        sa.delete(ledger),
    )
    for statement in refused:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), trial.database.transaction() as connection:
            connection.execute(statement)
    with trial.database.transaction() as connection:
        connection.execute(sa.update(decisions).values(**erased))


def test_an_empty_ledger_is_nothing_to_seal(empty):
    databases.upgrade(empty)
    with pytest.raises(ValueError, match="has not begun"):
        make_seal(empty)
