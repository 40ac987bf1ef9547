"""Standard errors of doubly robust WCLS, divided by those of WCLS, on HeartSteps V1 and on the reference trial.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.doubly_robust ../shared/heartsteps_v1/suggestions.csv \
        ../shared/excursion/trial.csv

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.doubly_robust coverage

A minute on one core, and four for the coverage in simulated trials; docs/effects.md reports the tables.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import surefoot as sf

TRIALS = 500
TREE = DecisionTreeRegressor(min_samples_leaf=20, random_state=0)
LEARNERS = {"forest": "forest", "boosting": "boosting", "least squares": LinearRegression()}


def list_analyses(heartsteps, trial):
    """Pairs of a frame and the options of an analysis, with the names of its coefficients."""
    frame = sf.datasets.heartsteps_v1(heartsteps, backend="pandas").frame
    options = {"participant": "participant", "time": "decision", "outcome": "steps", "treatment": "send",
               "probability": 0.6, "available": "available", "numerator": 0.6, "transform": "log(x + 0.5)",
               "missing_as": {"steps": 0, "log_steps_before": float(np.log(0.5))}}  # fmt: skip
    yield frame, options | {"controls": ["log_steps_before"]}, ["HeartSteps: average"]
    by_day = options | {"controls": ["log_steps_before", "day"], "moderators": ["day"]}
    yield frame, by_day, ["HeartSteps: day 0", "HeartSteps: per day"]
    frame = pd.read_csv(trial)
    options = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p",
               "probability_of": "sending", "available": "available"}  # fmt: skip
    yield frame, options | {"controls": ["x", "home"]}, ["trial: average"]
    yield frame, options | {"controls": ["x", "home"], "moderators": ["home"]}, ["trial: elsewhere", "trial: home"]


def make_trial(rng, people, bend, points=20):
    """An effect of 0.3 that varies between people; the outcome bends in x, which a straight line cannot follow."""
    x = rng.normal(size=(people, points))
    p = 1 / (1 + np.exp(-0.5 * x))
    sent = (rng.random(x.shape) < p).astype(float)
    level, response = rng.normal(size=(2, people, 1))
    y = x + bend * np.cos(2 * x) + level + sent * (0.3 + 0.3 * response) + rng.normal(size=x.shape)
    values = {"person": np.repeat(np.arange(people), points), "t": np.tile(np.arange(points), people)}
    return pd.DataFrame(values | {"x": x.ravel(), "p": p.ravel(), "sent": sent.ravel(), "y": y.ravel()})


def cover():
    """Shares of 95 % intervals that contain the effect, and ratios of standard errors, in simulated trials."""
    options = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p",
               "probability_of": "sending", "controls": ["x"]}  # fmt: skip
    print("| people | bend | WCLS | doubly robust | ratio of standard errors, mean | largest |\n|--:|--:|--:|--:|--:|--:|")
    for people in (20, 37):
        for bend in (0, 2):
            covered = {"wcls": 0, "dr-wcls": 0}
            ratios = []
            for seed in range(TRIALS):
                frame = make_trial(np.random.default_rng([seed, people, bend]), people, bend)
                results = {"wcls": sf.effects.wcls(frame, **options)}
                results["dr-wcls"] = sf.effects.excursion_effect(frame, estimator="dr-wcls", learner=TREE, **options)
                for name, result in results.items():
                    low, high = result.conf_int()[0]
                    covered[name] += low < 0.3 < high
                ratios.append(results["dr-wcls"].bse[0] / results["wcls"].bse[0])
            shares = " | ".join(f"{100 * count / TRIALS:.1f} %" for count in covered.values())
            print(f"| {people} | {bend} | {shares} | {np.mean(ratios):.3f} | {np.max(ratios):.4f} |", flush=True)


def main(heartsteps, trial):
    analyses = list(list_analyses(heartsteps, trial))
    names = [name for *_, coefficients in analyses for name in coefficients]
    print(f"| learner | {' | '.join(names)} |\n|---{'|--:' * len(names)}|")
    for learner_name, learner in LEARNERS.items():
        ratios = []
        for frame, options, _ in analyses:
            plain = sf.effects.wcls(frame, **options)
            learned = sf.effects.excursion_effect(frame, estimator="dr-wcls", learner=learner, **options)
            ratios += (learned.bse / plain.bse).tolist()
        print(f"| {learner_name} | {' | '.join(f'{ratio:.4f}' for ratio in ratios)} |", flush=True)


if __name__ == "__main__":
    cover() if sys.argv[1:] == ["coverage"] else main(*sys.argv[1:])
