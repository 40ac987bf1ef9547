"""Failover and rolling upgrade: two servers with one PostgreSQL, one killed under load, then both upgraded in turn.

Clients send decisions to either server and repeat what was not answered at the other one, as docs/running-a-trial.md says.
Run `python -m benchmarks.failover --old FOLDER`, with a checkout of an earlier release in FOLDER.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.service.support.client import CONTEXT
from tests.service.support.postgres import binaries, cluster, free_port
from tests.service.support.trials import STUDY

CLIENTS = 4
STEP = 12.0
"""Seconds between two events."""


class Instance:
    """One server of a release, which is a folder with its sources."""

    def __init__(self, name, study, url, log):
        self.name, self.port = name, free_port()
        self._log = log
        self._command = [sys.executable, "-m", "surefoot", "serve", "--study", str(study), "--port", str(self.port)]
        self._url = url
        self.process = None

    def start(self, release):
        environment = {**os.environ, "PYTHONPATH": str(release / "src"), "SUREFOOT_DATABASE": self._url}
        began = time.monotonic()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=environment, stdout=log, stderr=log, start_new_session=True)
        while ask(self.port, "GET", "/readyz")[0] != 200:
            assert self.process.poll() is None, self._log.read_text()[-2000:]
            time.sleep(0.1)
        return time.monotonic() - began

    def end(self, kind):
        os.killpg(self.process.pid, kind)
        self.process.wait(60)


def ask(port, method, path, body=None, key="", seconds=10.0):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


class Load:
    """Clients that send one decision point after the other until they are stopped."""

    def __init__(self, instances, key):
        self._ports = [instance.port for instance in instances]
        self._key = key
        self._stop = threading.Event()
        self.answers = {}
        self.waits = []
        self.refused = 0
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number):
        index = 0
        while not self._stop.is_set():
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            # One participant after the other, so that none is asked twice within a gap that the study may have.
            body = {"participant_id": f"p{number}-{index}", "decision_idx": 0, "timestamp": moment, "availability": True}
            began, attempt = time.monotonic(), number
            for path, content in (("participants", {"participant_id": body["participant_id"]}), ("decisions", body)):
                if path == "decisions":
                    content["context"] = CONTEXT
                while True:
                    port = self._ports[attempt % len(self._ports)]
                    status, reply = ask(port, "POST", f"/api/v1/{path}", content, self._key)
                    if status == 200:
                        break
                    self.refused += status != 0
                    attempt += 1
                    time.sleep(0.05)
            self.answers[body["participant_id"]] = (body, reply)
            self.waits.append((time.monotonic() - began, began))
            index += 1


def run(command, release, url):
    environment = {**os.environ, "PYTHONPATH": str(release / "src"), "SUREFOOT_DATABASE": url}
    done = subprocess.run(
        [sys.executable, "-m", "surefoot", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def measure(old, new):
    """What happened, as a dictionary."""
    with tempfile.TemporaryDirectory() as folder, cluster(binaries()) as server:
        url = f"{server}/postgres"
        study, log = Path(folder) / "study.toml", Path(folder) / "log.txt"
        study.write_text(STUDY)
        first, second = (Instance(name, study, url, log) for name in ("first", "second"))
        seen, marks = {}, {}
        seen["start_seconds"] = round(first.start(old), 1)
        second.start(old)
        key = run(["keys", "create", "--role", "app"], old, url)
        with Load((first, second), key) as load:

            def mark(event, act):
                time.sleep(STEP)
                marks[event] = time.monotonic()
                act()

            mark("first killed", lambda: first.end(signal.SIGKILL))
            mark("first started again", lambda: first.start(old))
            mark("first stopped for the upgrade", lambda: first.end(signal.SIGTERM))
            before = len(load.answers)
            seen["upgrade"] = run(["db", "upgrade"], new, url)
            time.sleep(STEP / 2)
            seen["decisions_by_the_old_release_after_the_upgrade"] = len(load.answers) - before
            seen["readiness_of_the_old_release_after_the_upgrade"] = ask(second.port, "GET", "/readyz")[0]
            mark("first started with the new release", lambda: first.start(new))
            mark("second stopped", lambda: second.end(signal.SIGTERM))
            mark("second started with the new release", lambda: second.start(new))
            time.sleep(STEP)
        repeated = sum(
            ask(second.port, "POST", "/api/v1/decisions", body, key)[1] == reply for body, reply in load.answers.values()
        )
        for instance in (first, second):
            instance.end(signal.SIGTERM)
        ends = [*list(marks.values())[1:], float("inf")]
        seen["longest_wait_seconds"] = {
            event: round(max((wait for wait, at in load.waits if begin - 10 < at < end), default=0.0), 2)
            for (event, begin), end in zip(marks.items(), ends, strict=True)
        }
        seen |= {"acknowledged": len(load.answers), "answered_the_same_afterwards": repeated, "errors": load.refused}
        seen["replay"] = run(["replay"], new, url).splitlines()
        return seen


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--old", type=Path, required=True)
    root = Path(__file__).parents[1]
    print(json.dumps(measure(options.parse_args().old, root), indent=2))
