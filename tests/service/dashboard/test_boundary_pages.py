"""What the page of a board says, and to whom."""

import csv
from datetime import UTC, date, datetime

import pytest

from surefoot.inference.confidence_sequences import DrawTest, Stratum
from surefoot.service.access import list_actions
from surefoot.service.dashboard import boundary_pages
from surefoot.service.trial import boundaries
from surefoot.service.trial.boundaries import Boundary, MonitoringReport
from tests.service.dashboard.pages import sign_in, token
from tests.service.support.trials import erase, fill, update

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
NAN = float("nan")
DAYS = tuple(date(2026, 3, day) for day in range(1, 6))
FALLING = ((NAN, NAN, NAN), (0.0, -50.0, 50.0), (-2.0, -4.0, -0.5), (-2.25, -3.5, -1.125), (-2.0, -3.0, -1.0625))


@pytest.fixture
def report(monkeypatch):
    """A report in which harm is crossed, and the draws of an hour are wrong."""
    boundaries = [
        Boundary("harm", "Mean outcome", "steps", -1.0, 500, DAYS, FALLING),
        Boundary("futility", "Effect", "steps", None, 500, DAYS, FALLING),
        Boundary("burden", "Prompts", "prompts", 3.0, 100, DAYS, tuple((2.5, 2.0, 3.5) for _ in DAYS)),
    ]
    draws = DrawTest(1e6, [Stratum("hour", 7, 40, 38, 20.0, 1e6), Stratum("all", "draws", 500, 260, 241.5, 3.0)])
    made = MonitoringReport(boundaries, draws, {"used": 500, "awaited": 3, "missing": 20, "erased": 1}, is_bounded=False)
    monkeypatch.setattr(boundary_pages, "read_report", lambda trial, at: made)
    return made


def read_page(browser, role, **changes):
    sign_in(browser, role)
    return browser.get("/boundaries", params=changes).text.partition("</style>")[2]


def test_an_analyst_sees_every_course(browser, report):
    page = read_page(browser, "analyst")
    assert "crossed on 2026-03-04" in page and "not crossed" in page
    assert "Up to 2026-03-05: −2 steps (95" in page and "confidence sequence −3 to −1.062), from 500 values." in page
    assert page.count("<svg") == 3 and "−50" not in page, "a day with a very wide interval is not drawn"
    assert "hour 7: something was sent in 38 of 40 draws; expected 20" in page


def test_a_monitor_is_blind_until_a_reason_is_on_record(browser, report):
    page = read_page(browser, "monitor")
    assert "crossed on 2026-03-04" in page and "2.5 prompts" in page and page.count("<svg") == 1
    for number in ("−2 steps", "−3 to", "−2.25"):
        assert number not in page
    rows = list(csv.reader(browser.get("/boundaries", params={"download": "csv"}).text.splitlines()))
    assert {row[0] for row in rows[1:]} == {"Prompts"}
    form = {"token": token(browser.get("/boundaries"))}
    assert browser.post("/boundaries", data=form).status_code == 422
    shown = browser.post("/boundaries", data={**form, "reason": "third meeting"}).text
    assert "−3 to −1.062" in shown and shown.count("<svg") == 3
    (action,) = list_actions(browser.trial.database, 0, 1)[0]
    assert (action["action"], action["subject"], action["detail"]) == ("unblinded", "outcomes by action", "third meeting")


def test_a_trial_without_boundaries_says_how_to_state_them(browser):
    page = read_page(browser, "analyst")
    assert "The study states no boundary; write <code>[monitoring]</code>" in page and "<svg" not in page
    assert "There is nothing to estimate yet." in page and "agree with the recorded probabilities" in page


def test_a_page_that_is_looked_at_again_computes_nothing_again(browser, monkeypatch):
    calls = []
    compute = boundaries.monitor_trial
    monkeypatch.setattr(boundaries, "monitor_trial", lambda trial, at: calls.append(at) or compute(trial, at))
    moment = datetime(2026, 3, 20, 10, 20, tzinfo=UTC)
    monkeypatch.setattr("surefoot.service.database.clock.now", lambda: moment)
    for _ in range(3):
        assert "as of 2026-03-20 10:00" in read_page(browser, "analyst")
    full_hour = moment.replace(minute=0)
    assert calls.count(full_hour) == 1
    fill(browser.trial, people=1, points=2)
    for change in (update, erase):
        change(browser.trial)
        calls.clear()
        read_page(browser, "analyst")
        assert calls.count(full_hour) == 1, "an update and an erasure change the numbers"
