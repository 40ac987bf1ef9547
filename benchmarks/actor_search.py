"""How often the actor finds the best policy there is: its objective beside the best of 50 random BFGS starts.

    python -m benchmarks.actor_search suggestions.csv        2,000 problems from HeartSteps V1, in ten minutes

Writes benchmarks/actor_search.json. A problem is one participant's decision points drawn anew with replacement, every second
one with as many of another participant's; raw steps and log steps take turns, and four penalties of the actor, the default
in half of the problems. The critic is capped, as `ro-accb` has it.
"""

import datetime
import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import surefoot as sf
from surefoot.learning.actor import optimise
from surefoot.learning.batch import Batch
from surefoot.learning.critics import Capped
from surefoot.policies.features import critic_features

PROBLEMS, STARTS, SEED = 2_000, 50, 2026
PENALTIES = (1e-3, 1e-4, 1e-3, 1e-2, 1e-3, 1e-1)
CLOSE = 1e-6


def main():
    logs = sf.datasets.heartsteps_v1(sys.argv[1]).logs
    behind = np.array([fall_behind(*problem) for problem in problems(logs, np.random.default_rng(SEED))])
    found = {
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "problems": len(behind),
        "share within 1e-6 of the best": float((behind <= CLOSE).mean()),
        "share better than the best by 1e-6": float((behind < -CLOSE).mean()),
        "furthest behind": float(behind.max()),
    }
    text = json.dumps(found, indent=1)
    Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    print(text)


def problems(logs, rng):
    """Yield what `optimise` takes: policy features, advantage, weights, penalty."""
    rows_of = [np.flatnonzero(logs.usable & (logs.participant_index == place)) for place in range(len(logs.participants))]
    rows_of = [rows for rows in rows_of if len(rows) >= 20]
    for place in range(PROBLEMS):
        own = rows_of[rng.integers(len(rows_of))]
        rows = rng.choice(own, len(own))
        if place % 2:
            rows = np.concatenate([rows, rng.choice(rows_of[rng.integers(len(rows_of))], len(own))])
        reward = logs.outcome[rows] if place // 2 % 2 else np.log(logs.outcome[rows] + 0.5)
        yield *critic(logs.state[rows], logs.action[rows], reward), PENALTIES[place // 4 % len(PENALTIES)]


def critic(state, action, reward):
    """z, the advantage of sending and the weights, as the capped critic of `ro-accb` sees them."""
    z, x = np.column_stack([state, np.ones(len(state))]), critic_features(state[None], action[None], 2)
    penalty = np.full(x.shape[-1], 1e-3)
    fit = Capped().fit(Batch(x, state[None], action[None], reward[None], np.ones((1, len(z))), 2, penalty))
    effect = fit.coef[0, state.shape[1] + 1 :]
    return z, effect[0] + state @ effect[1:], fit.weights[0]


def fall_behind(z, advantage, weights, penalty):
    """How far, relative to the best of the BFGS runs, our objective stays behind it."""
    ours = optimise(z[None], advantage[None, :, None], weights[None], count=np.array([len(z)]), penalty=penalty).gain[0]
    stakes = advantage * weights / len(z)
    unit, width = np.abs(stakes).sum(), np.sqrt((z**2).mean(axis=0))
    width[width == 0] = 1.0

    def loss(theta):
        with np.errstate(over="ignore"):
            probability = 1 / (1 + np.exp(-(z @ (theta / width))))
        pull = (stakes * probability * (1 - probability)) @ z / width - penalty * theta / width**2
        return -(stakes @ probability - penalty / 2 * ((theta / width) ** 2).sum()) / unit, -pull / unit

    rng, best = np.random.default_rng(SEED), -np.inf
    for _ in range(STARTS):
        start = rng.standard_normal(z.shape[1]) * 10 ** rng.uniform(-0.5, 1.5)
        with np.errstate(all="ignore"):
            best = max(best, -unit * minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).fun)
    return (best - ours) / abs(best)


if __name__ == "__main__":
    main()
