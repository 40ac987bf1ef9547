"""Adverse events, unblinding and the board's report in the browser; what blinded people look at is on the trail."""

import json

import pytest

from surefoot.service.database.schema import staff_actions
from surefoot.service.trial.verification import verify
from tests.service.dashboard.pages import sign_in, token
from tests.service.support.trials import column, fill

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
EVENT = {"participant_id": "p0", "happened_at": "2026-03-01T09:30", "serious": "no", "related": "unrelated"}


def trail(browser, action):
    actions = column(browser.trial, staff_actions.c.action)
    subjects = column(browser.trial, staff_actions.c.subject)
    details = column(browser.trial, staff_actions.c.detail)
    rows = zip(actions, subjects, details, strict=True)
    return [(subject, detail) for done, subject, detail in rows if done == action]


def test_a_coordinator_records_and_corrects_an_event(browser):
    fill(browser.trial, people=1, points=3)
    sign_in(browser, "coordinator")
    form = {**EVENT, "token": token(browser.get("/events")), "description": "<b>fell</b>"}
    for wrong in ({"happened_at": ""}, {"happened_at": "yesterday"}, {"serious": ""}, {"related": ""}, {"description": ""}):
        assert browser.post("/events", data={**form, **wrong}).status_code == 422, wrong
    assert browser.post("/events", data={**form, "participant_id": "nobody"}).status_code == 404
    assert browser.post("/events", data=form).headers["location"] == "/events/1"
    page = browser.get("/events").text
    assert "&lt;b&gt;fell" in page and "2026-03-01 09:30" in page
    correction = {**form, "description": "fell and broke an arm", "serious": "yes", "corrects": "1"}
    assert browser.post("/events", data=correction).headers["location"] == "/events/1"
    page = browser.get("/events/1").text
    assert "broke an arm" in page and "&lt;b&gt;fell" in page and page.index("Now:") < page.index("Before:")
    assert "broke an arm" in browser.get("/events?download=csv").text
    assert browser.get("/events/2").status_code == 404
    sign_in(browser, "monitor")
    assert "broke an arm" in browser.get("/events").text and "Record an event" not in browser.get("/events").text
    assert verify(browser.trial.database).discrepancies == []


def test_unblinding_shows_one_participant_once_and_is_recorded(browser):
    fill(browser.trial, people=1, points=10)
    sign_in(browser, "coordinator")
    page = browser.get("/participants/p0")
    assert "probability" not in page.text and "Unblind in an emergency" in page.text
    form = {"token": token(page), "reason": "admitted to hospital"}
    assert browser.post("/participants/p0/unblind", data={**form, "reason": " "}).status_code == 422
    assert browser.post("/participants/nobody/unblind", data=form).status_code == 404
    assert trail(browser, "unblinded") == []
    shown = browser.post("/participants/p0/unblind", data=form).text
    assert "probability" in shown and ">0.500<" in shown and "are recorded" in shown
    assert trail(browser, "unblinded") == [("p0", "admitted to hospital")]
    assert "probability" not in browser.get("/participants/p0").text, "only once"


def test_a_monitor_gets_the_open_part_and_the_closed_one_with_a_reason(browser):
    fill(browser.trial, people=2, points=10)
    sign_in(browser, "monitor")
    page = browser.get("/safety")
    report = browser.get("/safety/open.json?since=2026-01-01")
    assert report.json()["part"] == "open" and "attachment" in report.headers["content-disposition"]
    assert "mean outcome" not in browser.get("/safety/open.html").text
    assert browser.get("/safety/open.json?since=x").status_code == 422
    form = {"token": token(page), "reason": "third meeting", "form": "json"}
    assert browser.post("/safety/closed", data={**form, "reason": ""}).status_code == 422
    assert trail(browser, "unblinded") == []
    closed = json.loads(browser.post("/safety/closed", data=form).text)
    assert [row["action"] for row in closed["by_action"]] == ["nothing", "send"]
    assert trail(browser, "unblinded") == [("outcomes by action", "third meeting")]


def test_pages_that_blinded_people_look_at_are_on_the_trail(browser):
    fill(browser.trial, people=1, points=1)
    for role, path in (("coordinator", "/participants?search=p"), ("monitor", "/safety"), ("analyst", "/participants")):
        sign_in(browser, role)
        assert browser.get(path).status_code == 200
    sign_in(browser, "coordinator")
    assert browser.get("/policies").status_code == 403
    assert [subject for subject, _ in trail(browser, "viewed")] == ["/participants?search=p", "/safety"]
