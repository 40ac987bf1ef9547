"""A live server on loopback, with a clock that the example sets, and a client for it."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


class Server:
    """`surefoot serve` in a process of its own: `with Server(folder, study) as server: …`."""

    def __init__(self, folder: Path, study: Path, workers: int = 1):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"sqlite:///{folder / 'trial.db'}"
        self._folder, self._study, self._workers, self._own = folder, study, workers, threading.local()
        self._clock = folder / "clock.txt"
        self._environment = {
            **os.environ,
            "SUREFOOT_DATABASE": self.url,
            "SUREFOOT_SIMULATED_CLOCK": str(self._clock),
            "OPENBLAS_NUM_THREADS": "1",
        }

    def set_clock(self, moment):
        """For every process of the server at once."""
        fresh = self._clock.with_suffix(".new")
        fresh.write_text(moment.isoformat())
        fresh.replace(self._clock)

    def command(self, *words):
        """Run a `surefoot` command on this trial; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "surefoot", *map(str, words)],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"surefoot {words[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def __enter__(self):
        command = ["serve", "--study", str(self._study), "--port", str(self.port), "--workers", str(self._workers)]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "surefoot", *command], env=self._environment, stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self):
        for _ in range(600):
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"the server did not start; see {self._folder / 'server.log'}")

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(30)

    def ask(self, way, path, body=None, key=""):
        """Status and body of an answer. A lost answer is asked for again: the service answers the same."""
        try:
            return self._ask(way, path, body, key)
        except ConnectionError:
            # Servers close connections that were idle for long.
            return self._ask(way, path, body, key)

    def _ask(self, way, path, body, key):
        """Each thread keeps its connection."""
        connection = getattr(self._own, "connection", None) or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self._own.connection = None
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(way, path, None if body is None else json.dumps(body), headers)
        reply = connection.getresponse()
        content = reply.read()
        self._own.connection = connection
        return reply.status, content

    def get(self, way, path, body=None, key=""):
        """The JSON of an answer that must be good."""
        status, text = self.ask(way, f"/api/v1{path}", body, key)
        if status >= 300:
            raise SystemExit(f"{way} {path} answered {status}: {text.decode()}")
        return json.loads(text)
