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
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from typing import Any

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.ledger import insert_new_recorded, record
from surefoot.service.database.schema import alerts, decisions, messages, outcomes, updates
from surefoot.service.outside import STEPS, OutsideError, call_within, send_request
from surefoot.service.trial.alerts import KINDS, SEVERITIES, find_severity
from surefoot.service.trial.trial import Trial
from surefoot.service.trial.upkeep import ATTEMPTS, IS_UNDELIVERED
from surefoot.study.trial_section import Alerts

SECONDS = 10.0
"""The longest time that a mail server or a webhook may take for one step; `STEPS` times as long for all together."""
USER = "SUREFOOT_SMTP_USER"
PASSWORD = "SUREFOOT_SMTP_PASSWORD"  # noqa: S105 - the name of a variable
SECRET = "SUREFOOT_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
NEWS = timedelta(days=1)
"""What is older is no news: it is on the dashboard."""
LEASE = timedelta(seconds=60)
HOUR = timedelta(hours=1)
UNDELIVERED = sa.select(sa.func.count()).where(IS_UNDELIVERED)
"""How many messages could not be handed over."""
TEST = "This is a test: messages of the trial arrive here."


class DeliveryError(Exception):
    """A message that did not get out, or not to everybody; the words hold nothing secret."""

    def __init__(self, words: str, refused: Sequence[str] = ()) -> None:
        super().__init__(words)
        self.refused = tuple(refused)
        """Who did not get it, where others did."""


@dataclass(frozen=True)
class Message:
    """What is told. It holds no participant's id and no value: those stay where the dashboard's keys protect them."""

    id: str
    """The same when it is sent again."""
    kind: str
    severity: str
    title: str
    text: str
    to: tuple[str, ...] = ()
    """Only these recipients, because the others have it; empty: everybody."""


@dataclass(frozen=True)
class Channel:
    """One way out; `send` raises DeliveryError when nobody took the message."""

    name: str
    send: Callable[[Message], None]


def make_channels(settings: Alerts) -> list[Channel]:
    """The ways out that a study names."""
    channels = [Channel("email", partial(send_email, settings))] if settings.email else []
    return [*channels, Channel("webhook", partial(send_webhook, settings))] if settings.webhook is not None else channels


