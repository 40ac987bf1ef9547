import asyncio
import time
from collections import Counter

import httpx2
import pytest

from surefoot.service import access
from surefoot.service.api import requests
from surefoot.service.app import create_app
from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_new_recorded
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.client import request
from tests.service.support.trials import STUDY


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_bad_keys_take_the_same_time(client):
    database = client.trial.database
    revoked = access.create_key(database, "app")
    access.revoke_key(database, revoked)
    kinds = {"revoked": revoked, "unknown": "sf_" + "ab" * 6 + "_" + "0" * 64, "malformed": "x" * len(revoked)}
    times = {name: [] for name in kinds}
    for _ in range(400):
        for name, key in kinds.items():
            start = time.perf_counter()
            assert access.find_caller(database, key) is None
            times[name].append(time.perf_counter() - start)
    medians = sorted(sorted(values)[200] for values in times.values())
    assert medians[-1] < 1.5 * medians[0], medians


def test_a_key_is_kept_as_a_hash_and_ends_when_revoked(client, monkeypatch):
    key = client.keys["app"]
    client.register("p1")
    listed = access.list_keys(client.trial.database)
    assert {one["role"] for one in listed} == set(access.ROLES)
    assert key.split("_")[2] not in str(listed)
    access.revoke_key(client.trial.database, key.split("_")[1])
    ahead = requests.REMEMBERED_SECONDS
    monkeypatch.setattr(requests.time, "monotonic", lambda real=time.monotonic: real() + ahead)
    assert client.decide().status_code == 401
    with pytest.raises(ValueError, match="there is no key"):
        access.revoke_key(client.trial.database, "nobody")
    with pytest.raises(ValueError, match="did you mean 'analyst'"):
        access.create_key(client.trial.database, "analist")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_too_many_requests_get_429(client):
    client.app.state.rate_limiter._rate = client.app.state.rate_limiter._full = 0.001
    client.app.state.rate_limiter._buckets.clear()
    reply = client.decide()
    assert reply.status_code == 429 and int(reply.headers["retry-after"]) >= 1
    assert 1000 * (int(reply.headers["retry-after"]) - 1) < int(reply.headers["retry-after-ms"])


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_one_participant_cannot_use_up_the_requests_of_all(client):
    limiter = client.app.state.participant_limiter
    limiter._rate = limiter._full = 1.0
    client.register("p1", "p2")
    statuses = [client.decide(participant, index).status_code for participant, index in (("p1", 0), ("p1", 1), ("p2", 0))]
    assert statuses == [200, 429, 200]


def test_a_limiter_forgets_who_is_not_limited(monkeypatch):
    monkeypatch.setattr(access, "MOST_BUCKETS", 3)
    limiter = access.RateLimiter(1, burst=1)
    for number in range(3):
        limiter.seconds_to_wait(f"old-{number}", at=0.0)
    limiter.seconds_to_wait("new", at=10.0)
    assert list(limiter._buckets) == ["new"] and limiter.seconds_to_wait("new", at=10.0) == 1.0
    for number in range(3):
        limiter.seconds_to_wait(f"hasty-{number}", at=10.0)
    assert len(limiter._buckets) <= 3


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_cohort_that_is_prompted_at_nine_is_answered(trial, monkeypatch):
    """1,200 requests at once with one key and the limits that a study has by default."""
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 120)  # a quiet machine takes two seconds
    study = Study.parse(STUDY.replace("requests_per_second = 10000", ""))
    people = [f"p{number}" for number in range(1200)]
    with trial.database.transaction() as connection:
        rows = [{"id": participant, "registered_at": now()} for participant in people]
        insert_new_recorded(connection, "participant", rows, "id")
    opened = open_trial(study, trial.database.url)
    headers = {"Authorization": f"Bearer {access.create_key(trial.database, 'app')}"}

    async def main():
        transport = httpx2.ASGITransport(create_app(opened))
        async with httpx2.AsyncClient(transport=transport, base_url="http://trial") as asking:
            asked = (asking.post("/api/v1/decisions", json=request(person), headers=headers) for person in people)
            return Counter([reply.status_code for reply in await asyncio.gather(*asked)])

    assert asyncio.run(main()) == {200: 1200}
    opened.close()
