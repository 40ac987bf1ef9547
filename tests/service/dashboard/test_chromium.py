"""The dashboard in a real Chromium: sign in, look, activate and roll back; nothing on the console, nobody else is asked."""

import base64
import os
from pathlib import Path

import pytest

from surefoot.service.access import keys
from surefoot.service.trial.trial import open_trial
from tests.browser import CHROMIUM, WHY_NOT, Browser
from tests.service.support.seeded_trial import NASTY, Clock, seed
from tests.service.support.servers import running

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
PAGES = (
    "/",
    "/participants",
    "/participants/p0",
    "/updates",
    "/policies",
    "/alerts",
    "/policies/1/activate",
    "/safety",
    "/staff",
)
PHONE, DESKTOP = 390, 1200


class Reader(Browser):
    """A browser on one site; it remembers everything that was asked for and said."""

    def __enter__(self):
        super().__enter__()
        self.asked, self.said = [], []
        return self

    def size(self, width):
        options = {"height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self._call("Emulation.setDeviceMetricsOverride", in_page=True, width=width, **options)

    def open(self, url):
        self._after(lambda: self._call("Page.navigate", in_page=True, url=url))

    def press(self, selector):
        """As somebody with a keyboard does: go there, press Enter."""
        assert self.evaluate(f"!!document.querySelector({selector!r})"), selector
        self.evaluate(f"document.querySelector({selector!r}).focus()")
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}

        def enter():
            self._call("Input.dispatchKeyEvent", in_page=True, type="keyDown", text="\r", **key)
            self._call("Input.dispatchKeyEvent", in_page=True, type="keyUp", **key)

        self._after(enter)

    def type(self, selector, text):
        self.evaluate(f"document.querySelector({selector!r}).focus()")
        self._call("Input.insertText", in_page=True, text=text)

    def _after(self, act):
        """Do something that loads a page, and wait until it has."""
        self.events.clear()
        act()
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._take()
        self.evaluate("new Promise(done => setTimeout(done, 30))")
        for event in self.events:
            if event["method"] == "Network.requestWillBeSent":
                self.asked.append(event["params"]["request"]["url"])
            if event["method"] in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                self.said.append(event)

    def picture(self, path):
        """The whole page as a PNG file."""
        shot = self._call("Page.captureScreenshot", in_page=True, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@needs_chromium
def test_a_trial_team_at_work(study, monkeypatch, tmp_path):
    trial = open_trial(study, f"sqlite:///{tmp_path}/trial.db")
    seed(trial, Clock(monkeypatch, tmp_path))
    key = keys.create_key(trial.database, "admin")
    with running(trial) as site, Reader() as browser:
        browser.size(DESKTOP)
        browser.open(f"{site}/")
        assert browser.evaluate("location.pathname") == "/sign-in"
        browser.type("#key", key)
        browser.press(".sign-in button")
        assert browser.evaluate("location.pathname") == "/"
        for width in (DESKTOP, PHONE):
            browser.size(width)
            for path in PAGES:
                browser.open(site + path)
                look(browser, path, width)
        roll_back_and_forth(browser, site, trial)
        browser.press("nav button")
        assert browser.evaluate("location.pathname") == "/sign-in"
        assert {url.split("/")[2] for url in browser.asked if not url.startswith("data:")} == {site.split("/")[2]}
        assert browser.said == []


def look(browser, path, width):
    """The charts have a size, the styles are there, nothing sticks out, nothing nasty ran."""
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "flex"
    charts = browser.evaluate("[...document.querySelectorAll('svg.chart')].map(one => one.getBoundingClientRect().width)")
    assert len(charts) == {"/": 2, "/policies": 1, "/participants/p0": 1}.get(path, 0) and all(
        250 < wide < width for wide in charts
    ), path
    assert browser.evaluate("document.querySelectorAll('script').length") == 0
    if path == "/alerts":
        assert NASTY in browser.evaluate("document.body.innerText")
    folder = os.environ.get("SUREFOOT_PICTURES")
    if folder:
        browser.picture(Path(folder) / f"{path.strip('/').replace('/', '-') or 'overview'}-{width}.png")


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
