"""The nightly update: taken once, never skipped in silence, whatever the clock does."""

from datetime import date, timedelta

import pytest
import sqlalchemy as sa

from surefoot import Study
from surefoot.service.database.clock import VARIABLE, ClockWatch
from surefoot.service.database.schema import alerts
from surefoot.service.database.schema import updates as update_rows
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import schedule, updates
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, column

NIGHTLY = STUDY.replace('"never"', '"03:00"\ntime_zone = "Europe/Zurich"')


@pytest.fixture
def nightly(url, monkeypatch, tmp_path):
    """A trial that begins in the morning."""
    Clock(monkeypatch, tmp_path)
    trial = open_trial(Study.parse(NIGHTLY), url)
    yield trial
    trial.close()


def start_and_lose_power(trial, by):
    """The update begins, and the machine goes dark before its process has done anything."""
    update_id = updates.begin_update(trial, by)
    with trial.database.transaction() as connection:
        connection.execute(sa.update(update_rows).values(host="a machine without power"))
    return update_id


def test_the_nightly_update_is_taken_once(nightly, url, monkeypatch):
    workers = [nightly, open_trial(Study.parse(NIGHTLY), url)]
    assert schedule.tick(workers[0], BEGIN) is None, "nothing is due before the trial began"
    started = []

    def finish(trial, by):
        started.append(by)
        return updates.run_update(trial, updates.begin_update(trial, by))

    monkeypatch.setattr(updates, "start_update", finish)
    for days in (1, 1, 2, 2, 2):
        for worker in workers:
            schedule.tick(worker, BEGIN + timedelta(days=days))
    assert len(started) == len(set(started)) == 2 and all(by.startswith("schedule, night of 2026-03-0") for by in started)
    workers[1].close()


def test_an_update_that_a_power_cut_ended_is_found_and_tried_again(nightly, monkeypatch):
    monkeypatch.setattr(updates, "start_update", start_and_lose_power)
    monkeypatch.setattr(updates, "DEAD_AFTER", timedelta(seconds=-1))
    at = BEGIN + timedelta(days=1)
    ids = [schedule.tick(nightly, at + timedelta(minutes=minute)) for minute in range(5)]
    assert ids[:3] == [1, 2, 3] and ids[3:] == [None, None], "three attempts, then people must look"
    assert column(nightly, update_rows.c.state) == ["interrupted"] * 3
    messages = column(nightly, alerts.c.message)
    assert any("failed 2 times; no policy is live" in message for message in messages)
    assert any("failed 3 times" in message for message in messages)
    monkeypatch.setattr(updates, "start_update", lambda trial, by: 99)
    assert schedule.tick(nightly, at + timedelta(days=1)) == 99, "the next night is another one"


def test_a_worker_that_died_between_the_claim_and_the_update_does_not_cost_the_night(nightly, monkeypatch):
    monkeypatch.setattr(updates, "start_update", lambda trial, by: by)
    at = BEGIN + timedelta(days=1)
    assert schedule.tick(nightly, at).startswith("schedule, night of")
    assert schedule.tick(nightly, at + timedelta(seconds=30)) is None, "it may just be starting"
    assert schedule.tick(nightly, at + timedelta(minutes=3)).endswith("attempt 2")


@pytest.fixture
def started(nightly, monkeypatch):
    """The names of updates that were started; each ends at once."""
    names = []

    def finish(trial, by):
        names.append(by.removeprefix(schedule.NIGHT))
        updates.run_update(trial, updates.begin_update(trial, by))
        return len(names)

    monkeypatch.setattr(updates, "start_update", finish)
    return names


def list_alerts(trial, kind):
    with trial.database.autocommit() as connection:
        return list(connection.scalars(sa.select(alerts.c.message).where(alerts.c.kind == kind).order_by(alerts.c.id)))


@pytest.mark.parametrize("ahead", [timedelta(days=400), timedelta(days=1), -timedelta(days=400), -timedelta(days=1)])
def test_a_clock_that_is_wrong_for_a_while_costs_no_night(nightly, started, ahead):
    """A night that was claimed by a wrong clock is taken again when it comes."""
    for hours in (0, 4):
        schedule.tick(nightly, BEGIN + timedelta(hours=hours))
    for seconds in (0, 15, 35):
        schedule.tick(nightly, BEGIN + timedelta(hours=5, seconds=seconds) + ahead)
    started.clear()
    for hours in range(6, 72, 5):
        schedule.tick(nightly, BEGIN + timedelta(hours=hours))
    assert started == ["2026-03-03", "2026-03-04", "2026-03-05"]
    jumps = list_alerts(nightly, "clock")
    assert len(jumps) == 2 and f"{ahead / timedelta(hours=1) + 1:+,.1f} hours" in jumps[0]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_nothing_is_done_by_a_clock_that_was_just_set(nightly, started, monkeypatch):
    """A running service knows how much time has passed: not even an update is started too early."""
    monkeypatch.delenv(VARIABLE)
    steady = [0.0]
    watch = ClockWatch(lambda: steady[0])

    def look(seconds, set_by=timedelta()):
        steady[0] += seconds
        schedule.tick(nightly, BEGIN + timedelta(seconds=steady[0]) + set_by, watch)

    look(15)
    for seconds in (15, 15, 5):
        look(seconds, timedelta(days=400))
    assert started == [] and len(list_alerts(nightly, "clock")) == 1
    look(15)
    for _ in range(32):
        look(3000)
    assert started == ["2026-03-03"] and list_alerts(nightly, "update") == []
    jumps = list_alerts(nightly, "clock")
    assert len(jumps) == 2 and "jumped by +9,600.0 hours" in jumps[0] and "jumped by -9,600.0 hours" in jumps[1]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_nights_that_the_machine_slept_through_are_named_when_its_clock_has_settled(nightly, started, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    steady = [0.0]
    watch = ClockWatch(lambda: steady[0])
    for seconds in (0, 15, 3 * 86_400, 15, 300):
        steady[0] += seconds
        schedule.tick(nightly, BEGIN + timedelta(seconds=steady[0]), watch)
    assert started == ["2026-03-05"] and "2 nights (2026-03-03, 2026-03-04)" in list_alerts(nightly, "update")[0]


def test_all_nights_that_the_service_slept_through_are_named_and_the_last_is_made_up(nightly, started):
    schedule.tick(nightly, BEGIN)
    back = BEGIN + timedelta(days=3)
    for minutes in (0, 1, 2, 60):
        schedule.tick(nightly, back + timedelta(minutes=minutes))
    assert started == ["2026-03-05"]
    (missed,) = list_alerts(nightly, "update")
    assert missed == (
        "by the server's clock no worker ran in 2 nights (2026-03-03, 2026-03-04): they had no update; "
        "the night of 2026-03-05 is made up for now"
    )
    (off,) = list_alerts(nightly, "clock")
    assert off.startswith("no worker looked at the clock for +72.0 hours")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("changes", ["2026-03-28", "2026-10-24"])
def test_summer_time_costs_no_night_and_adds_none(nightly, started, changes):
    begin = BEGIN.replace(month=int(changes[5:7]), day=int(changes[8:]), hour=12)
    for hours in range(0, 73, 2):
        schedule.tick(nightly, begin + timedelta(hours=hours))
    first = date.fromisoformat(changes)
    assert started == [(first + timedelta(days=number)).isoformat() for number in range(4)]
    assert list_alerts(nightly, "clock") == [] == list_alerts(nightly, "update")
