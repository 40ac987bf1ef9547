"""S5 in full: what docs/robustness.md reports, and its figures.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/robustness.py

Takes a few minutes; writes benchmarks/robustness.json and the figures in docs/. Where `Rscript` and R's robustbase are
installed, its critics are measured beside ours (60 people × 210 decision points).
"""

import csv
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.experiments.s5 import FITTERS, SCENARIOS, coefficient_errors, make_problems, skewed_rewards
from surefoot.experiments.s5_figures import FIGURE_SCENARIOS, errors_figure, skewness_figure
from surefoot.reports.render import save_svg
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


def robustbase(people=60, seed=2026):
    """Mean coefficient error over the oracle's, ours and robustbase's on the same data; None without R."""
    script = shutil.which("Rscript")
    if script is None or subprocess.run([script, "-e", "library(robustbase)"], capture_output=True, check=False).returncode:
        return None
    found = {}
    for place, _, problem in make_problems(SCENARIOS, participants=people, seeds=1, seed=seed):
        coefs = {"oracle": FITTERS["oracle"](problem), "surefoot high-breakdown": FITTERS["high-breakdown"](problem)}
        coefs |= _fit_with_robustbase(script, problem)
        errors = {
            name: np.linalg.norm(coef - sf.simulators.HeartSteps.critic_coef, axis=1).mean() for name, coef in coefs.items()
        }
        found[str(SCENARIOS[place])] = {name: error / errors["oracle"] for name, error in errors.items()}
    return found


def _fit_with_robustbase(script, problem):
    with tempfile.TemporaryDirectory() as folder:
        problems, coefficients = Path(folder, "problems.csv"), Path(folder, "coefficients.csv")
        people, points, features = problem.features.shape
        table = np.column_stack(
            [np.repeat(np.arange(people), points), problem.reward.ravel(), problem.features.reshape(-1, features)]
        )
        header = ",".join(["participant", "reward", *(f"x{j}" for j in range(features))])
        np.savetxt(problems, table, delimiter=",", header=header, comments="", fmt="%.17g")
        subprocess.run([script, str(ROOT / "benchmarks" / "robustbase.R"), problems, coefficients], check=True)
        fits = {}
        with coefficients.open() as file:
            for row in csv.DictReader(file):
                fits.setdefault(row["method"], {})[int(row["participant"])] = [float(v) for v in list(row.values())[2:]]
    return {name: np.array([fit[participant] for participant in range(people)]) for name, fit in fits.items()}


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
        "robustbase_to_oracle": robustbase(),
    }
    path = ROOT / "benchmarks" / "robustness.json"
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    curves = coefficient_errors(FIGURE_SCENARIOS, participants=100, seeds=2, peer_participants=20)
    save_svg(errors_figure(curves), ROOT / "docs" / "robustness-errors.svg", "Coefficient error by share touched")
    save_svg(skewness_figure(), ROOT / "docs" / "robustness-skewness.svg", "Two measures of skewness")


if __name__ == "__main__":
    main()
