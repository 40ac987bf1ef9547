"""Fitting per participant: ours for 1,000 and 10,000 people at once, the peers one participant after the other."""

import surefoot as sf
from benchmarks.measuring import side_by_side, study
from benchmarks.peers import PEERS, fit_people

OURS = ("linucb", "ro-linucb", "accb", "ro-accb", "ro-saccb", "hb-accb")
LOOPED = {
    "scikit-learn HuberRegressor": 300,
    "scikit-learn RANSACRegressor": 20,
    "literal ro-accb (SLSQP, finite differences)": 60,
}
"""So many people the slow ones fit in a loop; the others all 1,000. A loop costs everybody the same."""


def measure():
    small, _ = study(1_000)
    large, _ = study(10_000)
    looped = {peer: lambda peer=peer: fit_people(peer, small, LOOPED.get(peer, 1_000)) for peer in PEERS}
    seconds = side_by_side({**looped, **batched(small)}, 10)
    microseconds = {name: 1e6 * taken / LOOPED.get(name, 1_000) for name, taken in seconds.items()}
    microseconds |= {name: 1e6 * taken / 10_000 for name, taken in side_by_side(batched(large), 2).items()}
    literal = microseconds["literal ro-accb (SLSQP, finite differences)"]
    mabwiser = microseconds["MABWiser LinUCB"]
    ratios = {
        "literal / surefoot ro-accb": literal / microseconds["surefoot ro-accb, 1,000 people"],
        "MABWiser LinUCB / surefoot ro-accb": mabwiser / microseconds["surefoot ro-accb, 1,000 people"],
        "MABWiser LinUCB / surefoot ro-linucb": mabwiser / microseconds["surefoot ro-linucb, 1,000 people"],
        "MABWiser LinUCB / surefoot hb-accb": mabwiser / microseconds["surefoot hb-accb, 1,000 people"],
        "surefoot hb-accb / ro-accb": microseconds["surefoot hb-accb, 1,000 people"]
        / microseconds["surefoot ro-accb, 1,000 people"],
    }
    return {"microseconds_per_person": microseconds, "ratios": ratios, "people_where_not_1000": LOOPED}


def batched(logs):
    """Everybody at once, with each of our methods."""
    people = len(logs.participants)
    return {f"surefoot {name}, {people:,} people": lambda name=name: sf.method(name).fit(logs) for name in OURS}
