"""Coverage of 95 % intervals where outcomes are missing at random, and the shift at which a conclusion changes.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.missing_outcomes 400

Finished data sets are kept in missing_outcomes.jsonl, so that the command continues where it stopped; it ends with the
tables of docs/effects.md.

Participants differ in level (standard deviation 0.5) and response (0.1); x is a state with autocorrelation 0.5. A prompt
changes the outcome by 0.2 + 0.7 x, and part of the last outcome carries over (0.3). With probability
expit(1.2 − A (0.5 + 1.8 x) + 0.4 R₋₁ Y₋₁) the outcome is observed: after a prompt, outcomes with a large
x, where prompts help most, are rarely seen. The average effect, 0.2, needs no moderator, and x is a control. So the model
of complete rows is the right one, but their x is not that of all rows: they are biased. Data are missing at random, because
x, the action and the last observed outcome are known.

Binary outcomes have the chance 0.3 e^(A (0.2 + 0.4 x)), x = −1 or 1, and are observed with probability
expit(1.2 − A (0.5 + 1.8 x)). The average log relative risk is 0.278. These numbers were chosen on other seeds.

For the shift, outcomes are missing completely at random (a quarter, and 40 % after a prompt), and missing outcomes after a
prompt are lower by 1. Observed ones are higher by 0.4 after a prompt, so the average effect is 0.4 − 0.4 · 1 = 0: the curve
must cross zero at a shift of −1.
"""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.special import expit

from surefoot.effects.analysis import Analysis
from surefoot.effects.missing_sensitivity import list_curves
from surefoot.effects.result import fit_analysis

FILE = Path(__file__).with_suffix(".jsonl")
COLUMNS = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": 0.5}
METHODS = ("complete", "weighted", "imputed")
EFFECT = 0.2
SHIFT = -1.0
LAST_SEEN = 0.4


def make_frame(values):
    """Arrays (people, points) as rows."""
    people, points = values["y"].shape
    columns = {"person": np.repeat(np.arange(people), points), "t": np.tile(np.arange(points), people)}
    return pa.table(columns | {name: array.ravel() for name, array in values.items()})


def draw_states(rng, people, points):
    x = rng.standard_normal((people, points))
    for t in range(1, points):
        x[:, t] = 0.5 * x[:, t - 1] + np.sqrt(0.75) * x[:, t]
    return x


def simulate_continuous(seed, people=40, points=30):
    rng = np.random.default_rng([1, seed])
    x = draw_states(rng, people, points)
    sent = rng.integers(0, 2, (people, points))
    level = 0.5 * rng.standard_normal(people)
    response = 0.1 * rng.standard_normal(people)
    noise = rng.standard_normal((people, points))
    uniform = rng.random((people, points))
    y = np.empty((people, points))
    seen = np.empty((people, points), dtype=bool)
    last = np.zeros(people)
    last_seen = np.zeros(people)
    for t in range(points):
        y[:, t] = level + 0.4 * x[:, t] + 0.3 * last + sent[:, t] * (EFFECT + response + 0.7 * x[:, t]) + noise[:, t]
        odds = 1.2 - sent[:, t] * (0.5 + 1.8 * x[:, t]) + LAST_SEEN * last_seen
        seen[:, t] = uniform[:, t] < expit(odds)
        last = y[:, t]
        last_seen = np.where(seen[:, t], y[:, t], 0.0)
    return make_frame({"x": x, "sent": sent, "y": np.where(seen, y, np.nan)})


def simulate_binary(seed, people=40, points=30):
    rng = np.random.default_rng([2, seed])
    x = np.where(rng.random((people, points)) < 0.5, 1.0, -1.0)
    sent = rng.integers(0, 2, (people, points))
    y = (rng.random((people, points)) < 0.3 * np.exp(sent * (0.2 + 0.4 * x))).astype(float)
    seen = rng.random((people, points)) < expit(1.2 - sent * (0.5 + 1.8 * x))
    return make_frame({"x": x, "sent": sent, "y": np.where(seen, y, np.nan)})


