import re
from datetime import timedelta

import pytest

from surefoot.service.dashboard import trial_pages
from surefoot.service.dashboard.participant_pages import POINTS_SHOWN, describe_participant, draw_timeline
from surefoot.service.operations.export import export_decisions
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.participants import ask_erasure, confirm_erasure, register_participant
from tests.service.dashboard.pages import sign_in, token
from tests.service.support.client import request
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import fill, moment


def test_a_participants_page_has_decision_and_arrival_times(browser, monkeypatch, tmp_path):
    """A phone that was off line for three hours: the decision point is at nine, its arrival at noon."""
    clock = Clock(monkeypatch, tmp_path)
    register_participant(browser.trial.database, "p1")
    clock.set(BEGIN + timedelta(hours=3))
    decide(browser.trial, DecisionRequest(**request("p1", 7, timestamp=BEGIN.isoformat())))
    one = describe_participant(browser.trial, "p1", clock.moment)
    assert [(point["decision_idx"], point["delay"], point["outcome_state"]) for point in one["points"]] == [
        (7, "3.0 h", "awaited")
    ]
    later = describe_participant(browser.trial, "p1", clock.moment + timedelta(days=3))
    assert later["points"][0]["outcome_state"] == "never came"
    sign_in(browser, "analyst")
    page = browser.get("/participants/p1").text
    assert "2026-03-02 09:00" in page and "2026-03-02 12:00" in page and "3.0 h" in page
    table = browser.get("/participants").text
    assert "2026-03-02 09:00" in table and "2026-03-02 12:00" in table and 'href="/participants/p1"' in table


def test_days_are_counted_by_arrival_or_by_decision_time(browser, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    register_participant(browser.trial.database, "p1")
    clock.set(BEGIN + timedelta(days=1))
    decide(browser.trial, DecisionRequest(**request("p1", timestamp=BEGIN.isoformat())))
    counts = {
        by: [day["decisions"] for day in trial_pages.count_days(browser.trial, clock.moment, 2, by)]
        for by in ("received_at", "decided_at")
    }
    assert counts == {"received_at": [0, 1], "decided_at": [1, 0]}
    sign_in(browser, "analyst")
    assert 'href="?by=arrived"' in browser.get("/?by=decided").text and 'href="?by=decided"' in browser.get("/").text
    timelines = {by: browser.get(f"/participants/p1?by={by}").text for by in ("arrived", "decided")}
    assert "03 Mar</text>" in timelines["arrived"] and "03 Mar</text>" not in timelines["decided"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_long_histories_have_pages_and_strangers_none(browser):
    fill(browser.trial, people=1, points=POINTS_SHOWN + 20)
    one = describe_participant(browser.trial, "p0", BEGIN)
    assert (len(one["points"]), one["total"]) == (POINTS_SHOWN + 20, POINTS_SHOWN + 20)
    assert one["states"]["unavailable"] == (POINTS_SHOWN + 20) / 10
    sign_in(browser, "analyst")
    first, second, beyond = (browser.get(f"/participants/p0?page={page}").text for page in (1, 2, 99))
    rows = [re.findall(r"<tr><td>(\d+)</td>", page) for page in (first, second)]
    assert [int(row) for row in rows[0] + rows[1]] == list(range(POINTS_SHOWN + 19, -1, -1))
    assert "Page 1 of 2" in first and "Page 2 of 2" in second and "Page 2 of 2" in beyond
    for path in ("/participants/nobody", "/participants/p0?page=x", "/download/keys.csv", "/download/decisions.xls"):
        assert browser.get(path).status_code == 404, path


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_is_downloaded_is_the_export(browser, tmp_path):
    fill(browser.trial, people=1, points=10)
    assert browser.get("/download/decisions.csv").headers["location"] == "/sign-in"
    sign_in(browser, "analyst")
    assert 'href="/download/decisions.csv"' in browser.get("/participants").text
    reply = browser.get("/download/decisions.csv")
    export_decisions(browser.trial, tmp_path / "decisions.csv", "csv")
    assert reply.content == (tmp_path / "decisions.csv").read_bytes() and reply.headers["x-row-count"] == "10"
    assert "attachment" in reply.headers["content-disposition"]


def test_the_timeline_puts_points_at_their_time_of_day(study, trial, monkeypatch, tmp_path):
    fill(trial, people=1, points=10)
    points = describe_participant(trial, "p0", BEGIN)["points"]
    drawn = str(draw_timeline(points, trial.settings.zone))
    assert drawn.count("<circle") == 10 and moment(0).endswith("08:00:00Z")
    # 08:00 is a third of the way through the day.
    assert f'cx="{16 + (98 - 16) / 3:.2f}%"' in drawn


def test_an_admin_pauses_and_resumes_in_the_browser(browser):
    fill(browser.trial, people=1, points=1)
    sign_in(browser, "admin")
    form = {"token": token(browser.get("/")), "reason": "the board asked"}
    for path, back in (("/participants/p0", "/participants/p0"), ("/study", "/")):
        assert browser.post(f"{path}/pause", data={**form, "reason": " "}).status_code == 422
        assert browser.post(f"{path}/pause", data=form).headers["location"] == back
        assert "every decision point is unavailable" in browser.get(back).text
        assert browser.post(f"{path}/resume", data=form).headers["location"] == back
        assert "every decision point is unavailable, and nothing is sent" not in browser.get(back).text
    sign_in(browser, "analyst")
    form = {"token": token(browser.get("/")), "reason": "me too"}
    assert browser.post("/study/pause", data=form).status_code == 403


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_admin_withdraws_a_participant_in_the_browser(browser):
    fill(browser.trial, people=1, points=10)
    sign_in(browser, "analyst")
    form = {"token": token(browser.get("/")), "reason": "moved away", "repeated": "p0"}
    assert "Withdraw" not in browser.get("/participants/p0").text
    assert browser.post("/participants/p0/withdraw", data=form).status_code == 403
    sign_in(browser, "admin")
    form["token"] = token(browser.get("/"))
    assert "Write p0 to confirm" in browser.get("/participants/p0").text
    for wrong in ({"repeated": "p1"}, {"repeated": ""}, {"reason": " "}):
        assert browser.post("/participants/p0/withdraw", data={**form, **wrong}).status_code == 422
    assert browser.post("/participants/p0/withdraw", data=form).headers["location"] == "/participants/p0"
    page = browser.get("/participants/p0").text
    assert "Withdrawn: nothing is asked" in page and "Write p0 to confirm" not in page
    assert "withdrawn" in browser.get("/participants").text and "/participants/p0" not in browser.get("/").text
    asked = ask_erasure(browser.trial.database, "p0", reason="x", by="x")
    confirm_erasure(browser.trial.database, "p0", asked.code, by="x")
    assert "erased" in browser.get("/participants/p0").text
    assert "<td>erased</td><td>9</td>" in browser.get("/").text
