"""Partial pooling: its time for four outputs, 1,000 random problems, and how often its intervals of the spread cover.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.partial_pooling

Takes two minutes; writes benchmarks/partial_pooling.json.
"""

import json
import os
import time
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.learning.pooling.mixed_effects import (
    LEAST,
    Likelihood,
    Moments,
    fit_mixed_effects,
    profile_spread,
    search_spread,
)

SEED = 90_000
PEOPLE, POINTS = 1000, 210


def measure_time(rounds=5):
    """Microseconds of one processor for a participant, reward and three states, the shortest of several."""
    os.environ["SUREFOOT_THREADS"] = "1"
    logs = sf.simulators.HeartSteps(participants=PEOPLE, spread=1.0, seed=SEED).collect(
        sf.policies.coin(2), decision_points=POINTS, seed=SEED
    )
    moments = sf.method("ahead", pooling="partial").fit(logs).outlook_.moments
    penalty, seconds = np.zeros(moments.reward.gram.shape[-1]), []
    for _ in range(rounds):
        start = time.process_time()
        found = [fit_mixed_effects(moments.reward, penalty)]
        found += [fit_mixed_effects(moments.state, penalty, response=j) for j in range(3)]
        seconds.append(time.process_time() - start)
    fits = {}
    for pooling in ("person", "all", "partial"):
        start = time.process_time()
        sf.method("hb-ahead", pooling=pooling).fit(logs)
        fits[pooling] = 1e6 * (time.process_time() - start) / PEOPLE
    return {
        "people": PEOPLE,
        "decision_points": POINTS,
        "microseconds_per_participant": 1e6 * min(seconds) / PEOPLE,
        "evaluations": [one.n_iter for one in found],
        "hb_ahead_microseconds_per_participant": fits,
    }


def draw_moments(seed):
    """A random problem: some coefficients differ, by much or little, in any units."""
    rng = np.random.default_rng(seed)
    people, d = int(rng.integers(2, 60)), int(rng.integers(1, 7))
    points = int(rng.integers(2 * d + 2, 80))
    spread, scale = np.exp(rng.normal(0, 1.5, d)) * (rng.random(d) < 0.7), np.exp(rng.normal(0, 2, d))
    x = rng.standard_normal((people, points, d)) * scale
    x[..., 0] = 1.0
    w = rng.standard_normal(d) + rng.standard_normal((people, d)) * spread / scale
    y = (x * w[:, None, :]).sum(axis=-1) + rng.standard_normal((people, points)) * np.exp(rng.normal())
    return Moments.of_rows(x, y[..., None], np.ones((people, points)))


def measure_convergence(problems=1000):
    """How many searches end where no step leads down, and in how many evaluations of the likelihood."""
    ended, steps = 0, []
    for seed in range(problems):
        moments = draw_moments(SEED + seed)
        d = moments.gram.shape[-1]
        point, count, converged = search_spread(Likelihood.of_moments(moments, 0, np.zeros(d), np.eye(d)))
        slope, at_zero = np.diagonal(point.slope()), point.root**2 <= LEAST
        ended += bool(converged and (np.abs(slope[~at_zero]) < 1e-3).all() and (slope[at_zero] >= 0).all())
        steps.append(count)
    return {"problems": problems, "converged": ended, "mean_evaluations": float(np.mean(steps)), "most": max(steps)}


def measure_coverage(studies=300, people=30, points=40):
    """Of 95 % intervals of the standard deviation between people, by its true value in units of the noise."""
    truth = np.array([1.0, 0.25, 0.0])
    covered = []
    for number in range(studies):
        rng = np.random.default_rng(SEED + number)
        x = np.concatenate([np.ones((people, points, 1)), rng.standard_normal((people, points, 2))], axis=-1)
        w = rng.standard_normal((people, 3)) * truth
        y = (x * w[:, None, :]).sum(axis=-1) + rng.standard_normal((people, points))
        found = profile_spread(fit_mixed_effects(Moments.of_rows(x, y[..., None], np.ones((people, points))), np.zeros(3)))
        covered.append((found.low <= truth) & (truth <= found.high))
    shares = np.mean(covered, axis=0).tolist()
    return {"studies": studies, "coverage": dict(zip(map(str, truth.tolist()), shares, strict=True))}


def main():
    found = {"time": measure_time(), "convergence": measure_convergence(), "coverage": measure_coverage()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
