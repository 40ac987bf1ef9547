"""How fast is fitting? Ours for 1,000 people against a loop that solves the same problems the paper's way.

    make bench

The loop is the literal method: one person after the other, the actor by SciPy's SLSQP with finite differences. Both run in
this process on one thread, on the same data; what counts is the ratio per person.
"""

import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy

import surefoot as sf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.reference import literal  # noqa: E402

PEOPLE, LITERAL_PEOPLE, TUPLES, REPEATS = 1000, 40, 210, 5


def best_of(function, repeats=REPEATS):
    """The shortest of several runs, in seconds: the machine's noise only ever adds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def fit_literally(logs, people):
    for person in range(people):
        rows = logs.order[logs.starts[person] : logs.starts[person + 1]]
        base = np.column_stack([np.ones(len(rows)), logs.state[rows]])
        x = np.column_stack([base, base * logs.action[rows, None]])
        w, kept, _, _ = literal.capped_critic(x, logs.reward[rows], 1e-3)
        z = np.column_stack([logs.state[rows], np.ones(len(rows))])
        expected = np.column_stack([base @ w[:4], base @ (w[:4] + w[4:])])
        literal.slsqp_actor(z, expected, kept.astype(float), 1e-3)


def main():
    study = sf.simulators.HeartSteps(users=PEOPLE)
    clean = study.collect(sf.policies.coin(2), decision_points=TUPLES, seed=0)
    logs = sf.simulators.contaminate(clean, mechanism="prompted", ratio=0.04, strength=5, seed=1).logs
    literal_time = best_of(lambda: fit_literally(logs, LITERAL_PEOPLE), 2) / LITERAL_PEOPLE
    rows = {"literal ro-accb (SLSQP, finite differences)": literal_time}
    for name in sf.METHODS:
        rows[f"surefoot {name}"] = best_of(lambda name=name: sf.method(name).fit(logs)) / PEOPLE
    start = best_of(lambda: subprocess.run([sys.executable, "-c", "import surefoot"], check=True))
    empty = best_of(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
    results = {
        "people": PEOPLE,
        "tuples": TUPLES,
        "threads": 1,
        "microseconds_per_person": {name: round(1e6 * seconds, 1) for name, seconds in rows.items()},
        "times_as_fast_as_literal": round(literal_time / rows["surefoot ro-accb"], 1),
        "import_seconds": round(start - empty, 2),
        "versions": {
            "surefoot": sf.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
    }
    print(f"Fitting {PEOPLE} people × {TUPLES} tuples, one thread\n")
    print(f"{'':<46}µs per person   literal / this")
    for name, seconds in rows.items():
        print(f"{name:<46}{1e6 * seconds:>13,.0f}{literal_time / seconds:>17,.1f}")
    print(f"\nimport surefoot: {results['import_seconds']} s")
    path = ROOT / "benchmarks" / "results.json"
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
