from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import studies
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates.schedule import WORDS, find_month
from surefoot.service.updates.updates import activate
from surefoot.study import Study
from tests.service.support.trials import STUDY

NIGHTLY = STUDY.replace('update_time = "never"', 'update_time = "23:30"\ntime_zone = "Europe/Zurich"')


@pytest.fixture
def trial(url):
    opened = open_trial(Study.parse(NIGHTLY), url)
    yield opened
    opened.close()


def add_update(trial, state, moment, started_by, message=None, *, live=None):
    """An update as it stands in the table; `live` True or False: it made a policy, which went live or did not."""
    row = {"state": state, "started_by": started_by, "created_at": moment, "beat_at": moment, "message": message}
    with trial.database.transaction() as connection:
        number = int(insert_recorded(connection, "update", {**row, "findings": "[]", "result": "{}"}))
        if live is not None:
            made = {"update_id": number, "study_id": trial.study_id, "created_at": moment, "accepted": True, "content": "{}"}
            policy = int(insert_recorded(connection, "policy", made))
            if live:
                activate(trial, connection, policy, "test")
    return number


def show(month):
    return {day.date.day: [(one.kind, one.update_id) for one in day.entries] for week in month.weeks for day in week
            if day.in_month and day.entries}  # fmt: skip


def test_a_month_says_what_became_of_every_night(trial):
    with trial.database.autocommit() as connection:
        first = connection.scalar(sa.select(studies.c.first_used))
    # The trial begins when the test runs: a month after it.
    zone = trial.settings.zone
    start = (first.date().replace(day=1) + timedelta(days=62)).replace(day=1)
    days = [start + timedelta(days=place) for place in range(9)]

    def at(day, hour=23, minute=30):
        return datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).astimezone(UTC)

    by = [f"schedule, night of {day}" for day in days]
    ids = [
        add_update(trial, "waiting", at(days[0]), by[0], "nobody has 20 complete decision points yet"),
        add_update(trial, "done", at(days[1]), by[1], live=True),
        add_update(trial, "refused", at(days[2]), by[2], "send rate: too far", live=False),
        # Begun after midnight, and again: it belongs to the night before.
        add_update(trial, "interrupted", at(days[4], 0, 10), by[3]),
        add_update(trial, "failed", at(days[4], 0, 20), f"{by[3]}, attempt 2", "the fit failed with MemoryError"),
        add_update(trial, "done", at(days[4]), by[4], live=False),
        add_update(trial, "done", at(days[6], 12, 0), "key 0123", live=True),
    ]
    month = find_month(trial, f"{start:%Y-%m}", at(days[7], 12, 0))
    assert show(month) == {
        1: [("waiting", ids[0])],
        2: [("done", ids[1])],
        3: [("refused", ids[2])],
        4: [("interrupted", ids[3]), ("failed", ids[4])],
        5: [("inactive", ids[5])],
        6: [("skipped", None)],
        7: [("done", ids[6]), ("skipped", None)],
        8: [("planned", None)],
    }
    assert month.counts == {
        **{WORDS[kind][1]: 1 for kind in ("waiting", "refused", "failed", "interrupted", "inactive", "planned")},
        "done": 2,
        "skipped": 2,
    }
    reasons = {one.update_id: one.reason for week in month.weeks for day in week for one in day.entries}
    assert reasons[ids[2]] == "send rate: too far" and reasons[ids[1]] == ""


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_months_follow_each_other(trial):
    month = find_month(trial, "2026-12", datetime(2026, 12, 31, tzinfo=UTC))
    assert (month.first, month.earlier, month.later) == (date(2026, 12, 1), "2026-11", "2027-01")
    assert [len(week) for week in month.weeks] == [7] * 5 and month.weeks[0][0].date == date(2026, 11, 30)
    assert find_month(trial, "", datetime(2026, 12, 31, 23, 30, tzinfo=UTC)).first == date(2027, 1, 1), "in Zurich"
