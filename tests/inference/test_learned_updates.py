"""Influences on what people share, and scores of decisions, against refits and differences."""

import warnings

import numpy as np
import pytest

import surefoot as sf
from surefoot import FitWarning, InputError
from surefoot.inference.learned_updates import RecordedUpdate, learn_update, share_parameters

PEOPLE = 8
STEP = 2e-5


@pytest.fixture(scope="module")
def logs():
    simulator = sf.simulators.HeartSteps(participants=PEOPLE, spread=1.0, seed=3)
    return simulator.collect(sf.policies.coin(2), decision_points=30, seed=0)


def limit(probabilities):
    send = np.clip(probabilities[:, 1:], 0.1, 0.9)
    return np.concatenate([1 - send, send], axis=1)


def fit(name, logs, discount=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return sf.method(name, **parameters).fit_some(logs, discount=discount)


def refit_influences(name, logs, **parameters):
    """By fits that weigh each participant a little more and a little less."""
    influences = []
    for participant in range(PEOPLE):
        moved = []
        for sign in (1, -1):
            discount = np.where(logs.participant_index == participant, 1 + sign * STEP, 1.0)
            moved.append(share_parameters(fit(name, logs, discount, **parameters)).values)
        influences.append((moved[0] - moved[1]) / (2 * STEP))
    return np.array(influences)


@pytest.mark.parametrize("name", ["ts", "accb", "saccb"])
@pytest.mark.parametrize("centre_actions", [False, True])
def test_influences_equal_refits(logs, name, centre_actions):
    # Weights change the units of a penalty, and whose pull it balances; without it refits are exact.
    parameters = {"pooling": "all", "penalty_units": "absolute", "critic_penalty": 0.0, "centre_actions": centre_actions}
    shared = share_parameters(fit(name, logs, **parameters))
    influences = np.zeros((PEOPLE, len(shared.values)))
    np.add.at(influences, logs.participant_index[shared.rows], shared.influence)
    expected = refit_influences(name, logs, **parameters)
    np.testing.assert_allclose(influences, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["ts", "ro-saccb"])
@pytest.mark.parametrize("pooling", ["all", "partial"])
def test_an_update_decides_as_the_fit_did(logs, name, pooling):
    before = logs.time < 20
    decided = np.flatnonzero(~before)
    update = learn_update(
        sf.method(name, pooling=pooling), logs, RecordedUpdate(1, before & (logs.time < 19), before, decided), limit
    )
    assert not update.influence[logs.time >= 19].any()
    assert np.abs(update.influence[logs.time < 19]).sum() > 0
    # The scores are those of the logarithm of probabilities within the limits: 0 where the limits hold.
    known = logs[before].with_values(reward=np.where(logs.time[before] < 19, logs.reward[before], np.nan))
    fitted = fit(name, known, pooling=pooling)
    send = fitted.predict_proba(logs.state[decided], logs.participant[decided])[:, 1]
    outside = (send < 0.1 - 1e-3) | (send > 0.9 + 1e-3)
    assert not update.score[outside].any()
    assert update.score[~outside].any(axis=1).all()


def test_methods_without_a_smooth_policy_are_refused(logs):
    with pytest.raises(InputError, match="jumps"):
        share_parameters(fit("linucb", logs, pooling="all"))
    with pytest.raises(InputError, match="looks ahead"):
        share_parameters(fit("ts", logs, pooling="all", horizon="long-run"))
    with pytest.raises(InputError, match="random walk"):
        share_parameters(fit("ts", logs, pooling={"name": "partial", "random_walk": 0.01}))
    with pytest.raises(InputError, match="independent"):
        share_parameters(fit("ts", logs, pooling="person"))
