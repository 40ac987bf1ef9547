"""A proxy before the service that loses, delays and refuses what it is told to, and remembers every body it saw."""

import http.client
import socket
import struct
import threading
import time
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BUSY = b'{"error": {"code": "no_database", "message": "the database cannot be reached; send it again", "field": null}}'


class FaultyProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.faults, self.seen = urlsplit(target), deque(), []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        """A client that went away is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, body))
        fault = self.server.faults.popleft() if self.server.faults else "none"
        getattr(self, f"_{fault}")(body)

    def _forward(self, body):
        connection = http.client.HTTPConnection(self.server.target.hostname, self.server.target.port, timeout=20)
        connection.request("POST", self.path, body, {name: self.headers[name] for name in ("Authorization", "Content-Type")})
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, content

    def _answer(self, status, content, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _none(self, body):
        self._answer(*self._forward(body))

    def _reset(self, _body):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _lost_answer(self, body):
        """The service has committed; nobody hears of it."""
        self._forward(body)
        self._reset(body)

    def _half_an_answer(self, body):
        status, content = self._forward(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])

    def _slow(self, body):
        """The answer comes when nobody waits for it any more: after the same was asked again."""
        asked, found = len(self.server.seen), self._forward(body)
        deadline = time.monotonic() + 60
        while len(self.server.seen) == asked and time.monotonic() < deadline:
            time.sleep(0.01)
        self._answer(*found)

    def _busy(self, _body):
        self._answer(503, BUSY, Retry_After="0")

    def _bad_gateway(self, _body):
        self._answer(502, b"<html>Bad Gateway</html>")

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def faulty_proxy(target):
    server = FaultyProxy(target)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
