"""Pauses, doses and the order of decision points: the team can stop, and nobody can draw again."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.service.database.schema import decisions, participant_events
from surefoot.service.operations.verification import replay
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import register_participant, set_pause
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.seeded_trial import BEGIN
from tests.service.support.trials import STUDY, answer, column

CERTAIN = STUDY.replace("maximum = 0.9", "maximum = 0.999").replace(
    "warm_up_probability = 0.5", "warm_up_probability = 0.999"
)


def open_with(url, setting):
    trial = open_trial(Study.parse(CERTAIN + setting), url)
    register_participant(trial.database, "p0")
    register_participant(trial.database, "p1")
    return trial


def ask(trial, index, hours, participant="p0"):
    return answer(trial, participant, index, timestamp=(BEGIN + timedelta(hours=hours)).isoformat())


def test_while_paused_every_decision_point_is_unavailable_and_recorded(client):
    client.register("p0", "p1")
    pause = {"reason": "in hospital"}
    assert client.ask("/participants/p0/pause", pause, role="admin").json() == {"participant_id": "p0", "paused": True}
    stopped = client.decide("p0").json()
    assert (stopped["source"], stopped["action_prob"], stopped["reasons"]) == (
        "unavailable",
        [1.0, 0.0],
        ["paused: the participant"],
    )
    assert client.decide("p0").json() == stopped, "a retry gets the same answer"
    assert client.decide("p1").json()["source"] == "warm-up"
    assert column(client.trial, decisions.c.available) in ([False, True], [True, False])
    client.ask("/participants/p0/resume", {"reason": "back"}, role="admin")
    assert client.decide("p0", 1).json()["source"] == "warm-up"
    client.ask("/study/pause", {"reason": "the board asked"}, role="admin")
    client.ask("/study/pause", {"reason": "again"}, role="admin")
    assert client.decide("p1", 1).json()["reasons"] == ["paused: the study"]
    client.ask("/study/resume", {"reason": "checked"}, role="admin")
    assert client.decide("p1", 2).json()["source"] == "warm-up"
    assert column(client.trial, participant_events.c.kind) == ["paused", "resumed", "paused", "resumed"]
    assert client.ask("/participants/nobody/pause", pause, role="admin").status_code == 404
    assert client.ask("/study/pause", {}, role="admin").json()["error"]["message"] == "reason is missing"
    assert replay(client.trial.database).differences == []
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), client.trial.database.transaction() as connection:
        connection.execute(sa.delete(participant_events))


@pytest.mark.parametrize(
    ("setting", "hours", "stopped"),
    [
        ("\n[trial.dose]\nprompts_per_day = 2\n", (0, 1, 2, 23, 24, 25, 26), {2: "24 hours", 3: "24 hours", 6: "24 hours"}),
        ("\n[trial.dose]\nprompts_per_week = 3\n", (0, 30, 60, 90, 167, 168), {3: "7 days", 4: "7 days"}),
        ("\n[trial.dose]\nminimum_gap_minutes = 120\n", (0, 1, 2, 3, 4), {1: "120 minutes", 3: "120 minutes"}),
    ],
    ids=["day", "week", "gap"],
)
def test_over_the_dose_the_probability_of_sending_is_zero(url, setting, hours, stopped):
    trial = open_with(url, setting)
    found = [ask(trial, index, hour) for index, hour in enumerate(hours)]
    for index, decided in enumerate(found):
        if index in stopped:
            assert (decided["source"], decided["action_prob"]) == ("unavailable", [1.0, 0.0]), index
            assert decided["reasons"][0].startswith("dose: ") and stopped[index] in decided["reasons"][0]
        else:
            assert (decided["source"], decided["action"]) == ("warm-up", 1), index
    assert ask(trial, 0, hours[-1], "p1")["source"] == "warm-up", "each participant has a dose of their own"
    assert replay(trial.database).differences == []
    trial.close()


def test_decision_points_come_in_order_and_at_the_designs_pace(url):
    trial = open_with(url, "")
    ask(trial, 5, 0)
    again = ask(trial, 5, 0)
    with pytest.raises(ApiError, match="decision 5 was asked for already"):
        ask(trial, 4, 1)
    assert ask(trial, 5, 0) == again and len(column(trial, decisions.c.id)) == 1
    trial.close()


def test_nobody_draws_again_by_counting_on(url):
    trial = open_with(url, "")
    paced = open_trial(Study.parse(CERTAIN.replace("[trial]", "[trial]\ndecision_gap_minutes = 60", 1)), url)
    ask(paced, 0, 0)
    for index in (1, 2, 3):
        with pytest.raises(ApiError, match="at least 60 minutes apart"):
            ask(paced, index, 0.5)
    assert ask(paced, 1, 1)["source"] == "warm-up"
    trial.close()
    paced.close()


def test_a_pause_is_on_record_with_its_reason(trial):
    register_participant(trial.database, "p0")
    set_pause(trial, "p0", paused=True, reason="asked by phone", by="key abc")
    assert column(trial, participant_events.c.reason) == ["asked by phone"]
    assert column(trial, participant_events.c.done_by) == ["key abc"]
