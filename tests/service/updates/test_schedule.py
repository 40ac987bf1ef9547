"""The nightly update: taken once, never skipped in silence."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot import Study
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
