"""The adaptive sandwich against a published case and against the stacked equations by differences."""

import numpy as np
import pytest

from surefoot import InputError
from surefoot.inference.adaptive_sandwich import sum_changeable, update_by_differences
from tests.reference.adaptive_sandwich import PUBLISHED, PooledTrial


def test_published_case():
    trial = PooledTrial.published()
    np.testing.assert_allclose(trial.theta, PUBLISHED["theta"], atol=1e-6)
    np.testing.assert_allclose(trial.covariance(), PUBLISHED["adaptive"], atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_stack_by_differences(seed):
    trial = PooledTrial.simulate(np.random.default_rng(seed))
    assert len(trial.versions) == 2
    np.testing.assert_allclose(trial.covariance(), trial.literal_covariance(), rtol=1e-5, atol=1e-8)


def test_without_updates_it_is_the_usual_sandwich():
    trial = PooledTrial.simulate(np.random.default_rng(2))
    equations = trial.make_equations()
    trial.versions = []
    scores = trial.sum_by_person(equations.functions)
    bread = np.linalg.inv(equations.bread)
    for whole_trial in (False, True):
        np.testing.assert_allclose(trial.covariance(whole_trial=whole_trial), bread @ scores.T @ scores @ bread.T)


def test_decisions_change_later_values_only():
    participant = np.array([0, 0, 0, 1, 1])
    values = np.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    assert sum_changeable(values, participant, None).ravel().tolist() == [7, 6, 4, 24, 16]
    # The first value of participant 0 is an outcome one decision point later.
    last = np.array([1, 1, 2, 3, 4])
    assert sum_changeable(values, participant, last).ravel().tolist() == [7, 7, 4, 24, 16]
    last = np.array([2, 2, 2, 4, 4])
    assert sum_changeable(values, participant, last).ravel().tolist() == [7, 7, 7, 24, 24]


def test_an_impossible_action_is_refused():
    with pytest.raises(InputError, match="probability 0"):
        update_by_differences(
            np.array([1.0]),
            lambda mean: np.array([1.0, 0.0])[:, None] - mean,
            lambda mean: np.array([[1.0, 0.0]]),
            participants=1,
            before=np.array([True, False]),
            decided=np.array([1]),
            action=np.array([1]),
        )
