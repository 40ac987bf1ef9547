"""Against a real server with several workers: races, kills, what is in the log."""

import http.client
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from surefoot.service import access
from surefoot.service.database import databases
from surefoot.service.database.schema import decisions, outcomes
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
from tests.service.support.client import CONTEXT, request
from tests.service.support.servers import ForkedServer, forking, serving
from tests.service.support.trials import STUDY


@pytest.fixture
def server(tmp_path, empty_url):
    """`surefoot serve` on an empty database."""
    study_file = tmp_path / "study.toml"
    study_file.write_text(STUDY)
    with serving(study_file, empty_url) as one:
        one.database = databases.connect(empty_url)
        one.key = access.create_key(one.database, "app")
        yield one
        one.database.close()


@pytest.fixture(scope="module")
def parent():
    with forking() as one:
        yield one


@pytest.fixture
def forked(parent, tmp_path, url, study):
    study_file = tmp_path / "study.toml"
    study_file.write_text(STUDY)
    opened = open_trial(study, url)
    one = ForkedServer(parent, study_file, url, workers=2)
    one.start()
    one.database, one.key = opened.database, access.create_key(opened.database, "app")
    yield one
    one.kill()
    opened.close()


def count(database, table=decisions):
    with database.autocommit() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table))


def test_two_hundred_requests_at_once_for_one_decision_point(forked):
    forked.ask("POST", "/api/v1/participants", {"participant_id": "p1"}, forked.key)
    other = request(context={**CONTEXT, "weather": 0.75})
    bodies = [request() if number % 2 else other for number in range(200)]
    barrier = threading.Barrier(50)

    def ask(body):
        barrier.wait()
        return forked.ask("POST", "/api/v1/decisions", body, forked.key)

    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(ask, bodies))
    good = {reply for status, reply in replies if status == 200}
    assert len(good) == 1, "one answer"
    assert [status for status, _ in replies if status not in (200, 409)] == []
    winner = json.loads(next(iter(good)))["decision_id"]
    assert count(forked.database) == 1, "one row"
    with forked.database.autocommit() as connection:
        row = connection.execute(sa.select(decisions)).mappings().one()
    assert row["id"] == winner and row["reply"].encode() in good
    same = json.loads(row["context"])
    for body, (status, _) in zip(bodies, replies, strict=True):
        assert status == (200 if body["context"] == same else 409)


KILLS = 4


def send_load(server, participant, acknowledged, stop):
    """One decision after the other with its outcome; what is not acknowledged is sent again until it is."""
    decided, told = acknowledged
    index = 0
    while not stop.is_set():
        context = {**CONTEXT, "weather": index % 40 / 10 - 2}
        body = request(f"p{participant}", index, context=context)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        try:
            status, reply = server.ask("POST", "/api/v1/decisions", body, server.key, connection)
            assert status == 200, reply
            decision = json.loads(reply)["decision_id"]
            assert decided.setdefault(index, reply) == reply
            outcome = {"decision_id": decision, "outcome": index, "timestamp": body["timestamp"]}
            status, reply = server.ask("POST", "/api/v1/outcomes", outcome, server.key, connection)
            assert status == 200, reply
            told.append((decision, float(index)))
            index += 1
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
        finally:
            connection.close()


def wait_for_load(acknowledged):
    """Until every participant has got something more acknowledged, however busy the machine is."""
    before = [len(told) for _, told in acknowledged]
    deadline = time.monotonic() + 60
    while any(len(told) == known for (_, told), known in zip(acknowledged, before, strict=True)):
        assert time.monotonic() < deadline, "there was no load between the kills"
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_again_and_again_under_load_nothing_is_lost_or_doubled(forked):
    server = forked
    for participant in range(4):
        server.ask("POST", "/api/v1/participants", {"participant_id": f"p{participant}"}, server.key)
    acknowledged = [({}, []) for _ in range(4)]
    stop = threading.Event()
    rng = random.Random(1)  # noqa: S311 - when to kill
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(send_load, server, participant, acknowledged[participant], stop) for participant in range(4)]
        try:
            for _ in range(KILLS):
                wait_for_load(acknowledged)
                time.sleep(rng.uniform(0.05, 0.3))
                server.kill()
                server.start()
            wait_for_load(acknowledged)
        finally:
            stop.set()
        for one in running:
            one.result()
    with server.database.autocommit() as connection:
        recorded = connection.execute(sa.select(decisions)).mappings().all()
        values = connection.execute(sa.select(outcomes.c.decision_id, outcomes.c.outcome)).all()
    by_point = {(row["participant_id"], row["decision_idx"]): row["reply"].encode() for row in recorded}
    assert len(by_point) == len(recorded)
    for participant, (decided, told) in enumerate(acknowledged):
        for index, reply in decided.items():
            assert by_point[f"p{participant}", index] == reply
        assert set(told) <= {tuple(value) for value in values}
    assert len({tuple(value) for value in values}) == len(values)
    result = replay(server.database)
    assert result.decisions == len(recorded) and result.differences == []


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_nothing_secret_and_nothing_of_a_participant_is_logged(server):
    participant = "marked-participant"
    server.ask("POST", "/api/v1/participants", {"participant_id": participant}, server.key)
    server.ask("POST", "/api/v1/decisions", request(participant, context={"weather": 3.14159}), server.key)
    server.ask("POST", "/api/v1/decisions", request(participant, context={"weather": {"bad": "2.71828"}}), server.key)
    server.ask("POST", "/api/v1/decisions", request(participant), "sf_wrong")
    log = server.log
    assert "/api/v1/decisions" in log
    for hidden in (participant, "3.14159", "2.71828", server.key, server.key.split("_")[2], "sf_wrong"):
        assert hidden not in log
