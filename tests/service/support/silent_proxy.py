"""A TCP proxy on loopback that can go silent: it keeps connections open, and passes nothing on in either direction."""

import socket
import threading
import time
from contextlib import contextmanager, suppress


class SilentProxy:
    """Connections that were open when it went silent stay lost, also after it has healed."""

    def __init__(self, target):
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._sockets = []
        self.port = self._listening.getsockname()[1]
        self._mute = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self):
        self._mute.set()

    def heal(self):
        self._mute = threading.Event()

    def _accept(self):
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, sink, self._mute), daemon=True).start()

    def _pass_on(self, source, sink, mute):
        with suppress(OSError):
            while content := source.recv(65536):
                if mute.is_set():
                    time.sleep(3600)
                sink.sendall(content)
            if not mute.is_set():
                sink.shutdown(socket.SHUT_WR)

    def close(self):
        for one in (self._listening, *self._sockets):
            one.close()


@contextmanager
def silent_proxy(host, port):
    proxy = SilentProxy((host, port))
    try:
        yield proxy
    finally:
        proxy.close()
