"""Deciding: one state at a time, and ten thousand at once."""

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from vowpalwabbit import Workspace

import surefoot as sf
from benchmarks.measuring import side_by_side, study
from benchmarks.peers import PENALTY, with_intercept

CALLS, MANY = 2_000, 10_000


def measure():
    logs, _ = study(2)
    rows = logs.order[logs.starts[0] : logs.starts[1]]
    states = np.random.default_rng(0).standard_normal((MANY, 3))
    plain = states[0].tolist()
    actor, ucb = (sf.method(name).fit(logs).policies_[0] for name in ("ro-accb", "ro-linucb"))
    model = MAB([0, 1], LearningPolicy.LinUCB(alpha=1.0, l2_lambda=PENALTY))
    model.fit(logs.action[rows], logs.outcome[rows], with_intercept(logs.state[rows]))
    single, all_states = with_intercept(states[:1]), with_intercept(states)
    wabbit = _trained_wabbit(logs, rows)
    line, lines = _line(plain), [_line(state) for state in states.tolist()]
    one = {
        "surefoot ro-accb": lambda: actor.decide(plain),
        "surefoot ro-linucb": lambda: ucb.decide(plain),
        "MABWiser LinUCB": lambda: model.predict(single),
        "Vowpal Wabbit cb_explore": lambda: wabbit.predict(line),
    }
    many = {
        "surefoot ro-accb": lambda: actor.probabilities(states),
        "surefoot ro-linucb": lambda: ucb.probabilities(states),
        "MABWiser LinUCB": lambda: model.predict(all_states),
        "Vowpal Wabbit cb_explore": lambda: [wabbit.predict(x) for x in lines],
    }
    singly = side_by_side({name: _repeated(function) for name, function in one.items()}, 20)
    at_once = side_by_side(many, 10)
    wabbit.finish()
    microseconds = {}
    for name in one:
        microseconds[f"{name}, one state"] = 1e6 * singly[name] / CALLS
        microseconds[f"{name}, {MANY:,} states"] = 1e6 * at_once[name]
    ratio = singly["MABWiser LinUCB"] / singly["surefoot ro-accb"]
    return {"microseconds": microseconds, "ratios": {"MABWiser predict / surefoot decide, one state": ratio}}


def _repeated(function):
    def calls():
        for _ in range(CALLS):
            function()

    return calls


def _line(state):
    return "| " + " ".join(f"s{place}:{value}" for place, value in enumerate(state))


def _trained_wabbit(logs, rows):
    wabbit = Workspace("--cb_explore 2 --quiet")
    for row in rows:
        action, cost = logs.action[row] + 1, -logs.outcome[row]
        wabbit.learn(f"{action}:{cost}:0.5 {_line(logs.state[row].tolist())}")
    return wabbit
