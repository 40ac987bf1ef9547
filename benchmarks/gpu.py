"""What a GPU does: fitting ro-accb for a million people, and simulating two thousand policies.

    python benchmarks/gpu.py --out benchmarks/gpu.json     # 80 GiB of device memory; --block 250000 takes less

Needs a CUDA device and PyTorch. Data are on the device before the clock starts; numbers are float64; the first thousands
of people are fitted with NumPy as well and compared.
"""

import argparse
import datetime
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

import surefoot as sf
from surefoot.learning.batch import Batch
from surefoot.policies.features import critic_features
from surefoot.policies.rules import Boltzmann
from surefoot.simulators import HeartSteps

PEOPLE, TUPLES, COMPARED = 1_000_000, 210, 2_000


def timed(function, repeats=3):
    """Seconds of each run after a first one that warms up, with the device idle at both ends."""
    function()
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = function()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def study_on_device(people):
    """HeartSteps under a coin with prompted outliers, made on the device: state, action, reward, usable."""
    make = torch.Generator(device="cuda").manual_seed(0)
    draw = {"generator": make, "device": "cuda", "dtype": torch.float64}
    state = torch.empty((people, TUPLES, 3), device="cuda", dtype=torch.float64)
    reward = torch.empty((people, TUPLES), device="cuda", dtype=torch.float64)
    action = torch.randint(0, 2, (people, TUPLES), generator=make, device="cuda")
    now, model = torch.randn((3, people), **draw), HeartSteps(participants=1)
    for t in range(TUPLES):
        state[:, t, :] = now.T
        now, reward[:, t] = model.advance(now, action[:, t], torch.randn((4, people), **draw))
    spoiled = (torch.rand((people, TUPLES), **draw) < 0.08) & (action == 1)
    reward += spoiled * 5 * reward.abs().mean(dim=1, keepdim=True)
    ones = torch.ones_like(reward)  # everything can be used, and counts in full
    return state, action, reward, ones


def fit_batch(method, arrays, block):
    """Block by block, as `fit` does; the decision rules stay on the device."""
    seen = torch.ones(3, device=arrays[0].device, dtype=torch.float64)
    learned = []
    for first in range(0, len(arrays[0]), block):
        part = [array[first : first + block] for array in arrays]
        learned.append(method.fit_batch(make_batch(*part, seen)))
    return learned


def make_batch(state, action, reward, weights, seen):
    features = critic_features(state, action, 2)
    return Batch(features, state, action, reward, weights, 2, critic_sees=seen, policy_sees=seen)


def compare(method, arrays):
    """The largest difference between GPU and NumPy among the first people, in coefficients of critic and policy."""
    few = [array[:COMPARED] for array in arrays]
    (there, gpu_rule, _) = fit_batch(method, few, COMPARED)[0]
    host = [array.cpu().numpy() for array in few]
    here, cpu_rule, _ = method.fit_batch(make_batch(*host, np.ones(3)))
    rules = zip(gpu_rule.arrays().values(), cpu_rule.arrays().values(), strict=True)
    return {
        "critic": difference(there.fit.coef, here.fit.coef),
        "policy": max(difference(gpu, cpu) for gpu, cpu in rules),
        "weights": difference(there.fit.weights, here.fit.weights),
    }


def difference(gpu, cpu):
    return float(np.max(np.abs(gpu.cpu().numpy() - cpu) / np.maximum(np.abs(cpu), 1.0)))


def simulate():
    sim = HeartSteps(participants=50)
    rng = np.random.default_rng(0)
    policies = {
        str(number): sf.policies.Policies(
            sim.participants, Boltzmann(rng.standard_normal((50, 1, 4))), sim.action_names, sim.state_names
        )
        for number in range(2000)
    }
    seconds, there = timed(lambda: sim.run(policies, steps=5000, keep=4000, seed=0, engine="gpu"), 2)
    few = dict(list(policies.items())[:20])
    here = sim.run(few, steps=5000, keep=4000, seed=0)
    difference = max(float(np.max(np.abs(there[name].reward / here[name].reward - 1))) for name in few)
    return seconds, difference


def fit(people, block, results):
    arrays = study_on_device(people)
    for name in ("ro-linucb", "ro-accb", "ro-saccb", "hb-accb"):
        method = sf.method(name)
        # The high-breakdown critic holds more arrays of a block at once.
        size = min(block, people // 8) if name == "hb-accb" else block
        seconds, _ = timed(lambda method=method, size=size: fit_batch(method, arrays, size))
        results[f"{name}_seconds"] = [round(value, 3) for value in seconds]
        print(name, seconds, flush=True)
        differences = compare(method, arrays)
        results["largest_difference_from_numpy" if name == "ro-accb" else f"{name}_difference_from_numpy"] = differences
        print(differences, flush=True)
    results["peak_device_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--block", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(),
        "people": asked.people,
        "decision_points": TUPLES,
        "block": asked.block,
        "versions": {
            "surefoot": sf.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    fit(asked.people, asked.block, results)
    torch.cuda.empty_cache()
    seconds, difference = simulate()
    results["simulate_2000_policies_50_people_5000_steps_seconds"] = [round(value, 3) for value in seconds]
    results["simulation_largest_relative_difference_from_numpy"] = difference
    print(json.dumps(results, indent=2))
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
