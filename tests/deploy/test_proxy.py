"""The service behind a real nginx with TLS, configured by deploy/nginx.conf."""

import http.client
import json
import re
import threading
import time
from collections import Counter

import pytest

from surefoot.service import access
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.client import request
from tests.service.support.nginx import NGINX, OPENSSL, Proxy, run
from tests.service.support.postgres import free_port
from tests.service.support.servers import running
from tests.service.support.trials import STUDY

pytestmark = pytest.mark.skipif(
    not (NGINX and OPENSSL), reason="no nginx or openssl: install them (apt-get install nginx-light openssl)"
)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    opened = open_trial(Study.parse(STUDY), f"sqlite:///{tmp_path_factory.mktemp('trial')}/trial.db")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def proxy(trial, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nginx")
    with running(trial) as address, Proxy(folder, address.rpartition(":")[2]) as one:
        one.key = access.create_key(trial.database, "app")
        yield one


def test_nginx_takes_the_file(proxy):
    found = run([*proxy.command, "-t"])
    assert "warn" not in found.stderr and "successful" in found.stderr


def test_decisions_go_through_tls(proxy):
    headers = {"Authorization": f"Bearer {proxy.key}", "Content-Type": "application/json"}
    for path, body in (("participants", {"participant_id": "p1"}), ("decisions", request())):
        reply, content = proxy.ask("POST", f"/api/v1/{path}", json.dumps(body), headers)
        assert reply.status == 200, content
    assert json.loads(content)["source"] == "warm-up"
    assert reply.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert reply.headers["X-Content-Type-Options"] == "nosniff" and reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Server"] == "nginx", "no version"
    with proxy.connect() as secured:
        assert secured.version() in ("TLSv1.2", "TLSv1.3")


def test_plain_http_is_sent_to_https(proxy):
    connection = http.client.HTTPConnection("127.0.0.1", proxy.plain_port, timeout=10)
    connection.request("GET", "/alerts", headers={"Host": "trial.example.org"})
    reply = connection.getresponse()
    connection.close()
    assert (reply.status, reply.headers["Location"]) == (301, "https://trial.example.org/alerts")


def test_the_redirect_goes_to_the_trial_whatever_host_was_asked_for(proxy):
    connection = http.client.HTTPConnection("127.0.0.1", proxy.plain_port, timeout=10)
    connection.request("GET", "/", headers={"Host": "evil.example.com"})
    assert connection.getresponse().headers["Location"] == "https://trial.example.org/"
    connection.close()


def test_a_large_body_is_refused_in_our_shape(proxy):
    reply, content = proxy.ask("POST", "/api/v1/decisions", b"x" * 300_000)
    assert reply.status == 413 and json.loads(content)["error"]["code"] == "too_large"


def test_the_session_cookie_is_secure_behind_the_proxy(proxy):
    reply, _ = proxy.ask("GET", "/sign-in")
    cookie = reply.headers["Set-Cookie"]
    assert reply.status == 200 and all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict"))


def test_sign_ins_are_limited(proxy):
    """Ten at once and ten a minute; looking at the page is not limited."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    found = [proxy.ask("POST", "/sign-in", "key=sf_wrong", headers)[0] for _ in range(20)]
    refused = [reply for reply in found if reply.status == 429]
    assert len(refused) >= 2 and found[0].status == 403
    # nginx says 6; one that it lets through may have to wait until the first of the service's minute is over.
    waits = {int(reply.headers["Retry-After"]) for reply in refused}
    assert 6 in waits and waits <= set(range(1, 61))
    assert proxy.ask("GET", "/sign-in")[0].status == 200


def ask_many(proxy, number, path="/api/v1/healthz"):
    """The statuses and waiting times of requests that are all sent before the first answer is read."""
    head = f"GET {path} HTTP/1.1\r\nHost: trial.example.org\r\n"
    with proxy.connect() as secured:
        secured.sendall(f"{head}\r\n".encode() * number + f"{head}Connection: close\r\n\r\n".encode())
        found = b"".join(iter(lambda: secured.recv(65536), b""))
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", found)], re.findall(rb"Retry-After: (\d+)", found)


def test_too_many_requests_get_429_and_a_waiting_time_that_is_true(proxy):
    statuses, waits = ask_many(proxy, 400)
    assert statuses[0] == 200 and statuses.count(429) > 50 and set(statuses) == {200, 429}
    assert set(waits) == {b"1"}
    time.sleep(1)
    assert set(ask_many(proxy, 9)[0]) == {200}


@pytest.mark.parametrize("path", ["/docs", "/readyz"])
def test_who_has_no_key_takes_nothing_from_who_has_one(proxy, path):
    """20 connections that ask again and again from the same address: decisions are answered meanwhile."""
    headers = {"Authorization": f"Bearer {proxy.key}", "Content-Type": "application/json"}
    proxy.ask("POST", "/api/v1/participants", json.dumps({"participant_id": "p2"}), headers)
    stop = threading.Event()
    statuses = Counter()

    def attack():
        while not stop.is_set():
            statuses.update(ask_many(proxy, 20, path)[0])

    threads = [threading.Thread(target=attack, daemon=True) for _ in range(20)]
    for thread in threads:
        thread.start()
    try:
        while statuses[429] < 20:
            time.sleep(0.05)
        for index in range(5):
            reply, content = proxy.ask("POST", "/api/v1/decisions", json.dumps(request("p2", index)), headers)
            assert reply.status == 200, content
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert set(statuses) == {200, 429} and statuses[429] > statuses[200]


def test_a_service_that_is_away_is_503_with_retry_after(tmp_path):
    with Proxy(tmp_path, free_port()) as alone:
        reply, content = alone.ask("GET", "/readyz")
    assert (reply.status, reply.headers["Retry-After"]) == (503, "2")
    assert json.loads(content)["error"]["code"] == "away"
