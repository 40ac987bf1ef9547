"""Every mistake of a client is told in words that name the field and the remedy; every error has the same shape."""

import asyncio
import base64
import hashlib
import json

import pytest
import sqlalchemy as sa

from surefoot.service.api import requests
from surefoot.service.api.requests import MAXIMUM_DEPTH, parse_strict_json
from surefoot.service.trial.api_models import ApiError
from tests.service.support.client import request

MISTAKES = {
    "an e-mail address": (
        request(participant="a@b.c"),
        "participant_id may hold letters, digits, . _ - (1 to 64 of them, not dots alone)",
        "participant_id",
    ),
    "two dots": (
        request(participant=".."),
        "participant_id may hold letters, digits, . _ - (1 to 64 of them, not dots alone)",
        "participant_id",
    ),
    "a long name": (
        request(participant="p" * 65),
        "participant_id may hold letters, digits, . _ - (1 to 64 of them, not dots alone)",
        "participant_id",
    ),
    "a misspelt field": (
        {**request(), "contxt": {}},
        "there is no field 'contxt' (did you mean 'context'?); there are participant_id, decision_idx, timestamp, "
        "availability, reasons, context",
        "contxt",
    ),
    "a missing field": (
        {name: value for name, value in request().items() if name != "availability"},
        "availability is missing",
        "availability",
    ),
    "yes as text": (request(availability="yes"), "availability is true or false, without quotes", "availability"),
    "an index as text": (request(index="0"), "decision_idx is a whole number, without quotes", "decision_idx"),
    "a negative index": (request(index=-1), "decision_idx counts a participant's decision points from 0", "decision_idx"),
    "no zone": (
        request(timestamp="2026-03-01T10:00:00"),
        "write the time in ISO 8601 with a zone, like 2026-03-01T09:30:00+01:00",
        "timestamp",
    ),
    "a nested value": (
        request(context={"weather": {"a": 1}}),
        "context.weather is a number (a whole one up to 2⁵³), true or false, text of at most 200 characters, or null",
        "context.weather",
    ),
    "an empty name": (request(context={"": 1}), "names in context have 1 to 100 characters", "context"),
    "seconds since 1970": (
        request(timestamp="1700000000"),
        "write the time as text in ISO 8601 with a zone, like 2026-03-01T09:30:00+01:00",
        "timestamp",
    ),
    "a list": ([], "the body is a JSON object", None),
}
OUTCOME = {"decision_id": "f" * 32, "outcome": 1, "timestamp": "2026-03-01T12:00:00Z"}
OUTCOME_MISTAKES = {
    "too many": ({"outcomes": [OUTCOME] * 1001}, "send at most 1,000 outcomes at once; split the batch", "outcomes"),
    "none": ({"outcomes": []}, "outcomes is empty; send at least one", "outcomes"),
    "text": (
        {**OUTCOME, "outcome": "5"},
        "outcome is a finite number, or null where it is known to be missing",
        "outcome",
    ),
    "another id": (
        {**OUTCOME, "decision_id": "7"},
        "decision_id is 32 hexadecimal digits, as POST /decisions answered it",
        "decision_id",
    ),
}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_mistakes_in_words(client):
    for path, mistakes in (("/decisions", MISTAKES), ("/outcomes", OUTCOME_MISTAKES)):
        for name, (body, message, field) in mistakes.items():
            reply = client.ask(path, body)
            assert reply.status_code == 422, name
            assert reply.json()["error"] == {"code": "invalid", "message": message, "field": field}, name


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_body_without_a_content_type_is_json_and_another_type_is_named(client):
    client.register("p1")
    body = json.dumps(request()).encode()
    for path, content in (("/decisions", body), ("/participants", b'{"participant_id": "p2"}')):
        reply = client.post(f"/api/v1{path}", content=content, headers=client.as_role("app"))
        assert reply.status_code == 200, reply.text
        for kind in ("application/json; charset=utf-8", "Application/JSON", "application/problem+json"):
            assert client.post(f"/api/v1{path}", content=content, headers=with_type(client, kind)).status_code == 200
        for kind in ("text/plain", "application/x-www-form-urlencoded", "json", ""):
            refused = client.post(f"/api/v1{path}", content=content, headers=with_type(client, kind))
            assert refused.status_code == 415
            assert refused.json()["error"]["message"] == "the body is JSON; send Content-Type: application/json"


