"""The report for a board: what the open part holds, what the closed part adds, and who was unblinded."""

import json
from datetime import date, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa

from surefoot.inference.intervals import ratio_interval
from surefoot.service.database.clock import now
from surefoot.service.database.schema import decisions, staff_actions
from surefoot.service.operations import board
from surefoot.service.operations.board import make_closed_report, make_open_report
from surefoot.service.trial.adverse_events import record_event
from surefoot.service.trial.boundaries import Boundary
from surefoot.service.trial.participants import withdraw
from surefoot.service.trial.states import CURRENT
from tests.service.support.trials import column, fill

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def eventful(trial):
    fill(trial, people=4, points=12)
    facts = {"happened_at": now() - timedelta(minutes=1), "related": "related", "by": "key 0123456789ab"}
    record_event(trial, "p1", description="=fell <b>", serious=True, **facts)
    withdraw(trial, "p2", reason="moved away", by="x")
    return trial


def numbers(counts):
    return {count.words: (count.since, count.total) for count in counts}


def test_the_open_part_counts_and_holds_nothing_by_action(eventful):
    report = make_open_report(eventful, since=now() + timedelta(days=1))
    assert numbers(report.participants)["withdrawn"] == (0, 1) and numbers(report.participants)["registered"] == (0, 4)
    assert numbers(report.events)["adverse events"] == (0, 1) and numbers(report.events)["judged as related"] == (0, 1)
    assert numbers(report.records)["decision points"] == (0, 48)
    assert numbers(report.deviations)["alerts: adverse-event"] == (0, 1)
    content = report.to_dict()
    assert content["part"] == "open" and "by_action" not in content and content["reasons"] == []
    page = report.to_html()
    assert "=fell &lt;b&gt;" in page and "mean outcome" not in page
    assert make_open_report(eventful).to_dict()["reasons"][0]["reason"] == "moved away"


def test_the_closed_part_is_on_the_trail_and_weights_by_probability(eventful):
    assert make_open_report(eventful).unblindings == []
    report = make_closed_report(eventful, reason="third meeting", by="key 0123456789ab")
    (seen,) = report.unblindings
    assert (seen["saw"], seen["reason"]) == ("outcomes by action", "third meeting")
    assert column(eventful, staff_actions.c.action)[-1] == "unblinded"
    with eventful.database.autocommit() as connection:
        columns = (decisions.c.participant_id, decisions.c.action, decisions.c.probability, CURRENT.c.outcome)
        known = sa.select(*columns).join(CURRENT, CURRENT.c.decision_id == decisions.c.id).where(decisions.c.available)
        rows = [row for row in connection.execute(known) if row.outcome is not None]
        last = connection.scalar(
            sa.select(decisions.c.action)
            .where(decisions.c.participant_id == "p1")
            .order_by(decisions.c.decision_idx.desc())
            .limit(1)
        )
    for action, summary in enumerate(report.by_action):
        tops, bottoms = [], []
        for person in ("p0", "p1", "p2", "p3"):
            mine = [row for row in rows if row.participant_id == person and row.action == action]
            tops.append(sum(row.outcome / row.probability for row in mine))
            bottoms.append(sum(1 / row.probability for row in mine))
        expected = ratio_interval(np.array(tops), np.array(bottoms))
        assert summary.mean == pytest.approx(expected) and summary.mean.low < summary.mean.high
        assert summary.outcomes == sum(row.action == action for row in rows)
        assert (summary.adverse_events, summary.serious) == ((1, 1) if action == last else (0, 0))
    assert "4 people: rough" in report.to_html() and json.loads(report.to_json())["by_action"][0]["mean"]["low"]


def test_the_open_part_says_that_a_boundary_was_crossed_and_the_closed_part_how_far(trial, monkeypatch):
    day = date(2026, 3, 2)
    harm = Boundary("harm", "Mean outcome", "steps", -0.5, 90, (day,), ((-7.75, -9.0, -0.625),))
    burden = Boundary("burden", "Prompts a day", "prompts", 5.0, 90, (day,), ((2.5, 2.0, 3.0),))
    monitored = SimpleNamespace(boundaries=[harm, burden], wrong_draws="hour 9: too many")
    monkeypatch.setattr(board, "monitor_trial", lambda trial, at: monitored)
    opened = make_open_report(trial)
    closed = make_closed_report(trial, reason="a boundary", by="x")
    assert [row["crossed_on"] for row in opened.boundaries] == [day, None]
    assert [row["estimate"] is None for row in opened.boundaries] == [True, False]
    assert "crossed on 2026-03-02" in opened.to_html() and "7.75" not in opened.to_html() + opened.to_json()
    assert "−7.75 (−9 to −0.625)" in closed.to_html() and closed.to_dict()["boundaries"][0]["estimate"]["high"] == -0.625
    assert "hour 9: too many" in opened.to_html()


def test_a_report_of_a_trial_without_decisions_has_no_numbers_to_believe(trial):
    report = make_closed_report(trial, reason="first meeting", by="x")
    assert "no outcome" in report.to_html() and report.to_dict()["by_action"][0]["mean"]["value"] is None
