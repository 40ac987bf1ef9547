"""Messages to the trial team: alerts, ends of updates and a daily digest, by e-mail (SMTP) and webhook.

A message waits in the outbox, a table of the database, until it is handed over, so that a crash loses nothing. Nothing that
decides, records or learns waits for a message.
"""

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
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, ClassVar

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_new
from surefoot.service.database.schema import alerts, decisions, messages, outcomes, updates
from surefoot.service.trial.alerts import MEANINGS
from surefoot.service.trial.trial import Trial
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


def write_digest(trial: Trial, at: datetime) -> str:
    """Decisions by source, prompts, outcomes, open alerts, the live policy and the last update."""
    since = decisions.c.received_at > at - timedelta(days=1)
    with trial.database.snapshot() as connection:
        sources = connection.execute(
            sa.select(decisions.c.source, sa.func.count()).where(since).group_by(decisions.c.source)
        )
        by_source = {row[0]: int(row[1]) for row in sources}
        people = connection.scalar(sa.select(sa.func.count(decisions.c.participant_id.distinct())).where(since))
        sent = connection.scalar(sa.select(sa.func.count()).where(since, decisions.c.action > 0))
        came = connection.scalar(sa.select(sa.func.count()).where(outcomes.c.received_at > at - timedelta(days=1)))
        unclosed = connection.scalar(sa.select(sa.func.count()).where(alerts.c.closed_at.is_(None)))
        last = connection.execute(sa.select(updates).order_by(updates.c.id.desc()).limit(1)).first()
    live = trial.policies.live()
    shares = ", ".join(f"{number} by {source}" for source, number in sorted(by_source.items()))
    lines = [
        "The last 24 hours:",
        f"- {sum(by_source.values())} decisions of {people} participants" + (f" ({shares})" if shares else ""),
        f"- {sent} prompts, {came} outcomes",
        f"- {unclosed} open alerts",
        "- " + ("no policy is live" if live is None else f"policy {live[0]} is live"),
        "- " + ("no update yet" if last is None else f"last update: {last.id}, {last.state}"),
    ]
    return "\n".join(lines)


NEWS = timedelta(days=1)
"""What is older is no news: it is on the dashboard."""
LEASE = timedelta(seconds=60)
HOUR = timedelta(hours=1)
ATTEMPTS = 12


def collect_messages(trial: Trial, channels: list[Channel], at: datetime) -> None:
    """Put what is new into the outbox, once for every channel."""
    with trial.database.autocommit() as connection:
        raised = connection.execute(sa.select(alerts).where(alerts.c.raised_at > at - NEWS)).all()
        ended = connection.execute(sa.select(updates).where(updates.c.finished_at > at - NEWS)).all()
        recent = sa.select(messages.c.channel, messages.c.occasion).where(messages.c.created_at > at - 2 * NEWS)
        known = {tuple(row) for row in connection.execute(recent)}
    news = {
        f"alert:{alert.id}": (alert.kind, MEANINGS.get(alert.kind, "Something needs to be looked at.")) for alert in raised
    }
    news |= {f"update:{update.id}": ("update ended", f"Update {update.id} ended: {update.state}.") for update in ended}
    day = _digest_day(trial, at)
    if day is not None and any((channel.name, f"digest:{day}") not in known for channel in channels):
        news[f"digest:{day}"] = ("digest", write_digest(trial, at))
    new = [
        make_row(trial, channel.name, occasion, kind, text, at)
        for occasion, (kind, text) in news.items()
        for channel in channels
        if (channel.name, occasion) not in known
    ]
    if new:
        with trial.database.transaction() as connection:
            connection.execute(insert_new(connection, messages), new)


def _digest_day(trial: Trial, at: datetime) -> str | None:
    """The day whose digest is due."""
    when = trial.settings.alerts.digest_at
    local = at.astimezone(trial.settings.zone)
    return local.date().isoformat() if when is not None and local.time() >= when else None


def make_row(trial: Trial, channel: str, occasion: str, kind: str, text: str, at: datetime) -> dict[str, Any]:
    """A message of the outbox."""
    address = trial.settings.alerts.dashboard_url
    lines = [text, "", f"Time: {at:%Y-%m-%d %H:%M} UTC", f"Dashboard: {address}" if address else "Look at the dashboard."]
    message = {"kind": kind, "title": f"[{trial.settings.title}] {kind}", "text": "\n".join(lines) + "\n"}
    times = {"created_at": at, "due_at": at, "attempts": 0}
    return {"channel": channel, "occasion": occasion, "kind": kind, "content": json.dumps(message), **times}


