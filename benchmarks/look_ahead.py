"""Looking ahead: its time beside the immediate horizon, and how right the long-run value from logs is.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.look_ahead

Takes some minutes; writes benchmarks/look_ahead.json.
"""

import json
import os
import time
import warnings
from pathlib import Path

import numpy as np

import surefoot as sf
from benchmarks.measuring import study
from surefoot.evaluation import evaluate
from surefoot.evaluation.cross_fitting import assign_folds, fit_without_folds
from surefoot.evaluation.long_run import LongRunLogs, value_long_run

STUDIES, PEOPLE, POINTS = 100, 50, 210
SEED = 70_000


def measure_time(rounds=7):
    """Seconds of one processor for a fit with either horizon, the shortest of several that take turns."""
    os.environ["SUREFOOT_THREADS"] = "1"
    found = []
    for people in (50, 300):
        logs, _ = study(people, ratio=0.1, mechanism="sensor")
        for name in ("ahead", "ro-ahead", "hb-ahead"):
            for pooling in ("all", "person"):
                taken = {"immediate": [], "long-run": []}
                for _ in range(rounds):
                    for horizon, seconds in taken.items():
                        start = time.process_time()
                        sf.method(name, pooling=pooling, horizon=horizon).fit(logs)
                        seconds.append(time.process_time() - start)
                milliseconds = {horizon: 1000 * min(seconds) for horizon, seconds in taken.items()}
                ratio = milliseconds["long-run"] / milliseconds["immediate"]
                found.append({"method": name, "pooling": pooling, "people": people, **milliseconds, "ratio": ratio})
                print(found[-1])
    return found


def long_run_truth():
    """What the reference policies earn, from a long simulation."""
    simulator = sf.simulators.HeartSteps(participants=1000)
    runs = simulator.run(sf.simulators.reference_policies(simulator), steps=4000, keep=3500, seed=SEED)
    return {name: float(run.reward.mean()) for name, run in runs.items()}


def measure_values():
    """Bias and coverage of the long-run value over studies, and how far off the immediate value is."""
    simulator, truth = sf.simulators.HeartSteps(participants=PEOPLE), long_run_truth()
    references = sf.simulators.reference_policies(simulator)
    errors = {name: [] for name in (*references, "ahead, cross-fitted")}
    for number in range(STUDIES):
        logs = simulator.collect(sf.policies.coin(2), decision_points=POINTS, seed=SEED + 1 + number)
        data = LongRunLogs.of_logs(logs, sf.method("ahead").make_critic())
        decisions = {name: policy.probabilities(logs.state[data.following]) for name, policy in references.items()}
        decisions["ahead, cross-fitted"], earned = cross_fit(logs, data, number)
        true = {**truth, "ahead, cross-fitted": truth["never"] + earned}
        immediate = evaluate(logs, {"coin": references["coin"], "oracle-myopic": references["oracle-myopic"]})
        beside = {name: immediate.value(name).value.value for name in references} | {"ahead, cross-fitted": np.nan}
        for found in value_long_run(data, decisions, beside):
            value, difference, right = found.value, found.difference, true[found.policy]
            apart = right - true["never"]
            inside = (value.low <= right <= value.high, difference.low <= apart <= difference.high)
            errors[found.policy].append((right, value.value - right, *inside, beside[found.policy] - right))
    return [summarise(name, np.array(values, dtype=float)) for name, values in errors.items()]


def cross_fit(logs, data, number):
    """Probabilities of policies that did not see the participant, and what these earn more than never."""
    fold = assign_folds(logs, "person", 5, number)
    decisions, policies = np.empty((len(data.rows), 2)), {"never": sf.policies.never(2)}
    for part, learned in fit_without_folds(sf.method("ahead"), logs, fold):
        held_out = fold[data.following] == part
        rows = data.following[held_out]
        decisions[held_out] = learned.probabilities(logs.participant[rows], logs.state[rows])
        policies[f"fold {part}"] = learned
    runs = sf.simulators.HeartSteps(participants=100).run(policies, steps=1500, keep=1200, seed=SEED + number)
    rewards = {name: run.reward.mean() for name, run in runs.items()}
    nothing = rewards.pop("never")
    return decisions, float(np.mean(list(rewards.values())) - nothing)


def summarise(name, values):
    error = values[:, 1].std(ddof=1) / len(values) ** 0.5
    names = ("truth", "bias", "coverage", "coverage_of_difference", "immediate_value_off_by")
    means = {key: float(value) for key, value in zip(names, values.mean(axis=0), strict=True) if np.isfinite(value)}
    found = {"policy": name, **means, "standard_error_of_bias": float(error)}
    print(found)
    return found


def main():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        results = {"long_run_value": measure_values(), "studies": STUDIES, "time": measure_time()}
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    Path(__file__).with_suffix(".json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
