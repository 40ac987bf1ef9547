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
from surefoot.experiments.coefficient_errors import (
    CRITICS,
    SCENARIOS,
    Scene,
    collect_logs,
    draw_errors,
    log_normal_logs,
    measure_errors,
    measure_oracle,
    measure_peers,
    run_scenes,
    skewed_rewards,
    summarise_errors,
)
from surefoot.numerics.fences import SKEWNESS_DEVIATION, SKEWNESS_Z, WINDOW, medcouple
from surefoot.numerics.masked_quantiles import scaled_mad
from surefoot.policies.features import critic_features
from surefoot.reports import figures
from surefoot.reports.render import save_svg
from surefoot.simulators.measures import long_run_average_reward

ROOT = Path(__file__).resolve().parent.parent
SHARES = (0.04, 0.1, 0.15, 0.2, 0.25, 0.3)
FIGURE_SCENARIOS = (
    Scene("clean"),
    *(Scene(mechanism, ratio) for mechanism in ("sensor", "prompted", "careless") for ratio in SHARES),
)
CHAIN_METHODS = ("accb", "filter-accb", "ro-accb", "hb-linucb", "hb-accb", "hb-saccb")


def coefficient_errors(scenarios, *, replicates, **sizes):
    """The rows of S5."""
    parameters = {"seed": 2025, **sizes}
    return summarise_errors(
        [row for number in range(replicates) for row in run_scenes(number, parameters, scenarios, measure_peers)]
    )


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
    clean, outliers = collect_logs(people, 0, seed)
    for scenario in SCENARIOS:
        logs, touched = scenario.contaminate(clean, outliers)
        oracle = np.mean(measure_oracle(logs, touched))
        found[scenario.data] = {
            "oracle": 1.0,
            "surefoot high-breakdown": np.mean(measure_errors(logs, "high-breakdown")) / oracle,
        }
        for name, coef in _fit_with_robustbase(script, logs).items():
            error = np.linalg.norm(coef - sf.simulators.HeartSteps.critic_coef, axis=1).mean()
            found[scenario.data][name] = error / oracle
    return found


def _fit_with_robustbase(script, logs):
    with tempfile.TemporaryDirectory() as folder:
        problems, coefficients = Path(folder, "problems.csv"), Path(folder, "coefficients.csv")
        people = len(logs.participants)
        features = critic_features(logs.state, logs.action, 2)[logs.order]
        table = np.column_stack([logs.participant_index[logs.order], logs.outcome[logs.order], features])
        header = ",".join(["participant", "reward", *(f"x{j}" for j in range(features.shape[1]))])
        np.savetxt(problems, table, delimiter=",", header=header, comments="", fmt="%.17g")
        subprocess.run([script, str(ROOT / "benchmarks" / "robustbase.R"), problems, coefficients], check=True)
        fits = {}
        with coefficients.open() as file:
            for row in csv.DictReader(file):
                fits.setdefault(row["method"], {})[int(row["participant"])] = [float(v) for v in list(row.values())[2:]]
    return {name: np.array([fit[participant] for participant in range(people)]) for name, fit in fits.items()}


def measure_skewness(logs):
    """Everybody's medcouple of all residuals, and the skewness of those kept and near the centre, in standard errors."""
    fitted = CRITICS["high-breakdown"]().fit(logs)
    rows = logs.order.reshape(len(logs.participants), -1)
    residuals = fitted.residuals_[rows]
    kept = fitted.weights_[rows] > 0
    z = residuals / scaled_mad(residuals, kept, np.zeros(len(residuals)))[:, None]
    core = np.ma.masked_array(z, ~(kept & (np.abs(z) < WINDOW)))
    off = core - core.mean(axis=1)[:, None]
    moment = (off**3).mean(axis=1) / (off**2).mean(axis=1) ** 1.5
    medcouples = np.array([medcouple(row) for row in residuals])
    return medcouples, np.asarray(moment * np.sqrt(core.count(axis=1)) / SKEWNESS_DEVIATION)


def skewness_figure(participants=200, seed=2025):
    """Which measure of skewness tells skewed rewards from artefacts: each participant's value under three kinds of data."""
    clean, outliers = collect_logs(participants, 0, seed)
    cases = {
        "clean": measure_skewness(clean),
        "prompted 20 %": measure_skewness(Scene("prompted", 0.2).contaminate(clean, outliers)[0]),
        "log-normal": measure_skewness(log_normal_logs(clean, seed)),
    }
    figure, axes = figures.new_figure(1, 2, width=11, height=3.6)
    titles = ("medcouple of all residuals", "skewness of the kept residuals within 2.5 scales (in its standard errors)")
    for which, (panel, title) in enumerate(zip(axes, titles, strict=True)):
        values = [case[which] for case in cases.values()]
        bins = np.linspace(min(map(np.min, values)), max(map(np.max, values)), 40)
        for (name, case), colour in zip(cases.items(), (figures.GREY, figures.ORANGE, figures.BLUE), strict=True):
            panel.hist(case[which], bins=bins, alpha=0.6, color=colour, label=name)
        figures.label_axes(panel, x=title, y="people")
    axes[1].axvline(SKEWNESS_Z, color=figures.INK, linewidth=1)
    position = ((SKEWNESS_Z, 0.97), (4, 0), ("data", "axes fraction"), "offset points")
    axes[1].annotate("taken as skewed", *position, va="top", color=figures.INK)
    figures.add_legend(figure, axes[0], columns=3)
    return figure


def main():
    table = coefficient_errors(SCENARIOS, replicates=5, participants=200, peer_participants=40)
    for row in table:
        print(f"{row['data']}, {row['critic']}: {row['relative']:.3f} (to oracle {row['to_oracle']:.3f})")
    skewed = skewed_rewards()
    for row in skewed:
        print(row)
    chain = chain_walk()
    print(chain)
    results = {
        "coefficient_errors": table,
        "skewed_rewards": skewed,
        "chain_walk_elrar": chain,
        "robustbase_to_oracle": robustbase(),
    }
    path = ROOT / "benchmarks" / "robustness.json"
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    curves = coefficient_errors(FIGURE_SCENARIOS, replicates=2, participants=100, peer_participants=20)
    save_svg(
        draw_errors(curves, (1, 3), 11, 4.2), ROOT / "docs" / "robustness-errors.svg", "Coefficient error by share touched"
    )
    save_svg(skewness_figure(), ROOT / "docs" / "robustness-skewness.svg", "Two measures of skewness")


if __name__ == "__main__":
    main()
