"""Quality on the same contaminated data: what every method and every peer earns, and its immediate regret."""

import surefoot as sf
from benchmarks.measuring import study
from benchmarks.peers import PEERS, policies

PEOPLE = 50
RATIOS = (0.0, 0.04, 0.09, 0.20)
SCENES = (
    ("HeartSteps, prompted", sf.simulators.HeartSteps, "prompted"),
    ("HeartSteps, sensor", sf.simulators.HeartSteps, "sensor"),
    ("Chain walk, sensor", sf.simulators.ChainWalk, "sensor"),
)


def measure():
    rows = []
    for title, kind, mechanism in SCENES:
        for ratio in RATIOS:
            logs, sim = study(PEOPLE, ratio=ratio, mechanism=mechanism, simulator=kind)
            deciding = {f"surefoot {name}": sf.method(name).fit(logs).policies_ for name in sf.METHODS}
            deciding |= {peer: policies(peer, logs) for peer in PEERS}
            deciding |= sf.simulators.reference_policies(sim)
            table = sf.simulators.compare(sim, deciding, seed=2).to_pylist()
            for row in table:
                if row["measure"] in ("long_run_average_reward", "immediate_regret"):
                    rows.append({"scene": title, "ratio": ratio, **row})
    return {"rows": rows}
