"""People who change: the audit's test for drift where nothing moves and where effects fade.

    .venv/bin/python -m benchmarks.drift

Takes ten minutes; writes benchmarks/drift.json.
"""

import json
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.inference.drift import find_drift

SEED, STUDIES = 70_000, 1000
STILL = (("normal", 15, 60), ("normal", 50, 60), ("unequal", 15, 60), ("unequal", 10, 40), ("skewed", 15, 60))
STILL = (*STILL, ("skewed", 9, 40), ("heavy-tailed", 15, 60), ("autocorrelated", 15, 60))
"""Noise, people and decision points of studies in which nothing moves."""


def draw_noise(kind, logs, rng):
    """In units of 500 steps, for every row: noise of the kind."""
    size, people = len(logs), len(logs.participants)
    if kind == "unequal":
        wild = np.exp(rng.standard_normal(people))[logs.participant_index]
        return wild * (0.5 + 1.5 * logs.time / logs.time.max()) * (1 + logs.action) * rng.standard_normal(size)
    if kind == "skewed":
        return rng.exponential(1.0, size) ** 1.5
    if kind == "heavy-tailed":
        return rng.standard_t(2.5, size)
    noise = rng.standard_normal((people, size // people))
    for t in range(1, noise.shape[1]):
        noise[:, t] += 0.5 * noise[:, t - 1]
    found = np.empty(size)
    found[logs.order] = noise.ravel()
    return found


def collect(kind, people, points, seed):
    """People who differ, do not change, and have this noise."""
    simulator = sf.simulators.HeartSteps(participants=people, spread=1.0, seed=seed)
    logs = simulator.collect(sf.policies.coin(2), decision_points=points, seed=seed + 1)
    if kind == "normal":
        return logs
    quiet = logs.state @ [50.0, 20.0, -30.0] + 100.0 * logs.action
    return logs.with_values(reward=quiet + 500 * draw_noise(kind, logs, np.random.default_rng(seed + 2)))


def measure_sizes():
    """The share of studies in which the tests find something at 5 % and at 0.5 %, though nothing moves."""
    rows = []
    for kind, people, points in STILL:
        found = []
        for study in range(STUDIES):
            logs = collect(kind, people, points, SEED + 10 * study)
            drift = find_drift(logs, logs.usable, np.ones(3))
            found.append((drift.effect_p_value, drift.p_value))
        at_5, at_half = ((np.array(found) <= level).mean(axis=0) for level in (0.05, 0.005))
        rows.append({"noise": kind, "people": people, "decision_points": points, "studies": STUDIES})
        rows[-1] |= {"effects_at_5": at_5[0], "all_at_5": at_5[1], "effects_at_half": at_half[0], "all_at_half": at_half[1]}
        print(rows[-1], flush=True)
    return rows


def main():
    """Measure and write."""
    found = {"seed": SEED, "sizes": measure_sizes()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
