"""A real browser for tests: Debian's Chromium without a window, driven over its DevTools pipe.

The pipe needs neither a port nor a package: commands go to the browser's descriptor 3, answers come from 4, each message
JSON ended by a zero byte.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WHY_NOT = "needs Chromium (Debian: apt-get install chromium)"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)


class NavigatedError(RuntimeError):
    """The page went on to another one before it answered."""


class Browser:
    """`with Browser() as browser: visit = browser.visit(path)`."""

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._commands = os.pipe()
        self._answers, from_browser = os.pipe()
        flags = " ".join([*FLAGS, f"--user-data-dir={self._profile.name}"])
        self._process = subprocess.Popen(  # noqa: S602 - the shell only moves the two descriptors
            f"exec {CHROMIUM} {flags} about:blank 3<&{to_browser} 4>&{from_browser}",
            shell=True,
            executable=shutil.which("bash"),  # dash knows only descriptors of one digit
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._buffer, self.events = 0, b"", []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(f"{domain}.enable", in_page=True)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def visit(self, path, *, width=1100, dark=False):
        """Open a file; gives (addresses asked for, console messages and errors)."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", in_page=True, features=[scheme])
        self._call(
            "Emulation.setDeviceMetricsOverride", in_page=True, width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.events.clear()
        self._call("Page.navigate", in_page=True, url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._take()
        self.evaluate("new Promise(done => setTimeout(done, 50))")  # what a page would still ask for
        asked = [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
        said = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return asked, [event for event in self.events if event["method"] in said]

    def evaluate(self, expression):
        """The value of a JavaScript expression on the page."""
        result = self._call("Runtime.evaluate", in_page=True, expression=expression, returnByValue=True, awaitPromise=True)
        return result["result"].get("value")

    def _call(self, method, in_page=False, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if in_page:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == self._number:
                if "error" in answer:
                    error = NavigatedError if "navigated" in answer["error"]["message"] else RuntimeError
                    raise error(f"{method}: {answer['error']}")
                return answer["result"]

    def _take(self):
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 2**16)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
