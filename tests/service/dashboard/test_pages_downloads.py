import csv
import hashlib
import io

import pytest

from surefoot.service.database.schema import staff_actions
from surefoot.service.trial.alerts import raise_alert
from tests.service.dashboard.pages import PAGES, sign_in
from tests.service.support.trials import column


def read(reply):
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert len(rows) == int(reply.headers["x-row-count"])
    assert reply.headers["x-content-sha256"] == hashlib.sha256(reply.content).hexdigest()
    return rows


def download(browser, path):
    return browser.get(path + ("&" if "?" in path else "?") + "download=csv")


def test_every_page_can_be_had_as_a_file_by_who_may_see_it(seeded_browser):
    browser = seeded_browser
    files = {*PAGES, "/participants/p0", "/updates/1", "/policies/1", "/what-if?state.weather=1"} - {"/what-if"}
    assert download(browser, "/adherence").headers["location"] == "/sign-in"
    sign_in(browser, "analyst")
    before = len(column(browser.trial, staff_actions.c.id))
    assert all(read(download(browser, path)) or path in ("/not-worn",) for path in sorted(files))
    trail = column(browser.trial, staff_actions.c.subject)[before:]
    assert len(trail) == len(files) and {"adherence.csv (page)", "participant-p0.csv (page)"} <= set(trail)
    sign_in(browser, "coordinator")
    allowed = {path for path in files if download(browser, path).status_code == 200}
    assert allowed == {"/participants", "/participants/p0", "/adherence", "/not-worn", "/events"}
    sign_in(browser, "monitor")
    allowed = {path for path in files if download(browser, path).status_code == 200}
    assert allowed == {"/safety", "/boundaries", "/events"}


def test_a_file_holds_what_its_page_shows(seeded_browser):
    browser = seeded_browser
    sign_in(browser, "analyst")
    days = {by: read(download(browser, f"/?by={by}")) for by in ("arrived", "decided")}
    assert [sum(int(day["decisions"]) for day in rows) for rows in days.values()] == [188, 188]
    assert list(days["arrived"][-1].items())[:2] == [("date", "2026-03-12"), ("policy", "3")]
    found = read(download(browser, "/participants?search=P1"))
    assert [(one["id"], one["decisions"]) for one in found] == [("p1", "35")]
    points = read(download(browser, "/participants/p0"))
    assert len(points) == 51 and {point["action_name"] for point in points} == {"nothing", "send"}
    nights = read(download(browser, "/updates/calendar?month=2026-03"))
    assert [(one["date"], one["update"]) for one in nights if one["update"]] == [("2026-03-10", "1"), ("2026-03-11", "2")]
    sign_in(browser, "coordinator")
    blind = read(download(browser, "/participants/p0"))
    assert len(blind) == 51 and not {"action_name", "probability", "source", "outcome"} & set(blind[0])


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_formulas_are_neutralised(browser):
    with browser.trial.database.transaction() as connection:
        raise_alert(connection, kind="no-data", occasion="x", message="=cmd|' /C calc'!A0")
    sign_in(browser, "admin")
    (row,) = read(download(browser, "/alerts"))
    assert row["message"] == "'=cmd|' /C calc'!A0"
