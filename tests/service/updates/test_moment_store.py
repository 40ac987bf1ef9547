"""Updates that go on from moments."""

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.testing import assert_allclose

from surefoot import Study
from surefoot.fitting.part_fit import fit_part
from surefoot.service.database.schema import kept_moments
from surefoot.service.trial import outcomes
from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.erasure import ask_erasure, confirm_erasure
from surefoot.service.trial.pauses import withdraw_participant
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import moment_store, trial_logs
from surefoot.trial_rules.policy_version import select_participants
from surefoot.trial_rules.proposals import find_need_for_rows
from tests.service.support.trials import STUDY, fill, moment, update

FOLLOWS = STUDY.replace("[state.engagement]\n", "[state.engagement]\nrange = [-10, 10]\n")
FOLLOWS = (
    FOLLOWS.replace('name = "ro-accb"\npooling = "person"', 'name = "ts"\npooling = "{pooling}"') + "[screen]\non = false\n"
)


@pytest.fixture(params=["partial"])
def trial(url, request, monkeypatch):
    monkeypatch.setattr(moment_store, "LEAST_ROWS", 1)
    opened = open_trial(Study.parse(FOLLOWS.format(pooling=request.param)), url)
    yield opened
    opened.close()


def fit_everything(trial):
    """What the library fits to all rows that count now."""
    with trial.database.snapshot() as connection:
        rows = trial_logs.read_rows(connection, without_withdrawn=not trial.settings.learn_from_withdrawn)
    return fit_part(trial.study, trial_logs.make_study_logs(trial.study, rows)), rows


def check_equal(trial, status):
    whole, rows = fit_everything(trial)
    live = trial.policies.get(trial.policies.live()[0]).policies
    expected = whole.policies if live.participants is None else select_participants(whole.policies, live.participants)
    for name, values in live.rule.arrays().items():
        assert_allclose(values, expected.rule.arrays()[name], rtol=1e-9, atol=1e-9)
    if whole.policies.anybody is not None:
        for name, values in live.anybody.arrays().items():
            assert_allclose(values, whole.policies.anybody.arrays()[name], rtol=1e-9, atol=1e-9)
    for key in ("people", "decision_points", "available", "used", "missing", "reward_range", "warnings"):
        told, expected = status["result"][key], whole.summary[key]
        assert sorted(told) == sorted(expected) if key == "warnings" else told == pytest.approx(expected), key
    assert live.training.fingerprint == whole.policies.training.fingerprint
    return len(rows)


def send_late(trial, decided, points, first=0):
    """Outcomes of decision points that had none, and how many of them were available."""
    rng = np.random.default_rng(first)
    late = [(one, first + place % points) for place, one in enumerate(decided) if (first + place % points) % 5 == 4]
    sent = [
        Outcome(decision_id=one.decision_id, proximal_outcome=rng.normal(), timestamp=moment(2 * index + 1))
        for one, index in late
    ]
    outcomes.record_outcomes(trial, sent)
    return sum(index % 10 != 9 for _, index in late)


def test_three_nights(trial):
    """New decision points, late outcomes, somebody new; then somebody withdraws, and somebody is erased."""
    decided = fill(trial, people=6, points=25)
    state, status = update(trial)
    assert (state, status["result"]["why_all_rows"]) == ("done", "no moments were kept")

    fill(trial, people=7, points=5, first=25, seed=1)
    late = send_late(trial, decided[:50], 25)
    state, status = update(trial)
    assert (state, status["result"]["why_all_rows"]) == ("done", None), status
    assert status["result"]["rows_read"] == 7 * 5 + late
    assert check_equal(trial, status) == 6 * 30 + 5

    decided = fill(trial, people=6, points=5, first=30, seed=2)
    with trial.database.transaction() as connection:
        withdraw_participant(connection, "p1", reason="asked", by="test")
    state, status = update(trial)
    assert (state, status["result"]["why_all_rows"]) == ("done", "somebody withdrew"), status
    check_equal(trial, status)
    send_late(trial, decided, 5, 30)
    assert update(trial)[1]["result"]["why_all_rows"] is None

    code = ask_erasure(trial.database, "p2", reason="asked", by="test").code
    confirm_erasure(trial.database, "p2", code, by="test")
    with trial.database.autocommit() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(kept_moments)) == 0
    fill(trial, people=1, points=5, first=35, seed=4)
    state, status = update(trial)
    assert (state, status["result"]["why_all_rows"]) == ("done", "no moments were kept")
    check_equal(trial, status)
    fill(trial, people=1, points=5, first=40, seed=5)
    state, status = update(trial)
    assert (state, status["result"]["why_all_rows"]) == ("done", None)
    check_equal(trial, status)


