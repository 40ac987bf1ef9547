import html
import math
import re
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from manual import dashboard_charts
from surefoot.policies.rules import RULES, DecisionRule
from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.dashboard import participant_pages, policy_pages, trial_pages
from surefoot.service.database import clock
from surefoot.service.database.schema import messages
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.participants import register_participant, withdraw
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import updates
from surefoot.study import Study
from tests.service.dashboard.pages import PAGES, live, sign_in, token
from tests.service.support.client import Client, request
from tests.service.support.seeded_trial import BEGIN, NASTY, Clock
from tests.service.support.trials import STUDY, fill


def test_pages_that_are_not_there_are_pages(browser):
    sign_in(browser, "admin")
    for path in ("/policies/99", "/policies/0", "/policies/x", "/updates/99", "/policies/99/activate"):
        answer = browser.get(path)
        assert answer.status_code == 404 and "text/html" in answer.headers["content-type"], path


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_trial_without_anything_has_all_its_pages(browser):
    sign_in(browser, "admin")
    assert {path: browser.get(path).status_code for path in PAGES} == dict.fromkeys(PAGES, 200)
    asked = browser.get("/what-if?state.weather=1&state.engagement=1&state.place=home").text
    assert "no rule for somebody new yet" in asked and "<b>0.500</b>" in asked


def test_activating_and_rolling_back(seeded_browser):
    browser = seeded_browser
    sign_in(browser, "admin")
    assert live(browser) == 2
    page = browser.get("/policies/1/activate")
    assert "Roll back to policy 1?" in page.text
    stale = {"token": token(page), "live": "1"}
    assert browser.post("/policies/1/activate", data=stale).status_code == 409 and live(browser) == 2
    assert browser.post("/policies/1/activate", data={"token": token(page), "live": "2"}).headers["location"] == "/policies"
    assert live(browser) == 1
    assert "key " + access.KEY_FORM.fullmatch(browser.keys["admin"])[1] in browser.get("/policies").text


def test_what_is_shown_is_what_is_stored(seeded_browser):
    browser, at = seeded_browser, clock.now()
    sign_in(browser, "analyst")
    trial = browser.trial
    days = trial_pages.count_days(trial, at)
    assert [day["decisions"] for day in days[-4:]] == [15, 15, 15, 3] and sum(
        day["decisions"] for day in days
    ) == 4 * 50 - 15 + 3
    people = participant_pages.list_participants(trial, at)
    assert [one["id"] for one in people[:2]] == ["p4", "p1"] and people[0]["last_contact"] is None
    assert (people[1]["last_contact"], people[1]["decisions"]) == (BEGIN + timedelta(days=6, hours=10), 35)
    counts = trial_pages.count_outcomes(trial, at)
    assert sum(counts[name] for name in ("known", "reported missing", "awaited", "never came")) == sum(
        day["available"] for day in days
    )
    assert counts["never came"] == sum(one["missing"] for one in people) > 0
    status = updates.list_updates(trial, 1)[0]
    removed = status["result"]["removed"]
    text = browser.get("/updates").text
    assert f"{removed} of {removed} removed rows" in text
    numbers = range(1, math.ceil(removed / trial_pages.REMOVED_SHOWN) + 1)
    whole = "".join(browser.get(f"/updates?removed={number}").text for number in numbers)
    assert (
        whole.count(" above what was expected, more than the ") + whole.count(" below what was expected, more than the ")
        == removed
    )
    assert NASTY not in browser.get("/alerts").text and NASTY not in browser.get("/").text


def test_days_are_those_of_the_studys_zone(url, monkeypatch, tmp_path):
    """Also on the day that has only 23 hours."""
    opened = open_trial(Study.parse(STUDY.replace("[trial]", '[trial]\ntime_zone = "Europe/Zurich"', 1)), url)
    set_clock = Clock(monkeypatch, tmp_path)
    fill(opened, people=1, points=0)
    for index, moment in enumerate(("2026-03-28T22:59Z", "2026-03-28T23:00Z", "2026-03-29T21:59Z", "2026-03-29T22:00Z")):
        set_clock.set(datetime.fromisoformat(moment))
        decide(opened, DecisionRequest(**request("p0", index, timestamp=moment)))
    found = trial_pages.count_days(opened, set_clock.moment, 4)
    opened.close()
    assert {str(day["date"]): day["decisions"] for day in found[1:]} == {"2026-03-28": 1, "2026-03-29": 2, "2026-03-30": 1}


