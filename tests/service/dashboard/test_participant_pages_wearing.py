"""Who has not worn the device for two days, and what updates make of unworn devices."""

from datetime import timedelta

import numpy as np
import pytest

from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.dashboard.participant_pages import describe_adherence, list_unworn
from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial import decisions, participants
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.dashboard.pages import sign_in
from tests.service.support.client import Client
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, update

WORN = STUDY.replace("[state.weather]\n", '[state.weather]\ndevice = "wrist"\n').replace(
    'column = "steps"', 'column = "steps"\ndevice = "wrist"\n[screen]'
)


def walk(trial, clock, unworn, *, people=4, days=14):
    """Steps of people who also sit still; where the watch is not worn it says 0, before and after."""
    rng = np.random.default_rng(0)
    for number in range(people):
        participants.register_participant(trial.database, f"p{number}")
    for day in range(days):
        for point in range(5):
            clock.set(BEGIN + timedelta(days=day, hours=2.5 * point))
            for number in range(people):
                steps = np.where(rng.random(2) < 0.2, 0.0, np.round(rng.lognormal(5, 1, 2)) / 100)
                off = day in unworn.get(number, ())
                context = {
                    "weather": 0.0 if off else float(min(steps[0], 10)),
                    "engagement": float(rng.normal()),
                    "place": "home",
                }
                body = {"participant_id": f"p{number}", "decision_idx": 5 * day + point, "timestamp": clock.moment}
                asked = DecisionRequest(**body, availability=True, reasons=[], context=context)
                answer = DecisionReply.model_validate_json(decisions.decide(trial, asked))
                came = 0.0 if off else float(steps[1])
                told = Outcome(decision_id=answer.decision_id, outcome=came, timestamp=clock.moment)
                decisions.record_outcomes(trial, [told])
    clock.set(BEGIN + timedelta(days=days))


@pytest.fixture
def opened(tmp_path):
    trial = open_trial(Study.parse(WORN), f"sqlite:///{tmp_path}/trial.db")
    yield trial
    trial.close()


def test_who_has_not_worn_the_device_for_two_days_is_listed(opened, monkeypatch, tmp_path):
    clock = Clock(monkeypatch, tmp_path)
    # p1 took it off three days ago, p2 last night, p3 for a week in between.
    walk(opened, clock, {1: range(11, 14), 2: range(13, 14), 3: range(3, 9)})
    (person,) = list_unworn(opened, clock.moment)
    assert person["id"] == "p1"
    assert person["decision_points"] >= 12
    assert timedelta(days=2) <= clock.moment - person["since"] <= timedelta(days=3.5)
    people = {each["label"]: each for each in describe_adherence(opened, clock.moment, "day", "decided_at")["people"]}
    assert all(each["judged"] == each["arrived"] for each in people.values())
    assert {name: round(each["shares"]["worn"], 1) for name, each in people.items()} == {
        "p0": 1,
        "p1": 0.8,
        "p2": 0.9,
        "p3": 0.6,
    }
    given = {role: access.create_key(opened.database, role) for role in access.ROLES}
    with Client(create_app(opened), given) as browser:
        browser.follow_redirects = False
        sign_in(browser, "analyst")
        page = browser.get("/not-worn").text
        timeline = browser.get("/participants/p1").text
        assert timeline.count('unworn" cx') == timeline.count("; device not worn") > 10
        assert "unworn" not in browser.get("/participants/p0").text.partition("</style>")[2]
    assert "1 participant has not worn the device for two days" in page
    assert 'href="/participants/p1"' in page
    assert "/participants/p3" not in page
    state, status = update(opened)
    assert state == "done"
    assert status["result"]["flagged"]["not worn"] >= 60


def test_an_update_is_refused_when_values_go_missing_after_an_action(tmp_path, monkeypatch):
    study = STUDY.replace("[method]", "[screen]\n[method]").replace("max_removed = 0.5", "max_removed = 1.0")
    trial = open_trial(Study.parse(study.replace("_change = 0.8", "_change = 1.0")), f"sqlite:///{tmp_path}/trial.db")
    clock, rng = Clock(monkeypatch, tmp_path), np.random.default_rng(1)
    for number in range(4):
        participants.register_participant(trial.database, f"p{number}")
    for index in range(60):
        clock.set(BEGIN + timedelta(hours=2 * index))
        for number in range(4):
            context = {"weather": float(rng.normal()), "engagement": float(rng.normal()), "place": "home"}
            body = {"participant_id": f"p{number}", "decision_idx": index, "timestamp": clock.moment}
            asked = DecisionRequest(**body, availability=True, reasons=[], context=context)
            answer = DecisionReply.model_validate_json(decisions.decide(trial, asked))
            came = 0.0 if answer.action == 0 and rng.random() < 0.5 else float(rng.normal())
            told = Outcome(decision_id=answer.decision_id, outcome=came, timestamp=clock.moment)
            decisions.record_outcomes(trial, [told])
    state, status = update(trial)
    trial.close()
    assert state == "refused", status
    assert "screen" in {finding["check"] for finding in status["findings"] if not finding["passed"]}
    assert "effect of the prompt, not dirt" in status["message"]


def test_without_a_device_the_page_says_what_to_write(browser):
    sign_in(browser, "analyst")
    assert "No column of the study names a device" in browser.get("/not-worn").text
