"""Standard errors of doubly robust WCLS, divided by those of WCLS, on HeartSteps V1.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.doubly_robust ../shared/heartsteps_v1/suggestions.csv

A minute on one core; docs/effects.md reports the table.
"""

import sys

import numpy as np
from sklearn.linear_model import LinearRegression

import surefoot as sf

LEARNERS = {"forest": "forest", "boosting": "boosting", "least squares": LinearRegression()}


def main(path):
    frame = sf.datasets.heartsteps_v1(path, backend="pandas").frame
    options = {"participant": "participant", "time": "decision", "outcome": "steps", "treatment": "send",
               "probability": 0.6, "available": "available", "numerator": 0.6, "transform": "log(x + 0.5)",
               "missing_as": {"steps": 0, "log_steps_before": float(np.log(0.5))}}  # fmt: skip
    analyses = {
        "average": {"controls": ["log_steps_before"]},
        "by day": {"controls": ["log_steps_before", "day"], "moderators": ["day"]},
    }
    print("| learner | average | day 0 | per day |\n|---|--:|--:|--:|")
    for name, learner in LEARNERS.items():
        ratios = []
        for analysis in analyses.values():
            plain = sf.effects.wcls(frame, **options, **analysis)
            learned = sf.effects.excursion_effect(frame, estimator="dr-wcls", learner=learner, **options, **analysis)
            ratios += (learned.bse / plain.bse).tolist()
        print(f"| {name} | {' | '.join(f'{ratio:.4f}' for ratio in ratios)} |")


if __name__ == "__main__":
    main(sys.argv[1])
