"""Channels: how a message leaves, by e-mail (SMTP) or as signed JSON to a webhook."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import smtplib
import ssl
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, ClassVar

from surefoot.study.trial_section import Alerts

SECONDS = 10.0
"""The longest time that a mail server or a webhook may take for each step."""
USER = "SUREFOOT_SMTP_USER"
PASSWORD = "SUREFOOT_SMTP_PASSWORD"  # noqa: S105 - the name of a variable
SECRET = "SUREFOOT_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable


class DeliveryError(Exception):
    """A message that did not get out; the words hold nothing secret."""


@dataclass(frozen=True)
class Message:
    """What is told. It holds no participant's id and no value: those stay where the dashboard's keys protect them."""

    id: str
    """The same when it is sent again."""
    kind: str
    title: str
    text: str
    at: str


class Channel(ABC):
    """One way out."""

    name: ClassVar[str]

    @abstractmethod
    def send(self, message: Message) -> None:
        """Hand a message over; raises DeliveryError when nobody took it."""


@dataclass(frozen=True)
class Email(Channel):
    """Plain text by SMTP, with TLS unless the mail server is on this machine."""

    name: ClassVar[str] = "email"
    settings: Alerts

    def send(self, message: Message) -> None:
        try:
            with self._connect() as server:
                user = os.environ.get(USER)
                if user:
                    server.login(user, os.environ.get(PASSWORD, ""))
                server.send_message(self._compose(message))
        except smtplib.SMTPResponseException as error:
            raise DeliveryError(f"the mail server answered {error.smtp_code}") from error
        except (OSError, smtplib.SMTPException) as error:
            raise DeliveryError(f"the mail server: {type(error).__name__}") from error

    def _connect(self) -> smtplib.SMTP:
        host = str(self.settings.smtp_host)
        port = self.settings.smtp_port
        secure = ssl.create_default_context()
        if self.settings.smtp_security == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=secure)
        server = smtplib.SMTP(host, port, timeout=SECONDS)
        if self.settings.smtp_security == "starttls":
            try:
                server.starttls(context=secure)
            except BaseException:
                server.close()
                raise
        return server

    def _compose(self, message: Message) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = message.title
        mail["Date"] = formatdate()
        mail["From"] = self.settings.sender or self.settings.email[0]
        mail["To"] = ", ".join(self.settings.email)
        mail["Message-ID"] = f"<{message.id}@surefoot>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        return mail


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect could lead the message anywhere: it counts as a failure."""
        return


@dataclass(frozen=True)
class Webhook(Channel):
    """JSON by POST, with X-Surefoot-Signature = HMAC-SHA256(secret, timestamp + "." + body) in hexadecimal."""

    name: ClassVar[str] = "webhook"
    settings: Alerts

    def send(self, message: Message) -> None:
        body = json.dumps({"id": message.id, "kind": message.kind, "title": message.title, "text": message.text})
        secret = os.environ.get(SECRET)
        moment = str(int(time.time()))
        if not secret:
            raise DeliveryError(f"there is nothing to sign with; set {SECRET}")
        headers = {"Content-Type": "application/json", "X-Surefoot-Id": message.id, "X-Surefoot-Timestamp": moment}
        headers["X-Surefoot-Signature"] = sign(secret, moment, body)
        request = urllib.request.Request(str(self.settings.webhook), body.encode(), headers)  # noqa: S310 - http(s) by the study
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS):
                return
        except urllib.error.HTTPError as error:
            error.close()
            raise DeliveryError(f"the webhook answered {error.code}") from error
        except OSError as error:
            raise DeliveryError(f"the webhook: {type(error).__name__}") from error


def sign(secret: str, moment: str, body: str) -> str:
    """The signature of a webhook's body; the time in it keeps an old message from being played again.

    >>> sign("secret", "1700000000", "{}")[:16]
    'b8569b78799ff9e3'
    """
    return hmac.new(secret.encode(), f"{moment}.{body}".encode(), hashlib.sha256).hexdigest()


def make_channels(settings: Alerts) -> list[Channel]:
    """The ways out that a study names."""
    channels: list[Channel] = [Email(settings)] if settings.email else []
    return [*channels, Webhook(settings)] if settings.webhook is not None else channels
