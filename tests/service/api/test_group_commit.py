"""Decisions that arrive together share a transaction; what is wrong with one of them is nobody else's trouble."""

import asyncio
import threading

import pytest
import sqlalchemy as sa

from surefoot.service.api import group_commit
from surefoot.service.api.group_commit import DecisionRecorder
from surefoot.service.database.schema import decisions
from surefoot.service.trial import decisions as decisions_module
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.verification import replay
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


def test_a_valid_request_does_not_get_the_error_of_another_request_for_its_decision_point(trial):
    register_participant(trial.database, "p1")
    bad = request("p1", context={"weather": "sunny"})
    replies = gather(trial, [bad, request("p1"), bad, request("p1")])
    codes = [getattr(reply, "code", "decided") for reply in replies]
    assert codes == ["wrong_type", "decided", "decided_otherwise", "decided"] and replies[1] == replies[3]
    assert len(column(trial, decisions.c.id)) == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_unforeseen_error_belongs_to_the_request_that_causes_it(trial, monkeypatch):
    for participant in ("p1", "p2", "p3"):
        register_participant(trial.database, participant)
    real = decisions_module._draw

    def draw(trial, request, *arguments):
        if request.participant_id == "p2":
            raise ZeroDivisionError
        return real(trial, request, *arguments)

    monkeypatch.setattr(decisions_module, "_draw", draw)
    replies = gather(trial, [request(participant) for participant in ("p1", "p2", "p3")])
    assert [type(reply) for reply in replies] == [str, ZeroDivisionError, str]
    assert column(trial, decisions.c.participant_id) == ["p1", "p3"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_thread_that_is_stuck_is_replaced(trial, monkeypatch):
    register_participant(trial.database, "p1")
    monkeypatch.setattr(group_commit, "STUCK_SECONDS", 0.1)
    real = group_commit.decide_batch
    end = threading.Event()

    def decide(trial, requests):
        if requests[0].decision_idx == 0:
            end.wait(60)
        return real(trial, requests)

    monkeypatch.setattr(group_commit, "decide_batch", decide)

    async def main():
        recorder = DecisionRecorder(trial)
        with pytest.raises(sa.exc.TimeoutError):
            await recorder.decide(DecisionRequest(**request("p1", 0)))
        monkeypatch.setattr(group_commit, "STUCK_SECONDS", 15)
        reply = await recorder.decide(DecisionRequest(**request("p1", 1)))
        await recorder.check_readiness()
        recorder.close()
        end.set()
        return reply

    assert isinstance(asyncio.run(main()), str)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_readiness_is_written_once_a_second_however_many_ask(trial, monkeypatch):
    written = []
    real = group_commit.write_readiness
    monkeypatch.setattr(group_commit, "write_readiness", lambda database: written.append(1) or real(database))

    async def main():
        recorder = DecisionRecorder(trial)
        await asyncio.gather(*(recorder.check_readiness() for _ in range(50)))
        await recorder.check_readiness()
        assert len(written) == 1
        monkeypatch.setattr(group_commit, "READY_SECONDS", 0)
        recorder._ready_until = 0
        await recorder.check_readiness()
        await recorder.check_readiness()
        recorder.close()

    asyncio.run(main())
    assert len(written) == 3


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_queue_that_is_too_long_is_refused(trial, monkeypatch):
    register_participant(trial.database, "p1")
    monkeypatch.setattr(group_commit, "LONGEST_QUEUE", 2)
    replies = gather(trial, [request("p1", index) for index in range(3)])
    assert [type(reply).__name__ for reply in replies] == ["str", "str", "ApiError"]
    assert (replies[2].status_code, replies[2].code, replies[2].headers) == (503, "too_busy", {"Retry-After": "2"})
