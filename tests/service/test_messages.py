"""Alerts reach people: by e-mail with STARTTLS, by signed webhook, once each, also after failures, and never too many."""

import base64
import hashlib
import hmac
import json
import shutil
import smtplib
import socket
import threading
import time
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from surefoot.cli import app as commands
from surefoot.service import messages
from surefoot.service.database.clock import Job, now, repeat_jobs
from surefoot.service.messages import PASSWORD, SECRET, USER, DeliveryError, Message, make_channels
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.trial import Trial, open_trial
from surefoot.service.trial.verification import verify
from surefoot.study import Study
from surefoot.study.trial_section import Alerts
from tests.service.dashboard.pages import sign_in, token
from tests.service.support.receivers import mail_server, webhook_receiver
from tests.service.support.trials import STUDY, fill, update

sqlite_only = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
NOTE = Message("1-7", "no-data", "red", "[Walking] red: no-data", "No decision.\n")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl: apt-get install openssl")
HOOK = '[trial.alerts]\nwebhook = "http://127.0.0.1:9/hook"\ndigest_time = "never"\n'


def open_with(url, setting=HOOK):
    return open_trial(Study.parse(STUDY + setting), url)


class Recorder:
    """A channel that fails as often as it is told to."""

    name = "webhook"

    def __init__(self, failures=0):
        self.sent, self.failures = [], failures

    def send(self, message):
        if self.failures:
            self.failures -= 1
            raise DeliveryError("the webhook answered 500")
        self.sent.append(message)


def count_undelivered(trial):
    with trial.database.autocommit() as connection:
        return connection.scalar(messages.UNDELIVERED)


def alarm(trial, number=1, kind="policy-check", words="participant p-017 has 1000 at decision 3"):
    with trial.database.transaction() as connection:
        raise_alert(connection, kind=kind, occasion=f"test:{number}", message=words)


@needs_openssl
def test_an_e_mail_goes_out_with_starttls_and_a_password_that_nobody_else_reads(tmp_path, monkeypatch):
    monkeypatch.setenv(USER, "trial")
    monkeypatch.setenv(PASSWORD, "hush")
    with mail_server(tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        settings = Alerts(email=["a@b.org", "c@d.org"], smtp_host="localhost", smtp_port=server.port)
        make_channels(settings)[0].send(NOTE)
        server.answer = b"554 no"
        with pytest.raises(DeliveryError, match="answered 554"):
            make_channels(settings)[0].send(NOTE)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "key.pem"))
        with pytest.raises(DeliveryError, match="SSLCertVerificationError"):
            make_channels(settings)[0].send(NOTE)
    mail = server.mails[0]
    assert "Subject: [Walking] red: no-data" in mail and "To: a@b.org, c@d.org" in mail and "No decision." in mail
    assert "Auto-Submitted: auto-generated" in mail and "<1-7@surefoot>" in mail
    assert base64.b64decode(server.credentials) == b"\0trial\0hush"
    assert all(secret for word, secret in server.commands if word in ("AUTH", "MAIL", "DATA"))


def test_a_webhook_is_signed_with_its_time_and_follows_no_redirect(monkeypatch):
    monkeypatch.setenv(SECRET, "hush")
    with webhook_receiver() as (url, got, status):
        hook = make_channels(Alerts(webhook=url))[0]
        hook.send(NOTE)
        headers, body = got[0]
        signed = f"{headers['X-Surefoot-Timestamp']}.{body}".encode()
        assert headers["X-Surefoot-Signature"] == hmac.new(b"hush", signed, hashlib.sha256).hexdigest()
        assert abs(int(headers["X-Surefoot-Timestamp"]) - time.time()) < 60 and json.loads(body)["kind"] == "no-data"
        for code in (302, 500):
            status["now"] = code
            with pytest.raises(DeliveryError, match=f"answered {code}"):
                hook.send(NOTE)
        assert len(got) == 3
        monkeypatch.delenv(SECRET)
        with pytest.raises(DeliveryError, match=f"set {SECRET}"):
            hook.send(NOTE)
    with pytest.raises(DeliveryError, match="the webhook"):
        monkeypatch.setenv(SECRET, "hush")
        hook.send(NOTE)


