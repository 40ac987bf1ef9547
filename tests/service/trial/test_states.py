"""Derived states of a trial: kept by the service from its own records."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
import pytest
from numpy.testing import assert_allclose

from surefoot.data.derived_states import derive_states
from surefoot.service.database.schema import decisions as table
from surefoot.service.operations.export import export_decisions
from surefoot.service.trial import decisions, participants
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide
from surefoot.service.trial.states import make_columns, make_study_logs, read_rows
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.verification import replay
from surefoot.study import Study
from tests.service.support.trials import STUDY, column, moment, update

DERIVED = STUDY.replace(
    "[outcome]",
    """[state.dose]
derived = "dose"
discount = 0.8
scaling = { centre = 1, scale = 2 }

[state.lately]
derived = "outcome mean"
discount = 0.5
start = 3

[state.since]
derived = "time since prompt"

[state.day]
derived = "day in study"

[outcome]""",
).replace("[trial]\n", "[trial]\nday_boundary = 5\n")
CONTEXT = {"weather": 0.5, "engagement": -1.0, "place": "home"}


@pytest.fixture
def trial(url):
    opened = open_trial(Study.parse(DERIVED), url)
    yield opened
    opened.close()


def ask(trial, index, participant="p", context=CONTEXT, **more):
    asked = {"participant_id": participant, "decision_idx": index, "timestamp": moment(2 * index), "availability": True}
    return json.loads(decide(trial, DecisionRequest.model_validate({**asked, "context": context, **more})))


def run(trial, points, seed=0, tell=lambda index: True):
    """Decisions with outcomes that arrive before the next decision, some of them never."""
    participants.register_participant(trial.database, "p")
    rng, answers = np.random.default_rng(seed), []
    for index in range(points):
        away = {"availability": False, "reasons": ["driving"]} if index % 7 == 6 else {}
        answers.append(ask(trial, index, **away))
        if tell(index):
            outcome = Outcome(decision_id=answers[-1]["decision_id"], outcome=rng.normal(), timestamp=moment(2 * index + 1))
            decisions.record_outcomes(trial, [outcome])
    return answers


def states(trial):
    return np.array([json.loads(state) for state in column(trial, table.c.state)])


def test_they_are_what_the_logs_give_afterwards(trial):
    run(trial, 24, tell=lambda index: index % 4 != 1)
    with trial.database.autocommit() as connection:
        found = read_rows(connection)
    study, action = trial.study, np.array([float(row["action"]) for row in found])
    outcome = np.array([np.nan if row["outcome"] is None else row["outcome"] for row in found])
    expected = derive_states(study.derived_states, np.zeros(24, dtype=np.int64), np.arange(24), action, outcome, 5)
    expected["dose"] = (expected["dose"] - 1) / 2
    assert study.state_names == ("weather", "engagement", "place=home", "dose", "lately", "since", "day")
    assert_allclose(states(trial)[:, 3:], np.column_stack(list(expected.values())), rtol=1e-12)
    assert replay(trial.database).differences == []


def test_a_client_that_sends_one_is_not_believed(trial):
    participants.register_participant(trial.database, "p")
    answer = ask(trial, 0, context={**CONTEXT, "dose": 99.0})
    assert (answer["source"], answer["reasons"]) == ("fallback", ["unknown: dose"])
    assert states(trial)[0, 3] == -0.5


def test_an_outcome_that_comes_late_does_not_change_what_was_decided_or_learned(trial):
    answers = run(trial, 3, tell=lambda index: False)
    before = states(trial)
    late = [
        Outcome(decision_id=answer["decision_id"], outcome=50.0, timestamp=moment(2 * index + 1))
        for index, answer in enumerate(answers)
    ]
    decisions.record_outcomes(trial, late)
    ask(trial, 3)
    assert_allclose(states(trial)[:3], before)
    assert states(trial)[3, 4] > 20
    assert replay(trial.database).differences == []
    with trial.database.autocommit() as connection:
        logs = make_study_logs(trial.study, read_rows(connection)).logs
    assert_allclose(logs.state[logs.order], states(trial))


def test_replay_goes_by_the_ledger_and_not_by_the_clock(trial, monkeypatch):
    """An outcome stamped before a decision but committed after it did not count for it; neither clock may accuse."""
    first, second = run(trial, 2, tell=lambda index: False)
    for seconds, answer in ((-60, first), (60, second)):
        monkeypatch.setattr(decisions, "now", lambda: datetime.now(UTC) + timedelta(seconds=seconds))  # noqa: B023
        outcome = Outcome(decision_id=answer["decision_id"], outcome=9.0, timestamp=moment(5))
        decisions.record_outcomes(trial, [outcome])
    monkeypatch.undo()
    ask(trial, 3)
    assert_allclose(states(trial)[2, 4], (3 + 2 * 9 + 4 * 9) / 7, err_msg="both outcomes count for the third decision")
    assert replay(trial.database).differences == []


def test_replay_has_no_false_alarm_under_concurrency(trial):
    """Outcome i and decision i + 1 of everybody are sent together."""

    def act(number):
        participant = f"c{number}"
        participants.register_participant(trial.database, participant)
        reply = ask(trial, 0, participant)
        for index in range(1, 13):
            known = Outcome(decision_id=reply["decision_id"], outcome=float(index), timestamp=moment(2 * index - 1))
            sending = pool.submit(decisions.record_outcomes, trial, [known])
            reply = ask(trial, index, participant)
            sending.result()

    with ThreadPoolExecutor(16) as pool, ThreadPoolExecutor(8) as people:
        list(people.map(act, range(16)))
    replayed = replay(trial.database)
    assert (replayed.decisions, replayed.differences) == (208, [])


def test_the_nightly_update_learns_from_them(trial):
    run(trial, 45)
    outcome, status = update(trial)
    assert outcome == "done", status
    assert ask(trial, 45)["source"] == "policy"
    assert replay(trial.database).differences == []


CLOCK = DERIVED.replace("day_boundary = 5", 'day_boundary = "04:00"\ntime_zone = "Europe/Zurich"')


def ask_at(trial, index, moment):
    ask(trial, index, timestamp=moment)
    return states(trial)[index, 5:].tolist()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_days_that_begin_at_a_clock_time(url, monkeypatch):
    """In the trial's zone, over the night on which clocks are set back, and with a client's clock that goes back."""
    hours = count()
    monkeypatch.setattr(decisions, "now", lambda: datetime(2025, 10, 28, next(hours), tzinfo=UTC))
    trial = open_trial(Study.parse(CLOCK), url)
    participants.register_participant(trial.database, "p")
    days = [
        ask_at(trial, index, moment)[1]
        for index, moment in enumerate(
            [
                "2025-10-25T20:00:00+00:00",  # 22:00 in Zurich
                "2025-10-26T00:30:00+00:00",  # 02:30 for the first time
                "2025-10-26T01:30:00+00:00",  # 02:30 for the second time
                "2025-10-26T02:59:00+00:00",  # 03:59: still the first day
                "2025-10-26T03:00:00+00:00",  # 04:00
                "2025-10-26T02:00:00+00:00",  # a clock that went back
                "2025-10-27T02:59:00+00:00",
                "2025-10-27T03:00:00+00:00",
            ]
        )
    ]
    assert days == [0, 0, 0, 0, 1, 1, 1, 2]
    assert replay(trial.database).differences == []
    with trial.database.snapshot() as connection:
        logs = make_study_logs(trial.study, read_rows(connection)).logs
        part = read_rows(connection, since=datetime(2025, 10, 26, 1, tzinfo=UTC))
    shown = [str(time) for time in logs.time[logs.order]]
    assert shown[:4] == [
        "2025-10-25T22:00:00.000000",
        "2025-10-26T02:30:00.000000",
        "2025-10-26T02:59:59.000002",
        "2025-10-26T03:59:00.000000",
    ]
    assert shown[5] == "2025-10-26T04:00:00.000001" and shown == sorted(set(shown))
    assert_allclose(logs.state[logs.order], states(trial))
    times = make_columns(trial.study, part)[trial.study.columns.time].to_numpy(zero_copy_only=False)
    assert {str(time) for time in times} <= set(shown), "the same times, however much is read"
    trial.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_trial_with_a_clock_time_gives_what_its_logs_give(url, tmp_path):
    trial = open_trial(Study.parse(CLOCK), url)
    run(trial, 30)
    export_decisions(trial, tmp_path / "decisions.csv", "csv")
    logs = trial.study.read(tmp_path / "decisions.csv").logs
    assert_allclose(logs.state[logs.order], states(trial), rtol=1e-12)
    assert states(trial)[:, 6].max() == 2, "decision points two hours apart"
    trial.close()
