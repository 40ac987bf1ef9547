"""How the cost of ro-accb grows with people and with decision points: the exponents of two power laws."""

import numpy as np

import surefoot as sf
from benchmarks.measuring import best_of, study

PEOPLE = (100, 1_000, 10_000, 100_000)
TUPLES = (50, 160, 500, 1_600, 5_000)


def measure():
    people = {count: _seconds(count, 210) for count in PEOPLE}
    points = {count: _seconds(max(50, 500_000 // count), count) for count in TUPLES}
    per_participant = {count: seconds / max(50, 500_000 // count) for count, seconds in points.items()}
    return {
        "seconds_by_people": people,
        "microseconds_per_person_by_tuples": {count: 1e6 * seconds for count, seconds in per_participant.items()},
        "exponents": {"people": _exponent(people), "decision_points": _exponent(per_participant)},
    }


def _seconds(people, points):
    logs, _ = study(people, points)
    return best_of(lambda: sf.method("ro-accb").fit(logs), 3 if people < 50_000 else 1)


def _exponent(times):
    slope, _ = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)
    return float(slope)
