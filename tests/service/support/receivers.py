"""A mail server with STARTTLS and a webhook's receiver, on loopback, that remember what they got."""

import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer


def make_certificate(folder):
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *names]
    command = ["openssl", "req", *made, "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words
    return folder / "cert.pem", folder / "key.pem"


class MailServer:
    """Speaks as much SMTP as it takes to get one message after the other."""

    def __init__(self, certificate, key):
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._listening = socket.create_server(("localhost", 0))
        self.port, self.mails, self.commands, self.answer = self._listening.getsockname()[1], [], [], b"250 taken"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection = self._listening.accept()[0]
            except OSError:
                return
            # A client that does not trust the certificate goes away in the middle.
            with connection, suppress(OSError):
                self._talk(connection)

    def _talk(self, connection):
        connection.sendall(b"220 here\r\n")
        lines = connection.makefile("rb")
        while line := lines.readline():
            word = line.split()[0].upper().decode()
            self.commands.append((word, isinstance(connection, ssl.SSLSocket)))
            if word == "EHLO":
                connection.sendall(b"250-localhost\r\n250-AUTH PLAIN\r\n250 STARTTLS\r\n")
            elif word == "STARTTLS":
                connection.sendall(b"220 go on\r\n")
                connection = self._tls.wrap_socket(connection, server_side=True)
                lines = connection.makefile("rb")
            elif word == "AUTH":
                self.credentials = line.split()[2]
                connection.sendall(b"235 welcome\r\n")
            elif word == "DATA":
                connection.sendall(b"354 end with a dot\r\n")
                self.mails.append(b"".join(iter(lines.readline, b".\r\n")).decode())
                connection.sendall(self.answer + b"\r\n")
            elif word == "QUIT":
                connection.sendall(b"221 bye\r\n")
                connection.close()
                return
            else:
                connection.sendall(b"250 fine\r\n")

    def close(self):
        self._listening.close()


@contextmanager
def mail_server(folder):
    server = MailServer(*make_certificate(folder))
    yield server
    server.close()


@contextmanager
def webhook_receiver(status=200):
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((dict(self.headers), body.decode()))
            self.send_response(handler_status["now"])
            if handler_status["now"] == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    handler_status = {"now": status}
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", got, handler_status
    server.shutdown()
    server.server_close()