def send_email(settings: Alerts, message: Message) -> None:
    """Plain text by SMTP, with TLS unless the mail server is on this machine."""
    recipients = message.to or settings.email
    mail = EmailMessage()
    mail["Subject"] = message.title
    mail["Date"] = formatdate()
    mail["From"] = settings.sender or settings.email[0]
    mail["To"] = ", ".join(recipients)
    mail["Message-ID"] = f"<{message.id}@surefoot>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    secure = ssl.create_default_context()
    make_server = partial(smtplib.SMTP_SSL, context=secure) if settings.smtp_security == "tls" else smtplib.SMTP

    def exchange() -> dict[str, tuple[int, bytes]]:
        with make_server(str(settings.smtp_host), settings.smtp_port, timeout=SECONDS) as server:
            if settings.smtp_security == "starttls":
                server.starttls(context=secure)
            user = os.environ.get(USER)
            if user:
                server.login(user, os.environ.get(PASSWORD, ""))
            return server.send_message(mail)

    try:
        refused = call_within(STEPS * SECONDS, exchange)
    except smtplib.SMTPRecipientsRefused as error:
        raise DeliveryError(f"the mail server refused all {len(recipients)} recipients") from error
    except smtplib.SMTPResponseException as error:
        raise DeliveryError(f"the mail server answered {error.smtp_code}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise DeliveryError(f"the mail server: {type(error).__name__}") from error
    if refused:
        raise DeliveryError(f"the mail server refused {len(refused)} of {len(recipients)} recipients", list(refused))


def send_webhook(settings: Alerts, message: Message) -> None:
    """JSON by POST, with X-Surefoot-Signature = HMAC-SHA256(secret, timestamp + "." + body) in hexadecimal."""
    secret = os.environ.get(SECRET)
    if not secret:
        raise DeliveryError(f"there is nothing to sign with; set {SECRET}")
    body = json.dumps({name: value for name, value in asdict(message).items() if name != "to"})
    moment = str(int(time.time()))
    headers = {"Content-Type": "application/json", "X-Surefoot-Id": message.id, "X-Surefoot-Timestamp": moment}
    headers["X-Surefoot-Signature"] = sign(secret, moment, body)
    request = urllib.request.Request(str(settings.webhook), body.encode(), headers)  # noqa: S310 - http(s) by the study
    try:
        send_request(request, SECONDS)
    except OutsideError as error:
        raise DeliveryError(f"the webhook {error}") from error


def sign(secret: str, moment: str, body: str) -> str:
    """The signature of a webhook's body; the time in it keeps an old message from being played again.

    >>> sign("secret", "1700000000", "{}")[:16]
    'b8569b78799ff9e3'
    """
    return hmac.new(secret.encode(), f"{moment}.{body}".encode(), hashlib.sha256).hexdigest()


def write_digest(trial: Trial, at: datetime) -> str:
    """Decisions by source, prompts, outcomes, open alerts, the live policy and the last update."""
    number = sa.func.count()
    since = decisions.c.received_at > at - NEWS
    sources = sa.select(decisions.c.source, number.label("number"), number.filter(decisions.c.action > 0).label("sent"))
    with trial.database.snapshot() as connection:
        rows = connection.execute(sources.where(since).group_by(decisions.c.source).order_by(decisions.c.source)).all()
        people = connection.scalar(sa.select(sa.func.count(decisions.c.participant_id.distinct())).where(since))
        came = connection.scalar(sa.select(number).where(outcomes.c.received_at > at - NEWS))
        unclosed = connection.scalar(sa.select(number).where(alerts.c.closed_at.is_(None)))
        last = connection.execute(sa.select(updates).order_by(updates.c.id.desc()).limit(1)).first()
    live = trial.policies.live()
    shares = ", ".join(f"{row.number} by {row.source}" for row in rows)
    total = f"{sum(row.number for row in rows)} decisions of {people} participants" + (f" ({shares})" if shares else "")
    policy = "no policy is live" if live is None else f"policy {live[0]} is live"
    update = "no update yet" if last is None else f"last update: {last.id}, {last.state}"
    prompts = f"{sum(row.sent for row in rows)} prompts, {came} outcomes"
    return "\n- ".join(["The last 24 hours:", total, prompts, f"{unclosed} open alerts", policy, update])


def collect_messages(trial: Trial, channels: list[Channel], at: datetime) -> None:
    """Put what is new into the outbox, once for every channel."""
    with trial.database.autocommit() as connection:
        raised = connection.execute(sa.select(alerts).where(alerts.c.raised_at > at - NEWS)).all()
        ended = connection.execute(sa.select(updates).where(updates.c.finished_at > at - NEWS)).all()
        recent = sa.select(messages.c.channel, messages.c.occasion).where(messages.c.created_at > at - 2 * NEWS)
        known = {tuple(row) for row in connection.execute(recent)}
    news = {f"alert:{alert.id}": (alert.kind, KINDS[alert.kind].meaning) for alert in raised}
    news |= {f"update:{update.id}": ("update ended", f"Update {update.id} ended: {update.state}.") for update in ended}
    due = trial.settings.alerts.digest_at
    local = at.astimezone(trial.settings.zone)
    digest = f"digest:{local.date().isoformat()}"
    if due is not None and local.time() >= due and any((channel.name, digest) not in known for channel in channels):
        news[digest] = ("digest", write_digest(trial, at))
    for occasion, (kind, text) in news.items():
        new = [channel for channel in channels if (channel.name, occasion) not in known]
        add_message(trial, new, occasion, kind, text, at)


def add_message(trial: Trial, channels: list[Channel], occasion: str, kind: str, text: str, at: datetime) -> None:
    """Put a message into the outbox, for every channel that does not have one for this occasion."""
    address = trial.settings.alerts.dashboard_url
    lines = [text, "", f"Time: {at:%Y-%m-%d %H:%M} UTC", f"Dashboard: {address}" if address else "Look at the dashboard."]
    severity = find_severity(kind)
    title = _make_title(trial, severity, kind)
    content = {"kind": kind, "severity": severity, "title": title, "text": "\n".join(lines) + "\n"}
    row = {"occasion": occasion, "kind": kind, "content": json.dumps(content), "attempts": 0, "created_at": at, "due_at": at}
    if channels:
        with trial.database.transaction() as connection:
            for channel in channels:
                insert_new_recorded(connection, "message", [{**row, "channel": channel.name}], "occasion")


def _make_title(trial: Trial, severity: str, words: str) -> str:
    """One line, also for a study whose name has several."""
    return f"[{' '.join(trial.settings.title.split())}] {severity}: {words}"


def deliver_messages(trial: Trial, channel: Channel, at: datetime) -> int:
    """Hand over what is due, within the hour's limit; the last message that it allows tells all the rest. How many left."""
    by_channel = messages.c.channel == channel.name
    # No attempt waits longer than an hour: one that is due later was dated by a clock that was ahead.
    due_now = sa.or_(messages.c.due_at <= at, messages.c.due_at > at + HOUR)
    is_due = (messages.c.sent_at.is_(None), due_now, messages.c.attempts < ATTEMPTS)
    deliveries = sa.select(sa.func.count(messages.c.delivery.distinct()))
    with trial.database.autocommit() as connection:
        waiting: list[Any] = list(connection.execute(sa.select(messages).where(by_channel, *is_due).order_by(messages.c.id)))
        used = connection.scalar(deliveries.where(by_channel, messages.c.sent_at.between(at - HOUR, at))) or 0
    left = trial.settings.alerts.max_per_hour - used
    if left <= 0:
        return 0
    groups = [[message] for message in waiting[: left - 1]] + [waiting[left - 1 :]]
    return sum(_hand_over(trial, channel, group, at) for group in groups)


def _hand_over(trial: Trial, channel: Channel, group: list[Any], at: datetime) -> bool:
    """Send one message for a group of them; whether it left. Only one worker gets each of them."""
    claim = sa.update(messages).values(due_at=at + LEASE, attempts=messages.c.attempts + 1)
    rows = []
    with trial.database.transaction() as connection:
        for row in group:
            seen = (messages.c.id == row.id, messages.c.due_at == row.due_at, messages.c.sent_at.is_(None))
            if connection.execute(claim.where(*seen)).rowcount:
                rows.append(row)
    if not rows:
        return False
    contents = [json.loads(row.content) for row in rows]
    content = {**contents[0], "to": tuple(contents[0].get("to", ()))}
    if len(rows) > 1:
        severity = min((part["severity"] for part in contents), key=list(SEVERITIES).index)
        title = _make_title(trial, severity, f"{len(rows)} messages")
        text = "\n".join(part["text"] for part in contents)
        # Whoever has some of the messages gets these again where others still lack one of them.
        everybody = not all(part.get("to") for part in contents)
        to = () if everybody else tuple(dict.fromkeys(name for part in contents for name in part["to"]))
        content = {"kind": "several", "severity": severity, "title": title, "text": text, "to": to}
    failure: DeliveryError | None = None
    try:
        channel.send(Message(f"{trial.study_id[:12]}-{rows[0].id}", **content))
    except DeliveryError as error:
        failure = error
    except Exception as error:
        # Whatever it is, the message has not left; the error's own words may hold data.
        failure = DeliveryError(f"the {channel.name} failed with {type(error).__name__}")
    with trial.database.transaction() as connection:
        for row, part in zip(rows, contents, strict=True):
            result: dict[str, Any] = {"error": None, "sent_at": at, "delivery": rows[0].id}
            if failure is not None:
                result = _postpone(row, part, failure, at)
            connection.execute(sa.update(messages).where(messages.c.id == row.id).values(**result))
            if failure is None:
                record(connection, "message sent", [{**result, "id": row.id, "occasion": row.occasion}])
    return failure is None


def _postpone(row: Any, content: dict[str, Any], failure: DeliveryError, at: datetime) -> dict[str, Any]:
    """When and to whom a message that did not leave is sent again."""
    wait = min(timedelta(seconds=30 * 2**row.attempts), HOUR)
    result = {"error": str(failure), "due_at": at + wait}
    return {**result, "content": json.dumps({**content, "to": failure.refused})} if failure.refused else result


def list_messages(trial: Trial, newest: int = 20) -> Sequence[Any]:
    """The newest messages, with what became of them."""
    with trial.database.autocommit() as connection:
        return connection.execute(sa.select(messages).order_by(messages.c.id.desc()).limit(newest)).mappings().all()


def add_test_messages(trial: Trial, at: datetime) -> None:
    """A message by every channel that says that messages arrive."""
    add_message(trial, make_channels(trial.settings.alerts), f"test:{at.isoformat()}", "test", TEST, at)


def send_messages(trial: Trial) -> None:
    """Collect and hand over what is due; the database decides which worker sends which message."""
    channels = make_channels(trial.settings.alerts)
    if channels:
        collect_messages(trial, channels, now())
    for channel in channels:
        deliver_messages(trial, channel, now())