@pytest.mark.parametrize(("url", "trial"), [("sqlite", "person")], indirect=True)
def test_somebody_new_among_people_with_policies_of_their_own(trial):
    fill(trial, people=6, points=25)
    update(trial)
    fill(trial, people=7, points=5, first=25, seed=1)
    state, status = update(trial)
    assert (state, status["result"]["why_all_rows"]) == ("done", None), status
    assert check_equal(trial, status) == 6 * 30 + 5


def test_few_new_rows_are_too_few_to_check_a_policy_on(trial, monkeypatch):
    monkeypatch.setattr(moment_store, "LEAST_ROWS", 100)
    fill(trial, people=6, points=25)
    update(trial)
    fill(trial, people=6, points=5, first=25, seed=1)
    assert update(trial)[1]["result"]["why_all_rows"].startswith("fewer than 100 decision points are new")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_did_not_pass_the_checks_is_looked_at_again(url):
    """Something wild that was refused one night must not slip in with the next, which has nothing wild of its own."""
    text = FOLLOWS.format(pooling="all").replace("max_removed = 0.5", "max_removed = 0.5\nmax_influence = 0.0")
    trial = open_trial(Study.parse(text), url)
    for points, expected in ((2, "waiting"), (25, "refused")):
        fill(trial, people=6, points=points, first=2 * (points > 2))
        assert update(trial)[0] == expected
        with trial.database.autocommit() as connection:
            assert connection.scalar(sa.select(sa.func.count()).select_from(kept_moments)) == 0
    trial.close()


def test_what_moments_cannot_follow_is_read_again(trial, monkeypatch):
    decided = fill(trial, people=5, points=25)
    update(trial)
    assert update(trial)[1]["result"]["why_all_rows"] == "nothing is new"
    corrected = Outcome(decision_id=decided[0].decision_id, proximal_outcome=0.25, timestamp=moment(1.5))
    outcomes.record_outcomes(trial, [corrected])
    status = update(trial)[1]
    assert status["result"]["why_all_rows"] == "an outcome that was counted was corrected"
    check_equal(trial, status)
    monkeypatch.setattr(moment_store, "MOST_IN_A_ROW", 1)
    for first, why in ((25, None), (26, "1 updates in a row went on from moments"), (27, None)):
        fill(trial, people=5, points=1, first=first)
        assert update(trial)[1]["result"]["why_all_rows"] == why


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"ts"', '"ro-ts"', "judges every decision point anew"),
        ('"ts"', '"accb"', "an actor searches over all states"),
        ("on = false", "on = true", "the screen judges everybody's whole series"),
        ("[screen]\non = false", "", "the screen judges everybody's whole series"),
        ("[state.engagement]\nrange = [-10, 10]", "[state.engagement]", "all values of engagement; give them a range"),
    ],
)
def test_a_study_that_needs_all_rows_says_why(old, new, why):
    text = FOLLOWS.format(pooling="partial")
    assert find_need_for_rows(Study.parse(text)) is None
    assert why in find_need_for_rows(Study.parse(text.replace(old, new)))
