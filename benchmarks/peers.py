"""What participants might pick instead, one participant at a time, as their documentation shows it.

Each function fits one participant's decision points (state, action, reward) and returns the scores m_aᵀ z + √(zᵀ V_a z),
z = [s, 1], by which the peer chooses, so that its choices can be run in the same simulator as ours.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from contextualbandits.online import LinUCB as ContextualBanditsLinUCB
from mabwiser.mab import MAB, LearningPolicy
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, RANSACRegressor, Ridge

from surefoot.policies.policies import Policies
from surefoot.policies.rules import UpperConfidence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.reference import literal

PENALTY = 1e-3


def with_intercept(state):
    return np.column_stack([state, np.ones(len(state))])


def mabwiser(state, action, reward):
    model = MAB([0, 1], LearningPolicy.LinUCB(alpha=1.0, l2_lambda=PENALTY))
    model.fit(action, reward, with_intercept(state))
    arms = [model._imp.arm_to_model[arm] for arm in (0, 1)]
    return np.stack([arm.beta for arm in arms]), np.stack([arm.A_inv for arm in arms])


def contextualbandits(state, action, reward):
    model = ContextualBanditsLinUCB(2, alpha=1.0, lambda_=PENALTY, fit_intercept=False, use_float=False)
    model.fit(with_intercept(state), action, reward)
    arms = [algorithm.model for algorithm in model._oracles.algos]
    size = state.shape[1] + 1
    return np.stack([arm.coef_[:size] for arm in arms]), np.stack([arm._invXtX[:size, :size] for arm in arms])


def regression(make):
    """Greedy choice by a regression of the reward on [s, a, a·s]."""

    def fit(state, action, reward):
        features = np.column_stack([state, action, action[:, None] * state])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = make().fit(features, reward)
        model = getattr(model, "estimator_", model)
        size = state.shape[1]
        effect = np.concatenate([model.coef_[size + 1 :], model.coef_[size : size + 1]])
        mean = np.stack([np.zeros(size + 1), effect])
        return mean, np.zeros((2, size + 1, size + 1))

    return fit


def literal_actor_critic(state, action, reward):
    """The paper's ro-accb: capped critic by the book, actor by SLSQP with finite differences; greedy for scoring."""
    base = np.column_stack([np.ones(len(state)), state])
    w, kept, _, _ = literal.capped_critic(np.column_stack([base, base * action[:, None]]), reward, PENALTY)
    size = base.shape[1]
    expected = np.column_stack([base @ w[:size], base @ (w[:size] + w[size:])])
    theta = literal.slsqp_actor(with_intercept(state), expected, kept.astype(float), PENALTY).x
    return np.stack([np.zeros(size), theta]), np.zeros((2, size, size))


PEERS = {
    "MABWiser LinUCB": mabwiser,
    "contextualbandits LinUCB": contextualbandits,
    "scikit-learn Ridge": regression(lambda: Ridge(alpha=PENALTY)),
    "scikit-learn HuberRegressor": regression(lambda: HuberRegressor(alpha=PENALTY)),
    "scikit-learn RANSACRegressor": regression(lambda: RANSACRegressor(random_state=0)),
    "literal ro-accb (SLSQP, finite differences)": literal_actor_critic,
}


def fit_people(peer, logs, people):
    """Fit the first people one after the other."""
    scores = []
    for participant in range(people):
        rows = logs.order[logs.starts[participant] : logs.starts[participant + 1]]
        scores.append(PEERS[peer](logs.state[rows], logs.action[rows], logs.outcome[rows]))
    return scores


def policies(peer, logs):
    """Everybody's choices as policies."""
    mean, spread = (np.stack(part) for part in zip(*fit_people(peer, logs, len(logs.participants)), strict=True))
    return Policies(logs.participants, UpperConfidence(mean, spread), logs.action_names, logs.state_names)