BINARY_EFFECT = float(np.log((np.exp(0.6) + np.exp(-0.2)) / 2))


def simulate_shift(seed, people=40, points=30):
    rng = np.random.default_rng([3, seed])
    x = draw_states(rng, people, points)
    sent = rng.integers(0, 2, (people, points))
    seen = rng.random((people, points)) > np.where(sent, 0.4, 0.25)
    y = 0.4 * x + 0.5 * rng.standard_normal((people, 1)) + 0.4 * sent + rng.standard_normal((people, points))
    return make_frame({"x": x, "sent": sent, "y": np.where(seen, y, np.nan)})


SCENES = {
    "continuous": (simulate_continuous, "wcls", EFFECT),
    "binary": (simulate_binary, "emee", BINARY_EFFECT),
}


def run_coverage(scene, seed):
    """Estimate, ends and standard error of every method."""
    simulate, estimator, truth = SCENES[scene]
    frame = simulate(seed)
    record = {"scene": scene, "seed": seed, "truth": truth}
    for method in METHODS:
        analysis = Analysis(**COLUMNS, controls=["x"], missing=method, seed=seed)
        result = fit_analysis(frame, analysis, estimator=estimator, check_draws=False)
        low, high = result.conf_int()[0].tolist()
        record[method] = [float(result.params[0]), low, high, float(result.bse[0])]
    return record


def run_shift(seed):
    """The shift at which the effect is 0, its interval, and the effect where unseen outcomes are as low as they are."""
    analysis = Analysis(**COLUMNS, controls=["x"], missing="imputed", seed=seed)
    curve = list_curves(fit_analysis(simulate_shift(seed), analysis, check_draws=False))[0]
    low, high = curve.crossing_interval
    effect = float(np.interp(SHIFT, curve.shifts, curve.effect))
    return {"scene": "shift", "seed": seed, "crossing": curve.crossing, "low": low, "high": high, "effect": effect}


RUNS = {
    "continuous": partial(run_coverage, "continuous"),
    "binary": partial(run_coverage, "binary"),
    "shift": run_shift,
}


def read_records():
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return [json.loads(line) for line in lines]


def run(replicates):
    """The data sets that are not in the file yet."""
    finished = {(record["scene"], record["seed"]) for record in read_records()}
    with FILE.open("a", encoding="utf-8") as file:
        for seed in range(replicates):
            for scene, simulate in RUNS.items():
                if (scene, seed) not in finished:
                    file.write(json.dumps(simulate(seed)) + "\n")
                    file.flush()


def write_coverage(records):
    lines = ["| outcome | missing outcomes | bias | standard error | its estimate | coverage |", "|---|---|--:|--:|--:|--:|"]
    for scene in SCENES:
        chosen = [record for record in records if record["scene"] == scene]
        for method in METHODS:
            estimate, low, high, error = np.array([record[method] for record in chosen]).T
            truth = chosen[0]["truth"]
            covered = np.mean((low < truth) & (truth < high))
            numbers = f"{estimate.mean() - truth:+.3f} | {estimate.std(ddof=1):.3f} | {error.mean():.3f}".replace("-", "−")
            lines.append(f"| {scene} | {method} | {numbers} | {100 * covered:.1f} % |")
    return "\n".join(lines)


def write_shifts(records):
    chosen = [record for record in records if record["scene"] == "shift"]
    covered = np.mean([record["low"] <= SHIFT <= record["high"] for record in chosen])
    median = np.median([np.nan_to_num(record["crossing"] or np.inf) for record in chosen])
    effect = np.mean([record["effect"] for record in chosen])
    lines = [
        "| data sets | true shift | median crossing | mean effect at the true shift | coverage |",
        "|--:|--:|--:|--:|--:|",
    ]
    numbers = f"{len(chosen)} | {SHIFT:g} | {median:.2f} | {effect:+.3f}".replace("-", "−")
    return "\n".join([*lines, f"| {numbers} | {100 * covered:.1f} % |"])


if __name__ == "__main__":
    run(int(sys.argv[1]))
    print(write_coverage(read_records()))
    print(write_shifts(read_records()))
