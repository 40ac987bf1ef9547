import time

import pytest

from surefoot.service import access
from surefoot.service.api import requests


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
