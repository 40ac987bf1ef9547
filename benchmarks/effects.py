"""Do the intervals and tests of `surefoot.effects` hold what they promise, and how fast is it?

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.effects

A few minutes on one core (name a part, such as `coverage`, to measure only that); writes benchmarks/effects.json, which
docs/effects.md reports. Trials have people who differ (in
level and in how they respond), noise that remembers, availability, and probabilities that depend on the past.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import surefoot as sf

REPLICATES = 2000
POINTS = 30
COLUMNS = {"participant": "person", "time": "t", "treatment": "sent", "probability": "p", "probability_of": "sending",
           "available": "available"}  # fmt: skip
CONTROLS = ["x", "home", "day"]


def simulate(rng, replicates, people, *, points=POINTS, effect=0.3, by_home=0.4, effect_sd=0.3):
    """Arrays (replicates, people, points). Effect on y: `effect` + `by_home` (home − ½); on log P(b = 1): half of that."""
    shape = replicates, people, points
    home = (rng.random(shape) < 0.5).astype(float)
    level, own = (sd * rng.normal(size=(*shape[:2], 1)) for sd in (0.7, effect_sd))
    shocks, noise = rng.normal(size=shape), np.empty(shape)
    x, sent, p = np.empty(shape), np.empty(shape), np.empty(shape)
    available = (rng.random(shape) < 0.8).astype(float)
    drawn, moved = rng.random(shape), rng.normal(size=shape)
    for t in range(points):
        before = (sent[..., t - 1] - 0.5, x[..., t - 1], noise[..., t - 1]) if t else (0.0, 0.0, 0.0)
        x[..., t] = 0.4 * before[1] + 0.2 * before[0] + moved[..., t]
        p[..., t] = np.clip(1 / (1 + np.exp(-0.6 * x[..., t] - 0.4 * before[0])), 0.2, 0.8)
        sent[..., t] = (drawn[..., t] < p[..., t]) * available[..., t]
        noise[..., t] = 0.5 * before[2] + shocks[..., t]
    change = effect + by_home * (home - 0.5)
    y = 0.8 * x + 0.4 * home + level + sent * (change + own) + noise
    risk = np.minimum(0.25 * np.exp(0.1 * np.tanh(x) + sent * change / 2), 1.0)
    b = (rng.random(shape) < risk).astype(float)
    distal = y.mean(axis=2, keepdims=True) + rng.normal(size=(*shape[:2], 1)) * 0.3
    day = np.broadcast_to(np.arange(points) // 5 - 2.5, shape)
    return {"x": x, "home": home, "day": day, "available": available, "p": p, "sent": sent, "y": y, "b": b,
            "distal": np.broadcast_to(distal, shape)}  # fmt: skip


def tables(trials):
    """One Arrow table for each replicate."""
    replicates, people, points = trials["y"].shape
    person, t = np.repeat(np.arange(people), points), np.tile(np.arange(points), people)
    for k in range(replicates):
        yield pa.table(
            {"person": person, "t": t, **{name: np.ascontiguousarray(v[k]).ravel() for name, v in trials.items()}}
        )


def batches(replicates, size=250):
    return [size] * (replicates // size) + ([replicates % size] if replicates % size else [])


def covers(result, truth):
    low, high = result.conf_int()[0]
    return low <= truth <= high


def coverage(people, replicates=REPLICATES, seed=10):
    """Shares of 95 % intervals that hold the true effect: on average, at home, as log relative risk."""
    rng, found = np.random.default_rng([seed, people]), []
    for size in batches(replicates):
        for table in tables(simulate(rng, size, people)):
            average = sf.effects.wcls(table, outcome="y", controls=["x"], **COLUMNS)
            by_home = sf.effects.wcls(table, outcome="y", moderators=["home"], controls=["x", "home"], **COLUMNS)
            risk = sf.effects.emee(table, outcome="b", moderators=["home"], controls=["x", "home"], **COLUMNS)
            found.append((
                covers(average, 0.3),
                covers(by_home.effect_at({"home": 1}), 0.5),
                covers(risk.effect_at({"home": 1}), 0.25),
            ))  # fmt: skip
    return dict(zip(("average", "at home", "relative risk at home"), np.mean(found, axis=0).tolist(), strict=True))


def type_one_errors(people, replicates=REPLICATES, seed=11):
    """Shares of p-values below 0.05 where treatment does nothing on average: single tests, and several together.

    The last two are of a model with seven coefficients, which is much for 20 people.
    """
    rng, found = np.random.default_rng([seed, people]), []
    for size in batches(replicates):
        for table in tables(simulate(rng, size, people, effect=0.0, by_home=0.0)):
            average = sf.effects.wcls(table, outcome="y", controls=["x"], **COLUMNS)
            by_home = sf.effects.wcls(table, outcome="y", moderators=["home"], controls=["home"], **COLUMNS)
            by_both = sf.effects.wcls(table, outcome="y", moderators=["home", "day"], controls=CONTROLS, **COLUMNS)
            small = (average.pvalues[0], by_home.pvalues[1], by_home.joint_test().pvalue)
            found.append((*small, by_both.pvalues[1], by_both.joint_test().pvalue))
    large = ("moderator, seven coefficients", "three together, seven coefficients")
    names = ("average", "moderator", "two together", *large)
    return dict(zip(names, (np.array(found) < 0.05).mean(axis=0).tolist(), strict=True))


def distal_coverage(people, replicates=REPLICATES, seed=12):
    """Of the distal effect, whose truth is the mean of many estimates; plain as published, and corrected."""
    rng, estimates, halves = np.random.default_rng([seed, people]), [], []
    for size in batches(replicates):
        for table in tables(simulate(rng, size, people, effect_sd=0.0)):
            result = sf.effects.dcee(table, outcome="distal", controls=CONTROLS, **COLUMNS)
            low, high = result.conf_int()[0]
            wider = np.sqrt(result.cov_params(corrected=True)[0, 0]) / result.bse[0]
            estimates.append(result.params[0])
            halves.append(((high - low) / 2, (high - low) / 2 * wider))
    away = np.abs(np.array(estimates) - np.mean(estimates))[:, None]
    return dict(zip(("plain", "corrected"), (away <= np.array(halves)).mean(axis=0).tolist(), strict=True))


def after_bandit(people=37, replicates=REPLICATES, weeks=6, per_week=14, seed=13):
    """Coverage after `saccb` learned one policy for all, anew every week: of the contrast, and of the mean outcome.

    Every replicate stands as one participant of the learner: its policy is then learned from all of the replicate's rows,
    and those of all replicates in one call.
    """
    rng, shape = np.random.default_rng(seed), (replicates, people, weeks * per_week)
    x, level = rng.normal(size=shape), 0.5 * rng.normal(size=(*shape[:2], 1))
    noise, drawn = rng.normal(size=shape), rng.random(shape)
    p, sent = np.full(shape, 0.5), np.empty(shape)
    y = np.empty(shape)
    for week in range(weeks):
        now, past = slice(week * per_week, (week + 1) * per_week), slice(0, week * per_week)
        if week:
            p[..., now] = _learned(x[..., past], sent[..., past], y[..., past], p[..., past], x[..., now])
        sent[..., now] = drawn[..., now] < p[..., now]
        y[..., now] = 0.5 * x[..., now] + level + sent[..., now] * (0.2 + 0.4 * x[..., now]) + noise[..., now]
    found, share, means = [], [], []
    for table in tables({"x": x, "sent": sent, "p": p, "y": y}):
        asked = {**COLUMNS, "available": None, "outcome": "y"}
        average = sf.effects.wcls(table, controls=["x"], **asked)
        by_x = sf.effects.wcls(table, moderators=["x"], controls=["x"], **asked)
        found.append((covers(average, 0.2), covers(by_x.t_test([0, 1]), 0.4)))
        weight = average.points.weight
        share.append(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))
        own = table["y"].to_numpy().reshape(people, -1).mean(axis=1)
        means.append((own.mean(), own.std(ddof=1) / np.sqrt(people)))
    middle, error = np.array(means).T
    held = np.abs(middle - middle.mean()) <= 2.028 * error
    contrast, moderated = np.mean(found, axis=0).tolist()
    return {"contrast": contrast, "moderator": moderated, "mean outcome": float(held.mean()),
            "effective share": float(np.mean(share)), "largest probability": float(p.max())}  # fmt: skip


def _learned(x, sent, y, p, new):
    replicates = len(x)
    who = np.repeat(np.arange(replicates), x[0].size)
    table = pa.table({"r": who, "t": np.tile(np.arange(x[0].size), replicates), "x": x.ravel(), "a": sent.ravel(),
                      "y": y.ravel(), "p": np.where(sent == 1, p, 1 - p).ravel()})  # fmt: skip
    logs = sf.Trajectories.from_frame(table, participant="r", time="t", state=["x"], action="a", outcome="y",
                                      probability="p", probability_of="action taken")  # fmt: skip
    learned = sf.method("saccb").fit(logs).policies_
    sends = learned.probabilities(np.repeat(np.arange(replicates), new[0].size), new.reshape(-1, 1))[:, 1]
    return np.clip(sends, 0.1, 0.9).reshape(new.shape)


def processor_seconds(people=10_000, points=210, repeats=2):
    """Time of one core for 10,000 people × 210 rows in any order, text ids, two moderators, three controls; best of two.

    Processor time, so that what else the machine does counts less; idle, it is the time on the clock.
    """
    rng = np.random.default_rng(4)
    trial = next(tables(simulate(rng, 1, people, points=points)))
    ids = pa.array([f"P{k:05d}" for k in range(people)]).take(trial["person"].combine_chunks())
    trial = trial.set_column(0, "person", ids).take(pa.array(rng.permutation(len(trial))))
    asked = {**COLUMNS, "moderators": ["home", "day"], "controls": CONTROLS}
    found = {}
    for name, outcome in (("wcls", "y"), ("emee", "b"), ("emee2", "b"), ("dcee", "distal")):
        times = []
        for _ in range(repeats):
            start = time.process_time()
            sf.effects.excursion_effect(trial, estimator=name, outcome=outcome, **asked)
            times.append(time.process_time() - start)
        found[name] = min(times)
    return found


def markdown(results):
    """The tables and sentences of docs/effects.md, by name."""

    def table(part, first):
        columns = list(next(iter(part.values())))
        rows = [
            f"| {n} | " + " | ".join(f"{100 * shares[name]:.1f} %" for name in columns) + " |" for n, shares in part.items()
        ]
        return "\n".join([f"| {first} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *rows])

    bandit = results["after_bandit"]
    speed = ", ".join(
        f"`{name}` {value:.1f} s" for name, value in results["processor_seconds_10000_people_210_rows"].items()
    )
    return {
        "coverage": table(results["coverage"], "people"),
        "type_one_error": table(results["type_one_error"], "people"),
        "distal_coverage": table(results["distal_coverage"], "people"),
        "after_bandit": f"{100 * bandit['contrast']:.1f} % of 2,000 simulated trials (37 people, 6 weeks; effective share "
        f"{100 * bandit['effective share']:.0f} %)",
        "speed": f"{speed}.",
    }


PARTS = {
    "processor_seconds_10000_people_210_rows": processor_seconds,
    "coverage": lambda: {str(n): coverage(n) for n in (10, 15, 20, 25, 37, 50)},
    "type_one_error": lambda: {str(n): type_one_errors(n) for n in (20, 37, 100)},
    "distal_coverage": lambda: {str(n): distal_coverage(n) for n in (20, 37)},
    "after_bandit": after_bandit,
}


def main():
    """Measure the parts that are named, or all; the others stay as they were."""
    path = Path(__file__).with_suffix(".json")
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results |= {"replicates": REPLICATES, "decision_points": POINTS}
    for part in sys.argv[1:] or PARTS:
        results[part] = PARTS[part]()
        print(part, json.dumps(results[part]), flush=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
