"""Influences on what people share, and slopes of policies, against refits and differences."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot import FitWarning, InputError
from surefoot.inference.adaptive_sandwich import differentiate
from surefoot.inference.learned_updates import RecordedUpdate, differentiate_update, learn_update, share_parameters
from surefoot.learning.batch import discount_rows
from surefoot.numerics.arrays import NUMPY
from surefoot.policies.features import effects

PEOPLE = 8
STEP = 2e-5
STUDY = sf.Study.parse(
    '[columns]\nparticipant = "p"\ntime = "t"\n[state.x]\n[probability_limits]\nminimum = 0.2\nmaximum = 0.75\n'
)


@pytest.fixture(scope="module")
def logs():
    simulator = sf.simulators.HeartSteps(participants=PEOPLE, spread=1.0, seed=3)
    return simulator.collect(sf.policies.coin(2), decision_points=30, seed=0)


def limit(probabilities, slopes):
    return STUDY.clip_probabilities(probabilities), STUDY.clip_slopes(probabilities, slopes)


def fit(name, logs, discount=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return sf.method(name, **parameters).fit_some(logs, discount=discount)


def list_shared(method):
    """The parameters that people share: what `share_parameters` gives influences on."""
    return method.policies_.rule.preferences()[0].ravel() if method.pooled_ else method.posterior_.population


def refit_influences(name, logs, **parameters):
    """By fits that weigh each participant a little more and a little less."""
    influences = []
    for participant in range(PEOPLE):
        moved = []
        for sign in (1, -1):
            discount = np.where(logs.participant_index == participant, 1 + sign * STEP, 1.0)
            moved.append(list_shared(fit(name, logs, discount, **parameters)))
        influences.append((moved[0] - moved[1]) / (2 * STEP))
    return np.array(influences)


@pytest.mark.parametrize("name", ["ts", "accb", "saccb"])
@pytest.mark.parametrize("centre_actions", [False, True])
def test_influences_equal_refits(logs, name, centre_actions):
    # Weights change the units of a penalty, and whose pull it balances; without it refits are exact.
    parameters = {"pooling": "all", "penalty_units": "absolute", "critic_penalty": 0.0, "centre_actions": centre_actions}
    fitted = fit(name, logs, **parameters)
    shared = share_parameters(fitted)
    influences = np.zeros((PEOPLE, shared.influence.shape[1]))
    np.add.at(influences, logs.participant_index[shared.rows], shared.influence)
    expected = refit_influences(name, logs, **parameters)
    np.testing.assert_allclose(influences, expected, atol=1e-6 * np.abs(expected).max())


def test_influences_on_the_population_solve_its_equations(logs):
    """β of a mixed model with known variances: Σ Xᵀ(ZΨZᵀ + σ²I)⁻¹(y − Xβ), participant after participant."""
    fitted = fit("ts", logs, pooling="partial")
    shared = share_parameters(fitted)
    posterior = fitted.posterior_
    scores = []
    for participant in range(PEOPLE):
        rows = np.flatnonzero(logs.participant_index == participant)
        x = sf.policies.features.critic_features(logs.state[rows], logs.action[rows], 2)
        covariance = x @ posterior.spread @ x.T + posterior.noise * np.eye(len(rows))
        scores.append(x.T @ np.linalg.solve(covariance, logs.outcome[rows] - x @ posterior.population))
    expected = (np.array(scores) - np.mean(scores, axis=0)) @ posterior.population_covariance
    influences = np.zeros((PEOPLE, shared.influence.shape[1]))
    np.add.at(influences, logs.participant_index[shared.rows], shared.influence)
    np.testing.assert_allclose(influences, expected, atol=1e-8 * np.abs(expected).max())


def decide(fitted, moved, participants, states):
    """Probabilities of policies that are learned again from other shared parameters."""
    policies = fitted.policies_
    if fitted.pooled_:
        name = next(iter(policies.rule.arrays()))
        return replace(policies.rule, **{name: moved.reshape(policies.rule.arrays()[name].shape)})[0].probabilities(states)
    data = fitted.logs_
    posterior = fitted.posterior_
    gram = posterior.likelihood.moments.gram
    follow = np.linalg.inv(np.eye(len(moved)) + posterior.spread @ gram / posterior.noise)
    shift = effects(follow @ (moved - posterior.population), data.actions)
    discount = discount_rows(data, fitted.forgetting)
    ((fits, rows),) = fitted.pooling_.list_blocks(data)
    batch = fitted.make_batch(data, rows, discount, fitted.list_centres(data))
    result = fitted.fit_critic(batch, fitted.joint_.restrict(fits, rows, NUMPY))
    ahead = replace(result.ahead, mean=result.ahead.mean + shift[fits])
    rule, _ = fitted.rule.learn(replace(result, ahead=ahead))
    order = np.searchsorted(data.participants, participants)
    return rule[order].probabilities(states)


@pytest.mark.parametrize("name", ["ts", "ro-ts", "accb", "ro-saccb"])
@pytest.mark.parametrize("pooling", ["all", "partial"])
def test_slopes_equal_differences(logs, name, pooling):
    before = logs.time < 20
    decided = np.flatnonzero(~before)
    fitted = fit(name, logs[before], pooling=pooling)
    update = differentiate_update(
        fitted, logs, RecordedUpdate(np.where(before, logs.outcome, np.nan), before, decided), limit
    )
    assert not update.influence[~before].any()
    participants = logs.participant[decided]
    states = logs.state[decided]
    np.testing.assert_allclose(
        update.probabilities, STUDY.clip_probabilities(fitted.policies_.probabilities(participants, states)), atol=1e-12
    )
    shared = list_shared(fitted)
    scale = np.maximum(np.abs(shared), 1e-3)

    def probabilities(moved):
        return STUDY.clip_probabilities(decide(fitted, moved * scale, participants, states))

    expected = differentiate(probabilities, shared / scale) / scale
    # The limits have no derivative where they begin to hold.
    send = fitted.policies_.probabilities(participants, states)[:, 1]
    smooth = (np.abs(send - 0.2) > 1e-3) & (np.abs(send - 0.75) > 1e-3)
    size = np.abs(expected).max(axis=(0, 1))
    assert (np.abs(update.slopes - expected)[smooth] <= 1e-6 * size).all()
    assert (update.slopes[(send < 0.2) | (send > 0.75)] == 0).all()
    assert (size > 0).any()


def test_slopes_of_three_actions_equal_differences():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), size=6)

    def move(shift):
        return STUDY.clip_probabilities(probabilities + shift * np.array([[-0.5, 0.2, 0.3]]))

    slopes = np.tile(np.array([-0.5, 0.2, 0.3])[:, None], (6, 1, 1))
    expected = differentiate(lambda shift: move(shift[0]), np.zeros(1))
    np.testing.assert_allclose(STUDY.clip_slopes(probabilities, slopes), expected, atol=1e-8)


def test_an_update_learns_from_what_it_knew(logs):
    before = logs.time < 20
    outcomes = np.where(logs.time < 19, logs.outcome, np.nan)
    update = RecordedUpdate(outcomes, before, np.flatnonzero(~before))
    learned = learn_update(sf.method("ts", pooling="all"), logs, update, limit)
    assert not learned.influence[logs.time >= 19].any()
    known = logs[before].with_values(outcome=outcomes[before])
    send = fit("ts", known, pooling="all").predict_proba(logs.state[~before], logs.participant[~before])[:, 1]
    np.testing.assert_allclose(learned.probabilities[:, 1], np.clip(send, 0.2, 0.75), atol=1e-12)


def test_methods_without_a_smooth_policy_are_refused(logs):
    with pytest.raises(InputError, match="jumps"):
        share_parameters(fit("linucb", logs, pooling="all"))
    with pytest.raises(InputError, match="looks ahead"):
        share_parameters(fit("ts", logs, pooling="all", horizon="long-run"))
    with pytest.raises(InputError, match="random walk"):
        share_parameters(fit("ts", logs, pooling={"name": "partial", "random_walk": 0.01}))
    with pytest.raises(InputError, match="independent"):
        share_parameters(fit("ts", logs, pooling="person"))
