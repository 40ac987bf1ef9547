"""The dashboard without a browser: who may see and do what, forms, headers, content."""

import re
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from surefoot.fitting.part_fit import fit_part
from surefoot.service.access import keys
from surefoot.service.access.sessions import SESSION_SECONDS, Sessions
from surefoot.service.dashboard import overview, policy_views
from surefoot.service.database.schema import alerts
from surefoot.service.trial.api_models import DecisionRequest
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.trial import open_service
from surefoot.service.updates import coefficient_intervals, queries, trial_logs, updates
from surefoot.study import Study
from tests.service.client import Client, request
from tests.service.conftest import STUDY
from tests.service.seeded import BEGIN, NASTY, Clock, seed
from tests.service.trials import fill

PAGES = ("/", "/participants", "/updates", "/policies", "/alerts")


@pytest.fixture
def browser(client: Client):
    client.follow_redirects = False
    return client


def token(page):
    return re.search(r'name="token" value="([0-9a-f]{64})"', page.text)[1]


def sign_in(browser, role):
    browser.cookies.clear()
    page = browser.get("/sign-in")
    return browser.post("/sign-in", data={"token": token(page), "key": browser.keys[role]})


def live(browser):
    found = browser.service.policies.live()
    return None if found is None else found[0]


def test_nobody_sees_anything_without_signing_in(browser):
    for path in PAGES:
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    for path in ("/updates", "/policies/1/activate", "/alerts/1/close", "/sign-out"):
        assert browser.post(path, data={"token": "0" * 64}).headers["location"] == "/sign-in"


def test_analysts_read_and_admins_act_and_apps_do_neither(browser):
    fill(browser.service, points=40)
    updates.run(browser.service, updates.begin(browser.service, "test"))
    assert sign_in(browser, "app").status_code == 403 and browser.get("/").status_code == 303
    for role, status in (("analyst", 403), ("admin", 303)):
        assert sign_in(browser, role).headers["location"] == "/"
        assert [browser.get(path).status_code for path in PAGES] == [200] * 5
        form = {"token": token(browser.get("/")), "live": "1"}
        for path in ("/policies/1/activate", "/alerts/1/close"):
            assert browser.post(path, data=form).status_code == status, (role, path)


@pytest.mark.parametrize("key", ["", "sf_nonsense", "sf_" + "0" * 12 + "_" + "0" * 64, "é\0"])
def test_wrong_keys_are_refused(browser, key):
    page = browser.get("/sign-in")
    answer = browser.post("/sign-in", data={"token": token(page), "key": key})
    assert answer.status_code == 401 and "not a valid key" in answer.text
    assert browser.get("/").status_code == 303


def test_a_revoked_key_ends_its_session(browser):
    sign_in(browser, "admin")
    assert browser.get("/").status_code == 200
    keys.revoke(browser.service.database, browser.keys["admin"])
    assert browser.get("/").headers["location"] == "/sign-in"


def test_forms_need_their_own_token(browser):
    seeded_alert(browser)
    sign_in(browser, "admin")
    own = token(browser.get("/"))
    old_session = browser.cookies["surefoot_session"]
    sign_in(browser, "admin")
    for wrong in ({}, {"token": ""}, {"token": "0" * 64}, {"token": own}, {"token": "é"}):
        assert browser.post("/alerts/1/close", data={"other": "x", **wrong}).status_code == 403
        assert browser.post("/sign-out", data={"other": "x", **wrong}).status_code == 403
    assert browser.post("/alerts/1/close", json={"token": own}).status_code == 415
    assert closed(browser) == [False]
    browser.cookies.clear()
    browser.cookies.set("surefoot_session", old_session)
    assert browser.post("/alerts/1/close", data={"token": own}).status_code == 303
    assert closed(browser) == [True]


def test_signing_in_needs_the_forms_token_too(browser):
    page = browser.get("/sign-in")
    form = {"token": "0" * 64, "key": browser.keys["admin"]}
    assert browser.post("/sign-in", data=form).status_code == 403
    browser.cookies.clear()
    assert browser.post("/sign-in", data={**form, "token": token(page)}).status_code == 403
    assert browser.get("/").status_code == 303


def seeded_alert(browser):
    from surefoot.service.trial.alerts import raise_alert

    with browser.service.database.writing() as connection:
        raise_alert(browser.service.database, connection, kind="no-data", occasion="test", message=NASTY)


def closed(browser):
    with browser.service.database.looking() as connection:
        return [moment is not None for moment in connection.scalars(sa.select(alerts.c.closed_at).order_by(alerts.c.id))]


def test_sessions_cannot_be_forged_stretched_or_taken_to_another_study():
    ours, theirs = Sessions(b"a" * 32), Sessions(b"b" * 32)
    session = ours.new("0123456789ab", at=0.0)
    assert ours.read(session.text, at=1.0) == session
    assert ours.read(session.text, at=SESSION_SECONDS + 1.0) is None
    assert theirs.read(session.text, at=1.0) is None
    prefix, expires, nonce, signature = session.text.split(".")
    for forged in (
        f"ffffffffffff.{expires}.{nonce}.{signature}",
        f"{prefix}.{int(expires) + 1}.{nonce}.{signature}",
        f"{prefix}.{expires}.{nonce}",
        ours.form_token(session),
        "",
        session.text + "\n",
    ):
        assert ours.read(forged, at=1.0) is None
    assert ours.form_token(session) != ours.form_token(ours.new("0123456789ab", at=0.0))


