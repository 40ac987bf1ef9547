"""Pauses, doses and the order of decision points: the team can stop, and nobody can draw again."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from surefoot.service.database.schema import decisions, participant_events
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import register_participant, set_pause
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
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


@pytest.fixture
def set_clock(monkeypatch):
    """Set the server's clock, in hours since `BEGIN`."""

    def set_hours(hours):
        monkeypatch.setattr("surefoot.service.trial.decisions.now", lambda: BEGIN + timedelta(hours=hours))

    return set_hours


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
def test_over_the_dose_the_probability_of_sending_is_zero(url, setting, hours, stopped, set_clock):
    trial = open_with(url, setting)
    found = []
    for index, hour in enumerate(hours):
        set_clock(hour)
        found.append(ask(trial, index, hour))
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
        with pytest.raises(ApiError, match="is less than 60 minutes after"):
            ask(paced, index, 0.5)
        with pytest.raises(ApiError, match="is the same as"):
            ask(paced, index, 0)
    assert ask(paced, 1, 1)["source"] == "warm-up"
    trial.close()
    paced.close()


@pytest.mark.parametrize(
    ("setting", "minutes"),
    [("", 1), ("day_boundary = 5", 28.8), ("decision_gap_minutes = 60", 60), ("decision_gap_minutes = 0", 0)],
)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_the_gap_follows_from_the_decision_points_a_day(url, setting, minutes):
    trial = open_trial(Study.parse(CERTAIN.replace("[trial]", f"[trial]\n{setting}", 1)), url)
    register_participant(trial.database, "p0")
    ask(trial, 0, 0)
    with pytest.raises(ApiError, match="an earlier decision point"):
        ask(trial, 1, 0.99 * minutes / 60)
    assert ask(trial, 1, 1.01 * minutes / 60 + 1e-6)["source"] == "warm-up"
    trial.close()


LIMITED = "\n[trial.dose]\nprompts_per_day = 3\nprompts_per_week = 10\nminimum_gap_minutes = 60\n"


@pytest.mark.parametrize("step", [7 * 24, 24.1, 2], ids=["a week", "a day", "two hours"])
def test_timestamps_that_step_ahead_open_no_limit_on_prompts(url, set_clock, step):
    """All within a second of the server's clock; a step of over a day is a jump."""
    trial = open_with(url, LIMITED)
    points = 12
    set_clock(points * step)
    answers = [ask(trial, index, index * step) for index in range(points)]
    assert sum(reply["action"] > 0 for reply in answers) == 1
    assert {reply["reasons"][0] for reply in answers[2:]} == {
        "dose: a prompt less than 60 minutes ago by the server's clock"
    }
    assert replay(trial.database).differences == []
    trial.close()


def test_a_clock_that_jumps_is_recorded_and_answered_by_the_fallback(url, set_clock):
    trial = open_with(url, "")
    answers = []
    # Hours by the server's clock and by the client's.
    for index, (server, client) in enumerate([(0, -500), (2, -498), (4, 4), (6, 6), (8, -300), (10, -298), (12, 12)]):
        set_clock(server)
        answers.append(ask(trial, index, client))
    back = ("clock: 12.8 days before an earlier decision point", "clock: 12.7 days before an earlier decision point")
    reasons = [[], [], ["clock: moved 20.8 days further than the server's"], [], [back[0]], [back[1]], []]
    assert [reply["reasons"] for reply in answers] == reasons
    assert [reply["source"] for reply in answers] == ["fallback" if reason else "warm-up" for reason in reasons]
    assert answers[2]["action_prob"] == answers[4]["action_prob"] == [0.75, 0.25], "the study's fallback probability"
    assert column(trial, decisions.c.available) == [True] * 7
    assert replay(trial.database).differences == []
    trial.close()


def test_nobody_draws_again_with_a_clock_that_goes_back(url, set_clock):
    """The server's clock paces decision points then, and nobody is locked out."""
    trial = open_with(url, "")
    set_clock(2)
    ask(trial, 0, 2)
    for index in (1, 2, 3):
        with pytest.raises(ApiError, match="before an earlier decision point's, which came less than 1 minutes ago"):
            ask(trial, index, 2 - index)
    set_clock(2.1)
    assert ask(trial, 1, 1)["source"] == "fallback"
    with pytest.raises(ApiError, match="before an earlier"):
        ask(trial, 2, 1.5)
    assert len(column(trial, decisions.c.id)) == 2
    trial.close()


def test_decisions_that_were_asked_off_line_are_answered_together(url, set_clock):
    """A phone that was off line for a day asks for the decision points that it missed, in order."""
    trial = open_with(url, "\n[trial.dose]\nprompts_per_day = 3\n")
    set_clock(0)
    ask(trial, 0, 0)
    set_clock(26)
    answers = [ask(trial, 1 + number, 3 * (1 + number)) for number in range(8)]
    sources = [reply["source"] for reply in answers]
    assert sources == ["warm-up"] * 2 + ["unavailable"] * 5 + ["warm-up"], "three in a day, by either clock"
    trial.close()


def test_no_index_locks_a_participant_out(url):
    trial = open_with(url, "")
    for index in (2**31 - 1, 10_001):
        with pytest.raises(ApiError, match="decision_idx may be 10000 at most"):
            ask(trial, index, 0)
    ask(trial, 10_000, 0)
    with pytest.raises(ApiError, match="decision_idx may be 20000 at most"):
        ask(trial, 20_001, 1)
    assert ask(trial, 10_001, 1)["source"] == "warm-up"
    trial.close()


def test_a_pause_is_on_record_with_its_reason(trial):
    register_participant(trial.database, "p0")
    set_pause(trial, "p0", paused=True, reason="asked by phone", by="key abc")
    assert column(trial, participant_events.c.reason) == ["asked by phone"]
    assert column(trial, participant_events.c.done_by) == ["key abc"]
