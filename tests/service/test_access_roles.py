"""Every page with every role (routes of the API: api/test_requests_authentication.py), and what roles cannot see."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.service import access, dashboard
from surefoot.service.app import create_app
from surefoot.service.dashboard.participant_pages import describe_participant, list_participants
from surefoot.service.database.clock import ClockWatch, now
from surefoot.service.database.schema import decisions, ended_sessions, outcomes, staff_actions
from surefoot.service.trial import alerts
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import verify
from surefoot.service.updates import updates
from surefoot.study import Study
from tests.service.dashboard.pages import sign_in, token
from tests.service.support.client import WHEN, Client
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, answer, column, fill, moment, update

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
READERS, TEAM, BOARD = {"analyst"}, {"analyst", "coordinator"}, {"analyst", "monitor"}
CARERS = {"coordinator"}
NOBODY, EVERYBODY = set(), {"analyst", "coordinator", "monitor"}
PAGES = {
    "GET /": READERS,
    "GET /participants": TEAM,
    "GET /participants/{participant_id}": TEAM,
    "GET /adherence": TEAM,
    "GET /not-worn": TEAM,
    "GET /download/study.toml": READERS,
    "GET /download/{name}.{form}": READERS,
    "GET /updates": READERS,
    "GET /updates/calendar": READERS,
    "GET /updates/{update_id}": READERS,
    "GET /policies": READERS,
    "GET /policies/drift": READERS,
    "GET /policies/{policy_id}": READERS,
    "GET /what-if": READERS,
    "GET /policies/{policy_id}/activate": READERS,
    "GET /alerts": READERS,
    "GET /safety": BOARD,
    "GET /safety/open.{form}": BOARD,
    "POST /safety/closed": BOARD,
    "GET /events": EVERYBODY,
    "GET /events/{event_id}": EVERYBODY,
    "POST /events": CARERS,
    "POST /participants/{participant_id}/unblind": CARERS,
    "GET /boundaries": BOARD,
    "POST /boundaries": BOARD,
    "GET /staff": NOBODY,
    "GET /staff/staff-actions.csv": NOBODY,
    "POST /participants": CARERS,
    "POST /participants/{participant_id}/withdraw": CARERS,
    "POST /participants/{participant_id}/{change}": CARERS,
    "POST /study/{change}": NOBODY,
    "POST /updates": NOBODY,
    "POST /policies/{policy_id}/activate": NOBODY,
    "POST /alerts/test": NOBODY,
    "POST /alerts/{alert_id}/close": NOBODY,
    "GET /sign-in": EVERYBODY,
}
"""Who may, beside admins, who may everything."""
ELSEWHERE = {"POST /sign-in", "POST /sign-out", "GET /sign-in/oidc", "GET /sign-in/oidc/callback"}
"""Tested by themselves."""
FILLED = {
    "participant_id": "p0",
    "change": "pause",
    "update_id": "1",
    "policy_id": "1",
    "alert_id": "1",
    "event_id": "1",
    "name": "decisions",
}
FORMS = {"GET /download/{name}.{form}": "csv", "GET /safety/open.{form}": "html"}


def list_pages():
    return {f"{method} {route.path}" for route in dashboard.router.routes for method in route.methods}


def fill_in(route):
    filled = {**FILLED, "form": FORMS.get(route)}
    return re.sub(r"\{(\w+)\}", lambda name: filled[name[1]], route.split()[1])


@pytest.fixture
def busy(monkeypatch):
    """No update is really started."""

    def refuse(*words, **more):
        raise updates.UpdateRunningError("another update is under way")

    monkeypatch.setattr(updates, "start_update", refuse)


def test_every_page_lets_in_its_roles_and_no_others(browser, busy):
    fill(browser.trial, people=1, points=25)
    update(browser.trial)
    assert list_pages() == set(PAGES) | ELSEWHERE, "a new page needs a line here"
    assert sign_in(browser, "app").status_code == 403
    for role in set(access.ROLES) - {"app"}:
        home = sign_in(browser, role).headers["location"]
        own = token(browser.get(browser.get(home).headers.get("location", home)))
        for route, allowed in PAGES.items():
            method, path = route.split()
            form = {"token": own} if method == "POST" else None
            reply = browser.request(method, fill_in(route), data=form)
            refused = reply.status_code == 403 or (path == "/" and reply.headers.get("location") not in (None, "/"))
            assert refused == (role not in allowed | {"admin"}), (route, role, reply.status_code)


def test_a_coordinator_stays_blind(browser):
    """No page of a coordinator has an action, a probability, an outcome or a policy."""
    fill(browser.trial, people=1, points=25)
    update(browser.trial)
    sign_in(browser, "coordinator")
    texts = [
        browser.get(path).text.partition("</style>")[2]
        for path in ("/participants", "/participants/p0", "/not-worn", "/adherence", "/events")
    ]
    page = texts[1]
    for word in ("send", "Sent", "not sent", "probability", "warm-up", "fallback", "policy", ">0.500<", "/download"):
        assert not any(word in text for text in texts), word
    assert "available" in page and "driving" in page and "known" in page
    actions = column(browser.trial, decisions.c.action)
    assert set(actions) == {0, 1}
    rows = re.findall(r"<tr><td>(\d+)</td>.*?</tr>", page, re.DOTALL)
    assert len(rows) == 25
    sign_in(browser, "analyst")
    assert ">0.500<" in browser.get("/participants/p0").text and "/download/" in browser.get("/participants").text


def test_a_coordinator_registers_pauses_and_withdraws_on_the_trail(browser):
    label = "Anna of ward 3"
    browser.keys["coordinator"] = access.create_key(browser.trial.database, "coordinator", label)
    before = len(column(browser.trial, staff_actions.c.id))
    sign_in(browser, "coordinator")
    form = {"token": token(browser.get("/participants")), "participant_id": "n-01", "reason": "ill", "repeated": "n-01"}
    assert browser.post("/participants", data={**form, "participant_id": "a/b"}).status_code == 422
    assert browser.post("/participants", data=form).headers["location"] == "/participants/n-01"
    for change in ("pause", "resume", "withdraw"):
        assert browser.post(f"/participants/n-01/{change}", data=form).headers["location"] == "/participants/n-01"
    assert "Withdrawn" in browser.get("/participants/n-01").text
    assert browser.post("/study/pause", data=form).status_code == 403, "the whole study is the admin's"
    trail = [(row["action"], row["subject"]) for row in access.list_actions(browser.trial.database, 0, 50)[0]][::-1]
    done = [entry for entry in trail[before:] if entry[0] not in ("signed in", "viewed")]
    assert done == [(action, "n-01") for action in ("registered", "paused", "resumed", "withdrawn")]
    assert verify(browser.trial.database).discrepancies == []
    sign_in(browser, "admin")
    page = browser.get("/staff").text
    assert f"{label} (coordinator)" in page and f"key {browser.keys['coordinator'].split('_')[1]}" not in page


def test_a_monitor_sees_counts_only(browser):
    fill(browser.trial, people=2, points=5)
    reason = {"reason": "felt dizzy"}
    browser.ask("/participants/p1/withdraw", reason, role="admin")
    browser.ask("/participants/p0/pause", {"reason": "ill"}, role="admin")
    counts = browser.get("/api/v1/safety", headers=browser.as_role("monitor")).json()
    assert (counts["participants"], counts["withdrawn"], counts["paused"], counts["decisions"]) == (2, 1, 1, 10)
    assert counts["reasons"] == ["paused: ill", "withdrawn: felt dizzy"]
    sign_in(browser, "monitor")
    page = browser.get("/safety").text
    assert "felt dizzy" in page and "p1" not in page and "p0" not in page
    assert browser.get("/").headers["location"] == "/safety"


def test_keys_expire_with_a_reason(browser, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    trial = browser.trial
    for role, days in (("app", 2), ("admin", 1)):
        browser.keys[role] = access.create_key(trial.database, role, days=days)
    browser.register("p1")
    sign_in(browser, "admin")
    assert browser.get("/").status_code == 200
    alerts.raise_periodic_alerts(trial, clock.moment)
    assert column(trial, alerts.alerts.c.kind) == ["key-expiry"]
    clock.set(BEGIN + timedelta(days=1))
    assert browser.get("/").headers["location"] == "/sign-in", "its sessions end with it"
    assert "expired on 2026-03-03" in sign_in(browser, "admin").text
    assert browser.decide("p1", timestamp=WHEN).status_code == 200
    clock.set(BEGIN + timedelta(days=2))
    refused = browser.decide("p1", 1)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "expired_key")
    assert "expired on 2026-03-04" in refused.json()["error"]["message"]
    with pytest.raises(ValueError, match="at most 36,500 days"):
        access.create_key(trial.database, "app", days=0)


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_is_wrong_for_a_moment_locks_nobody_out(trial, monkeypatch, days):
    """Keys do not expire, timestamps that are right are not in the future, and rows are dated as they should be."""
    right = now() - timedelta(days=days)
    watch = ClockWatch(lambda: 1000.0)
    watch.find_jump(right)
    with monkeypatch.context() as before:
        before.setattr(access, "now", lambda: right)
        keys = {role: access.create_key(trial.database, role, days=30) for role in ("app", "admin")}
    with Client(create_app(replace(trial, watch=watch)), keys) as browser:
        browser.follow_redirects = False
        browser.register("p1")
        decision = browser.decide("p1", timestamp=right.isoformat())
        assert decision.status_code == 200
        outcome = {"decision_id": decision.json()["decision_id"], "outcome": 1, "timestamp": right.isoformat()}
        assert browser.ask("/outcomes", outcome).json()["results"][0]["status"] == "recorded"
        for table in (decisions, outcomes):
            (received,) = column(trial, table.c.received_at)
            assert abs(received - right) < timedelta(hours=1), "keep_days would erase what seems to be old"
        sign_in(browser, "admin")
        assert browser.get("/").status_code == 200


def test_staff_actions_leave_a_trail(browser):
    fill(browser.trial, people=1, points=25)
    update(browser.trial)
    before = len(column(browser.trial, staff_actions.c.id))
    with browser.trial.database.transaction() as connection:
        alerts.raise_alert(connection, kind="no-data", occasion="x", message="x")
    sign_in(browser, "admin")
    form = {"token": token(browser.get("/")), "reason": "=cmd()", "live": "1"}
    for path in ("/participants/p0/pause", "/study/pause", "/policies/1/activate", "/alerts/1/close", "/alerts/1/close"):
        assert browser.post(path, data=form).status_code == 303
    browser.get("/download/decisions.csv")
    browser.get("/api/v1/export/outcomes", headers=browser.as_role("analyst"))
    page = browser.get("/staff").text
    browser.post("/sign-out", data=form)
    done = ["signed in", "paused", "paused", "activated", "closed an alert", "exported", "exported", "signed out"]
    assert column(browser.trial, staff_actions.c.action)[before:] == done
    prefix = browser.keys["admin"].split("_")[1]
    assert page.count(f"key {prefix}") >= 6 and "=cmd()" in page and "valid" not in page
    file = browser.get("/api/v1/export/staff-actions", headers=browser.as_role("admin")).text
    assert "closed an alert" in file and "'=cmd()" in file
    assert verify(browser.trial.database).discrepancies == []
    with browser.trial.database.transaction() as connection:
        connection.execute(sa.delete(ended_sessions))
    (reopened,) = verify(browser.trial.database).discrepancies
    assert reopened.subject.startswith("session that was signed out by staff action") and "no longer" in reopened.problem


def test_a_dose_limit_does_not_tell_a_coordinator_of_prompts(url):
    certain = STUDY.replace("maximum = 0.9", "maximum = 0.999").replace(
        "warm_up_probability = 0.5", "warm_up_probability = 0.999"
    )
    trial = open_trial(Study.parse(certain + "\n[trial.dose]\nprompts_per_day = 1\n"), url)
    register_participant(trial.database, "p0")
    stopped = [answer(trial, "p0", index, timestamp=moment(index))["source"] == "unavailable" for index in range(4)]
    assert stopped == [False, True, True, True]
    seen = describe_participant(trial, "p0", BEGIN, blind=True)["points"]
    assert {(one["state"], one["reasons"], one["outcome_state"]) for one in seen} == {("available", "", "awaited")}
    assert list_participants(trial, BEGIN + timedelta(days=9))[0]["missing"] == 4
    trial.close()
