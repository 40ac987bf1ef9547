"""Blinding: two trials that differ in nothing but their draws look the same, byte for byte, to people who are blinded."""

import re
from datetime import timedelta
from itertools import zip_longest
from types import SimpleNamespace

import pytest

from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.database.schema import DecisionReply, decisions
from surefoot.service.trial.adverse_events import record_event
from surefoot.service.trial.alerts import raise_periodic_alerts
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide, record_outcomes
from surefoot.service.trial.participants import register_participant, set_pause
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.dashboard.pages import sign_in
from tests.service.support.client import Client
from tests.service.support.seeded_trial import BEGIN, DESIGN, Clock
from tests.service.support.trials import column, update

POINTS = 36
DOSED = (
    DESIGN.replace("warm_up_decision_points = 20", "warm_up_decision_points = 10")
    + "\n[trial.dose]\nprompts_per_day = 2\nminimum_gap_minutes = 170\n"
)
SEEN = {
    "coordinator": (
        *("/participants", "/participants/p0", "/participants/p1", "/participants/p2", "/adherence", "/adherence?by=week"),
        *("/adherence?participant=p0", "/not-worn", "/events", "/participants?sort=last", "/participants?sort=missing"),
        *(
            "/participants/p0?download=csv",
            "/participants?download=csv",
            "/adherence?download=csv",
            "/not-worn?download=csv",
        ),
    ),
    "monitor": ("/events",),
    "app": (),
}
"""What each role looks at. A monitor may count over the whole study, so the other pages of a monitor differ. Some of the
pages are refused, in the same words."""
PUBLIC = ("/readyz", "/healthz", "/docs")
"""Not `/metrics`, which counts decisions by source: deploy/nginx.conf lets only the monitoring machine read it."""


def run_trial(study, clock, url):
    """A course whose requests, clocks and outcomes do not depend on what is drawn."""
    clock.set(BEGIN)
    trial = open_trial(study, url)
    for person in range(3):
        register_participant(trial.database, f"p{person}")
    for index in range(POINTS):
        clock.set(BEGIN + timedelta(days=index // 5, hours=2.5 * (index % 5)))
        for person in range(3):
            context = {"weather": (index * 7 + person) % 11 / 5 - 1, "engagement": index % 5 - 2.0, "place": "home"}
            body = {"participant_id": f"p{person}", "decision_idx": index, "timestamp": clock.moment, "context": context}
            request = DecisionRequest(**body, availability=index % 9 != 8, reasons=["driving"] if index % 9 == 8 else [])
            reply = DecisionReply.model_validate_json(decide(trial, request))
            if (index + person) % 4:
                outcome = Outcome(decision_id=reply.decision_id, outcome=context["weather"], timestamp=clock.moment)
                record_outcomes(trial, [outcome])
        if index == 25:
            assert update(trial)[0] in ("done", "refused")
            set_pause(trial, "p2", paused=True, reason="on holiday", by="test")
    record_event(trial, "p0", happened_at=BEGIN, description="A fall.", serious=True, related="possibly related", by="test")
    clock.set(BEGIN + timedelta(days=10))
    raise_periodic_alerts(trial, clock.moment)
    return trial


def look(trial):
    """Everything that a blinded person gets, without what is random: ids, tokens and prefixes of keys."""
    keys = {role: access.create_key(trial.database, role) for role in SEEN}
    with Client(create_app(trial), keys) as browser:
        browser.follow_redirects = False
        replies = {}
        for role, paths in SEEN.items():
            if role != "app":
                sign_in(browser, role)
            for path in paths:
                replies[role, path] = browser.get(path)
            for name in ("decisions", "outcomes", "learned", "policies", "updates", "study"):
                path = f"/api/v1/export/{name}"
                replies[role, path] = browser.get(path, headers=browser.as_role(role))
        for path in PUBLIC:
            replies["nobody", path] = browser.get(path)
    random = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{12}")
    texts = {}
    for name, reply in replies.items():
        headers = {name: value for name, value in reply.headers.items() if name not in ("x-request-id", "set-cookie")}
        texts[name] = (reply.status_code, random.sub("id", reply.text), random.sub("id", str(headers)))
    return texts


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_draws_change_nothing_that_blinded_people_see(url, monkeypatch, tmp_path):
    study = Study.parse(DOSED)
    clock = Clock(monkeypatch, tmp_path)
    trials = []
    for secret in (b"one", b"another"):
        source = SimpleNamespace(token_bytes=lambda size, secret=secret: secret.ljust(size, b"."))
        monkeypatch.setattr("surefoot.service.trial.trial.random_source", source)
        trials.append(run_trial(study, clock, f"sqlite:///{tmp_path}/trial-{secret.decode()}.db"))
    first, second = (column(trial, decisions.c.action) for trial in trials)
    assert first != second, "the draws differ"
    first, second = (look(trial) for trial in trials)
    for name in first:
        different = [
            lines
            for lines in zip_longest(*("\n".join(map(str, look[name])).splitlines() for look in (first, second)))
            if lines[0] != lines[1]
        ]
        assert not different, (name, different[:5])
    assert sum(status == 200 for status, _, _ in first.values()) >= 14
    for trial in trials:
        trial.close()
