"""Five hundred hostile requests, the same in every run: the service answers below 500 and records nothing wrong."""

import json
import random

import pytest

from surefoot.service.database.schema import decisions, outcomes
from surefoot.service.trial.verification import replay
from tests.service.support.client import WHEN, request
from tests.service.support.trials import column

NASTY = [
    *(
        None,
        True,
        -1,
        0,
        2**31,
        2**63,
        10**400,
        1e308,
        "",
        " ",
        "\0",
        "p1\n",
        "../../etc/passwd",
        "%00",
        "p1'; DROP TABLE decisions;--",
    ),
    *(
        "<script>alert(1)</script>",
        "{{7*7}}",
        "${jndi:x}",
        "=cmd|' /C calc'!A0",
        "é" * 300,
        "\ud800",
        "a" * 5000,
        "p1\u202e",
        "NaN",
        "Infinity",
    ),
    *([], {}, [[[]]], {"a": {"b": {"c": []}}}, [None] * 50, {"weather": {}}, {"__proto__": 1}, {"": ""}),
    *(
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "2026-02-30T00:00:00Z",
        "2026-03-01T10:00:00",
        "2026-03-01T10:00:00+99:00",
        0,
        1.5,
    ),
]
PATHS = ["/participants", "/decisions", "/outcomes", "/updates/0", "/policies/%2e%2e/activate", "/participants/%00/pause"]
PATHS += [
    "/study/pause",
    "/export/decisions?format=exe",
    "/participants/p1/withdraw",
    "/nowhere",
    "//decisions",
    "/decisions/",
]
TYPES = ["application/json", "application/json; charset=utf-16", "text/plain", "application/xml", "", "multipart/form-data"]
RAW = [
    b"",
    b"{",
    b"[" * 30000,
    b'{"a":' * 500,
    b"\xff\xfe",
    b"null",
    b'"x"',
    b"1e400",
    b'{"participant_id": "p1", "participant_id": "p2"}',
]


def make_body(rng):
    """A good request with something nasty in it, or no request at all."""
    if rng.random() < 0.2:
        return rng.choice(RAW)
    outcome = {"decision_id": "0" * 32, "outcome": 1.0, "timestamp": WHEN}
    body = rng.choice([request(), outcome, {"outcomes": [outcome]}, {"participant_id": "p1"}, {"reason": "x"}])
    body = {**body, rng.choice([*body, "extra", "role"]): rng.choice(NASTY)}
    if "context" in body and rng.random() < 0.5:
        body["context"] = {rng.choice(["weather", "place", "x" * 101, "$where"]): rng.choice(NASTY)}
    return json.dumps(body).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_five_hundred_hostile_requests(client):
    client.register("p1")
    rng, statuses = random.Random(7), []  # noqa: S311 - which requests
    for _ in range(500):
        role, way = rng.choice(["app", "analyst", "admin"]), rng.choice(["POST"] * 8 + ["GET", "PUT", "DELETE", "PATCH"])
        headers = {**client.as_role(role), "Content-Type": rng.choice(TYPES[:1] * 6 + TYPES)}
        path = rng.choice(PATHS[:3] * 4 + PATHS)
        reply = client.request(way, f"/api/v1{path}", content=make_body(rng), headers=headers)
        assert reply.status_code < 500, (way, path, reply.text)
        if reply.status_code >= 400 and reply.headers["content-type"].startswith("application/json"):
            assert set(reply.json()["error"]) == {"code", "message", "field"}
        statuses.append(reply.status_code)
    assert {400, 403, 404, 405, 422} <= set(statuses) and statuses.count(200) < 100
    assert set(column(client.trial, decisions.c.participant_id)) <= {"p1"} and column(client.trial, outcomes.c.id) == []
    assert replay(client.trial.database).differences == []
