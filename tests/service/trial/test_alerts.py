import re
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import sqlalchemy as sa

import surefoot.service
from surefoot.service.access import record_action
from surefoot.service.database.clock import now
from surefoot.service.database.schema import alerts, messages
from surefoot.service.trial.alerts import (
    KINDS,
    SEVERITIES,
    TrialState,
    assess_trial,
    close_alert,
    count_alert,
    raise_periodic_alerts,
)
from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import record_outcomes
from surefoot.service.trial.participants import register_participant, set_pause
from surefoot.service.trial.upkeep import BACKED_UP, SEALED
from surefoot.service.trial.verification import verify
from tests.service.support.client import request
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import answer, column, fill

SERVICE = Path(surefoot.service.__file__).parent


def test_every_kind_of_alert_has_a_severity_and_a_meaning_that_names_nobody():
    files = [path.read_text(encoding="utf-8") for path in SERVICE.rglob("*.py")]
    raised = {kind for text in files for kind in re.findall(r'kind="([a-z-]+)"|Trouble\("([a-z-]+)"', text)}
    kinds = {kind for pair in raised for kind in pair if kind}
    assert {"update", "probability", "clock", "retention"} <= kinds <= KINDS.keys()
    assert not any("{" in kind.meaning for kind in KINDS.values())
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
    assert [kind for _, kind in found] == ["fallbacks", "no-data", "backup", "seal"]
    assert [close_alert(trial.database, found[0].id, "key abc") for _ in range(2)] == [True, False]


def test_unknown_context_variables_raise_an_alert_that_names_them(trial, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    register_participant(trial.database, "p0")
    answer(trial, index=0, timestamp=BEGIN.isoformat())
    raise_periodic_alerts(trial, clock.moment)
    assert column(trial, alerts.c.kind) == []
    for index in (1, 2):
        later = (BEGIN + timedelta(minutes=index)).isoformat()
        answer(trial, index=index, timestamp=later, context={"wether": 1.0})
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
    answer(trial, index=1)
    clock.set(BEGIN + timedelta(days=2))
    raise_periodic_alerts(trial, clock.moment)
    assert column(trial, alerts.c.kind) == ["no-data", "backup", "seal"]


def test_a_thousand_wrong_echoes_make_one_alert_with_a_count(trial):
    """One a day; after it was closed, another one."""
    replies = fill(trial, people=1, points=10)
    wrong = [
        Outcome(decision_id=reply.decision_id, outcome=number, timestamp="2026-03-20T08:00:00Z", action_prob=0.77)
        for number in range(100)
        for reply in replies
    ]
    record_outcomes(trial, wrong)
    record_outcomes(trial, [wrong[0].model_copy(update={"outcome": -1.0})])
    assert assess_trial(trial, now()).reasons[0][2].endswith(" had (1,001 times)")
    assert column(trial, alerts.c.times) == [1001] and column(trial, alerts.c.kind) == ["probability"]
    assert verify(trial.database).discrepancies == []
    assert close_alert(trial.database, 1, "test")
    record_outcomes(trial, [wrong[0].model_copy(update={"outcome": -2.0})])
    assert sorted(column(trial, alerts.c.times)) == [1, 1001]


def test_a_message_that_nobody_tries_to_send_is_no_good_news(trial):
    """The thread that sends may hang; a channel that the study names no longer is forgotten after a week."""
    row = {"channel": "webhook", "occasion": "x", "kind": "update", "content": "{}", "attempts": 1, "due_at": BEGIN}
    with trial.database.transaction() as connection:
        connection.execute(sa.insert(messages), {**row, "created_at": BEGIN})
    states = [assess_trial(trial, BEGIN + timedelta(hours=hours)) for hours in (1, 3, 200)]
    assert [[kind for _, kind, _ in state.reasons] for state in states] == [[], ["messages"], []]


def test_the_trial_is_green_only_while_nothing_is_wrong(trial, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    for participant in ("p0", "p1", "p2"):
        register_participant(trial.database, participant)
        answer(trial, participant, 0, timestamp=BEGIN.isoformat())
    assert assess_trial(trial, clock.moment) == TrialState("green", [])

    def run_day(day, *people):
        clock.set(BEGIN + timedelta(days=day))
        for participant in people:
            number = next(index)
            answer(trial, participant, number, timestamp=(clock.moment + timedelta(minutes=number)).isoformat())
        return assess_trial(trial, clock.moment)

    index = count(1)

    def list_kinds(state):
        return [kind for _, kind, _ in state.reasons]

    state = run_day(2, "p0", "p1")
    assert (state.severity, list_kinds(state)) == ("red", ["backup", "seal"])
    with trial.database.transaction() as connection:
        for action in (BACKED_UP, SEALED):
            record_action(connection, "test", action)
    assert run_day(2, "p0").severity == "green"
    state = run_day(3.1, "p0")
    assert (
        list_kinds(state) == ["backup", "silence", "seal"]
        and "1 participant has been silent for more than 2 days: p2" in state.reasons[1][2]
    )
    set_pause(trial, "p2", paused=True, reason="holidays", by="test")
    assert "silence" not in list_kinds(run_day(3.2, "p0")), "who is paused may be silent"
    failed = {"channel": "webhook", "occasion": "x", "kind": "update", "content": "{}", "attempts": 12, "error": "no answer"}
    with trial.database.transaction() as connection:
        connection.execute(sa.insert(messages), {**failed, "created_at": BEGIN, "due_at": BEGIN})
        count_alert(connection, kind="replay", message="one decision differs", at=clock.moment)
    assert list_kinds(run_day(3.3, "p0")) == ["replay", "backup", "messages", "seal"]
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10**8))
    assert "disk" in list_kinds(run_day(3.4, "p0")) or not trial.database.is_sqlite
