"""The dashboard in a real Chromium: sign in, look, activate and roll back; nothing on the console, nobody else is asked."""

import json
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from surefoot.service import access, dashboard
from surefoot.service.database import clock, schema
from tests.browser import CHROMIUM, WHY_NOT
from tests.service.dashboard.browser import PHONE, Reader
from tests.service.support.seeded_trial import NASTY
from tests.service.support.servers import running

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
CHARTS = {
    "/": 2,
    "/participants": 0,
    "/participants/p0": 1,
    "/participants/p4": 0,
    "/adherence": 1,
    "/adherence?participant=p1&span=week&by=arrived&order=outcomes": 1,
    "/not-worn": 0,
    "/updates": 0,
    "/updates/1": 0,
    "/updates/calendar": 0,
    "/policies": 1,
    "/policies/1": 1,
    "/policies/1/activate": 0,
    "/policies/drift": 5,
    "/what-if": 0,
    "/what-if?state.weather=3&state.engagement=-1&state.place=home&participant=p0": 0,
    "/alerts": 0,
    "/events": 0,
    "/events/1": 0,
    "/safety": 0,
    "/boundaries": 3,
    "/staff": 0,
    "/policies/99": 0,
}
"""Every page, and how many charts it has."""
DESKTOP = 1200
LONGEST = 6000
"""Pixels of a page on a phone."""
FILES = ("/download/", "/staff/staff-actions.csv", "/safety/open.")
LOOK = """({
  width: document.documentElement.scrollWidth,
  height: document.documentElement.scrollHeight,
  charts: [...document.querySelectorAll('svg.chart')].map(one => one.getBoundingClientRect().width),
  menu: getComputedStyle(document.querySelector('nav') ?? document.body).display,
  scripts: document.querySelectorAll('script').length,
  words: document.body.innerText,
})"""


def test_every_page_is_looked_at():
    shown = {route.path for route in dashboard.router.routes if "GET" in route.methods}
    shown = {re.sub(r"\{\w+\}", "1", path) for path in shown if not path.startswith(FILES)}
    looked_at = {path.partition("?")[0].replace("/participants/p0", "/participants/1") for path in CHARTS}
    assert shown - looked_at == {"/sign-in", "/sign-in/oidc", "/sign-in/oidc/callback"}, "a new page needs a line in CHARTS"


@needs_chromium
def test_a_trial_team_at_work(seeded):
    key = access.create_key(seeded.database, "admin")
    with running(seeded) as site, Reader() as browser:
        browser.size(DESKTOP)
        browser.open(f"{site}/")
        assert browser.evaluate("location.pathname") == "/sign-in"
        look(browser, "/sign-in")
        browser.type("#key", key)
        browser.press(".sign-in button")
        assert browser.evaluate("location.pathname") == "/"
        for path in CHARTS:
            browser.open(site + path)
            look(browser, path)
        assert [event["params"]["entry"]["url"] for event in browser.said] == [f"{site}/policies/99"], "nothing but its 404"
        roll_back_and_forth(browser, site, seeded)
        browser.press("nav button")
        assert browser.evaluate("location.pathname") == "/sign-in"
        assert {url.split("/")[2] for url in browser.asked if not url.startswith("data:")} == {site.split("/")[2]}
        assert len(browser.said) == 1


@needs_chromium
def test_pages_of_a_large_trial_stay_short_on_a_phone(seeded):
    key = access.create_key(seeded.database, "admin")
    fill_pages(seeded)
    with running(seeded) as site, Reader() as browser:
        browser.size(PHONE)
        browser.open(f"{site}/sign-in")
        browser.type("#key", key)
        browser.press(".sign-in button")
        heights = {}
        for path in CHARTS:
            browser.open(site + path)
            heights[path] = browser.evaluate(LOOK)["height"]
            if os.environ.get("SUREFOOT_PICTURES"):
                name = re.sub(r"\W+", "-", path).strip("-") or "overview"
                browser.picture(Path(os.environ["SUREFOOT_PICTURES"]) / f"large-{name}.png")
    assert {path: height for path, height in heights.items() if height >= LONGEST} == {}


