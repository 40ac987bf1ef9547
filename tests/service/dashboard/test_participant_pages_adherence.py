import csv
import io
from datetime import timedelta

import pytest

from surefoot.service.dashboard.participant_pages import describe_adherence
from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide, record_outcomes
from surefoot.service.trial.participants import register_participant, withdraw
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.dashboard.pages import sign_in
from tests.service.support.client import request
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY

TWO_A_DAY = STUDY.replace("[trial]\n", "[trial]\nday_boundary = 2\n", 1)


@pytest.fixture
def busy(url, monkeypatch, tmp_path):
    """Two decision points a day by design. p0 sends both, and every first outcome; p1 sends one, a day late, and leaves
    on the fourth day; p2 never speaks."""
    clock = Clock(monkeypatch, tmp_path)
    trial = open_trial(Study.parse(TWO_A_DAY), url)
    for one in ("p0", "p1", "p2"):
        register_participant(trial.database, one)
    for day in range(5):
        clock.set(BEGIN + timedelta(days=day))
        for half in range(2):
            free = (day, half) != (1, 1)
            body = {
                "availability": free,
                "reasons": [] if free else ["driving"],
                "timestamp": (clock.moment - (1 - half) * timedelta(hours=2)).isoformat(),
            }
            reply = decide(trial, DecisionRequest(**request("p0", 2 * day + half, **body)))
            if half == 0:
                known = DecisionReply.model_validate_json(reply).decision_id
                record_outcomes(trial, [Outcome(decision_id=known, outcome=1.0, timestamp=clock.moment)])
        if 1 <= day <= 2:
            decided = clock.moment - timedelta(days=1)
            decide(trial, DecisionRequest(**request("p1", day, timestamp=decided.isoformat())))
        if day == 3:
            withdraw(trial, "p1", reason="moved", by="test")
    clock.set(BEGIN + timedelta(days=5))
    yield trial, clock.moment
    trial.close()


def test_what_arrived_is_compared_with_the_design(busy):
    trial, at = busy
    found = describe_adherence(trial, at, "day", "decided_at", order="participant")
    # Whole days: the second to the fifth for p0 and p2, the second and third for p1, who left on the fourth.
    names = ("expected", "punctual", "arrived", "available", "due", "known")
    rows = {one["label"]: tuple(one[name] for name in names) for one in found["people"]}
    assert rows["p0"] == (8, 8, 10, 9, 7, 4), "due: all of the first four days, less one unavailable"
    assert rows["p1"] == (4, 1, 2, 2, 2, 0)
    assert rows["p2"] == (8, 0, 0, 0, 0, 0)
    days = {one["label"]: tuple(one[name] for name in names[:3]) for one in found["spans"]}
    assert [days[f"0{day} Mar"] for day in (2, 3, 4, 5, 6, 7)] == [
        *((0, 0, 3), (6, 3, 3), (6, 2, 2)),
        *((4, 2, 2), (4, 2, 2), (0, 0, 0)),
    ]
    assert found["people"][0]["shares"] == {"arrived": 1.0, "available": 0.9, "outcomes": 4 / 7, "worn": None}
    assert found["people"][1]["status"] == "withdrawn" and found["people"][2]["last_seen"] is None


def test_by_arrival_a_late_day_counts_when_it_came(busy):
    trial, at = busy
    found = describe_adherence(trial, at, "day", "received_at", participant="p1")
    assert [(one["label"], one["arrived"]) for one in found["spans"] if one["arrived"]] == [("03 Mar", 1), ("04 Mar", 1)]
    own = describe_adherence(trial, at, "day", "decided_at", participant="p1")
    assert [(one["label"], one["arrived"]) for one in own["spans"] if one["arrived"]] == [("02 Mar", 1), ("03 Mar", 1)]
    weeks = describe_adherence(trial, at, "week", "decided_at")["spans"]
    assert len(weeks) == 8 and sum(one["arrived"] for one in weeks) == 12 and weeks[-1]["label"] == "01 Mar to 07 Mar"


def test_people_are_sorted_by_what_is_asked(busy):
    trial, at = busy
    orders = {
        order: [one["label"] for one in describe_adherence(trial, at, "day", "decided_at", order=order)["people"]]
        for order in ("seen", "participant", "arrived", "outcomes", "available")
    }
    assert orders == {
        "seen": ["p2", "p1", "p0"],
        "participant": ["p0", "p1", "p2"],
        "arrived": ["p2", "p1", "p0"],
        "outcomes": ["p1", "p0", "p2"],
        "available": ["p0", "p1", "p2"],
    }


def test_without_a_design_nothing_is_said_to_be_missing(browser):
    register_participant(browser.trial.database, "p0")
    sign_in(browser, "coordinator")
    page = browser.get("/adherence").text
    assert "does not state the number of decision points a day" in page and "0 %" not in page.partition("By participant")[2]
    for wrong in ("?participant=nobody", "?order=action", "?span=year", "?by=x"):
        assert browser.get(f"/adherence{wrong}").status_code == 404, wrong
    rows = list(csv.reader(io.StringIO(browser.get("/adherence?download=csv").text)))
    assert rows[0][:4] == ["participant", "from", "expected", "arrived of these"]
    assert rows[1][0] == "p0" and rows[1][2:4] == ["", "0"] and len(rows) == 1 + 1 + 14
    assert rows[-1][0] == "everybody" and rows[1][1] == rows[2][1] < rows[-1][1]
