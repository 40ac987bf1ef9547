"""People who change: the audit's test where nothing moves and where something does, and the error of people's last
coefficients with and without forgetting or a random walk.

    .venv/bin/python -m benchmarks.drift [tests | errors]

The tests take ten minutes, the errors another ten; writes its part of benchmarks/drift.json.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.audit.checks import SURE
from surefoot.inference.change import find_change
from surefoot.policies.features import critic_features
from surefoot.simulators.heartsteps import REWARD_SPREAD

SEED, STUDIES = 70_000, 500
STILL = (("normal", 15, 60), ("normal", 50, 60), ("unequal", 15, 60), ("unequal", 10, 40), ("skewed", 15, 60))
STILL = (*STILL, ("skewed", 9, 40), ("heavy-tailed", 15, 60), ("autocorrelated", 15, 60), ("autocorrelated", 50, 200))
STILL = (*STILL, ("very autocorrelated", 30, 100))
AUTOCORRELATION = {"autocorrelated": 0.5, "very autocorrelated": 0.8}
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
        noise[:, t] += AUTOCORRELATION[kind] * noise[:, t - 1]
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
    return logs.with_values(outcome=quiet + 500 * draw_noise(kind, logs, np.random.default_rng(seed + 2)))


def run_tests(logs):
    """p-values of the audit's tests: of effects that move alike, of all coefficients, and of people who wander."""
    change = find_change(logs, logs.usable, np.ones(3))
    return change.effect_p_value, change.p_value, change.wandering_p_value


def measure_sizes():
    """The share of studies in which the tests find something at 5 % and at 0.4 %, though nothing moves."""
    rows = []
    for kind, people, points in STILL:
        found = [run_tests(collect(kind, people, points, SEED + 10 * study)) for study in range(STUDIES)]
        rows.append({"noise": kind, "people": people, "decision_points": points, "studies": STUDIES})
        for level, name in ((0.05, "at_5"), (0.004, "at_0.4")):
            effects, all_, wandering = (np.array(found) <= level).mean(axis=0)
            rows[-1] |= {f"effects_{name}": effects, f"all_{name}": all_, f"wandering_{name}": wandering}
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


def draw_changes(kind, people, points, seed):
    """How much more everybody's coefficients on x(s, a) are at every decision point than at first, (people, points, 8)."""
    found = np.zeros((people, points, 8))
    if kind == "fading":
        found[..., 4] = FADES * (1 - np.arange(points) / (points - 1))
    if kind == "wandering":
        steps = np.random.default_rng(seed).standard_normal(found.shape) * np.array(REWARD_SPREAD)
        found = np.sqrt(WANDERS / points) * steps.cumsum(axis=1)
    return found


def collect_moving(kind, spread, seed, people=PEOPLE, points=POINTS):
    """Logs of people who change, and their coefficients at the end."""
    simulator = sf.simulators.HeartSteps(participants=people, spread=spread, seed=seed)
    logs = simulator.collect(sf.policies.coin(2), decision_points=points, seed=seed + 1)
    changes = draw_changes(kind, people, points, seed + 2)
    x = critic_features(logs.state, logs.action, 2)
    more = np.einsum("rd,rd->r", x, changes[logs.participant_index, logs.time])
    return logs.with_values(outcome=logs.outcome + more), simulator.critic_coef + changes[:, -1]


SIZES = ((30, 100), (30, 200), (50, 100), (50, 210))


def measure_looks():
    """In which share of 40 studies the audit's tests find that all move alike, that people wander, and either."""
    rows = []
    for kind in ("still", "fading", "wandering"):
        for people, points in SIZES:
            seeds = (SEED + 1000 * (study + 1) for study in range(2 * REPLICATES))
            found = np.array([run_tests(collect_moving(kind, 1.0, seed, people, points)[0]) for seed in seeds])
            alike, wander = (found[:, :2] < 0.4 * SURE).any(axis=1), found[:, 2] < 0.2 * SURE
            rows.append({"people": kind, "size": [people, points], "alike": alike.mean(), "wandering": wander.mean()})
            rows[-1]["either"] = (alike | wander).mean()
            print(rows[-1], flush=True)
    return rows


def measure_errors(kind, spread=1.0, seed=SEED):
    """Root mean square over people of the distance of the last coefficients from the truth, their effect's error at state
    zero, and the seconds of a fit."""
    errors, effects, seconds, found = ({name: [] for name in FITS} for _ in range(4))
    for replicate in range(REPLICATES):
        logs, truth = collect_moving(kind, spread, seed + 1000 * (replicate + 1))
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
    return {"people": kind, "spread": spread, "fits": rows}


def main(parts):
    """Measure and write."""
    warnings.simplefilter("ignore", sf.FitWarning)
    path = Path(__file__).with_suffix(".json")
    found = json.loads(path.read_text(encoding="utf-8")) | {"seed": SEED, "replicates": REPLICATES}
    if "errors" in parts:
        cases = [(kind, spread) for spread in (0.0, 1.0) for kind in ("still", "fading", "wandering")]
        found["errors"] = [measure_errors(kind, spread) for kind, spread in cases]
    if "tests" in parts:
        found |= {"looks": measure_looks(), "sizes": measure_sizes()}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or ["errors", "tests"])