def test_who_was_never_heard_of_is_silent_since_registration(seeded_browser):
    sign_in(seeded_browser, "admin")
    page = seeded_browser.get("/").text
    assert '10 days<span class="spare">, since registration' in page
    assert "12 Mar 2026, 10:00<" in page and "times: UTC" in page
    assert "The nightly update is at 23:00." in seeded_browser.get("/updates").text
    for one in participant_pages.list_participants(seeded_browser.trial, clock.now()):
        withdraw(seeded_browser.trial, one["id"], reason="moved away", by="admin")
    assert "Everybody has withdrawn." in seeded_browser.get("/").text


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_page_has_one_time_zone_and_names_it(url, monkeypatch, tmp_path):
    """22:30 UTC is half past midnight of the next day in Zurich, on every page and in every list."""
    Clock(monkeypatch, tmp_path).set(datetime.fromisoformat("2026-07-01T22:30:00Z"))
    trial = open_trial(Study.parse(STUDY.replace("[trial]", '[trial]\ntime_zone = "Europe/Zurich"', 1)), url)
    fill(trial, people=1, points=1)
    keys = {role: access.create_key(trial.database, role) for role in access.ROLES}
    with Client(create_app(trial), keys) as browser:
        browser.follow_redirects = False
        sign_in(browser, "admin")
        for path in (*PAGES, "/participants/p0", "/staff"):
            page = re.sub(r"<style>.*?</style>|<time[^>]*>", "", browser.get(path).text, flags=re.DOTALL)
            assert "times: Europe/Zurich" in page and "UTC" not in page, path
        assert "2026-07-02 00:30" in browser.get("/staff").text and "22:30" not in page
    trial.close()


@pytest.mark.parametrize("path", ["/policies", "/policies/drift", "/updates", "/alerts", "/not-worn", "/participants"])
def test_words_of_statisticians_and_programmers_are_folded(seeded_browser, path):
    with seeded_browser.trial.database.transaction() as connection:
        row = {"channel": "email", "occasion": "x", "kind": "test", "content": "{}", "attempts": 3}
        times = dict.fromkeys(("created_at", "due_at"), clock.now())
        connection.execute(sa.insert(messages), {**row, **times, "error": "the webhook cannot be reached (URLError)"})
    sign_in(seeded_browser, "admin")
    page = seeded_browser.get(path).text.partition("</style>")[2]
    shown = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    for word in ("logit", "jackknife", "robust critic", "URLError", "device =", "[trial", "POST /api"):
        assert word not in shown, word
    assert len(shown) < len(page), "there is something behind a link"


def test_the_overview_is_red_while_anything_needs_somebody(seeded_browser):
    trial = seeded_browser.trial
    sign_in(seeded_browser, "analyst")
    page = seeded_browser.get("/").text.partition("</style>")[2]
    technical = (
        "no decision was asked for in the last 24 hours",
        "2 participants have been silent for more than 2 days: p4, p1",
    )
    shown = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert all(words in page and words not in shown for words in technical)
    assert "No decision was asked for in a long time." in shown and "Participants have been silent for days." in shown
    sign_in(seeded_browser, "admin")
    form = {"token": token(seeded_browser.get("/")), "reason": "lives abroad"}
    for number in (1, 2):
        seeded_browser.post(f"/alerts/{number}/close", data=form)
    seeded_browser.post("/participants/p4/pause", data=form)
    withdraw(trial, "p1", reason="moved away", by="admin")
    assert "all is well" in seeded_browser.get("/").text
    row = {"channel": "email", "kind": "test", "content": "{}", "attempts": 1, "due_at": clock.now()}

    def add(occasion, **more):
        with trial.database.transaction() as connection:
            connection.execute(sa.insert(messages), {**row, "occasion": occasion, "created_at": clock.now(), **more})
        page = seeded_browser.get("/").text
        assert ("all is well" in page) != ("Needs attention" in page)
        return "did not reach the team" in page

    earlier = clock.now() - timedelta(days=1)
    assert add("1", error="URLError", created_at=earlier), "a message fails"
    assert not add("2", sent_at=clock.now(), error=None), "messages arrive again"
    assert add("3", error="URLError", created_at=earlier, attempts=12), "one was given up and is lost"


