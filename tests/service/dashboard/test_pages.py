import pytest
import sqlalchemy as sa
from starlette.requests import Request

from surefoot.service import access
from surefoot.service.dashboard.pages import find_address
from surefoot.service.database.schema import alerts
from surefoot.service.updates import updates
from tests.service.dashboard.pages import PAGES, sign_in, token
from tests.service.support.seeded_trial import NASTY
from tests.service.support.trials import fill


def test_nobody_sees_anything_without_signing_in(browser):
    for path in PAGES:
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    for path in ("/updates", "/policies/1/activate", "/alerts/1/close", "/sign-out"):
        assert browser.post(path, data={"token": "0" * 64}).headers["location"] == "/sign-in"


def test_analysts_read_and_admins_act_and_apps_do_neither(browser):
    fill(browser.trial, points=40)
    updates.run_update(browser.trial, updates.begin_update(browser.trial, "test"))
    assert sign_in(browser, "app").status_code == 403 and browser.get("/").status_code == 303
    for role, status in (("analyst", 403), ("admin", 303)):
        assert sign_in(browser, role).headers["location"] == "/"
        assert [browser.get(path).status_code for path in PAGES] == [200] * len(PAGES)
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
    access.revoke_key(browser.trial.database, browser.keys["admin"])
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

    with browser.trial.database.transaction() as connection:
        raise_alert(connection, kind="no-data", occasion="test", message=NASTY)


def closed(browser):
    with browser.trial.database.autocommit() as connection:
        return [moment is not None for moment in connection.scalars(sa.select(alerts.c.closed_at).order_by(alerts.c.id))]


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


def test_the_api_description_and_its_keys_are_untouched(browser):
    sign_in(browser, "admin")
    assert browser.get("/api/v1/policies").status_code == 401
    assert not any(path in ("/", "/sign-in", "/policies") for path in browser.app.openapi()["paths"])


def test_signing_out_ends_the_session_on_the_server(browser):
    """A copy of the cookie is worth nothing afterwards, neither for reading nor for acting."""
    sign_in(browser, "admin")
    copied, own = browser.cookies["surefoot_session"], token(browser.get("/"))
    sign_in(browser, "admin")
    other = browser.cookies["surefoot_session"]
    browser.cookies.clear()
    browser.cookies.set("surefoot_session", copied)
    assert browser.post("/sign-out", data={"token": own}).status_code == 303
    browser.cookies.clear()
    browser.cookies.set("surefoot_session", copied)
    assert browser.get("/").headers["location"] == "/sign-in"
    assert browser.post("/alerts/1/close", data={"token": own}).headers["location"] == "/sign-in"
    browser.cookies.clear()
    browser.cookies.set("surefoot_session", other)
    assert browser.get("/").status_code == 200, "only that session ended"


def test_only_a_proxy_on_this_machine_may_say_where_a_request_comes_from():
    def find(peer):
        return find_address(Request({"type": "http", "client": (peer, 1), "headers": [(b"x-real-ip", b"192.0.2.7")]}))

    assert (find("127.0.0.1"), find("::1"), find("198.51.100.1")) == ("192.0.2.7", "192.0.2.7", "198.51.100.1")
