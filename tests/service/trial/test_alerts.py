import re
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

import surefoot.service
from surefoot.service.database.schema import alerts
from surefoot.service.trial.alerts import KINDS, SEVERITIES, close_alert, raise_periodic_alerts
from surefoot.service.trial.participants import register_participant
from tests.service.support.client import request
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import answer, column

SERVICE = Path(surefoot.service.__file__).parent


def test_every_kind_of_alert_has_a_severity_and_a_meaning_that_names_nobody():
    files = [path.read_text(encoding="utf-8") for path in SERVICE.rglob("*.py")]
    raised = {kind for text in files for kind in re.findall(r'kind="([a-z-]+)"|yield "([a-z-]+)",', text)}
    kinds = {kind for pair in raised for kind in pair if kind}
    assert {"no-data", "fallbacks", "key-expiry", "update", "probability"} <= kinds <= KINDS.keys()
    assert len(KINDS) == 9 and not any("{" in kind.meaning for kind in KINDS.values())
    assert {kind.severity for kind in KINDS.values()} == SEVERITIES.keys()


def test_alerts_come_once_a_day_and_can_be_closed(trial, monkeypatch, tmp_path):
    now = Clock(monkeypatch, tmp_path).moment
    raise_periodic_alerts(trial, now)
    register_participant(trial.database, "p0")
    for index in range(20):
        answer(trial, index=index, context={} if index < 10 else request()["context"])
    for _ in range(2):
        raise_periodic_alerts(trial, now + timedelta(hours=1))
        raise_periodic_alerts(trial, now + timedelta(hours=30))
    with trial.database.autocommit() as connection:
        found = connection.execute(sa.select(alerts.c.id, alerts.c.kind).order_by(alerts.c.id)).all()
    assert [kind for _, kind in found] == ["fallbacks", "no-data"]
    assert [close_alert(trial.database, found[0].id, "key abc") for _ in range(2)] == [True, False]


def test_unknown_context_variables_raise_an_alert_that_names_them(trial, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    register_participant(trial.database, "p0")
    answer(trial, index=0, timestamp=BEGIN.isoformat())
    raise_periodic_alerts(trial, clock.moment)
    assert column(trial, alerts.c.kind) == []
    for index in (1, 2):
        answer(trial, index=index, timestamp=BEGIN.isoformat(), context={"wether": 1.0})
    for _ in range(2):
        raise_periodic_alerts(trial, clock.moment + timedelta(hours=1))
    (message,) = column(trial, alerts.c.message)
    assert message == (
        "context.wether is not a state variable of the study (did you mean 'weather'?); it was not used (2 decisions); "
        "mend the app or the study"
    )


def test_silence_is_noticed_after_the_clock_was_once_ahead(trial, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    register_participant(trial.database, "p0")
    answer(trial, index=0, timestamp=BEGIN.isoformat())
    clock.set(BEGIN + timedelta(days=365))
    answer(trial, index=1, timestamp=BEGIN.isoformat())
    clock.set(BEGIN + timedelta(days=2))
    raise_periodic_alerts(trial, clock.moment)
    assert column(trial, alerts.c.kind) == ["no-data"]
