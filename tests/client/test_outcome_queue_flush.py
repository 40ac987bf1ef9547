"""Outcomes that waited on disk reach the service once, in order, whatever happens on the way."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from surefoot.client import AsyncClient, Client, NetworkError, Outcome, OutcomeQueue, QueueInUseError, QueueWarning
from surefoot.service.database.schema import outcomes
from tests.client.test_clients import CONTEXT, WHEN, rows


@pytest.fixture
def decision(connect, served, participant):
    client = connect(served.url, served.app)
    client.register(participant)
    return client.decide(participant, 0, WHEN, CONTEXT)


def measured(decision, *values):
    return [decision.outcome(value, WHEN + timedelta(minutes=value + 1)) for value in values]


def kept(served, decision):
    return [row.outcome for row in rows(served.trial, outcomes, decision_id=decision.decision_id)]


def test_what_waited_without_network_arrives_in_order(connect, served, proxy, decision, tmp_path):
    client = connect(proxy.url, served.app, queue=tmp_path / "queue")
    client.queue_outcomes(measured(decision, 0, 1))
    client.queue_outcomes(measured(decision, 2))
    proxy.faults.extend(["reset"] * 4)
    with pytest.raises(NetworkError):
        client.flush()
    assert len(client.queue) == 3
    assert [receipt.status for receipt in client.flush()] == ["recorded"] * 3
    assert kept(served, decision) == [0, 1, 2] and len(client.queue) == 0
    assert (tmp_path / "queue" / "waiting.jsonl").read_bytes() == b"" and client.flush() == []


def test_an_answer_lost_for_good_doubles_nothing(connect, served, proxy, decision, tmp_path):
    first = connect(proxy.url, served.app, queue=str(tmp_path / "queue"))
    first.queue_outcomes(measured(decision, 0, 1))
    proxy.faults.extend(["lost_answer"] * 4)
    with pytest.raises(NetworkError):
        first.flush()
    first.close()
    again = connect(proxy.url, served.app, queue=OutcomeQueue(tmp_path / "queue"))
    again.queue_outcomes(measured(decision, 2))
    assert [receipt.status for receipt in again.flush()] == ["repeated", "repeated", "recorded"]
    assert kept(served, decision) == [0, 1, 2]


def test_more_than_a_batch_is_settled_batch_by_batch(connect, served, proxy, decision, tmp_path):
    client = connect(proxy.url, served.app, queue=tmp_path / "queue")
    client.queue_outcomes(measured(decision, *range(1_200)))
    proxy.faults.extend(["none", *["reset"] * 4])
    with pytest.raises(NetworkError):
        client.flush()
    assert len(client.queue) == 200
    assert len(client.flush()) == 200 and kept(served, decision) == list(range(1_200))


def test_what_the_service_did_not_keep_is_set_aside_with_the_reason(connect, served, decision, tmp_path):
    client = connect(served.url, served.app, queue=tmp_path / "queue")
    unknown = Outcome("0" * 32, 1.0, WHEN)
    ahead = decision.outcome(9.0, datetime.now(UTC) + timedelta(days=365))
    client.queue_outcomes([unknown, *measured(decision, 0), ahead])
    with pytest.warns(QueueWarning, match="2 set aside"):
        receipts = client.flush()
    assert [receipt.status for receipt in receipts] == ["unknown_decision", "recorded", "timestamp_in_future"]
    lines = [json.loads(line) for line in (tmp_path / "queue" / "set_aside.jsonl").read_text().splitlines()]
    assert (
        lines[0]["reason"] == "unknown_decision: there is no such decision" and "timestamp_in_future" in lines[1]["reason"]
    )
    assert json.loads(lines[1]["line"])["outcome"] == 9.0 and len(client.queue) == 0


def test_flushes_at_the_same_time_send_everything_once(served, proxy, decision, tmp_path):
    with Client(proxy.url, served.app, queue=tmp_path / "threads") as client, ThreadPoolExecutor(4) as threads:
        client.queue_outcomes(measured(decision, *range(20)))
        flushed = list(threads.map(lambda _: client.flush(), range(4)))
    assert sorted(map(len, flushed)) == [0, 0, 0, 20]

    async def flush_together():
        async with AsyncClient(proxy.url, served.app, queue=tmp_path / "tasks") as client:
            await client.queue_outcomes(measured(decision, *range(20, 40)))
            return await asyncio.gather(*(client.flush() for _ in range(4)))

    proxy.seen.clear()
    assert sorted(map(len, asyncio.run(flush_together()))) == [0, 0, 0, 20]
    assert len(proxy.seen) == 1 and kept(served, decision) == list(range(40))


def test_a_queue_has_one_client(connect, served, tmp_path):
    connect(served.url, served.app, queue=tmp_path)
    with pytest.raises(QueueInUseError, match="a folder of its own"):
        connect(served.url, served.app, queue=tmp_path)
