import pytest


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_too_many_requests_get_429(client):
    client.app.state.rate_limiter._rate = client.app.state.rate_limiter._full = 0.001
    client.app.state.rate_limiter._buckets.clear()
    reply = client.decide()
    assert reply.status_code == 429 and int(reply.headers["retry-after"]) >= 1
