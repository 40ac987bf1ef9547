"""The adaptive sandwich against a published case and against the stacked equations by differences."""

import numpy as np
import pytest

from surefoot import InputError
from surefoot.inference.adaptive_sandwich import (
    PolicyUpdate,
    TrialEquations,
    adaptive_covariance,
    sum_changeable,
    update_by_differences,
)
from tests.reference.adaptive_sandwich import PUBLISHED, PooledTrial


def test_published_case():
    trial = PooledTrial.published()
    np.testing.assert_allclose(trial.theta, PUBLISHED["theta"], atol=1e-6)
    np.testing.assert_allclose(trial.covariance(published=True), PUBLISHED["adaptive"], atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_stack_by_differences(seed):
    trial = PooledTrial.simulate(np.random.default_rng(seed))
    assert len(trial.versions) == 2
    np.testing.assert_allclose(trial.covariance(published=True), trial.literal_covariance(), rtol=1e-5, atol=1e-8)


def test_without_updates_it_is_the_usual_sandwich():
    trial = PooledTrial.simulate(np.random.default_rng(2))
    equations = trial.make_equations()
    trial.versions = []
    scores = trial.sum_by_person(equations.functions)
    bread = np.linalg.inv(equations.bread)
    for published in (False, True):
        np.testing.assert_allclose(trial.covariance(published=published), bread @ scores.T @ scores @ bread.T)


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


def test_no_later_effects_leave_the_usual_errors():
    """Outcomes that depend on nothing: hardly a decision changes what follows, and nothing is taken for an effect."""
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(12):
        trial = PooledTrial.simulate(rng, people=20, points=12, growth=0.0)
        equations = trial.make_equations()
        influences = np.linalg.solve(equations.bread, trial.sum_by_person(equations.functions).T)
        usual = (influences @ influences.T)[2, 2]
        ratios.append([trial.covariance()[2, 2] / usual, trial.covariance(published=True)[2, 2] / usual])
    stable, published = np.median(ratios, axis=0)
    assert stable < 1.1
    assert published > 1.2


def test_changes_that_no_probability_can_make_are_cut():
    trial = PooledTrial.simulate(np.random.default_rng(4))
    updates = [
        PolicyUpdate(
            update.influence, update.before, update.decided, update.action, update.probabilities, 1e6 * update.slopes
        )
        for update in trial.list_updates()
    ]
    covariance = adaptive_covariance(trial.make_equations(), updates)
    assert np.diagonal(covariance).max() < 100 * np.diagonal(trial.covariance()).max()


def test_equal_probabilities_still_carry_influence():
    """A policy that gives all decisions one probability would give another one in a replication."""
    people = 40
    rng = np.random.default_rng(4)
    participant = np.repeat(np.arange(people), 4)
    late = np.tile([False, False, True, True], people)
    decided = np.flatnonzero(late)
    action = rng.integers(0, 2, len(decided))
    influence = np.where(late, 0.0, rng.normal(size=4 * people))[:, None]
    update = PolicyUpdate(
        influence=influence,
        before=~late,
        decided=decided,
        action=action,
        probabilities=np.full((len(decided), 2), 0.5),
        slopes=np.tile([[-0.1], [0.1]], (len(decided), 1, 1)),
    )
    functions = np.zeros((4 * people, 1))
    functions[decided, 0] = 5.0 * (action - 0.5) + rng.normal(size=len(decided))
    equations = TrialEquations(participant, np.array([[float(people)]]), functions, np.zeros_like(functions))
    usual = adaptive_covariance(equations, [])
    assert adaptive_covariance(equations, [update])[0, 0] > 1.01 * usual[0, 0]
