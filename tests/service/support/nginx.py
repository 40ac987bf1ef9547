"""A real nginx with TLS in front of a service, configured by deploy/nginx.conf."""

import http.client
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

from tests.service.support.guards import Guard
from tests.service.support.postgres import free_port

SITE = Path(__file__).parents[3] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
OPENSSL = shutil.which("openssl")
MAIN = """\
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


class Proxy:
    """nginx with the site file as it is, but for its ports, the service's port and the certificate's place."""

    def __init__(self, folder, service, changes=()):
        self.port, self.plain_port, self._folder = free_port(), free_port(), folder
        self.certificate = folder / "fullchain.pem"
        names = ["-subj", "/CN=trial.example.org", "-addext", "subjectAltName=DNS:trial.example.org"]
        made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *names]
        run([OPENSSL, "req", *made, "-keyout", folder / "privkey.pem", "-out", self.certificate])
        changes = {
            **dict(changes),
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "listen 80": f"listen 127.0.0.1:{self.plain_port}",
            "server 127.0.0.1:8000": f"server 127.0.0.1:{service}",
            "/etc/letsencrypt/live/trial.example.org": str(folder),
        }
        text = SITE.read_text(encoding="utf-8")
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "site.conf").write_text(text, encoding="utf-8")
        (folder / "main.conf").write_text(MAIN.format(folder=folder), encoding="utf-8")
        self.command = [NGINX, "-e", folder / "error.log", "-p", folder, "-c", folder / "main.conf"]

    def __enter__(self):
        command = [*self.command, "-g", "daemon off;"]
        self._process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own words
        self._guard = Guard.of_group(self._process.pid)
        for _ in range(1500):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.02)
        raise AssertionError((self._folder / "error.log").read_text())

    def __exit__(self, *_):
        self._guard.release()
        self._process.terminate()
        self._process.wait(10)

    def connect(self):
        """A TLS connection that trusts this certificate only."""
        trust = ssl.create_default_context(cafile=str(self.certificate))
        plain = socket.create_connection(("127.0.0.1", self.port), 20)
        return trust.wrap_socket(plain, server_hostname="trial.example.org")

    def ask(self, way, path, body=None, headers=None):
        connection = http.client.HTTPConnection("trial.example.org")
        connection.sock = self.connect()
        connection.request(way, path, body, headers or {})
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply, content


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)  # noqa: S603 - our own words
