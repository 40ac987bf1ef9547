"""Fitting per person: ours for 1,000 and 10,000 people at once, the peers one person after the other."""

import surefoot as sf
from benchmarks.measuring import best_of, study
from benchmarks.peers import PEERS, fit_people

OURS = ("linucb", "ro-linucb", "accb", "ro-accb", "ro-saccb", "hb-accb")
LOOPED = 60


def measure():
    microseconds = {}
    small, _ = study(1_000)
    for peer in PEERS:
        microseconds[peer] = 1e6 * best_of(lambda peer=peer: fit_people(peer, small, LOOPED), 3) / LOOPED
    for people in (1_000, 10_000):
        logs = small if people == 1_000 else study(people)[0]
        for name in OURS:
            if name in sf.METHODS:
                seconds = best_of(lambda name=name, logs=logs: sf.method(name).fit(logs), 5 if people == 1_000 else 2)
                microseconds[f"surefoot {name}, {people:,} people"] = 1e6 * seconds / people
    literal = microseconds["literal ro-accb (SLSQP, finite differences)"]
    mabwiser = microseconds["MABWiser LinUCB"]
    ratios = {
        "literal / surefoot ro-accb": literal / microseconds["surefoot ro-accb, 1,000 people"],
        "MABWiser LinUCB / surefoot ro-accb": mabwiser / microseconds["surefoot ro-accb, 1,000 people"],
        "MABWiser LinUCB / surefoot ro-linucb": mabwiser / microseconds["surefoot ro-linucb, 1,000 people"],
    }
    if "hb-accb" in sf.METHODS:
        both = (microseconds[f"surefoot {name}, 1,000 people"] for name in ("hb-accb", "ro-accb"))
        ratios["surefoot hb-accb / ro-accb"] = next(both) / next(both)
    return {"microseconds_per_person": microseconds, "ratios": ratios}
