"""Coverage of the bands of the effect over study days, in simulated trials with a known curve.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.day_curve

A quarter of an hour on one core; docs/effects.md reports the table. Finished trials are in benchmarks/day_curve.jsonl.
"""

import json
import pathlib

import numpy as np
import pyarrow as pa

from surefoot.effects.analysis import Analysis
from surefoot.effects.day_curve import fit_curve
from surefoot.effects.result import fit_analysis

LOG = pathlib.Path(__file__).with_suffix(".jsonl")
TRIALS = 200
DAYS = 42
CURVES = {
    "fades": lambda day: 0.6 * np.exp(-day / 10),
    "rises and falls": lambda day: 0.4 * np.sin(np.pi * day / DAYS),
}
ANALYSIS = Analysis(participant="person", time="t", outcome="y", treatment="sent", probability=0.5, controls=["x"])


def make_trial(rng, people, curve):
    """Two decision points a day; people differ in level and response, noise is autocorrelated."""
    shape = (people, 2 * DAYS)
    day = np.broadcast_to(np.repeat(np.arange(DAYS), 2), shape)
    sent = rng.integers(0, 2, shape)
    level, response = rng.normal(size=(2, people, 1))
    x, noise = rng.normal(size=(2, *shape))
    for t in range(1, shape[1]):
        noise[:, t] = 0.4 * noise[:, t - 1] + np.sqrt(1 - 0.16) * noise[:, t]
    y = level + 0.5 * x - 0.01 * day + sent * (curve(day) + 0.3 * response) + noise
    times = np.broadcast_to(np.arange(shape[1]), shape)
    person = np.repeat(np.arange(people), shape[1])
    values = {"t": times, "day": day.astype(float), "sent": sent, "x": x, "y": y}
    return pa.table({"person": person} | {name: array.ravel() for name, array in values.items()})


def run(name, people, knots, seed):
    """The share of days whose pointwise interval covers, and whether the simultaneous band covers all of them."""
    frame = make_trial(np.random.default_rng([seed, people]), people, CURVES[name])
    band = fit_curve(lambda analysis: fit_analysis(frame, analysis, check_draws=False), ANALYSIS, "day", knots=knots)
    truth = CURVES[name](band.values)
    pointwise = (band.low <= truth) & (truth <= band.high)
    together = ((band.simultaneous_low <= truth) & (truth <= band.simultaneous_high)).all()
    return {"curve": name, "people": people, "knots": knots, "seed": seed,
            "pointwise": float(pointwise.mean()), "simultaneous": bool(together)}  # fmt: skip


def main():
    lines = LOG.read_text().splitlines() if LOG.exists() else []
    records = [json.loads(line) for line in lines]
    scenes = [(name, people, knots) for name in CURVES for people in (25, 40) for knots in (0, 2)]
    finished = {tuple(record[key] for key in ("curve", "people", "knots", "seed")) for record in records}
    with LOG.open("a") as log:
        for seed in range(TRIALS):
            for scene in scenes:
                if (*scene, seed) not in finished:
                    records.append(run(*scene, seed))
                    log.write(json.dumps(records[-1]) + "\n")
                    log.flush()
    print("| true curve | people | knots | trials | pointwise, mean over days | simultaneous |\n|---|--:|--:|--:|--:|--:|")
    for scene in scenes:
        rows = [record for record in records if tuple(record[key] for key in ("curve", "people", "knots")) == scene]
        shares = [100 * np.mean([row[key] for row in rows]) for key in ("pointwise", "simultaneous")]
        print(f"| {' | '.join(map(str, scene))} | {len(rows)} | {shares[0]:.1f} % | {shares[1]:.1f} % |")


if __name__ == "__main__":
    main()