def test_the_cookie_and_the_headers_are_strict(browser):
    answer = sign_in(browser, "admin")
    cookie = next(text for text in answer.headers.get_list("set-cookie") if text.startswith("surefoot_session="))
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie
    page = browser.get("/sign-in", headers={"x-forwarded-proto": "https"})
    for page in (browser.get("/"), browser.get("/policies/99"), browser.get("/policies/x"), browser.get("/sign-in")):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
    browser.cookies.clear()
    secure = browser.get("/sign-in", headers={"x-forwarded-proto": "https"}).headers["set-cookie"]
    assert "Secure" in secure


def test_pages_that_are_not_there_are_pages(browser):
    sign_in(browser, "admin")
    for path in ("/policies/99", "/policies/0", "/policies/x", "/updates/99", "/policies/99/activate"):
        answer = browser.get(path)
        assert answer.status_code == 404 and "text/html" in answer.headers["content-type"], path


def test_the_api_description_and_its_keys_are_untouched(browser):
    sign_in(browser, "admin")
    assert browser.get("/api/v1/policies").status_code == 401
    assert not any(path in ("/", "/sign-in", "/policies") for path in browser.app.openapi()["paths"])


def test_activating_and_rolling_back(browser, monkeypatch, tmp_path):
    seed(browser.service, Clock(monkeypatch, tmp_path))
    sign_in(browser, "admin")
    assert live(browser) == 2
    page = browser.get("/policies/1/activate")
    assert "Roll back to policy 1?" in page.text
    stale = {"token": token(page), "live": "1"}
    assert browser.post("/policies/1/activate", data=stale).status_code == 409 and live(browser) == 2
    assert browser.post("/policies/1/activate", data={"token": token(page), "live": "2"}).headers["location"] == "/policies"
    assert live(browser) == 1
    assert "key " + keys.FORM.fullmatch(browser.keys["admin"])[1] in browser.get("/policies").text


def test_what_is_shown_is_what_is_stored(browser, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    seed(browser.service, clock)
    sign_in(browser, "analyst")
    service = browser.service
    days = overview.days(service, clock.moment)
    assert [day.decisions for day in days[-4:]] == [15, 15, 15, 3] and sum(day.decisions for day in days) == 4 * 50 - 15 + 3
    people = overview.people(service, clock.moment)
    assert [one.id for one in people[:2]] == ["p4", "p1"] and people[0].last_contact is None
    assert (people[1].last_contact, people[1].decisions) == (BEGIN + timedelta(days=6, hours=10), 35)
    counts = overview.outcome_counts(service, clock.moment)
    assert sum(counts[name] for name in ("known", "reported missing", "awaited", "never came")) == sum(
        day.available for day in days
    )
    assert counts["never came"] == sum(one.missing for one in people) > 0
    status = queries.update_list(service, 1)[0]
    removed = policy_views.removed(service, status)
    assert removed["total"] == status["result"]["removed"] > 0
    text = browser.get("/updates").text
    assert all(row["why"] in text for row in removed["rows"]) and "above what was expected" in text
    assert NASTY not in browser.get("/alerts").text and NASTY not in browser.get("/").text


def test_days_are_those_of_the_studys_zone(url, monkeypatch, tmp_path):
    """Also on the day that has only 23 hours."""
    opened = open_service(Study.parse(STUDY.replace("[trial]", '[trial]\ntime_zone = "Europe/Zurich"', 1)), url)
    clock = Clock(monkeypatch, tmp_path)
    fill(opened, people=1, points=0)
    for index, moment in enumerate(("2026-03-28T22:59Z", "2026-03-28T23:00Z", "2026-03-29T21:59Z", "2026-03-29T22:00Z")):
        clock.set(datetime.fromisoformat(moment))
        decide(opened, DecisionRequest(**request("p0", index, timestamp=moment)))
    found = overview.days(opened, clock.moment, 4)
    opened.close()
    assert {str(day.date): day.decisions for day in found[1:]} == {"2026-03-28": 1, "2026-03-29": 2, "2026-03-30": 1}


def test_the_send_rate_has_wilsons_interval():
    low, high = overview.Day(BEGIN.date(), {"policy": 50, "unavailable": 7}, 10).send_rate[1:]
    n, p, z = 50, 0.2, 1.959963984540054
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert abs(low - (middle - half)) < 1e-12 and abs(high - (middle + half)) < 1e-12
    assert overview.Day(BEGIN.date(), {"unavailable": 7}, 0).send_rate is None


def test_coefficients_are_shown_with_the_intervals_of_their_update(browser, monkeypatch):
    row = {"action": "send", "feature": "weather", "value": 0.25, "low": -0.5, "high": 1.0, "note": ""}
    monkeypatch.setattr(updates, "coefficient_intervals", lambda method: {"rows": [row], "how": "counted on fingers"})
    fill(browser.service, points=40)
    updates.run(browser.service, updates.begin(browser.service, "test"))
    sign_in(browser, "analyst")
    text = browser.get("/policies").text
    assert "−0.5 to +1" in text and "Counted on fingers" not in text and "95 % intervals: counted on fingers" in text
    # Zero is in the middle, 0.25 a little to its right: 50 (1 + 0.25 / 1.08).
    assert 'cx="61.57%"' in text


def test_intervals_come_from_the_fit_and_are_never_worth_a_policy(study, service, monkeypatch):
    fill(service, points=40)
    with service.database.reading() as connection:
        fitted = fit_part(study, trial_logs.study_logs(study, trial_logs.rows(connection))).method
    found = coefficient_intervals.coefficient_intervals(fitted)
    assert len(found["rows"]) == 4 and all(row["low"] <= row["value"] <= row["high"] for row in found["rows"])
    monkeypatch.setattr(coefficient_intervals, "coefficients", lambda *given, **more: 1 / 0)
    assert coefficient_intervals.coefficient_intervals(fitted) == {}
