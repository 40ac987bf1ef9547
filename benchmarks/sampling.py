"""Posterior sampling: how fast it decides, and how far its probabilities are from more nodes and from ten million draws.

    python -m benchmarks.sampling

Writes benchmarks/sampling.json.
"""

import json
import time
from math import inf
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.numerics import action_probabilities
from surefoot.numerics.action_probabilities import probability_of_largest
from surefoot.policies.rules import PosteriorSampling

PEOPLE, VARIABLES, DRAWS = 1_000, 3, 10_000_000
TIMED = {2: 1_000, 3: 1_000, 4: 1_000, 5: 1_000, 6: 200, 7: 50, 8: 20}
"""Decisions that are timed, by the number of actions."""
COMPARED = {3: 1_000, 4: 300, 5: 30}
"""Decisions that are compared with 72 nodes."""


def main():
    results = {"processor milliseconds for 1,000 decisions": {}, "largest difference from 72 nodes": {}}
    for actions in TIMED:
        for kind, rule in make_rules(actions):
            measure(results, actions, kind, rule)
    rng = np.random.default_rng(5)
    kinds = results["largest difference from ten million draws"] = {}
    for actions in range(2, 9):
        for kind in ("ordinary", "nearly singular") if actions < 8 else ("ordinary",):
            kinds[f"{actions} actions, {kind}"] = compare_draws(rng, actions - 1, kind)
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


def make_rules(actions):
    """Rules of any covariance, and those that `ts` learned of 1,000 people, each alone and partially pooled."""
    rng = np.random.default_rng(actions)
    size = (actions - 1) * (VARIABLES + 1)
    root = rng.standard_normal((PEOPLE, size, size + 2))
    mean = rng.standard_normal((PEOPLE, actions - 1, VARIABLES + 1))
    yield "any covariance", PosteriorSampling(mean, root @ np.swapaxes(root, 1, 2))
    points = 40 * actions
    state, action = rng.standard_normal((PEOPLE, points, VARIABLES)), rng.integers(0, actions, (PEOPLE, points))
    coef = 0.3 * rng.standard_normal((PEOPLE, actions, VARIABLES + 1))
    z = np.concatenate([state, np.ones((PEOPLE, points, 1))], axis=-1)
    reward = np.einsum("ijk,ijk->ij", z, np.take_along_axis(coef, action[..., None], axis=1))
    reward += rng.standard_normal((PEOPLE, points))
    logs = sf.Trajectories.from_arrays(state, action, reward, actions=[f"action {a}" for a in range(actions)])
    for pooling in ("person", "partial"):
        yield f"`ts` of {pooling}", sf.method("ts", pooling=pooling).fit(logs).policies_.rules_for(logs.participants)


def measure(results, actions, kind, rule):
    states = np.random.default_rng(1).standard_normal((PEOPLE, VARIABLES))
    timed = slice(TIMED[actions])
    part, decide = rule[timed], rule[0].scalar()
    plain = states[: min(100, TIMED[actions])].tolist()
    times = results["processor milliseconds for 1,000 decisions"]
    at_once = time_work(lambda: part.probabilities(states[timed]), 5)
    one_by_one = time_work(lambda: [decide(state) for state in plain], 3)
    times[f"{actions} actions, {kind}, at once"] = 1e6 * at_once / TIMED[actions]
    times[f"{actions} actions, {kind}, one at a time"] = 1e6 * one_by_one / len(plain)
    if actions in COMPARED:
        compared = slice(COMPARED[actions])
        mean, covariance = compute_effects(rule[compared], states[compared])
        difference = probability_of_largest(mean, covariance) - by_72_nodes(mean, covariance)
        results["largest difference from 72 nodes"][f"{actions} actions, {kind}"] = float(np.abs(difference).max())


def time_work(work, runs):
    """The least processor seconds of several runs."""
    seconds = []
    for _ in range(runs):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def by_72_nodes(mean, covariance):
    nodes, action_probabilities.NODES = action_probabilities.NODES, {inf: (72, 6)}
    try:
        return probability_of_largest(mean, covariance)
    finally:
        action_probabilities.NODES = nodes


def compute_effects(rule, states):
    """Means and covariances of the effects in the states."""
    z = np.append(states, np.ones((len(states), 1)), axis=1)
    people, others, size = rule.mean.shape
    blocks = rule.covariance.reshape(people, others, size, others, size)
    return np.einsum("nai,ni->na", rule.mean, z), np.einsum("ni,naibj,nj->nab", z, blocks, z)


def compare_draws(rng, effects, kind):
    """The largest difference of a probability, in standard errors of the draws too, over two problems."""
    differences = []
    for _ in range(2):
        root = rng.standard_normal((effects, effects + 2))
        if kind == "nearly singular":
            root = rng.standard_normal((effects, 1)) @ rng.standard_normal((1, effects + 2)) + 1e-3 * root
        mean, covariance = 0.7 * rng.standard_normal(effects), root @ root.T
        count = np.zeros(effects + 1)
        for _ in range(10):
            drawn = rng.multivariate_normal(mean, covariance, DRAWS // 10, method="cholesky")
            best = np.where(drawn.max(axis=1) > 0, drawn.argmax(axis=1) + 1, 0)
            count += np.bincount(best, minlength=effects + 1)
        share = count / DRAWS
        difference = np.abs(probability_of_largest(mean, covariance) - share)
        error = np.sqrt(np.maximum(share * (1 - share), 1 / DRAWS) / DRAWS)
        differences.append((float(difference.max()), float((difference / error).max())))
    return dict(zip(("difference", "standard errors"), np.max(differences, axis=0).tolist(), strict=True))


if __name__ == "__main__":
    main()
