"""Who may do what, and what hostile clients get."""

import json
import time

import pytest
import sqlalchemy as sa

from surefoot.service.access import keys
from surefoot.service.api import authentication
from surefoot.service.api.authentication import strict_json
from surefoot.service.trial.api_errors import Refusal
from tests.service.client import request

ROUTES = {
    ("POST", "/participants"): "app",
    ("POST", "/decisions"): "app",
    ("POST", "/outcomes"): "app",
    ("POST", "/updates"): "admin",
    ("GET", "/updates/1"): "admin",
    ("GET", "/policies"): "admin",
    ("POST", "/policies/1/activate"): "admin",
    ("GET", "/export/decisions"): "analyst",
    ("GET", "/export/outcomes"): "analyst",
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/metrics"): None,
}


@pytest.mark.parametrize(("way", "path"), ROUTES)
def test_every_role_tries_every_route(client, monkeypatch, way, path):
    monkeypatch.setattr("surefoot.service.updates.update_process.start", lambda service, by: 1)
    body = {"/decisions": request(), "/participants": {"participant_id": "p1"}}.get(path, {})
    wanted = ROUTES[way, path]
    for role in (*keys.ROLES, None):
        headers = client.as_role(role) if role else {}
        status = client.request(way, f"/api/v1{path}", json=body if way == "POST" else None, headers=headers).status_code
        if wanted is None:
            assert status == 200
        elif role is None:
            assert status == 401
        elif role in (wanted, "admin"):
            assert status not in (401, 403) and status < 500
        else:
            assert status == 403


def test_the_table_of_roles_names_every_route(client):
    described = client.get("/openapi.json").json()["paths"]
    found = {(way.upper(), path.removeprefix("/api/v1")) for path, ways in described.items() for way in ways}
    concrete = {(way, path.replace("{update_id}", "1").replace("{policy_id}", "1")) for way, path in found}
    assert concrete == set(ROUTES)


def test_bad_keys_are_alike(client, monkeypatch):
    good = client.keys["app"]
    revoked = keys.create(client.service.database, "app")
    keys.revoke(client.service.database, revoked)
    altered = good[:-1] + ("0" if good[-1] != "0" else "1")
    lookups = []
    real = keys.caller_of
    monkeypatch.setattr(keys, "caller_of", lambda database, key: lookups.append(key) or real(database, key))
    replies = []
    for key in (revoked, altered, "sf_" + "0" * 12 + "_" + "0" * 64, "nonsense", "", "sf_" + "é" * 10):
        headers = {"Authorization": f"Bearer {key}".encode()}
        for _ in range(2):
            replies.append(client.post("/api/v1/decisions", json=request(), headers=headers))
    replies.append(client.post("/api/v1/decisions", json=request(), headers={"Authorization": good}))
    replies.append(client.post("/api/v1/decisions", json=request()))
    assert {reply.status_code for reply in replies} == {401}
    assert len({reply.content for reply in replies}) == 1
    assert len(lookups) == len(replies), "each of them is looked up, every time"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_bad_keys_take_the_same_time(client):
    database = client.service.database
    revoked = keys.create(database, "app")
    keys.revoke(database, revoked)
    kinds = {"revoked": revoked, "unknown": "sf_" + "ab" * 6 + "_" + "0" * 64, "malformed": "x" * len(revoked)}
    times = {name: [] for name in kinds}
    for _ in range(400):
        for name, key in kinds.items():
            start = time.perf_counter()
            assert keys.caller_of(database, key) is None
            times[name].append(time.perf_counter() - start)
    medians = sorted(sorted(values)[200] for values in times.values())
    assert medians[-1] < 1.5 * medians[0], medians


def test_a_key_is_kept_as_a_hash_and_ends_when_revoked(client, monkeypatch):
    key = client.keys["app"]
    client.register("p1")
    listed = keys.listed(client.service.database)
    assert {one["role"] for one in listed} == set(keys.ROLES)
    assert key.split("_")[2] not in str(listed)
    keys.revoke(client.service.database, key.split("_")[1])
    monkeypatch.setattr(keys.time, "monotonic", lambda real=time.monotonic: real() + keys.REMEMBERED_SECONDS)
    assert client.decide().status_code == 401
    with pytest.raises(ValueError, match="there is no key"):
        keys.revoke(client.service.database, "nobody")
    with pytest.raises(ValueError, match="did you mean 'analyst'"):
        keys.create(client.service.database, "analist")


