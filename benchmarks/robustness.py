"""S5 in full: what docs/robustness.md reports, and its figures.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/robustness.py

Takes a few minutes; writes benchmarks/robustness.json and the figures in docs/.
"""

import json
from pathlib import Path

import surefoot as sf
from surefoot.experiments.s5 import coefficient_errors, skewed_rewards
from surefoot.experiments.s5_figures import FIGURE_SCENARIOS, errors_figure, skewness_figure
from surefoot.simulators.measures import long_run_average_reward

ROOT = Path(__file__).resolve().parent.parent
CHAIN_METHODS = ("accb", "filter-accb", "ro-accb", "hb-linucb", "hb-accb", "hb-saccb")


def chain_walk(seeds=5):
    """ElrAR on the chain walk at ψ = 20 %, ν = 10, `sensor`: the mean over seeds of 50 chains each."""
    simulator, totals = sf.simulators.ChainWalk(participants=50), dict.fromkeys(CHAIN_METHODS, 0.0)
    for seed in range(seeds):
        logs = simulator.collect(sf.policies.coin(2), decision_points=210, seed=seed)
        dirty = sf.simulators.contaminate(logs, mechanism="sensor", ratio=0.2, strength=10, seed=100 + seed).logs
        fitted = {name: sf.method(name).fit(dirty).policies_ for name in CHAIN_METHODS}
        for name, found in long_run_average_reward(simulator, fitted, seed=200 + seed).items():
            totals[name] += found.mean / seeds
    return totals


def main():
    table = coefficient_errors()
    print(table.to_markdown(), *table.notes, sep="\n")
    skewed = skewed_rewards()
    for row in skewed:
        print(row)
    chain = chain_walk()
    print(chain)
    results = {
        "coefficient_errors": table.to_frame("pyarrow").to_pylist(),
        "notes": table.notes,
        "skewed_rewards": [row._asdict() for row in skewed],
        "chain_walk_elrar": chain,
    }
    path = ROOT / "benchmarks" / "robustness.json"
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    curves = coefficient_errors(FIGURE_SCENARIOS, participants=100, seeds=2, peer_participants=20)
    errors_figure(curves).savefig(ROOT / "docs" / "robustness-errors.png", dpi=110)
    skewness_figure().savefig(ROOT / "docs" / "robustness-skewness.png", dpi=110)


if __name__ == "__main__":
    main()
