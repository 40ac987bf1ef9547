import os
import signal
import time

from surefoot.service.database.schema import updates as update_rows
from tests.service.support.trials import column, fill


def test_an_update_over_http_runs_beside_and_survives_a_kill(client):
    fill(client.trial, points=40)
    reply = client.ask("/updates", {}, role="admin")
    assert reply.status_code == 202
    assert client.ask("/updates", {}, role="admin").json()["error"]["code"] == "update_running"
    update_id = reply.json()["id"]
    assert client.decide("p0", 999).json()["source"] == "warm-up"

    def wait(update_id, until):
        for _ in range(1200):
            status = client.get(f"/api/v1/updates/{update_id}", headers=client.as_role("admin")).json()
            if until(status):
                return status
            time.sleep(0.05)
        raise AssertionError(status)

    # Killed as soon as the child shows its own process id.
    deadline = time.monotonic() + 60
    while (process := column(client.trial, update_rows.c.process)[0]) == os.getpid():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    killed = wait(update_id, lambda status: status["finished_at"] is not None)
    assert killed["state"] in ("interrupted", "done")
    if killed["state"] == "interrupted":
        assert client.trial.policies.live() is None
    again = client.ask("/updates", {}, role="admin").json()["id"]
    assert wait(again, lambda status: status["finished_at"] is not None)["state"] == "done"
    assert client.decide("p0", 1000).json()["source"] == "policy"
