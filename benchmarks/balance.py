"""How often does the balance check accuse sound logs, and how often does it find a policy that followed a variable?

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.balance

About ten minutes on one core; prints the tables of docs/audit.md. Sound logs have 5 to 50 people with 10 to 200 decision
points and 5 to 44 variables each: normal, rare, long-tailed, constant in a person, and wandering ones, a prompt's dose, the
action before, the time in the study and the stated probability itself.
"""

import sys

import numpy as np
from scipy.special import expit

from surefoot.inference.balance import find_imbalances

PEOPLE = (5, 8, 10, 15, 25, 50)
POINTS = (10, 30, 60, 200)
VARIABLES = (1, 5, 15, 40)


def draw_variables(rng, shape, count):
    """Arrays (people, points) of every kind in turn."""
    kinds = (
        lambda: rng.normal(size=shape),
        lambda: (rng.random(shape) < rng.choice([0.02, 0.2, 0.5])).astype(float),
        lambda: rng.standard_t(1.2, size=shape),
        lambda: np.broadcast_to(rng.normal(size=(shape[0], 1)), shape),
        lambda: np.cumsum(rng.normal(size=shape), axis=1),
        lambda: np.exp(2 * rng.normal(size=shape)),
    )
    return {f"x{j}": kinds[j % len(kinds)]() for j in range(count)}


def draw_actions(rng, shape, design, first):
    """Actions, the probabilities with which they were drawn, and the dose before each."""
    probability = np.zeros(shape)
    taken = np.zeros(shape)
    doses = np.zeros(shape)
    drawn = rng.random(shape)
    coin = rng.choice([0.02, 0.05, 0.3, 0.5, 0.9])
    small = np.clip(rng.beta(0.4, 2, size=shape), 0.01, 0.99)
    outcomes = np.zeros((2, shape[0]))
    counts = np.zeros((2, shape[0]))
    for t in range(shape[1]):
        sums = outcomes.sum(axis=1, keepdims=True) if design == "pooled bandit" else outcomes
        times = counts.sum(axis=1, keepdims=True) if design == "pooled bandit" else counts
        nothing, prompt = sums / np.maximum(times, 1)
        chances = {
            "coin": coin,
            "follows the state": np.clip(expit(1.5 * np.clip(first[:, t], -5, 5)), 0.05, 0.95),
            "small": small[:, t],
        }
        probability[:, t] = chances.get(design, np.clip(expit(4 * (prompt - nothing)), 0.05, 0.95))
        taken[:, t] = drawn[:, t] < probability[:, t]
        outcome = rng.normal(size=shape[0]) - 0.1 * doses[:, t] * taken[:, t]
        outcomes += outcome * np.stack([1 - taken[:, t], taken[:, t]])
        counts += np.stack([1 - taken[:, t], taken[:, t]])
        if t + 1 < shape[1]:
            doses[:, t + 1] = 0.9 * doses[:, t] + taken[:, t]
    return taken, probability, doses


def false_alarms(design, replicates, seed):
    """Shares of sound logs with an adjusted p-value below 0.001, 0.01 and 0.05."""
    rng = np.random.default_rng(seed)
    smallest = []
    for _ in range(replicates):
        shape = int(rng.choice(PEOPLE)), int(rng.choice(POINTS))
        variables = draw_variables(rng, shape, int(rng.choice(VARIABLES)))
        taken, probability, doses = draw_actions(rng, shape, design, variables["x0"])
        variables["dose"] = doses
        variables["before"] = np.concatenate([np.zeros((shape[0], 1)), taken[:, :-1]], axis=1)
        variables["time"] = np.broadcast_to(np.arange(shape[1], dtype=float), shape)
        variables["probability"] = probability
        columns = {name: values.ravel() for name, values in variables.items()}
        person = np.repeat(np.arange(shape[0]), shape[1])
        imbalances = find_imbalances(taken.ravel() > 0, probability.ravel(), columns, person)
        smallest.append(min((imbalance.p_value for imbalance in imbalances), default=1.0))
    return [float(np.mean(np.array(smallest) < level)) for level in (0.001, 0.01, 0.05)]


def detection(people, points, high, low, replicates, seed, variables=10):
    """Share of logs called unsafe that state one probability where it was `high` at home and `low` elsewhere."""
    rng = np.random.default_rng(seed)
    unsafe = 0
    for _ in range(replicates):
        size = people * points
        columns = {f"x{j}": rng.normal(size=size) for j in range(variables)}
        columns["home"] = rng.integers(0, 2, size).astype(float)
        taken = rng.random(size) < np.where(columns["home"] == 1, high, low)
        stated = np.full(size, (high + low) / 2)
        imbalances = find_imbalances(taken, stated, columns, np.repeat(np.arange(people), points))
        unsafe += any(imbalance.is_unsafe for imbalance in imbalances)
    return unsafe / replicates


def main(replicates=5000, seed=20_000):
    print("| probabilities | p < 0.001 | p < 0.01 | p < 0.05 |\n|---|---|---|---|")
    for design in ("coin", "follows the state", "small", "own bandits", "pooled bandit"):
        shares = false_alarms(design, replicates, seed)
        print(f"| {design} | " + " | ".join(f"{100 * share:.2f} %" for share in shares) + " |", flush=True)
    print("\n| people × points | 0.8 / 0.3 | 0.6 / 0.4 | 0.55 / 0.45 |\n|---|---|---|---|")
    for people, points in ((5, 40), (10, 40), (20, 40), (40, 100)):
        shares = [detection(people, points, *chances, 200, seed) for chances in ((0.8, 0.3), (0.6, 0.4), (0.55, 0.45))]
        print(f"| {people} × {points} | " + " | ".join(f"{100 * share:.0f} %" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
