import socket
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from surefoot.service.outside import OutsideError, send_request


@contextmanager
def answer_with(reply):
    """The URL of a host that answers one connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection = listening.accept()[0]
            connection.recv(65536)
            connection.sendall(reply)
            connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("reply", "words", "status"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", r"not HTTP \(BadStatusLine\)", None),
        (b"HTTP/1.1 302 Found\r\nLocation: /taken\r\n\r\n", "answered 302", 302),
        (b"HTTP/1.1 500 No\r\n\r\n", "answered 500", 500),
        (b"", r"cannot be reached|not HTTP", None),
    ],
)
def test_only_success_counts(reply, words, status):
    with answer_with(reply) as url, pytest.raises(OutsideError, match=words) as refused:
        send_request(urllib.request.Request(url, b"{}"), 5)  # noqa: S310 - our own
    assert refused.value.status == status


def test_an_answer_is_read_up_to_a_limit():
    with answer_with(b"HTTP/1.1 200 OK\r\n\r\n{}   ") as url:
        assert send_request(urllib.request.Request(url), 5, 2) == b"{}"  # noqa: S310 - our own


def test_an_answer_that_comes_byte_by_byte_has_an_end():
    """Every byte is in time; the answer never is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def serve():
            connection = listening.accept()[0]
            connection.recv(65536)
            with connection, suppress(OSError):
                while not stop.wait(0.02):
                    connection.sendall(b"H")

        threading.Thread(target=serve, daemon=True).start()
        request = urllib.request.Request(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}")
        began = time.monotonic()
        with pytest.raises(OutsideError, match="TimeoutError"):
            send_request(request, 0.2)
        assert time.monotonic() - began < 5
        stop.set()
