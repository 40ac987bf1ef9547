"""A real server: `surefoot serve` in a process of its own on loopback, with several workers."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import uvicorn

from surefoot.service.app import create_app
from surefoot.service.server import BoundedProtocol
from tests.service.support.guards import Guard
from tests.service.support.postgres import free_port


class Server:
    ready = "/readyz"

    def __init__(self, study_file, url, workers):
        self.port, self._log = free_port(), study_file.with_suffix(f".{free_port()}.log")
        self._command = [sys.executable, "-m", "surefoot", "serve", "--study", str(study_file), "--port", str(self.port)]
        self._command += ["--workers", str(workers)]
        self._environment = {**os.environ, "SUREFOOT_DATABASE": url, "OPENBLAS_NUM_THREADS": "1"}
        self.process = None

    @property
    def log(self):
        return self._log.read_text()

    def start(self):
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own words
                self._command, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self._guard = Guard.of_group(self.process.pid)
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if self.ask("GET", self.ready)[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"the server did not start:\n{self.log}")

    def kill(self):
        """The whole server at once, workers too: nothing gets to say goodbye."""
        self._guard.release()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, way, path, body=None, key="", connection=None):
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        try:
            own.request(way, path, None if body is None else json.dumps(body), headers)
            reply = own.getresponse()
            return reply.status, reply.read()
        finally:
            if connection is None:
                own.close()


@contextmanager
def forking():
    """The process that forks servers."""
    command = [sys.executable, "-m", "tests.service.support.forked_server"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(  # noqa: S603 - our own words
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        yield parent


class ForkedServer(Server):
    """Starts in a tenth of a second, to be killed often."""

    log = "what it said is on standard error"

    def __init__(self, parent, study_file, url, workers):
        super().__init__(study_file, url, workers)
        self._parent = parent
        self._told = json.dumps([self.port, workers, {"SUREFOOT_STUDY": str(study_file), "SUREFOOT_DATABASE": url}])

    def start(self):
        self._parent.stdin.write(f"{self._told}\n")
        self._parent.stdin.flush()
        self.leader = int(self._parent.stdout.readline())
        self._wait()

    def kill(self):
        os.killpg(self.leader, signal.SIGKILL)


@contextmanager
def serving(study_file, url, workers=2):
    server = Server(study_file, url, workers)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def running(trial):
    """The application on a loopback port, in a thread."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        settings = uvicorn.Config(create_app(trial), http=BoundedProtocol, server_header=False, log_level="warning")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
