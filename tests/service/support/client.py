"""A client of the application in this process, with short names for what the tests do most."""

from starlette.testclient import TestClient

WHEN = "2026-03-01T10:00:00+01:00"
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

    def outcome(self, decision_id, value, timestamp=WHEN, **more):
        body = {"decision_id": decision_id, "proximal_outcome": value, "timestamp": timestamp, **more}
        return self.ask("/outcomes", body)


def request(participant="p1", index=0, **changes):
    return {
        "participant_id": participant,
        "decision_idx": index,
        "timestamp": WHEN,
        "availability": True,
        "context": CONTEXT,
        **changes,
    }