def test_a_webhook_that_does_not_speak_http_has_not_taken_the_message(url, monkeypatch):
    monkeypatch.setenv(SECRET, "hush")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def babble():
            for _ in range(2):
                connection = listening.accept()[0]
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                connection.close()

        threading.Thread(target=babble, daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        trial = open_with(url, HOOK.replace("http://127.0.0.1:9/hook", address))
        (hook,) = make_channels(trial.settings.alerts)
        with pytest.raises(DeliveryError, match="not HTTP"):
            hook.send(NOTE)
        alarm(trial)
        messages.send_messages(trial)
    assert count_undelivered(trial) == 1 and "not HTTP" in messages.list_messages(trial)[0]["error"]
    trial.close()


@sqlite_only
def test_whatever_a_channel_raises_is_counted(url):
    trial, way = open_with(url), Recorder()
    way.send = lambda message: 1 / 0
    alarm(trial)
    messages.collect_messages(trial, [way], now())
    assert messages.deliver_messages(trial, way, now()) == 0
    assert messages.list_messages(trial)[0]["error"] == "the webhook failed with ZeroDivisionError"
    assert count_undelivered(trial) == 1
    trial.close()


@sqlite_only
def test_a_line_break_in_the_studys_title_does_not_stop_its_mail(url, monkeypatch):
    sent = []
    monkeypatch.setattr(smtplib, "SMTP", partial(FakeMailServer, sent))
    mail = '[trial.alerts]\nemail = ["a@b.org", "c@d.org"]\nsmtp_host = "localhost"\nsmtp_security = "none"\n'
    study = STUDY.replace("[trial]\n", '[trial]\ntitle = "Walking\\r\\nBcc: x@y.org"\n')
    trial = open_trial(Study.parse(study + mail), url)
    alarm(trial)
    messages.send_messages(trial)
    assert sent[0]["Subject"] == "[Walking Bcc: x@y.org] yellow: policy-check" and count_undelivered(trial) == 0
    trial.close()


class FakeMailServer:
    """Refuses addresses that begin with c, the first time."""

    def __init__(self, sent, *_, **__):
        self.sent = sent

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def send_message(self, mail):
        self.sent.append(mail)
        return {"c@d.org": (550, b"no")} if len(self.sent) == 1 and "c@d.org" in mail["To"] and self.refuses else {}

    refuses = False


@sqlite_only
def test_a_recipient_who_was_refused_gets_it_later_and_the_others_do_not_get_it_twice(url, monkeypatch):
    sent = []
    monkeypatch.setattr(smtplib, "SMTP", partial(FakeMailServer, sent))
    monkeypatch.setattr(FakeMailServer, "refuses", True)
    mail = '[trial.alerts]\nemail = ["a@b.org", "c@d.org"]\nsmtp_host = "localhost"\nsmtp_security = "none"\n'
    trial = open_trial(Study.parse(STUDY + mail + 'digest_time = "never"\n'), url)
    (channel,), at = make_channels(trial.settings.alerts), now()
    alarm(trial)
    messages.collect_messages(trial, [channel], at)
    assert messages.deliver_messages(trial, channel, at) == 0 and count_undelivered(trial) == 1
    assert messages.list_messages(trial)[0]["error"] == "the mail server refused 1 of 2 recipients"
    assert messages.deliver_messages(trial, channel, at + timedelta(minutes=1)) == 1 and count_undelivered(trial) == 0
    assert [mail["To"] for mail in sent] == ["a@b.org, c@d.org", "c@d.org"]
    assert verify(trial.database).discrepancies == []
    trial.close()


@sqlite_only
def test_a_message_that_a_wrong_clock_put_off_leaves_when_the_clock_is_right(url):
    trial, way, at = open_with(url), Recorder(failures=1), now()
    alarm(trial)
    messages.collect_messages(trial, [way], at)
    assert messages.deliver_messages(trial, way, at + timedelta(days=400)) == 0
    assert messages.deliver_messages(trial, way, at) == 1
    trial.close()


def test_each_alert_and_update_is_told_once_without_ids_and_values(url):
    trial, way, at = open_with(url), Recorder(), now()
    alarm(trial)
    fill(trial, people=1, points=5)
    update(trial)
    for _ in range(3):
        messages.collect_messages(trial, [way], at)
        messages.deliver_messages(trial, way, at)
    assert sorted(message.kind for message in way.sent) == ["policy-check", "update ended"]
    told = "".join(message.text + message.title for message in way.sent)
    assert "p-017" not in told and "1000" not in told and "An update was held back" in told
    assert "ended: waiting" in told
    messages.collect_messages(trial, [way], at + timedelta(days=30))
    assert messages.deliver_messages(trial, way, at + timedelta(days=30)) == 0
    trial.close()


@sqlite_only
def test_what_could_not_be_sent_is_tried_again_later_and_shown(url):
    trial, way, at = open_with(url), Recorder(failures=2), now()
    alarm(trial)
    messages.collect_messages(trial, [way], at)
    assert messages.deliver_messages(trial, way, at) == 0 and count_undelivered(trial) == 1
    assert messages.list_messages(trial)[0]["error"] == "the webhook answered 500"
    assert messages.deliver_messages(trial, way, at + timedelta(seconds=29)) == 0 and way.failures == 1, "not yet"
    assert messages.deliver_messages(trial, way, at + timedelta(seconds=31)) == 0 and way.failures == 0
    assert messages.deliver_messages(trial, way, at + timedelta(seconds=92)) == 1
    assert count_undelivered(trial) == 0 and messages.list_messages(trial)[0]["attempts"] == 3
    trial.close()


@sqlite_only
def test_an_hour_has_only_so_many_messages_and_the_last_tells_all_the_rest(url):
    trial, way, at = open_with(url, HOOK + "max_per_hour = 3\n"), Recorder(), now()
    for number in range(10):
        alarm(trial, number)
    messages.collect_messages(trial, [way], at)
    assert messages.deliver_messages(trial, way, at) == 3
    assert [message.kind for message in way.sent] == ["policy-check", "policy-check", "several"]
    assert "yellow: 8 messages" in way.sent[2].title and way.sent[2].severity == "yellow"
    assert way.sent[2].text.count("held back") == 8
    alarm(trial, 11)
    messages.collect_messages(trial, [way], at)
    assert messages.deliver_messages(trial, way, at + timedelta(minutes=59)) == 0
    assert messages.deliver_messages(trial, way, at + timedelta(minutes=61)) == 1
    trial.close()


def test_two_workers_send_a_message_once(url):
    trial, at = open_with(url), now()
    other, ways = open_with(url), [Recorder(), Recorder()]
    alarm(trial)
    messages.collect_messages(trial, ways[:1], at)
    messages.collect_messages(other, ways[1:], at)
    real = ways[0].send

    def send_while_the_other_tries(message):
        assert messages.deliver_messages(other, ways[1], at) == 0
        real(message)

    ways[0].send = send_while_the_other_tries
    assert messages.deliver_messages(trial, ways[0], at) == 1 and len(ways[0].sent) + len(ways[1].sent) == 1
    trial.close()
    other.close()


@sqlite_only
def test_the_digest_comes_once_a_day_with_counts(url):
    trial, way = open_with(url, HOOK.replace("never", "08:00")), Recorder()
    fill(trial, people=2, points=5)
    noon = now().replace(hour=12)
    for moment in (noon.replace(hour=7), noon, noon + timedelta(hours=1)):
        messages.collect_messages(trial, [way], moment)
        messages.deliver_messages(trial, way, moment)
    assert [message.kind for message in way.sent] == ["digest"]
    text = way.sent[0].text
    assert "no policy is live" in text and "0 open alerts" in text and "10 decisions of 2 participants" in text
    trial.close()


@sqlite_only
def test_the_page_has_a_test_button_and_says_what_became_of_messages(url, client, monkeypatch):
    client.follow_redirects = False
    sign_in(client, "admin")
    page = client.get("/alerts")
    assert "For the author of the study file" in page.text and "Send a test" not in page.text
    settings = client.trial.settings.model_copy(update={"alerts": Alerts(webhook="http://127.0.0.1:9/hook")})
    monkeypatch.setattr(Trial, "settings", settings)
    page = client.get("/alerts")
    assert "Send a test" in page.text
    assert client.post("/alerts/test", data={"token": token(page)}).headers["location"] == "/alerts"
    messages.deliver_messages(client.trial, Recorder(failures=1), now())
    shown = client.get("/alerts").text
    assert "not sent</strong> after 1 attempt " in shown and "the webhook answered 500" in shown
    messages.deliver_messages(client.trial, Recorder(), now() + timedelta(minutes=2))
    assert "sent <time" in client.get("/alerts").text
    assert "surefoot_undelivered_messages 0" in client.get("/metrics").text


@sqlite_only
def test_the_sender_runs_beside_the_service_and_outlives_a_failure(url, monkeypatch):
    monkeypatch.setenv(SECRET, "hush")
    with webhook_receiver() as (hook, got, _):
        trial = open_with(url, HOOK.replace("http://127.0.0.1:9/hook", hook))
        monkeypatch.setattr("surefoot.service.messages.collect_messages", iter_once_failing(messages.collect_messages))
        with repeat_jobs(Job("messages", lambda: messages.send_messages(trial), 0.02)):
            alarm(trial)
            deadline = time.monotonic() + 60
            while not got and time.monotonic() < deadline:
                time.sleep(0.02)
        trial.close()
    assert [json.loads(body)["kind"] for _, body in got] == ["policy-check"]


def iter_once_failing(real):
    state = SimpleNamespace(failed=False)

    def collect(*arguments):
        if not state.failed:
            state.failed = True
            raise RuntimeError
        real(*arguments)

    return collect


def test_the_command_says_which_channel_works(tmp_path, monkeypatch):
    monkeypatch.setenv(SECRET, "hush")
    monkeypatch.setattr(messages, "SECONDS", 2.0)
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    refused = CliRunner().invoke(commands, ["alerts", "test", "--study", str(study)])
    assert "neither 'email' nor 'webhook'" in str(refused.exception)
    with webhook_receiver() as (hook, got, _):
        mail = f'email = ["a@b.org"]\nsmtp_host = "localhost"\nsmtp_port = 9\nwebhook = "{hook}"\n'
        study.write_text(STUDY + "[trial.alerts]\n" + mail)
        found = CliRunner().invoke(commands, ["alerts", "test", "--study", str(study)])
    assert (
        found.exit_code == 1 and found.stdout == "email: not sent; the mail server: ConnectionRefusedError\nwebhook: sent\n"
    )
    assert len(got) == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('email = ["a@b.org"]', "smtp_host"),
        ('webhook = "http://hooks.example.org/"', "https"),
        ('email = ["a@b.org"]\nsmtp_host = "mail.example.org"\nsmtp_security = "none"', "starttls"),
        ('digest_time = "25:00"', "not a time of day"),
    ],
)
def test_settings_that_would_not_work_are_refused(setting, words):
    with pytest.raises(ValueError, match=words):
        Study.parse(STUDY + "[trial.alerts]\n" + setting)
