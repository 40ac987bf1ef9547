"""A live server on loopback, with a clock that the example sets."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


class Server:
    """`surefoot serve` in a process of its own: `with Server(folder, study) as server: …`."""

    def __init__(self, folder: Path, study: Path, workers: int = 1):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder, self._study, self._workers = folder, study, workers
        self._clock = folder / "clock.txt"
        self._environment = {
            **os.environ,
            "SUREFOOT_DATABASE": f"sqlite:///{folder / 'trial.db'}",
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

    def ask(self, way, path, key=""):
        """Status and body of an answer: what staff do, in words of HTTP. Apps use `surefoot.client`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(way, path, headers={"Authorization": f"Bearer {key}"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def get(self, way, path, key=""):
        """The JSON of an answer that must be good."""
        status, text = self.ask(way, f"/api/v1{path}", key)
        if status >= 300:
            raise SystemExit(f"{way} {path} answered {status}: {text.decode()}")
        return json.loads(text)