HOSTILE = {
    "not json": b"{",
    "no body": b"",
    "not utf-8": b'{"participant_id": "\xff"}',
    "NaN": json.dumps(request(context={"weather": float("nan")})).encode(),
    "infinity": json.dumps(request(context={"weather": float("inf")})).encode(),
    "a float too large": json.dumps(request()).replace("0.5", "1e999").encode(),
    "an integer too large": json.dumps(request(context={"weather": 10**400})).encode(),
    "a tower": b"[" * 10_000,
    "a closed tower": b'{"context":' + b"[" * 500 + b"]" * 500 + b"}",
    "a nested value": json.dumps(request(context={"weather": {"a": 1}})).encode(),
    "a zero byte": json.dumps(request(context={"place": "\0"})).encode(),
    "half a character": b'{"participant_id": "\\ud800"}',
    "a list": b"[]",
    "an index as text": json.dumps(request(index="0")).encode(),
    "a negative index": json.dumps(request(index=-1)).encode(),
    "a huge index": json.dumps(request(index=2**31)).encode(),
    "a fraction": json.dumps(request(index=0.5)).encode(),
    "an e-mail address": json.dumps(request(participant="a@b.c")).encode(),
    "availability as text": json.dumps(request(availability="yes")).encode(),
    "a time without zone": json.dumps(request(timestamp="2026-03-01T10:00:00")).encode(),
    "a time as number": json.dumps(request(timestamp=1772355600)).encode(),
    "the far future": json.dumps(request(timestamp="2999-01-01T00:00:00Z")).encode(),
    "the far past": json.dumps(request(timestamp="0001-01-01T00:00:00+23:59")).encode(),
    "a misspelt field": json.dumps({**request(), "contxt": {}}).encode(),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_hostile_requests_get_4xx_in_our_shape(client, body):
    client.register("p1")
    headers = {**client.as_role("app"), "Content-Type": "application/json"}
    reply = client.post("/api/v1/decisions", content=body, headers=headers)
    assert reply.status_code in (400, 422)
    assert set(reply.json()["error"]) == {"code", "message", "field"}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_large_bodies_other_types_and_other_paths_have_our_shape_too(client):
    headers = {**client.as_role("app"), "Content-Type": "application/json"}
    large = b" " * (256 * 1024 + 1)
    replies = {
        413: client.post("/api/v1/decisions", content=large, headers=headers),
        422: client.post("/api/v1/decisions", content=b"a=1", headers={**headers, "Content-Type": "text/plain"}),
        404: client.get("/api/v1/nothing"),
        405: client.get("/api/v1/decisions"),
    }
    streamed = client.post("/api/v1/decisions", content=iter([large[:1000]] * 300), headers=headers)
    for status, reply in [*replies.items(), (413, streamed)]:
        assert (reply.status_code, set(reply.json()["error"])) == (status, {"code", "message", "field"})
        assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_mistake_of_ours_is_500_without_its_words(client, monkeypatch, caplog):
    def fails(service, body):
        raise RuntimeError(f"weather was {'-'.join(['storm', 'y'])}")

    monkeypatch.setattr("surefoot.service.trial.decisions.decide", fails)
    reply = client.decide()
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal")
    assert "storm-y" not in caplog.text and "RuntimeError" in caplog.text


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_database_that_is_gone_is_503(client, monkeypatch):
    def gone(service, body):
        raise sa.exc.OperationalError("INSERT", {}, OSError("gone"))

    monkeypatch.setattr("surefoot.service.trial.decisions.decide", gone)
    reply = client.decide()
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "no_database")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_too_many_requests_get_429(client):
    client.app.state.rates._rate = client.app.state.rates._full = 0.001
    client.app.state.rates._buckets.clear()
    reply = client.decide()
    assert reply.status_code == 429 and int(reply.headers["retry-after"]) >= 1


def test_brackets_in_text_are_no_tower():
    text = json.dumps({"a": "[" * 50 + '\\"{' * 50, "b": [[1]]})
    assert strict_json(text.encode())["b"] == [[1]]
    with pytest.raises(Refusal):
        strict_json(b"[" * (authentication.DEEPEST + 1) + b"]" * (authentication.DEEPEST + 1))
