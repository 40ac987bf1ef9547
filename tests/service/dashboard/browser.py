"""A browser that goes from page to page as somebody with a keyboard does, and remembers what it saw."""

import base64

from tests.browser import Browser, NavigatedError

PHONE = 390


class Reader(Browser):
    """A browser on one site; it remembers everything that was asked for and said."""

    def __enter__(self):
        super().__enter__()
        self.asked, self.said = [], []
        return self

    def size(self, width):
        options = {"height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self._call("Emulation.setDeviceMetricsOverride", in_page=True, width=width, **options)

    def dress(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", in_page=True, features=features)

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
        self._wait_for_requests()
        for event in self.events:
            if event["method"] == "Network.requestWillBeSent":
                self.asked.append(event["params"]["request"]["url"])
            if event["method"] in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                self.said.append(event)

    def _wait_for_requests(self):
        """What a page asks for after it has loaded; a page that leads on to another one is followed."""
        try:
            self.evaluate("new Promise(done => setTimeout(done, 30))")
        except NavigatedError:
            self._wait_for_requests()

    def picture(self, path):
        """The whole page as a PNG file."""
        shot = self._call("Page.captureScreenshot", in_page=True, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
