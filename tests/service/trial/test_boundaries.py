"""Boundaries and the test of draws over real trials: what counts, in which order, and who is alerted how often."""

from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from surefoot.inference.confidence_sequences import BURN_IN, FIRST, follow_contrast
from surefoot.service.database.schema import DecisionReply, alerts, outcomes
from surefoot.service.trial import boundaries, decisions
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.boundaries import Boundary, monitor_trial, raise_boundary_alerts
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import schedule, updates
from surefoot.study import Study
from tests.service.support.client import CONTEXT
from tests.service.support.seeded_trial import BEGIN, Clock
from tests.service.support.trials import STUDY, column, erase

LIMITS = "[monitoring]\nharm = 1\nfutility = 0.5\nburden = 0.2\n"
LATER = timedelta(days=30)
pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def study():
    return Study.parse(STUDY + LIMITS)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    return Clock(monkeypatch, tmp_path)


def decide(trial, clock, index, *people):
    """The replies to a decision point of these people, in one transaction."""
    for person in people if index == 0 else ():
        register_participant(trial.database, person)
    body = {"decision_idx": index, "timestamp": clock.moment, "context": CONTEXT, "availability": True}
    requests = [DecisionRequest(participant_id=person, **body) for person in people]
    return [DecisionReply.model_validate_json(text) for text in decisions.decide_batch(trial, requests)]


def report(trial, clock, outcomes):
    """Outcomes of replies, where there is one."""
    known = [(reply.decision_id, value) for reply, value in outcomes if value is not None]
    told = [Outcome(decision_id=name, outcome=value, timestamp=clock.moment) for name, value in known]
    decisions.record_outcomes(trial, told)


def run_days(trial, clock, days, people=10, outcome=lambda action, noise: noise):
    """A decision point of everybody every day; the replies with their outcomes."""
    rng = np.random.default_rng(0)
    run = []
    for day in range(days):
        clock.set(BEGIN + timedelta(days=day))
        replies = decide(trial, clock, day, *(f"p{person}" for person in range(people)))
        run += [(reply, outcome(reply.action, rng.normal())) for reply in replies]
        clock.set(clock.moment + timedelta(hours=1))
        report(trial, clock, run[-people:])
    return run


def find(monitored, kind):
    return next(boundary for boundary in monitored.boundaries if boundary.kind == kind)


def read_alerts(trial):
    with trial.database.autocommit() as connection:
        return {row.kind: row.message for row in connection.execute(sa.select(alerts))}


def test_boundaries_that_are_crossed_are_alerted_once(trial, clock, url):
    """Prompts that harm are futile as well; half a prompt a day is more than 0.2."""
    run_days(trial, clock, 12, outcome=lambda action, noise: -6 * action + noise)
    at = clock.moment + LATER
    monitored = monitor_trial(trial, at)
    assert monitored.counts == {"used": 120, "awaited": 0, "missing": 0, "erased": 0} and monitored.wrong_draws is None
    harm = find(monitored, "harm")
    assert harm.crossed_on == (BEGIN + timedelta(days=10)).date() and harm.limit == -1
    raise_boundary_alerts(trial, at)
    again = open_trial(trial.study, url)
    raise_boundary_alerts(again, at)
    again.close()
    assert column(trial, alerts.c.kind) == ["harm", "futility", "burden"]
    words = read_alerts(trial)
    assert words["harm"].startswith("Mean outcome of the policy compared with sending nothing up to 2026-03-12: −")
    assert words["burden"].endswith("; the study's boundary is 0.2")


