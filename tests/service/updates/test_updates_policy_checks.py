from dataclasses import replace

import numpy as np
import pytest

from surefoot import Study
from surefoot.fitting.parts import fit_part
from surefoot.policies.policies import Policies
from surefoot.policies.rules import Boltzmann
from surefoot.service.database.schema import alerts
from surefoot.service.database.schema import policies as policy_rows
from surefoot.service.trial import states
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import updates
from surefoot.trial_rules import policy_checks, proposals
from tests.service.support.trials import STUDY, column, fill, update


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("max_send_rate_change = 0.8", "max_send_rate_change = 0.0", "send rate"),
        ("max_removed = 0.5", "max_removed = 0.0", "removed"),
    ],
)
def test_a_failed_check_leaves_the_old_policy_live_and_raises_an_alert(trial, url, old, new, check):
    fill(trial, people=1, points=40)
    update(trial)
    live = trial.policies.live()
    strict = open_trial(Study.parse(STUDY.replace(old, new)), url)
    fill(strict, people=1, points=20, first=40, seed=1, effect=-5.0)
    state, status = update(strict)
    assert state == "refused" and check in [finding["check"] for finding in status["findings"] if not finding["passed"]]
    assert trial.policies.live() == live
    assert column(trial, alerts.c.kind) == ["policy-check"]
    with pytest.raises(ApiError, match="policy check"):
        updates.activate_policy(trial, status["policy_id"], "test")
    strict.close()


def test_numbers_that_are_not_finite_never_become_a_policy(trial, monkeypatch):
    fill(trial, people=1, points=40)
    real = proposals.fit_part

    def spoiled(study, logs):
        fit = real(study, logs)
        fit.policies.rule.coef[0, 0, 0] = np.nan
        return fit

    monkeypatch.setattr(proposals, "fit_part", spoiled)
    state, status = update(trial)
    assert state == "refused" and not status["findings"][0]["passed"]
    assert trial.policies.live() is None and column(trial, policy_rows.c.id) == []


@pytest.mark.parametrize(
    "row",
    [[0.95, 0.05], [0.05, 0.95], [0.4, 0.4], [np.nan, 0.5], [-0.1, 1.1]],
    ids=["low", "high", "sum", "nan", "negative"],
)
def test_probabilities_outside_the_limits_are_found(study, row):
    good = [0.5, 0.5]
    assert policy_checks.check_limits(study, np.array([good, [0.9, 0.1]])).passed
    finding = policy_checks.check_limits(study, np.array([good, row, good]))
    assert not finding.passed and finding.measured == 1


def find_send_rate(*given):
    return next(finding for finding in policy_checks.check_policy(*given) if finding.check == "send rate")


def test_the_send_rate_before_is_within_the_studys_limits(trial):
    """A policy of the past that wanted 0.9999 sent with 0.9: a new one that wants the same changes nothing."""
    fill(trial, people=1, points=40)
    with trial.database.snapshot() as connection:
        logs = states.make_study_logs(trial.study, states.read_rows(connection))
    fit = fit_part(trial.study, logs)
    eager = Boltzmann(np.array([[[0.0, 0.0, 0.0, 9.0]]]))
    policies = Policies(None, eager, fit.policies.action_names, fit.policies.state_names)
    finding = find_send_rate(trial.study, logs, fit.method.weights_, policies, policies)
    assert finding.measured == pytest.approx(0, abs=1e-12)
    assert "0.900 before, 0.900 after" in finding.message
    moved = find_send_rate(trial.study, logs, fit.method.weights_, policies, None)
    assert moved.measured == pytest.approx(0.4), "0.5 in warm-up"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_update_without_some_newcomers_goes_live_and_raises_an_alert(trial, monkeypatch):
    fill(trial, people=1, points=40)
    propose = updates.propose_policy
    left_out = lambda *given, **options: replace(propose(*given, **options), left_out="2 of them were left out")  # noqa: E731
    monkeypatch.setattr(updates, "propose_policy", left_out)
    assert update(trial)[0] == "done" and trial.policies.live() is not None
    assert column(trial, alerts.c.kind) == ["policy-check"]
    assert "learned without newcomers: 2 of them were left out" in column(trial, alerts.c.message)[0]
