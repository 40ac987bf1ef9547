"""Whoever can register people must not make the policy in one night; honest nights pass."""

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from surefoot.data.log_table import LogTable
from surefoot.study import Study
from surefoot.study.log_reader import measure_logs
from surefoot.trial_rules.proposals import find_known, propose_policy
from tests.service.support.trials import STUDY

HONEST = [f"p{number:02d}" for number in range(20)]
NEW = [f"x{number:02d}" for number in range(20)]
MANY = [f"x{number:02d}" for number in range(60)]


def make_study(method, pooling="all"):
    text = STUDY.replace('"ro-accb"', f'"{method}"').replace('pooling = "person"', f'pooling = "{pooling}"')
    return Study.parse(text.replace("max_send_rate_change = 0.8", "max_send_rate_change = 1.0") + "\n[screen]\non = false\n")


def measure(study, people, points, effect):
    """Decision points of a coin; sending adds `effect` times the sign of the weather."""
    rng = np.random.default_rng(0)
    names = np.repeat(people, points)
    weather = rng.normal(size=len(names)).clip(-9, 9)
    action = rng.integers(2, size=len(names))
    effects = np.where(np.isin(names, MANY), effect, 1.0) * np.sign(weather)
    columns = {
        "participant": names,
        "time": np.tile(np.arange(points), len(people)),
        "available": np.ones(len(names), dtype=bool),
        "probability": np.full(len(names), 0.5),
        "action": action,
        "steps": action * effects + 0.3 * rng.normal(size=len(names)),
        "weather": weather,
        "engagement": rng.normal(size=len(names)),
        "place": rng.choice(["other", "home"], size=len(names)),
    }
    return measure_logs(study, LogTable.of(pa.table(columns), "participant"))


def propose(study, people, live=None, effect=1.0):
    known = None if live is None else HONEST
    given = (None, []) if live is None else (live.policies, live.coefficients)
    return propose_policy(study, measure(study, people, 20, effect), *given, known, label=str)


@pytest.mark.parametrize("method", ["linucb", "ts", "accb", "saccb", "ro-saccb", "ro-ts"])
def test_twenty_newcomers_do_not_invert_the_policy(method):
    study = make_study(method)
    first = propose(study, HONEST)
    assert first.state == "done", first.message
    honest = propose(study, HONEST + NEW, first)
    assert honest.state == "done", honest.message
    attacked = propose(study, HONEST + NEW, first, effect=-30.0)
    findings = {finding.check: finding for finding in attacked.findings}
    assert findings["newcomers"].passed and (findings["newcomers"].measured or 0.0) <= 0.2
    assert "without the 20 newcomers of the last days (400 decision points)" in attacked.left_out
    assert "yet" not in findings["coefficients"].message, "a policy is live"
    states = measure(study, HONEST, 20, 1.0).logs.state
    before, after = (
        study.clip_probabilities(proposal.policies.probabilities(HONEST[:1] * len(states), states))
        for proposal in (first, attacked)
    )
    assert abs(before - after).mean() <= 0.25, "the policy is not theirs"


def test_a_trial_with_fast_enrolment_goes_on_and_learns_from_everybody():
    """Four people are known; 36 others come, half of them with another effect. Refused, the trial would stand still."""
    study = make_study("ts")
    people = HONEST + NEW
    known = HONEST[:4]
    proposal = propose_policy(study, measure(study, known, 20, 1.0), None, [], None, label=str)
    counts = []
    for _ in range(8):
        given = (proposal.policies, proposal.coefficients, known)
        proposal = propose_policy(study, measure(study, people, 20, -1.0), *given, label=str)
        assert proposal.state == "done", proposal.message
        known = sorted(set(proposal.logs.logs.participant[proposal.logs.logs.usable].tolist()))
        counts.append(len(known))
        if len(known) == len(people):
            break
    assert counts[0] < len(people) == counts[-1] and proposal.left_out is None, counts


@pytest.mark.parametrize("method", ["linucb", "ts"])
def test_newcomers_of_several_nights_do_not_invert_the_policy(method):
    """Twelve come each night. Known since the night before, they would turn the policy within a week."""
    study = make_study(method)
    first = propose(study, HONEST)
    changes = {}
    for days in (0.0, 7.0):
        history = [(0, HONEST)]
        live = first
        alerts = 0
        for night in range(1, 6):
            known = find_known([(timedelta(days=night - day), people) for day, people in history], days)
            measured = measure(study, [*HONEST, *MANY[: 12 * night]], 20, -1.0)
            proposal = propose_policy(study, measured, live.policies, live.coefficients, known, label=str)
            alerts += proposal.left_out is not None or proposal.state == "refused"
            if proposal.state == "done":
                live = proposal
                history.append((night, np.unique(proposal.logs.logs.participant[proposal.logs.logs.usable]).tolist()))
        states = measure(study, HONEST, 20, 1.0).logs.state
        before, after = (
            study.clip_probabilities(proposal.policies.probabilities(HONEST[:1] * len(states), states))
            for proposal in (first, live)
        )
        changes[days] = abs(before - after).mean()
    assert changes[7.0] < 0.2 and changes[0.0] > 0.3
    assert alerts >= 3, "the team hears of them, night after night"


def test_policies_of_ones_own_do_not_follow_newcomers():
    study = make_study("linucb", "person")
    first = propose(study, HONEST)
    attacked = propose(study, HONEST + NEW, first, effect=-30.0)
    newcomers = next(finding for finding in attacked.findings if finding.check == "newcomers")
    assert newcomers.passed and newcomers.message == "everybody has a policy of their own"
