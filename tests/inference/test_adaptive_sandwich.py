"""The adaptive sandwich against a published case and against the stacked equations by differences."""

import numpy as np
import pytest

from surefoot import InputError
from surefoot.inference.adaptive_sandwich import (
    Decisions,
    PolicyUpdate,
    TrialEquations,
    adaptive_covariance,
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


def carry_by_loops(equations, updates):
    """The covariance decision by decision and row by row, without the limit on changes of probabilities; two actions."""
    person = equations.participant
    people = person.max() + 1

    def fade(row, decision):
        return (row - decision) ** -0.75 if row > decision and person[row] == person[decision] else 0.0

    def find_effects(immediate, values):
        """On the decision's own row and, times ℓ^(−¾), on later ones."""
        sums = np.zeros((2, values.shape[1]))
        information = np.zeros(2)
        for update in updates:
            for decision, action, chances in zip(update.decided, update.action, update.probabilities, strict=True):
                sums[0] += (action - chances[1]) * immediate[decision]
                information[0] += chances[0] * chances[1] * immediate[decision].any()
                for row in range(len(values)):
                    sums[1] += (action - chances[1]) * fade(row, decision) * values[row]
                    information[1] += chances[0] * chances[1] * fade(row, decision) ** 2 * values[row].any()
        return sums / information[:, None]

    def change(effects, update, present):
        """How sums over the rows follow the parameters of an update, (functions, parameters)."""
        total = np.zeros((effects.shape[1], update.slopes.shape[2]))
        for decision, slopes in zip(update.decided, update.slopes, strict=True):
            later = sum(fade(row, decision) for row in np.flatnonzero(present))
            total += np.outer(present[decision] * effects[0] + later * effects[1], slopes[1])
        return total / people

    latest = updates[-1].influence
    effects = find_effects(latest, latest)
    carried = []
    for update in updates:
        present = update.influence.any(axis=1)
        influence = np.stack([update.influence[person == number].sum(axis=0) for number in range(people)])
        entered = len(np.unique(person[present]))
        influence *= np.sqrt(entered / (entered - 4))
        mapping = np.linalg.lstsq(latest[present], update.influence[present], rcond=None)[0]
        influence += sum(of_earlier @ change(effects @ mapping, earlier, present).T for earlier, of_earlier in carried)
        carried.append((update, influence))
    inverse = np.linalg.inv(equations.bread)
    values = equations.functions @ inverse.T
    final = find_effects(values + equations.by_probability @ inverse.T, values)
    direct = np.stack([values[person == number].sum(axis=0) for number in range(people)])
    total = direct + sum(influence @ change(final, update, values.any(axis=1)).T for update, influence in carried)
    return total.T @ total


def test_effects_of_decisions_decision_by_decision():
    trial = PooledTrial.simulate(np.random.default_rng(0), points=12)
    assert len(trial.versions) > 2
    equations = trial.make_equations()
    updates = [
        PolicyUpdate(
            update.influence, update.before, update.decided, update.action, update.probabilities, 0.1 * update.slopes
        )
        for update in trial.list_updates()
    ]
    np.testing.assert_allclose(adaptive_covariance(equations, updates), carry_by_loops(equations, updates), rtol=1e-9)


@pytest.mark.parametrize("treatments", [1, 2])
def test_effects_on_later_rows(treatments):
    """Values that rise by 2 ℓ^(−¾) at the ℓ-th row after a treatment are noticed as an effect of 2, at the own row of −1."""
    rng = np.random.default_rng(0)
    people, points = 60, 12
    probabilities = rng.dirichlet(np.full(treatments + 1, 5.0), size=people * points)
    action = (rng.random(len(probabilities))[:, None] > np.cumsum(probabilities, axis=1)).sum(axis=1)
    treated = (action > 0).reshape(people, points)
    values = 0.1 * rng.standard_normal((people, points)) - treated
    for lag in range(1, points):
        values[:, lag:] += 2 * lag**-0.75 * treated[:, :-lag]
    rows = np.arange(people * points)
    nothing = np.zeros((len(rows), 1))
    slopes = np.zeros((len(rows), treatments + 1, 1))
    update = PolicyUpdate(nothing, rows < 0, rows, action, probabilities, slopes)
    decisions = Decisions(rows // points, [update])
    functions = values.reshape(-1, 1) - values.mean()
    effects = decisions.find_effects(functions, functions, np.ones(len(rows), dtype=bool))
    np.testing.assert_allclose(effects[:, :, 0], [[-1.0] * treatments, [2.0] * treatments], atol=0.4)


def test_without_effects_errors_are_wider_by_less_than_the_published_ones():
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(12):
        trial = PooledTrial.simulate(rng, people=20, points=12, growth=0.0)
        equations = trial.make_equations()
        influences = np.linalg.solve(equations.bread, trial.sum_by_person(equations.functions).T)
        usual = (influences @ influences.T)[2, 2]
        ratios.append([trial.covariance()[2, 2] / usual, trial.covariance(published=True)[2, 2] / usual])
    stable, published = np.mean(ratios, axis=0)
    assert stable < 0.9 * published


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
