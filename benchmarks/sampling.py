"""Posterior sampling: how fast it decides, and how far its probabilities are from ten million draws and from 24 nodes.

    python -m benchmarks.sampling

Writes benchmarks/sampling.json.
"""

import json
from pathlib import Path

import numpy as np

import surefoot as sf
from benchmarks.measuring import best_of
from surefoot.numerics import orthants
from surefoot.numerics.largest_value import probability_of_largest
from surefoot.policies.rules import PosteriorSampling

DECISIONS, VARIABLES, DRAWS = 1_000, 3, 10_000_000
MOST_BY_24_NODES = 5
"""Actions up to which 24 nodes everywhere take seconds, not hours."""


def main():
    results = {"milliseconds for 1,000 decisions": {}, "largest difference from 24 nodes": {}}
    for actions in range(2, 9):
        for kind, rule in make_rules(actions):
            measure(results, f"{actions} actions, {kind}", rule)
    rng = np.random.default_rng(5)
    found = results["largest difference from ten million draws"] = {}
    for actions in (2, 3, 5):
        found[f"{actions} actions"] = compare(rng, actions - 1)
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


def make_rules(actions):
    """1,000 rules of any covariance, and those that `ts` learned of 1,000 people, each alone and partially pooled."""
    rng = np.random.default_rng(actions)
    if actions <= 6:
        size = (actions - 1) * (VARIABLES + 1)
        root = rng.standard_normal((DECISIONS, size, size + 2))
        mean = rng.standard_normal((DECISIONS, actions - 1, VARIABLES + 1))
        yield "any covariance", PosteriorSampling(mean, root @ np.swapaxes(root, 1, 2))
    points = 40 * actions
    state, action = rng.standard_normal((DECISIONS, points, VARIABLES)), rng.integers(0, actions, (DECISIONS, points))
    coef = 0.3 * rng.standard_normal((DECISIONS, actions, VARIABLES + 1))
    z = np.concatenate([state, np.ones((DECISIONS, points, 1))], axis=-1)
    reward = np.einsum("ijk,ijk->ij", z, np.take_along_axis(coef, action[..., None], axis=1))
    reward += rng.standard_normal((DECISIONS, points))
    logs = sf.Trajectories.from_arrays(state, action, reward, actions=[f"action {a}" for a in range(actions)])
    for pooling in ("person", "partial"):
        yield f"`ts` of {pooling}", sf.method("ts", pooling=pooling).fit(logs).policies_.rules_for(logs.participants)


def measure(results, name, rule):
    states = np.random.default_rng(1).standard_normal((DECISIONS, VARIABLES))
    one, plain = rule[0].scalar(), states[:100].tolist()
    times = results["milliseconds for 1,000 decisions"]
    times[f"{name}, at once"] = 1e3 * best_of(lambda: rule.probabilities(states), 10)
    times[f"{name}, one at a time"] = 1e4 * best_of(lambda: [one(state) for state in plain], 3)
    actions = rule.mean.shape[1] + 1
    if 3 < actions <= MOST_BY_24_NODES:
        mean, covariance = compute_effects(rule, states)
        away = probability_of_largest(mean, covariance) - orthants.probability_of_largest(mean, covariance)
        results["largest difference from 24 nodes"][name] = float(np.abs(away).max())


def compute_effects(rule, states):
    """Means and covariances of the effects in the states."""
    z = np.append(states, np.ones((len(states), 1)), axis=1)
    people, others, size = rule.mean.shape
    blocks = rule.covariance.reshape(people, others, size, others, size)
    return np.einsum("nai,ni->na", rule.mean, z), np.einsum("ni,naibj,nj->nab", z, blocks, z)


def compare(rng, effects):
    """The largest difference of a probability, and how many standard errors of the draws that is, over four problems."""
    found = []
    for _ in range(4):
        root = rng.standard_normal((effects, effects + 2))
        mean, covariance = 0.7 * rng.standard_normal(effects), root @ root.T
        count = np.zeros(effects + 1)
        for _ in range(10):
            drawn = rng.multivariate_normal(mean, covariance, DRAWS // 10, method="cholesky")
            best = np.where(drawn.max(axis=1) > 0, drawn.argmax(axis=1) + 1, 0)
            count += np.bincount(best, minlength=effects + 1)
        share = count / DRAWS
        away = np.abs(probability_of_largest(mean, covariance) - share)
        found.append((float(away.max()), float((away / np.sqrt(share * (1 - share) / DRAWS)).max())))
    return dict(zip(("difference", "standard errors"), np.max(found, axis=0).tolist(), strict=True))


if __name__ == "__main__":
    main()
