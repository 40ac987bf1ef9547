"""Decisions that arrive together share a transaction; what is wrong with one of them is nobody else's trouble."""

import asyncio

import pytest

from surefoot.service.api import group_commit
from surefoot.service.api.group_commit import DecisionRecorder
from surefoot.service.database.schema import decisions
from surefoot.service.operations.verification import replay
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.participants import register_participant
from tests.service.support.client import request
from tests.service.support.trials import column


def gather(trial, asked):
    async def main():
        recorder = DecisionRecorder(trial)
        return await asyncio.gather(*(recorder.decide(DecisionRequest(**one)) for one in asked), return_exceptions=True)

    return asyncio.run(main())


def test_many_at_once_take_few_transactions(trial, monkeypatch):
    for number in range(20):
        register_participant(trial.database, f"p{number}")
    sizes = []
    real = group_commit.decide_batch
    monkeypatch.setattr(group_commit, "decide_batch", lambda trial, batch: sizes.append(len(batch)) or real(trial, batch))
    asked = [request(f"p{number}", index) for index in range(3) for number in range(20)]
    asked += [request("p0", 2), request("stranger"), request("p1", 0, context={})]
    replies = gather(trial, asked)
    assert all(isinstance(reply, str) for reply in replies[:61]) and replies[60] == replies[40]
    assert [type(reply).__name__ for reply in replies[61:]] == ["ApiError"] * 2
    assert [reply.code for reply in replies[61:]] == ["unknown_participant", "decided_otherwise"]
    assert len(sizes) <= 4 and sum(sizes) == len(asked), "three points of each participant: three transactions"
    assert len(column(trial, decisions.c.id)) == 60 and replay(trial.database).differences == []


def test_a_failed_transaction_answers_all_and_records_none(trial, monkeypatch):
    register_participant(trial.database, "p1")

    def fails(trial, batch):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(group_commit, "decide_batch", fails)
        assert [type(reply) for reply in gather(trial, [request("p1"), request("p1", 1)])] == [RuntimeError] * 2
    assert column(trial, decisions.c.id) == []
    assert isinstance(gather(trial, [request("p1")])[0], str)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_batches_keep_the_order_of_arrival(trial):
    register_participant(trial.database, "p1")
    replies = gather(trial, [request("p1", index) for index in range(5)])
    assert all(isinstance(reply, str) for reply in replies)
    assert column(trial, decisions.c.decision_idx) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_who_was_answered_together_is_answered_together_again(trial, monkeypatch):
    """The first to ask again waits a moment for the others, and does not wait for ever."""
    for number in range(8):
        register_participant(trial.database, f"p{number}")
    sizes = []
    real = group_commit.decide_batch
    monkeypatch.setattr(group_commit, "decide_batch", lambda trial, batch: sizes.append(len(batch)) or real(trial, batch))
    monkeypatch.setattr(group_commit, "GATHER_SECONDS", 60)

    async def main():
        recorder = DecisionRecorder(trial)

        async def ask(participant, index, delay):
            await asyncio.sleep(delay)
            return await recorder.decide(DecisionRequest(**request(participant, index)))

        await asyncio.gather(*(ask(f"p{number}", 0, 0) for number in range(8)))
        await asyncio.gather(*(ask(f"p{number}", 1, 0.01 * number) for number in range(8)))
        monkeypatch.setattr(group_commit, "GATHER_SECONDS", 0.01)
        await ask("p0", 2, 0)
        recorder.close()

    asyncio.run(main())
    assert sizes == [8, 8, 1]
