"""Deciding: one state at a time, and ten thousand at once."""

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from vowpalwabbit import Workspace

import surefoot as sf
from benchmarks.measuring import best_of, study
from benchmarks.peers import PENALTY, with_intercept

CALLS, MANY = 2_000, 10_000


def measure():
    logs, _ = study(2)
    rows = logs.order[logs.starts[0] : logs.starts[1]]
    states = np.random.default_rng(0).standard_normal((MANY, 3))
    one, plain = states[:1], states[0].tolist()
    microseconds = {}
    for name in ("ro-accb", "ro-linucb"):
        policy = sf.method(name).fit(logs).policies_[0]
        microseconds[f"surefoot {name}, one state"] = _each(lambda policy=policy: policy.decide(plain))
        many = best_of(lambda policy=policy: policy.probabilities(states), 20)
        microseconds[f"surefoot {name}, {MANY:,} states"] = 1e6 * many
    model = MAB([0, 1], LearningPolicy.LinUCB(alpha=1.0, l2_lambda=PENALTY))
    model.fit(logs.action[rows], logs.reward[rows], with_intercept(logs.state[rows]))
    single, all_states = with_intercept(one), with_intercept(states)
    microseconds["MABWiser LinUCB, one state"] = _each(lambda: model.predict(single))
    microseconds[f"MABWiser LinUCB, {MANY:,} states"] = 1e6 * best_of(lambda: model.predict(all_states), 20)
    wabbit = _trained_wabbit(logs, rows)
    line = _line(plain)
    microseconds["Vowpal Wabbit cb_explore, one state"] = _each(lambda: wabbit.predict(line))
    lines = [_line(state) for state in states.tolist()]
    microseconds[f"Vowpal Wabbit cb_explore, {MANY:,} states"] = 1e6 * best_of(lambda: [wabbit.predict(x) for x in lines], 3)
    wabbit.finish()
    ours = microseconds["surefoot ro-accb, one state"]
    return {
        "microseconds": microseconds,
        "ratios": {"MABWiser predict / surefoot decide, one state": microseconds["MABWiser LinUCB, one state"] / ours},
    }


def _each(function):
    def calls():
        for _ in range(CALLS):
            function()

    return 1e6 * best_of(calls) / CALLS


def _line(state):
    return "| " + " ".join(f"s{place}:{value}" for place, value in enumerate(state))


def _trained_wabbit(logs, rows):
    wabbit = Workspace("--cb_explore 2 --quiet")
    for row in rows:
        action, cost = logs.action[row] + 1, -logs.reward[row]
        wabbit.learn(f"{action}:{cost}:0.5 {_line(logs.state[row].tolist())}")
    return wabbit