def test_the_overview_counts_context_warnings_and_names_them(seeded_browser):
    sign_in(seeded_browser, "analyst")
    assert "<h2>Context warnings</h2>" not in seeded_browser.get("/").text
    for index in (900, 901):
        moment = clock.now() - timedelta(minutes=30 * (901 - index))
        asked = request("p0", index, timestamp=moment.isoformat(), context={"wether": 1.0})
        decide(seeded_browser.trial, DecisionRequest.model_validate(asked))
    page = html.unescape(seeded_browser.get("/").text)
    assert '<dt>Context warnings</dt><dd class="bad">2<small>in the last 24 hours</small>' in page
    assert "context.wether is not a state variable of the study (did you mean 'weather'?); it was not used <b>2</b>" in page


def test_the_gallery_of_the_manual_shows_every_chart(seeded_browser):
    sign_in(seeded_browser, "analyst")
    pages = [seeded_browser.get(path.replace("p000", "p0")).text for path in dashboard_charts.PAGES]
    shown = [dashboard_charts.show_charts(page) for page in pages]
    assert [one.count('<svg class="chart"') for one in shown] == [2, 1, 1, 1, 5]
    assert all(one.count("<div><p><b>") == one.count("<figure") and "<a " not in one for one in shown)
    assert [one.count('class="key"') for one in shown] == [1, 1, 1, 0, 0]
    style = dashboard_charts.write_style(pages[0])
    assert "prefers-color-scheme" not in style and ":root" not in style and ".policy { fill: var(--blue)" in style


def test_the_send_rate_has_wilsons_interval():
    day = trial_pages.make_day(BEGIN.date(), {"policy": 50, "unavailable": 7}, 10)
    n, p, z = 50, 0.2, 1.959963984540054
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert abs(day["low"] - (middle - half)) < 1e-12 and abs(day["high"] - (middle + half)) < 1e-12
    assert trial_pages.make_day(BEGIN.date(), {"unavailable": 7}, 0)["send rate"] is None


def test_coefficients_are_shown_with_the_intervals_of_their_update(browser, monkeypatch):
    row = {"action": "send", "feature": "weather", "value": 0.25, "low": -0.5, "high": 1.0, "note": ""}
    monkeypatch.setattr(updates, "coefficient_intervals", lambda method: {"rows": [row], "how": "counted on fingers"})
    fill(browser.trial, points=40)
    updates.run_update(browser.trial, updates.begin_update(browser.trial, "test"))
    sign_in(browser, "analyst")
    text = browser.get("/policies").text
    assert (
        "−0.5 to +1" in text
        and "Counted on fingers" not in text
        and "95\N{NO-BREAK SPACE}% intervals: counted on fingers" in text
    )
    # Zero is in the middle, 0.25 a little to its right: 50 (1 + 0.25 / 1.08).
    assert 'cx="61.57%"' in text


@pytest.mark.parametrize("name", [name for name in RULES if RULES.find(name).coefficients is DecisionRule.coefficients])
def test_a_policy_without_coefficients_says_how_it_decides(seeded_browser, monkeypatch, name):
    class Version:
        policies = SimpleNamespace(rule=RULES.find(name), participants=None)

    monkeypatch.setattr(seeded_browser.trial.policies, "get", lambda policy: Version)
    monkeypatch.setattr(policy_pages, "list_estimates", lambda *_: ([], ""))
    sign_in(seeded_browser, "analyst")
    page = html.unescape(seeded_browser.get("/policies/2").text).replace("\N{NO-BREAK SPACE}", " ")
    assert f"This kind of policy has no coefficients of its own. {RULES.find(name).how}" in page
    others = {RULES.find(other).how for other in RULES} - {RULES.find(name).how}
    assert not any(how in page for how in others)


def test_participants_can_be_searched_by_a_part_of_their_pseudonym(browser):
    for one in ("north-01", "north-02", "south-01"):
        register_participant(browser.trial.database, one)
    sign_in(browser, "admin")
    page = browser.get("/participants", params={"search": " NORTH"}).text
    assert "north-01" in page and "north-02" in page and "south-01" not in page and "2 of 3 participants" in page
    assert "south-01" in browser.get("/participants").text
    nobody = browser.get("/participants", params={"search": "<b>"}).text
    assert (
        'value="&lt;b&gt;"' in nobody and "No pseudonym holds “&lt;b&gt;”" in nobody and "Nobody is registered" not in nobody
    )
    assert browser.get("/participants", params={"search": "x" * 65}).status_code == 404
