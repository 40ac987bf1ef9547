"""A client of the application in this process, with short names for what the tests do most."""

from datetime import datetime, timedelta

from starlette.testclient import TestClient

WHEN = "2026-03-01T10:00:00+01:00"
LATER = "2026-03-02T10:00:00+01:00"
CONTEXT = {"weather": 0.5, "engagement": -1.0, "place": "home"}


class Client(TestClient):
    def __init__(self, app, keys):
        super().__init__(app)
        self.keys = keys

    def as_role(self, role):
        return {"Authorization": f"Bearer {self.keys[role]}"}

    def ask(self, path, body, role="app"):
        return self.post(f"/api/v1{path}", json=body, headers=self.as_role(role))

    def register(self, *people):
        for participant in people:
            assert self.ask("/participants", {"participant_id": participant}).status_code == 200

    def decide(self, participant="p1", index=0, **changes):
        return self.ask("/decisions", request(participant, index, **changes))

    def outcome(self, decision_id, value, timestamp=LATER, **more):
        body = {"decision_id": decision_id, "outcome": value, "timestamp": timestamp, **more}
        return self.ask("/outcomes", body)


def request(participant="p1", index=0, **changes):
    """A decision point; without a timestamp of its own a minute after the one before. Tests send impossible indices, too."""
    return {
        "participant_id": participant,
        "decision_idx": index,
        "timestamp": (
            datetime.fromisoformat(WHEN) + timedelta(minutes=index if isinstance(index, int) and 0 <= index < 10**6 else 0)
        ).isoformat(),
        "availability": True,
        "context": CONTEXT,
        **changes,
    }
