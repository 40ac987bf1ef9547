"""`keep_days` erases what is due, a night's share at a time, and nothing because a clock was wrong."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.service.database.schema import alerts, decisions, erasures
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay, verify
from surefoot.service.updates import schedule
from surefoot.study import Study
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, answer, column

KEPT = STUDY.replace("[trial]\n", "[trial]\nkeep_days = 30\n")
sqlite_only = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    return Clock(monkeypatch, tmp_path)


@pytest.fixture
def kept(url, clock):
    """A trial that keeps content for 30 days, with a decision on its first day."""
    trial = open_trial(Study.parse(KEPT), url)
    register_participant(trial.database, "p0")
    answer(trial, "p0", 0, timestamp=BEGIN.isoformat())
    yield trial
    trial.close()


def run_until(trial, clock, days, hours=5.0):
    """The schedule looks every few hours until so many days after the beginning."""
    end = BEGIN + timedelta(days=days)
    while clock.moment < end:
        clock.set(min(end, clock.moment + timedelta(hours=hours)))
        schedule.tick(trial, clock.moment)


def count_erased(trial):
    return sum(salt is None for salt in column(trial, decisions.c.salt))


def test_what_is_older_than_the_study_keeps_is_erased_by_the_schedule(kept, clock):
    clock.set(BEGIN + timedelta(days=20))
    answer(kept, "p0", 1, timestamp=clock.moment.isoformat())
    clock.set(BEGIN + timedelta(days=28))
    run_until(kept, clock, 29.9)
    assert column(kept, erasures.c.id) == []
    run_until(kept, clock, 31)
    with kept.database.autocommit() as connection:
        (row,) = connection.execute(sa.select(erasures)).all()
    assert (row.participant_id, row.decisions, row.done_by) == (None, 1, "schedule")
    assert sorted(salt is None for salt in column(kept, decisions.c.salt)) == [False, True]
    assert verify(kept.database).discrepancies == [] == replay(kept.database).differences
    assert answer(kept, "p0", 0, timestamp=BEGIN.isoformat())["source"] == "warm-up", "a retry still gets its answer"
    assert not {"clock", "retention"} & set(column(kept, alerts.c.kind)), "nobody is alarmed by a night's share"


@pytest.mark.parametrize("ahead", [timedelta(days=400), timedelta(days=30, hours=12)])
def test_a_clock_ahead_for_some_seconds_erases_nothing(kept, clock, ahead):
    run_until(kept, clock, 2)
    right = clock.moment
    clock.set(right + ahead)
    for seconds in (0, 15, 20):
        schedule.tick(kept, right + ahead + timedelta(seconds=seconds))
    clock.set(right)
    run_until(kept, clock, 4)
    assert count_erased(kept) == 0 and column(kept, erasures.c.id) == []
    kinds = column(kept, alerts.c.kind)
    assert kinds.count("clock") == 2 and kinds.count("retention") == 1, "there and back"
    message = next(text for text in column(kept, alerts.c.message) if "second look" in text)
    assert message.startswith("1 decisions are older than the 30 days") and "check the server's clock" in message


@sqlite_only
def test_a_clock_ahead_at_the_same_hour_of_two_days_is_no_second_look(kept, clock):
    run_until(kept, clock, 2)
    for day in (2, 3):
        right = BEGIN + timedelta(days=day)
        clock.set(right + timedelta(days=400))
        schedule.tick(kept, clock.moment)
        clock.set(right)
        run_until(kept, clock, day + 1)
    assert count_erased(kept) == 0


@sqlite_only
def test_more_than_a_nights_share_goes_at_the_second_look(kept, clock):
    """The service was off for ten days while content became due."""
    run_until(kept, clock, 1)
    clock.set(BEGIN + timedelta(days=40))
    schedule.tick(kept, clock.moment)
    run_until(kept, clock, 40.9)
    assert count_erased(kept) == 0 and "retention" in column(kept, alerts.c.kind)
    run_until(kept, clock, 42)
    assert count_erased(kept) == 1
    assert verify(kept.database).discrepancies == []