def deliver_messages(trial: Trial, channel: Channel, at: datetime) -> int:
    """Hand over what is due, within the hour's limit; the last message that it allows tells all the rest. How many left."""
    by_channel = messages.c.channel == channel.name
    sent = messages.c.sent_at
    with trial.database.autocommit() as connection:
        open_ones = sa.select(messages).where(
            by_channel, sent.is_(None), messages.c.due_at <= at, messages.c.attempts < ATTEMPTS
        )
        waiting: list[Any] = list(connection.execute(open_ones.order_by(messages.c.id)))
        used = (
            connection.scalar(sa.select(sa.func.count(messages.c.delivery.distinct())).where(by_channel, sent > at - HOUR))
            or 0
        )
    left = trial.settings.alerts.max_per_hour - used
    if left <= 0 or not waiting:
        return 0
    groups = [[message] for message in waiting[: left - 1]] + [waiting[left - 1 :]]
    left_with = [_hand_over(trial, channel, group, at) for group in groups if group]
    return sum(left_with)


def _hand_over(trial: Trial, channel: Channel, group: list[Any], at: datetime) -> int:
    """Send one message for a group of them; 1 when it left. Only one worker gets each of them."""
    mine = [row for row in group if _claim(trial, row, at)]
    if not mine:
        return 0
    try:
        channel.send(_combine(trial, mine))
    except DeliveryError as error:
        wait = min(timedelta(seconds=30 * 2 ** mine[0].attempts), HOUR)
        _update(trial, mine, {"error": str(error), "due_at": at + wait})
        return 0
    _update(trial, mine, {"error": None, "sent_at": at, "delivery": mine[0].id})
    return 1


def _claim(trial: Trial, row: Any, at: datetime) -> bool:
    seen = sa.and_(messages.c.id == row.id, messages.c.due_at == row.due_at, messages.c.sent_at.is_(None))
    taken = sa.update(messages).where(seen).values(due_at=at + LEASE, attempts=messages.c.attempts + 1)
    with trial.database.transaction() as connection:
        return bool(connection.execute(taken).rowcount)


def _update(trial: Trial, rows: list[Any], values: dict[str, Any]) -> None:
    with trial.database.transaction() as connection:
        connection.execute(sa.update(messages).where(messages.c.id.in_([row.id for row in rows])).values(**values))


def _combine(trial: Trial, rows: list[Any]) -> Message:
    contents = [json.loads(row.content) for row in rows]
    first = Message(f"{trial.study_id[:12]}-{rows[0].id}", at=rows[0].created_at.isoformat(), **contents[0])
    if len(rows) == 1:
        return first
    several = {"kind": "several", "title": f"[{trial.settings.title}] {len(rows)} messages"}
    return Message(**{**asdict(first), **several, "text": "\n".join(content["text"] for content in contents)})


def list_messages(trial: Trial, newest: int = 20) -> list[dict[str, Any]]:
    """The newest messages, with what became of them."""
    columns = [column for column in messages.c if column.name != "content"]
    with trial.database.autocommit() as connection:
        rows = connection.execute(sa.select(*columns).order_by(messages.c.id.desc()).limit(newest)).mappings().all()
    return [dict(row) for row in rows]


def count_undelivered(trial: Trial) -> int:
    """Messages that could not be handed over at least once and still wait, or were given up."""
    failed = sa.select(sa.func.count()).where(messages.c.sent_at.is_(None), messages.c.error.is_not(None))
    with trial.database.autocommit() as connection:
        return int(connection.scalar(failed) or 0)


def add_test_messages(trial: Trial, channels: list[Channel], at: datetime) -> None:
    """A message by every channel that says that messages arrive."""
    text = "This is a test: messages of the trial arrive here."
    rows = [make_row(trial, channel.name, f"test:{at.isoformat()}", "test", text, at) for channel in channels]
    if rows:
        with trial.database.transaction() as connection:
            connection.execute(insert_new(connection, messages), rows)


def send_messages(trial: Trial) -> None:
    """Collect and hand over what is due; the database decides which worker sends which message."""
    channels = make_channels(trial.settings.alerts)
    if channels:
        collect_messages(trial, channels, now())
    for channel in channels:
        deliver_messages(trial, channel, now())
