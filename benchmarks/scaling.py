"""How the cost of a fit grows with people, decision points and state variables (exponents of power laws), and its memory."""

import json
import tracemalloc

import numpy as np

import surefoot as sf
from benchmarks.measuring import best_of, study
from surefoot.screening import screen

PEOPLE = (100, 1_000, 10_000, 100_000)
DECISION_POINTS = (50, 160, 500, 1_600, 5_000)
VARIABLES = (3, 6, 12, 24, 40)
SHOWN_VARIABLES = (3, 10, 20, 40)
RUNS = {
    "ro-accb": lambda logs: sf.method("ro-accb").fit(logs),
    "partial": lambda logs: sf.method("accb", pooling="partial").fit(logs),
    "ahead": lambda logs: sf.method("ahead").fit(logs),
    "screen": screen,
}


def measure():
    people = {count: _seconds(count, 210) for count in PEOPLE}
    points = {count: _seconds(max(50, 500_000 // count), count) for count in DECISION_POINTS}
    per_participant = {count: seconds / max(50, 500_000 // count) for count, seconds in points.items()}
    exponents = {
        "people": _exponent(people),
        "decision points": _exponent(per_participant),
        "variables": _exponent({count: _time_variables(count) for count in VARIABLES}),
    }
    for name, run in list(RUNS.items())[1:]:
        exponents |= {f"{what}, {name}": exponent for what, exponent in _growth(run).items()}
    return {
        "seconds_by_people": people,
        "microseconds_per_person_by_decision_points": {count: 1e6 * seconds for count, seconds in per_participant.items()},
        "microseconds_per_person_by_variables": {
            name: {count: 1e6 * _time_variables(count, run) for count in SHOWN_VARIABLES} for name, run in RUNS.items()
        },
        "exponents": exponents,
        "kilobytes_per_person": {name: {count: _kilobytes(run, count) for count in (3, 40)} for name, run in RUNS.items()},
    }


def _seconds(people, points, run=RUNS["ro-accb"]):
    logs, _ = study(people, points)
    return best_of(lambda: run(logs), 3 if people < 50_000 else 1)


def _growth(run):
    """Exponents over people, decision points and variables of something that takes logs."""
    people = {count: _seconds(count, 210, run) for count in (100, 400, 1_600)}
    points = {count: _seconds(100, count, run) for count in (100, 400, 1_600)}
    variables = {count: _time_variables(count, run) for count in (3, 12, 40)}
    return {"people": _exponent(people), "decision points": _exponent(points), "variables": _exponent(variables)}


def _time_variables(variables, run=RUNS["ro-accb"], people=200):
    """Seconds per participant with so many state variables."""
    logs = _draw_logs(variables, people)
    return best_of(lambda: run(logs), 3) / people


def _draw_logs(variables, people, points=210):
    rng = np.random.default_rng(variables)
    state, action = rng.standard_normal((people, points, variables)), rng.integers(0, 2, (people, points))
    reward = state[..., 0] + action * state[..., 1] + rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(state, action, reward, probability=np.full((people, points), 0.5))


def _kilobytes(run, variables):
    """The peak of what is allocated beside the logs, per participant: what twice as many take more."""
    people, peaks = max(400, 6_000 // variables), []
    for count in (people, 2 * people):
        logs = _draw_logs(variables, count)
        tracemalloc.start()
        run(logs)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1024)
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / people


def _exponent(times):
    slope, _ = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)
    return float(slope)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