def fill_pages(trial):
    """Many rows of everything that a page lists: not a trial that could have been, but one to look at."""
    people, nights = 150, 200
    at = clock.now()
    with trial.database.transaction() as connection:

        def copy(table, number, **changes):
            """The table's last row again and again, with other values of these columns."""
            newest = connection.execute(sa.select(table).order_by(table.primary_key.columns[0].desc())).mappings().first()
            row = {name: value for name, value in newest.items() if name != "id"}
            rows = [{**row, **{name: value(turn) for name, value in changes.items()}} for turn in range(number)]
            connection.execute(sa.insert(table), rows)

        point = (
            connection.execute(sa.select(schema.decisions).where(schema.decisions.c.decision_idx == 50)).mappings().first()
        )
        copy(schema.participants, people, id=lambda turn: f"participant-{turn:03d}")
        rows = [{**point, "id": f"{turn:032x}", "decision_idx": 100 + turn, "participant_id": "p0"} for turn in range(300)]
        connection.execute(sa.insert(schema.decisions), rows)
        event = {"participant_id": "p0", "serious": True, "related": "not known", "description": "Felt dizzy. " * 40}
        moments = {"happened_at": at, "recorded_at": at, "recorded_by": "key 0123456789ab", "salt": bytes(16)}
        events = [{**event, **moments, "corrects": None if turn < 40 else 1} for turn in range(44)]
        connection.execute(sa.insert(schema.adverse_events), events)
        copy(schema.staff_actions, 300)
        copy(schema.keys, 60, prefix=lambda turn: f"{turn:012x}")
        copy(
            schema.alerts, 60, occasion=lambda turn: f"open-{turn}", message=lambda turn: "A sentence of usual length. " * 5
        )
        copy(schema.alerts, 60, occasion=lambda turn: f"closed-{turn}", closed_at=lambda turn: at)
        result = json.loads(
            connection.scalar(sa.select(schema.updates.c.result).order_by(schema.updates.c.id.desc()).limit(1))
        )
        result["removed_rows"] = 300 * result["removed_rows"][:1]
        result["implausible_rows"] = 50 * [{"variable": "weather", "value": 99.0, "participant_id": "p0", "decision_idx": 3,
                                            "limits": [-10, 10]}]  # fmt: skip
        started = [at - timedelta(days=turn) for turn in range(nights)]
        reason = "A policy check refused the policy for a reason that is as long as such reasons are."
        copy(
            schema.updates,
            nights,
            created_at=lambda turn: started[-1 - turn],
            result=lambda turn: json.dumps(result),
            message=lambda turn: reason,
        )
        copy(schema.policies, nights, update_id=lambda turn: turn + 3)
        copy(schema.activations, nights, policy_id=lambda turn: turn + 3)
        message = {"channel": "email", "kind": "test", "content": "{}", "attempts": 3, "error": "the mail server: URLError"}
        moments = dict.fromkeys(("created_at", "due_at"), at)
        rows = [{**message, **moments, "occasion": f"test:{turn}"} for turn in range(60)]
        connection.execute(sa.insert(schema.messages), rows)


def look(browser, path):
    """The charts have a size, the styles are there, nothing sticks out, nothing nasty ran: at both widths."""
    for width in (PHONE, DESKTOP):
        browser.size(width)
        browser.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        seen = browser.evaluate(LOOK)
        assert seen["width"] <= width, (path, width)
        assert seen["menu"] == ("block" if path in ("/sign-in", "/policies/99") else "flex"), path
        assert len(seen["charts"]) == CHARTS.get(path, 0) and all(150 < wide < width for wide in seen["charts"]), path
        assert seen["scripts"] == 0
        if path == "/alerts":
            assert NASTY in seen["words"]
        take_pictures(browser, path, width)


def take_pictures(browser, path, width):
    """Light and dark, where somebody asked for them."""
    folder = os.environ.get("SUREFOOT_PICTURES")
    for scheme in ("light", "dark") if folder else ():
        browser.dress(scheme)
        name = re.sub(r"\W+", "-", path).strip("-") or "overview"
        browser.picture(Path(folder) / f"{name}-{width}-{scheme}.png")


def roll_back_and_forth(browser, site, trial):
    assert trial.policies.live()[0] == 2
    browser.open(f"{site}/policies")
    browser.press("a[href='/policies/1/activate']")
    browser.press("main form button")
    assert browser.evaluate("location.pathname") == "/policies" and trial.policies.live()[0] == 1
    assert browser.evaluate("document.querySelector('h1').innerText") == "Policy 1 (live)"
    browser.press("a[aria-label='Activate policy 2']")
    browser.press("main form button")
    assert trial.policies.live()[0] == 2
    browser.open(f"{site}/alerts")
    browser.press("main form button")
    assert browser.evaluate("document.querySelectorAll('main .alert').length") == 1
