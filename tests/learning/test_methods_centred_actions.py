"""Centred actions: a baseline that is not linear, and probabilities that follow it."""

import numpy as np
import pytest
from benchmarks import centred_actions as simulation
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.explain import explain
from surefoot.inference.sandwich import compute_influences
from tests.problems import three_actions

EFFECT = np.array([1.0, 0.5])
"""Of sending: 1 + 0.5 s."""


def confounded(seed, people=40, points=200):
    """The baseline bends, and sending is likelier where it is high: a line through it takes the bend for an effect."""
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, points))
    p = np.clip(0.5 + 0.35 * np.sign(state**2 - 1), 0.15, 0.85)
    action = (rng.random((people, points)) < p).astype(int)
    outcome = 2 * state**2 + action * (EFFECT[0] + EFFECT[1] * state) + rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(
        state[..., None], action, outcome, probability=np.where(action == 1, p, 1 - p), state_names=["mood"]
    )


def estimate_effects(name, centred, pooling):
    """The mean over trials of the estimated effect, and its standard error; people by themselves have longer trials."""
    shape = {"people": 4, "points": 2000} if pooling == "person" else {}
    method = sf.method(name, centre_actions=centred, pooling=pooling)
    found = [method.fit(confounded(seed, **shape)).critic_coef_[:, 2:].mean(axis=0) for seed in range(20)]
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))


@pytest.mark.parametrize(("name", "pooling"), [("ts", "person"), ("accb", "person"), ("accb", "all"), ("ts", "partial")])
def test_a_wrong_baseline_biases_only_what_is_not_centred(name, pooling):
    mean, error = estimate_effects(name, False, pooling)
    assert mean[0] > EFFECT[0] + 10 * error[0] and mean[0] > 1.8
    mean, error = estimate_effects(name, True, pooling)
    assert (np.abs(mean - EFFECT) < 4 * error).all() and (error < 0.06).all()


@pytest.mark.parametrize("name", ["ro-accb", "hb-linucb", "hb-ts", "saccb", "linucb"])
def test_every_critic_and_rule_takes_centred_actions(name):
    """A linear baseline: nothing is removed that should stay, and what the policy does follows the effect's sign."""
    rng = np.random.default_rng(1)
    state, p = rng.standard_normal((30, 150)), 0.3
    action = (rng.random((30, 150)) < p).astype(int)
    outcome = 3 + state + 2 * action * state + rng.standard_normal((30, 150))
    logs = sf.Trajectories.from_arrays(
        state[..., None], action, outcome, probability=np.where(action == 1, p, 1 - p), state_names=["mood"]
    )
    found = sf.method(name, centre_actions=True, pooling="all").fit(logs)
    assert_allclose(found.critic_coef_[0, 2:], [0, 2], atol=0.25)
    # Without an action the average over the logged ones is expected: 1 + 0.3 · 2 for the slope.
    assert_allclose(found.critic_coef_[0, :2], [3, 1.6], atol=0.2)
    sent = found.policies_.probabilities(["x", "x"], [[-1.0], [1.0]])[:, 1]
    assert sent[0] < 0.5 < sent[1]


def test_equals_least_squares_on_the_centred_columns():
    logs = confounded(3, people=2)
    found = sf.method("linucb", centre_actions=True, critic_penalty=0.0).fit(logs)
    for place, participant in enumerate(logs.participants):
        rows = logs.participant == participant
        send = np.where(logs.action[rows] == 1, logs.probability[rows], 1 - logs.probability[rows])
        moved, mood = logs.action[rows] - send, logs.state[rows, 0]
        x = np.column_stack([np.ones(len(mood)), mood, moved, moved * mood])
        assert_allclose(found.critic_coef_[place], np.linalg.lstsq(x, logs.outcome[rows])[0], rtol=1e-9)
        assert_allclose(found.residuals_[rows], logs.outcome[rows] - x @ found.critic_coef_[place], atol=1e-9)


def decided(seed, people=40, points=100):
    """A linear baseline, and probabilities of 0.03 and 0.97 by the sign of the effect, as a policy comes to have them."""
    rng = np.random.default_rng(seed)
    state = rng.standard_normal((people, points))
    effect = EFFECT[1] * state
    p = np.where(effect > 0, 0.97, 0.03)
    action = (rng.random((people, points)) < p).astype(int)
    outcome = 2 + state + action * effect + rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(
        state[..., None], action, outcome, probability=np.where(action == 1, p, 1 - p), state_names=["mood"]
    )


def test_what_it_costs_where_the_baseline_is_right():
    """Where the policy is nearly sure, a centred fit knows the effect less well, and its posterior says so."""
    errors, claimed = {}, {}
    for centred in (False, True):
        method = sf.method("ts", centre_actions=centred, pooling="all")
        rules = [method.fit(decided(seed)).policies_.rule for seed in range(40)]
        errors[centred] = np.array([rule.mean[0, 0, 0] for rule in rules]) - EFFECT[1]
        claimed[centred] = np.mean([rule.covariance[0, 0, 0] ** 0.5 for rule in rules])
        assert abs(errors[centred].mean()) < 4 * claimed[centred] / 40**0.5
        assert 0.65 < errors[centred].std() / claimed[centred] < 1.35
    assert claimed[True] > 1.8 * claimed[False] and errors[True].std() > 1.5 * errors[False].std()


@pytest.mark.parametrize(
    ("setting", "limits", "low", "high"),
    [
        ("all alike, linear baseline, effects ten times as large", "none", 1.5, 9.0),
        ("all alike, linear baseline", "0.1 to 0.9", 0.9, 1.2),
        ("all alike, bent baseline", "0.1 to 0.9", 0.2, 0.85),
    ],
)
def test_regret_is_as_the_page_of_methods_says(monkeypatch, setting, limits, low, high):
    """Centred actions cost where the baseline is linear and probabilities are free, and gain where it bends."""
    monkeypatch.setattr(simulation, "STAGES", 40)
    plain, centred = (
        simulation.run_pooled(simulation.SETTINGS[setting], simulation.LIMITS[limits], centre, 15).mean()
        for centre in (False, True)
    )
    assert low < centred / plain < high


def test_its_intervals_cover_the_effect():
    """Over 60 trials of 40 people the 95 % interval of the effect covers it about as often as it should."""
    covered = 0
    for seed in range(60):
        found = sf.method("ts", centre_actions=True, pooling="all").fit(confounded(100 + seed, points=60))
        covered += abs(found.critic_coef_[0, 2] - EFFECT[0]) < compute_influences(found).half_width("critic")[2]
    assert covered >= 53


def test_what_it_cannot_do_is_refused():
    logs = confounded(0, people=3, points=30)
    blank = sf.Trajectories.from_arrays(
        logs.state.reshape(3, 30, 1), logs.action.reshape(3, 30), logs.outcome.reshape(3, 30), state_names=["mood"]
    )
    with pytest.raises(sf.InputError, match="has none at 90 usable decision points, the first of participant '0' at time 0"):
        sf.method("accb", centre_actions=True).fit(blank)
    with pytest.raises(sf.InputError, match="is for two actions, and there are 3"):
        sf.method("accb", centre_actions=True).fit(three_actions())
    with pytest.raises(sf.InputError, match="which a look ahead needs"):
        sf.method("hb-ahead", centre_actions=True)


def test_the_card_says_so():
    card = explain(sf.method("ts", centre_actions=True).fit(confounded(0, people=5, points=60)), draws=5).card().markdown()
    assert "Actions are centred at their logged probabilities" in card
