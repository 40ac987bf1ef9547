"""Simulating: all people and policies at once against stepping the Gymnasium environment of one participant."""

import gymnasium
import numpy as np

import surefoot as sf
from benchmarks.measuring import side_by_side, study

STEPS, POLICIES = 1_000, 40
NAMES = {"surefoot/HeartSteps-v0": sf.simulators.HeartSteps, "surefoot/ChainWalk-v0": sf.simulators.ChainWalk}


def measure():
    nanoseconds, ratios = {}, {}
    for name, kind in NAMES.items():
        sim = kind(participants=50)
        mechanism = "prompted" if kind is sf.simulators.HeartSteps else "sensor"
        logs, _ = study(50, simulator=kind, mechanism=mechanism)
        fitted = sf.method("ro-accb").fit(logs).policies_
        policies = {str(number): fitted for number in range(POLICIES)}
        env, policy = gymnasium.make(name, max_episode_steps=STEPS + 1), fitted[0]
        both = {
            "ours": lambda sim=sim, policies=policies: sim.run(policies, steps=STEPS, keep=STEPS, seed=0),
            "loop": lambda env=env, policy=policy: _step(env, policy),
        }
        seconds = side_by_side(both)
        ours, loop = seconds["ours"] / (STEPS * POLICIES * 50), seconds["loop"] / STEPS
        nanoseconds[f"surefoot {kind.__name__}.run, per decision point"] = 1e9 * ours
        nanoseconds[f"stepping {name}, per decision point"] = 1e9 * loop
        ratios[f"stepping {name} / surefoot {kind.__name__}.run"] = loop / ours
    return {"nanoseconds": nanoseconds, "ratios": ratios}


def _step(env, policy):
    """The usual loop: a state, a decision, a step."""
    rng = np.random.default_rng(0)
    state, _ = env.reset(seed=0)
    for _ in range(STEPS):
        probability = policy.decide(np.atleast_1d(state).tolist())[1]
        state, _, _, _, _ = env.step(np.int64(rng.random() < probability))