def test_the_numbers_are_those_of_the_decisions_in_their_order(trial, clock):
    run = run_days(trial, clock, 13)
    monitored = monitor_trial(trial, clock.moment + LATER)
    action = np.array([reply.action for reply, _ in run])
    values = np.array([value for _, value in run])
    people = np.tile(np.arange(10), 13)
    expected = follow_contrast(values, action, np.full((130, 2), 0.5), people, "never")
    harm = find(monitored, "harm")
    assert harm.estimates[-1] == pytest.approx([expected.mean[-1], expected.low[-1], expected.high[-1]])
    assert len(harm.days) == 13 and np.isnan(harm.estimates[(FIRST + BURN_IN) // 10 - 2][1])
    burden = find(monitored, "burden")
    assert find(monitor_trial(trial, clock.moment), "burden").count == 120, "today is not over"
    assert burden.count == 130 and burden.estimates[-1][0] == pytest.approx((action > 0).mean())


def test_a_boundary_is_crossed_when_the_interval_lies_wholly_beyond(url):
    days = tuple(BEGIN.date() + timedelta(days=day) for day in range(3))
    falling = ((0.0, np.nan, np.nan), (-2.0, -4.0, 0.0), (-2.0, -3.0, -1.1))
    for kind, limit, estimates, crossed in (
        ("harm", -1.0, falling, days[2]),
        ("harm", -2.0, falling, None),
        ("futility", 0.5, falling, days[1]),
        ("burden", 3.0, ((5.0, 2.9, 7.0), (5.0, 3.0, 7.0), (5.0, 3.1, 6.9)), days[2]),
        ("missing", None, falling, None),
    ):
        assert Boundary(kind, "", "", limit, 3, days, estimates).crossed_on == crossed


def test_an_outcome_counts_if_it_was_known_when_its_time_was_over(trial, clock):
    """Up to the first decision point that is still open; for good; late deliveries and corrections change nothing."""
    first, second = decide(trial, clock, 0, "p0", "p1")
    report(trial, clock, [(second, 5.0)])
    awaited = {"used": 0, "awaited": 2, "missing": 0, "erased": 0}
    assert monitor_trial(trial, clock.moment + timedelta(hours=47)).counts == awaited
    at = clock.moment + timedelta(hours=49)
    assert monitor_trial(trial, at).counts == {"used": 1, "awaited": 0, "missing": 1, "erased": 0}
    clock.set(at)
    told = [Outcome(decision_id=reply.decision_id, outcome=9.0, timestamp=BEGIN) for reply in (first, second)]
    decisions.record_outcomes(trial, told)
    assert len(column(trial, outcomes.c.id)) == 3
    assert monitor_trial(trial, at).counts == {"used": 1, "awaited": 0, "missing": 1, "erased": 0}


def test_a_clock_that_was_once_ahead_does_not_hold_up_the_board(trial, clock):
    clock.set(BEGIN + timedelta(days=365))
    decide(trial, clock, 0, "p0")
    clock.set(BEGIN)
    decide(trial, clock, 0, "p1")
    assert monitor_trial(trial, BEGIN + timedelta(days=3)).counts["awaited"] == 0


def test_erased_outcomes_are_left_out_and_their_draws_stay(trial, clock):
    run_days(trial, clock, 2, people=4, outcome=lambda action, noise: None if noise > 1 else noise)
    before = monitor_trial(trial, clock.moment + LATER)
    erase(trial, "p0")
    after = monitor_trial(trial, clock.moment + LATER)
    assert sum(after.counts.values()) == sum(before.counts.values()) == 8 and after.counts["erased"] == 2
    assert after.draws == before.draws and after.draws.strata[0].draws > 0


def test_draws_that_disagree_with_their_probabilities_are_a_red_alert(trial, clock, monkeypatch):
    monkeypatch.setattr(decisions, "draw_action", lambda uniform, probabilities: 1)
    run_days(trial, clock, 3)
    for _ in range(2):
        raise_boundary_alerts(trial, clock.moment)
    expected = "draws do not agree with their probabilities; all draws: something was sent in 30 of 30 draws; expected 15"
    assert read_alerts(trial) == {"draws": expected}


def test_an_update_looks_at_the_boundaries(trial, clock, monkeypatch):
    monkeypatch.setattr(decisions, "draw_action", lambda uniform, probabilities: 1)
    run_days(trial, clock, 2)
    assert updates.run_update(trial, updates.begin_update(trial, "test")) == "waiting"
    assert set(read_alerts(trial)) == {"draws"}

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(boundaries, "compare_draws", fail)
    with pytest.raises(ZeroDivisionError):
        updates.run_update(trial, updates.begin_update(trial, "test"))
    assert read_alerts(trial)["update"] == "the boundaries could not be computed: ZeroDivisionError; see the log"
    assert [update["state"] for update in updates.list_updates(trial)] == ["waiting", "waiting"]


def test_a_trial_without_nightly_updates_is_looked_at_once_a_day(trial, clock, monkeypatch):
    monkeypatch.setattr(decisions, "draw_action", lambda uniform, probabilities: 1)
    run_days(trial, clock, 2)
    looks = []
    monkeypatch.setattr(boundaries, "monitor_trial", lambda *given: looks.append(given) or monitor_trial(*given))
    for hours in (0, 1, 24):
        schedule.tick(trial, clock.moment + timedelta(hours=hours))
    assert len(looks) == 2 and "draws" in read_alerts(trial)


def test_bounded_outcomes_have_intervals_from_the_start(url, clock):
    text = STUDY.replace('column = "steps"', 'column = "steps"\nrange = [0, 3]\nwinsorise = [0, 1]') + LIMITS
    trial = open_trial(Study.parse(text), url)
    run_days(trial, clock, 3, outcome=lambda action, noise: 2.0 if noise > 0 else 99.0)
    monitored = monitor_trial(trial, clock.moment + LATER)
    assert monitored.is_bounded and 0 < monitored.counts["used"] < 30
    assert monitored.counts["used"] + monitored.counts["missing"] == 30
    low, high = find(monitored, "harm").estimates[-1][1:]
    assert -np.inf < low < 0 < high < np.inf
    trial.close()


def test_a_trial_without_boundaries_is_followed_and_never_alerts(url, clock):
    trial = open_trial(Study.parse(STUDY), url)
    empty = monitor_trial(trial, clock.moment)
    assert empty.counts["used"] == 0 and all(boundary.estimates == () for boundary in empty.boundaries)
    run_days(trial, clock, 12, outcome=lambda action, noise: -6 * action + noise)
    raise_boundary_alerts(trial, clock.moment + LATER)
    assert read_alerts(trial) == {}
    assert not any(boundary.crossed_on for boundary in monitor_trial(trial, clock.moment + LATER).boundaries)
    trial.close()