def with_type(client, kind):
    return {**client.as_role("app"), "Content-Type": kind}


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ('"availability": true', '"availability": true, "availability": false', "duplicate_field", "occurs twice"),
        ('"weather": 0.5', '"weather": 0.5, "weather": 0.6', "duplicate_field", "'weather' occurs twice"),
        ('"weather": 0.5', '"weather": 1e400', "number_too_large", "1e400 is too large"),
        ('"weather": 0.5', '"weather": -1e400', "number_too_large", "-1e400 is too large"),
    ],
)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_json_that_readers_would_understand_differently_is_refused(client, old, new, code, words):
    client.register("p1")
    text = json.dumps(request())
    assert old in text
    headers = {**client.as_role("app"), "Content-Type": "application/json"}
    reply = client.post("/api/v1/decisions", content=text.replace(old, new), headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, code) and words in reply.json()["error"]["message"]


def test_brackets_in_text_are_no_tower():
    text = json.dumps({"a": "[" * 50 + '\\"{' * 50, "b": [[1]]})
    assert parse_strict_json(text.encode())["b"] == [[1]]
    with pytest.raises(ApiError):
        parse_strict_json(b"[" * (MAXIMUM_DEPTH + 1) + b"]" * (MAXIMUM_DEPTH + 1))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_large_bodies_other_types_and_other_paths_have_our_shape_too(client):
    headers = {**client.as_role("app"), "Content-Type": "application/json"}
    large = b" " * (256 * 1024 + 1)
    replies = {
        413: client.post("/api/v1/decisions", content=large, headers=headers),
        415: client.post("/api/v1/decisions", content=b"a=1", headers={**headers, "Content-Type": "text/plain"}),
        404: client.get("/api/v1/nothing"),
        405: client.get("/api/v1/decisions"),
    }
    streamed = client.post("/api/v1/decisions", content=iter([large[:1000]] * 300), headers=headers)
    for status, reply in [*replies.items(), (413, streamed)]:
        assert (reply.status_code, set(reply.json()["error"])) == (status, {"code", "message", "field"})
        assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_mistake_of_ours_is_500_without_its_words(client, monkeypatch, caplog):
    def fails(trial, body):
        raise RuntimeError(f"weather was {'-'.join(['storm', 'y'])}")

    monkeypatch.setattr("surefoot.service.api.group_commit.decide_batch", fails)
    reply = client.decide()
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal")
    assert "storm-y" not in caplog.text and "RuntimeError" in caplog.text


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_database_that_is_gone_is_503(client, monkeypatch):
    def gone(trial, body):
        raise sa.exc.OperationalError("INSERT", {}, OSError("gone"))

    monkeypatch.setattr("surefoot.service.api.group_commit.decide_batch", gone)
    reply = client.decide()
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "no_database")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_unknown_address_is_a_page_for_people_and_json_for_programs(client):
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = client.get("/nothing", headers=browser)
    assert (
        page.status_code == 404 and "There is no such page" in page.text and page.headers["content-type"][:9] == "text/html"
    )
    for path, headers in (("/nothing", {}), ("/api/v1/nothing", browser)):
        reply = client.get(path, headers=headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_every_reply_has_the_strict_headers_whoever_writes_it(client, monkeypatch):
    """Also those of the middleware: too slow, too large, a mistake of ours."""

    async def wait():
        await asyncio.sleep(0.2)

    async def fail():
        raise RuntimeError

    replies = {404: client.get("/nothing", headers={"accept": "text/html"}), 401: client.post("/api/v1/decisions")}
    replies[413] = client.ask("/decisions", {"context": "x" * 10**6})
    monkeypatch.setattr(client.app.state.recorder, "check_readiness", fail)
    replies[500] = client.get("/readyz")
    monkeypatch.setattr(client.app.state.recorder, "check_readiness", wait)
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 0.01)
    replies[503] = client.get("/readyz")
    monkeypatch.undo()
    replies[200] = client.get("/docs")
    for status, reply in replies.items():
        assert reply.status_code == status
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
        assert (reply.headers["x-frame-options"], reply.headers["x-content-type-options"]) == ("DENY", "nosniff")
        assert (reply.headers["cache-control"], reply.headers["referrer-policy"]) == ("no-store", "no-referrer")
        style = reply.text.partition("<style>")[2].partition("</style>")[0]
        assert not style or base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy


def test_a_number_of_thousands_of_digits_is_named():
    with pytest.raises(ApiError, match="has 5,000 digits"):
        parse_strict_json(b"[" + b"9" * 5000 + b"]")


def test_who_waits_for_whom_decides_between_408_and_503(client, monkeypatch):
    """A body that was not read yet because the key is looked up has arrived: the client is not to blame."""

    async def wait(key):
        await asyncio.sleep(1)

    monkeypatch.setattr(client.app.state.key_lookups, "find", wait)
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 0.05)
    assert client.decide().json()["error"]["code"] == "too_slow"
