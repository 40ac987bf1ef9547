import asyncio
import json

import pytest

from surefoot.service import access
from surefoot.service.access import Caller
from surefoot.service.api import requests
from surefoot.service.api.requests import KeyLookups
from tests.service.support.client import request

ROUTES = {
    ("POST", "/participants"): "app",
    ("POST", "/decisions"): "app",
    ("POST", "/outcomes"): "app",
    ("POST", "/updates"): "admin",
    ("GET", "/updates/1"): "admin",
    ("GET", "/policies"): "admin",
    ("POST", "/policies/1/activate"): "admin",
    ("GET", "/participants/p1/next"): "app",
    ("POST", "/participants/p1/withdraw"): "admin",
    ("POST", "/participants/p1/pause"): "admin",
    ("POST", "/study/pause"): "admin",
    ("GET", "/export/decisions"): "analyst",
    ("GET", "/export/study"): "analyst",
    ("GET", "/export/outcomes"): "analyst",
    ("GET", "/export/updates"): "analyst",
    ("GET", "/export/learned"): "analyst",
    ("GET", "/export/policies"): "analyst",
    ("GET", "/export/staff-actions"): "admin",
    ("GET", "/safety"): "monitor",
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/metrics"): None,
}


@pytest.mark.parametrize(("way", "path"), ROUTES)
def test_every_role_tries_every_route(client, monkeypatch, way, path):
    monkeypatch.setattr("surefoot.service.updates.updates.start_update", lambda trial, by, by_staff: 1)
    body = {"/decisions": request(), "/participants": {"participant_id": "p1"}}.get(path, {})
    wanted = ROUTES[way, path]
    for role in (*access.ROLES, None):
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


def concrete(path):
    for name, value in (("update_id", "1"), ("policy_id", "1"), ("participant_id", "p1"), ("change", "pause")):
        path = path.replace(f"{{{name}}}", value)
    return path


def test_the_table_of_roles_names_every_route(client):
    described = client.get("/openapi.json").json()["paths"]
    found = {(way.upper(), path.removeprefix("/api/v1")) for path, ways in described.items() for way in ways}
    named = {(way, concrete(path)) for way, path in found}
    assert named == set(ROUTES)


def test_bad_keys_are_alike(client, monkeypatch):
    good = client.keys["app"]
    revoked = access.create_key(client.trial.database, "app")
    access.revoke_key(client.trial.database, revoked)
    altered = good[:-1] + ("0" if good[-1] != "0" else "1")
    lookups = []
    real = access.find_caller
    monkeypatch.setattr(access, "find_caller", lambda database, key: lookups.append(key) or real(database, key))
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


def test_requests_that_come_together_look_their_key_up_once(trial, monkeypatch):
    looked = []
    monkeypatch.setattr(access, "find_caller", lambda database, key: looked.append(key) or Caller("0" * 12, "app"))

    async def main():
        lookups = KeyLookups(trial.database)
        found = await asyncio.gather(*(lookups.find("one") for _ in range(20)), lookups.find("other"))
        assert {caller.role for caller in found} == {"app"}
        await lookups.find("one")
        monkeypatch.setattr(requests, "REMEMBERED_SECONDS", 0)
        await lookups.find("third")
        await lookups.find("third")

    asyncio.run(main())
    assert sorted(looked) == ["one", "other", "third", "third"], "a good key is remembered, for a second"
