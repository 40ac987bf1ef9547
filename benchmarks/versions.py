"""Two versions of the package in one interleaved run: `python -m benchmarks.versions OLD_SRC NEW_SRC [--out FILE]`.

Each version runs in a process of its own that stays alive; the two take turns, case by case, so that a busy moment of the
machine hits both. Printed is new time / old time by the wall clock and by the processor's, the median over rounds with its
quartiles; on a machine that others use too, the processor's is the one to read. Only names that both versions have are used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 15
CLOCKS = ("wall", "processor")
WORKER = """
import sys, time, numpy as np, surefoot as sf
rng = np.random.default_rng(0)
people, points = 1000, 210
simulator = sf.simulators.HeartSteps(people)
logs = simulator.collect(sf.policies.coin(2), decision_points=points, seed=0)
fitted = sf.method("ro-accb").fit(logs)
few = sf.simulators.HeartSteps(50)
policy, one = fitted.policies_[3], [0.1, -0.4, 0.9]
cases = {
    "fit ro-accb": lambda: sf.method("ro-accb").fit(logs),
    "fit ro-linucb": lambda: sf.method("ro-linucb").fit(logs),
    "fit ro-saccb": lambda: sf.method("ro-saccb").fit(logs),
    "fit hb-accb": lambda: sf.method("hb-accb").fit(logs),
    "fit accb, pooled": lambda: sf.method("accb", pooling="all").fit(logs),
    "decide 10,000 times": lambda: [policy.decide(one) for _ in range(10_000)],
    "simulate 50 x 2,000": lambda: few.run({"it": sf.policies.coin(2)}, steps=2000, keep=1000, seed=1),
}
print("|".join(cases), flush=True)
for line in sys.stdin:
    wall, processor = time.perf_counter(), time.process_time()
    cases[line.strip()]()
    print(time.perf_counter() - wall, time.process_time() - processor, flush=True)
"""


class Version:
    """A process that imports one version of the package and times cases on request."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-c", WORKER]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)
        self.cases = self.process.stdout.readline().strip().split("|")

    def time_case(self, case: str) -> dict[str, float]:
        """Seconds by each clock."""
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return dict(zip(CLOCKS, map(float, self.process.stdout.readline().split()), strict=True))


def compare_versions(old: Path, new: Path, rounds: int = ROUNDS) -> dict[str, dict[str, dict[str, float]]]:
    """Ratio new / old of every case by each clock: quartiles over rounds, the first of which only warms up."""
    versions = [Version(old), Version(new)]
    ratios: dict[str, dict[str, list[float]]] = {case: {clock: [] for clock in CLOCKS} for case in versions[0].cases}
    for number in range(rounds + 1):
        for case, found in ratios.items():
            # Whoever goes first meets a colder cache.
            order = versions if number % 2 else versions[::-1]
            times = {version: version.time_case(case) for version in order}
            for clock in CLOCKS if number else ():
                found[clock].append(times[versions[1]][clock] / times[versions[0]][clock])
    return {case: {clock: _quartiles(taken) for clock, taken in found.items()} for case, found in ratios.items()}


def _quartiles(values: list[float]) -> dict[str, float]:
    return dict(zip(("low", "median", "high"), statistics.quantiles(values, n=4), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    found = compare_versions(given.old, given.new, given.rounds)
    for case, ratios in found.items():
        texts = (f"{clock} {r['median']:6.3f} ({r['low']:.3f} to {r['high']:.3f})" for clock, r in ratios.items())
        print(f"{case:<24}" + "   ".join(texts))
    if given.out:
        given.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
