import json


def test_metrics_and_health(client):
    client.register("p1")
    client.decide()
    client.decide(index=1, context={})
    lines = client.get("/metrics").text.splitlines()
    assert 'surefoot_decisions_total{source="warm-up"} 1' in lines
    assert 'surefoot_decisions_total{source="fallback"} 1' in lines
    assert "surefoot_participants 1" in lines and "surefoot_live_policy 0" in lines
    assert client.get("/healthz").json() == {"status": "alive"} and client.get("/readyz").json() == {"status": "ready"}
    page = client.get("/docs").text
    assert "POST /api/v1/decisions" in page and "<script" not in page and "src=" not in page
    assert json.dumps(client.get("/openapi.json").json())
