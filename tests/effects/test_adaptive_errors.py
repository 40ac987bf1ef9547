"""Adaptive errors of the estimators against equations written by hand."""

import numpy as np
import pyarrow as pa
import pytest

from surefoot.effects.adaptive_errors import adapt_errors, evaluate_rows, make_equations, scale_taken
from surefoot.effects.analysis import Analysis, read_batch
from surefoot.effects.estimators import ESTIMATORS, make_mean, solve
from surefoot.inference.adaptive_sandwich import TrialEquations, UpdateHistory, adaptive_covariance
from tests.reference.adaptive_sandwich import PooledTrial


@pytest.fixture(scope="module")
def trial():
    return PooledTrial.simulate(np.random.default_rng(5))


def read(trial, outcome=None, **options):
    frame = pa.table(
        {
            "person": trial.person,
            "time": trial.time,
            "action": trial.action.astype(int),
            "send": trial.send(),
            "state": trial.state,
            "outcome": trial.outcome if outcome is None else outcome,
        }
    )
    roles = {"participant": "person", "time": "time", "outcome": "outcome", "treatment": "action", "probability": "send"}
    return read_batch(frame, Analysis(**roles, probability_of="sending", controls=["state"], **options))


def list_history(trial):
    return UpdateHistory(trial.person, list(trial.list_updates()))


def test_wcls_by_hand(trial):
    batch = read(trial)
    make = ESTIMATORS["wcls"].make
    estimate = solve(make(batch))
    adapted = adapt_errors(estimate, batch, make, list_history(trial))
    send = trial.send()
    weight = np.where(trial.action == 1, 0.5 / send, 0.5 / (1 - send))
    x = np.column_stack([np.ones_like(send), trial.state, trial.action - 0.5])
    functions = x * (weight * (trial.outcome - x @ estimate.theta))[:, None]
    # The weight 1/p makes ψ fall as fast as log p rises.
    equations = TrialEquations(trial.person, (x * weight[:, None]).T @ x, functions, -functions)
    expected = adaptive_covariance(equations, trial.list_updates())
    np.testing.assert_allclose(adapted.plain, expected, rtol=1e-6)
    assert (adapted.theta == estimate.theta).all()
    assert adapted.corrected[2, 2] > adapted.plain[2, 2]
    assert abs(adapted.plain[2, 2] / estimate.plain[2, 2] - 1) > 0.01


@pytest.mark.parametrize("estimator", ["wcls", "emee", "emee2", "dcee"])
def test_probabilities_enter_as_the_estimator_says(trial, estimator):
    """ψ is evaluated again with one row's probability moved."""
    rng = np.random.default_rng(0)
    outcome = None
    if ESTIMATORS[estimator].binary:
        outcome = rng.integers(0, 2, len(trial.person))
    elif ESTIMATORS[estimator].distal:
        outcome = rng.standard_normal(trial.people)[trial.person]
    batch = read(trial, outcome)
    make = ESTIMATORS[estimator].make
    estimate = solve(make(batch))
    equations = make_equations(estimate, batch, make, distal=ESTIMATORS[estimator].distal)
    if estimator in ("wcls", "emee"):
        np.testing.assert_allclose(equations.by_probability, -equations.functions, atol=1e-8)
    moved = evaluate_rows(make(scale_taken(batch, 1.01)), batch, estimate.root)
    expected = (moved - equations.functions) / np.log(1.01)
    np.testing.assert_allclose(equations.by_probability, expected, atol=0.05 * np.abs(expected).max())
    ends = np.flatnonzero(np.diff(trial.person, append=-1))
    assert (equations.last == ends[trial.person]).all() if estimator == "dcee" else equations.last is None


@pytest.mark.parametrize("future", ["observed", "none"])
def test_lags_and_futures_without_treatment(trial, future):
    """Decisions up to a lagged outcome can change it, unless its weight contains their probabilities, which cancels."""
    batch = read(trial, lag=1, future=future)
    make = ESTIMATORS["wcls"].make
    estimate = solve(make(batch))
    equations = make_equations(estimate, batch, make)
    assert equations.last is None if future == "none" else (equations.last[:3] == [1, 2, 3]).all()
    np.testing.assert_allclose(equations.by_probability, -equations.functions, atol=1e-8)


def test_mean_outcome(trial):
    batch = read(trial)
    estimate = solve(make_mean(batch))
    np.testing.assert_allclose(estimate.theta, trial.outcome.mean())
    totals = trial.sum_by_person((trial.outcome - trial.outcome.mean())[:, None])
    np.testing.assert_allclose(estimate.plain, (totals**2).sum() / len(trial.outcome) ** 2)
    adapted = adapt_errors(estimate, batch, make_mean, list_history(trial))
    assert adapted.plain[0, 0] != pytest.approx(estimate.plain[0, 0], rel=1e-3)
