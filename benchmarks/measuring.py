"""The clock, and the study that everything is measured on."""

import time

import surefoot as sf


def best_of(function, repeats=5):
    """The shortest of several runs, in seconds: the machine's noise only ever adds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def side_by_side(functions, rounds=5):
    """Each function's shortest run in seconds, {name: seconds}; they take turns, so that all meet the same busy moments."""
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(best_of(function, 1))
    return {name: min(taken) for name, taken in times.items()}


def study(people, points=210, ratio=0.04, mechanism="prompted", simulator=sf.simulators.HeartSteps, seed=0):
    """Logs of a coin with outliers, and their simulator."""
    simulated = simulator(participants=people)
    logs = simulated.collect(sf.policies.coin(2), decision_points=points, seed=seed)
    dirty = sf.simulators.contaminate(logs, mechanism=mechanism, ratio=ratio, strength=5, seed=seed + 1)
    return dirty.logs, simulated
