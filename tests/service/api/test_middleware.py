import pytest
import sqlalchemy as sa


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
