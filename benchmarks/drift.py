"""People who change: the audit's test where nothing moves and where something does, and the error of people's last
coefficients with and without forgetting or a random walk.

    .venv/bin/python -m benchmarks.drift

Takes a quarter of an hour; writes benchmarks/drift.json.
"""

import json
import time
import warnings
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.inference.drift import find_drift
from surefoot.policies.features import critic_features
from surefoot.simulators.heartsteps import REWARD_SPREAD

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


PEOPLE, POINTS, REPLICATES = 50, 210, 20
FADES, WANDERS = 750.0, 2.0
"""Steps of an effect that is gone at the end; how much of the variance between people everybody moves in a study."""
FITS = {
    "person": {"pooling": "person"},
    "person, forgetting 0.99": {"pooling": "person", "forgetting": 0.99},
    "all": {"pooling": "all"},
    "all, forgetting 0.99": {"pooling": "all", "forgetting": 0.99},
    "all, forgetting 0.98": {"pooling": "all", "forgetting": 0.98},
    "partial": {"pooling": "partial"},
    "partial, forgetting 0.99": {"pooling": "partial", "forgetting": 0.99},
    "partial, forgetting 0.98": {"pooling": "partial", "forgetting": 0.98},
    "partial, random walk": {"pooling": "partial", "random_walk": "estimate"},
}


def draw_changes(kind, seed):
    """How much more everybody's coefficients on x(s, a) are at every decision point than at first, (people, points, 8)."""
    found = np.zeros((PEOPLE, POINTS, 8))
    if kind == "fading":
        found[..., 4] = FADES * (1 - np.arange(POINTS) / (POINTS - 1))
    if kind == "wandering":
        steps = np.random.default_rng(seed).standard_normal(found.shape) * np.array(REWARD_SPREAD)
        found = np.sqrt(WANDERS / POINTS) * steps.cumsum(axis=1)
    return found


def measure_errors(kind, spread=1.0, seed=SEED):
    """Root mean square over people of the distance of the last coefficients from the truth, their effect's error at state
    zero, how often the audit's tests speak up, and the seconds of a fit."""
    errors, effects, seconds, found = ({name: [] for name in FITS} for _ in range(4))
    looks = []
    for replicate in range(REPLICATES):
        own = seed + 1000 * (replicate + 1)
        simulator = sf.simulators.HeartSteps(participants=PEOPLE, spread=spread, seed=own)
        logs = simulator.collect(sf.policies.coin(2), decision_points=POINTS, seed=own + 1)
        changes = draw_changes(kind, own + 2)
        x = critic_features(logs.state, logs.action, 2)
        more = np.einsum("rd,rd->r", x, changes[logs.participant_index, logs.time])
        logs = logs.with_values(reward=logs.reward + more)
        truth = simulator.critic_coef + changes[:, -1]
        drift = find_drift(logs, logs.usable, np.ones(3))
        looks.append(min(drift.effect_p_value, drift.p_value) < 0.005)
        for name, parts in FITS.items():
            start = time.process_time()
            fitted = sf.method("linucb", **parts).fit(logs)
            seconds[name].append(time.process_time() - start)
            left = np.broadcast_to(fitted.critic_coef_, (PEOPLE, 8)) - truth
            errors[name].append(np.sqrt((left**2).sum(axis=1).mean()))
            effects[name].append(np.sqrt((left[:, 4] ** 2).mean()))
            found[name].append(0.0 if fitted.posterior_ is None else fitted.posterior_.walk)
    rows = {
        name: {
            "error": float(np.mean(errors[name])),
            "standard_error": float(np.std(errors[name], ddof=1) / np.sqrt(REPLICATES)),
            "effect_error": float(np.mean(effects[name])),
            "seconds": float(np.median(seconds[name])),
        }
        for name in FITS
    }
    rows["partial, random walk"]["moved"] = float(np.mean(np.array(found["partial, random walk"]) > 0))
    return {"people": kind, "spread": spread, "audit_looks": float(np.mean(looks)), "fits": rows}


def main():
    """Measure and write."""
    warnings.simplefilter("ignore", sf.FitWarning)
    cases = [measure_errors(kind, spread) for spread in (0.0, 1.0) for kind in ("still", "fading", "wandering")]
    found = {"seed": SEED, "replicates": REPLICATES, "errors": cases, "sizes": measure_sizes()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
