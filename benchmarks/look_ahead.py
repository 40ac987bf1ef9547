"""Looking ahead: its time compared with the immediate horizon.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.look_ahead

Takes some minutes; writes benchmarks/look_ahead.json.
"""

import json
import os
import time
import warnings
from pathlib import Path

import surefoot as sf
from benchmarks.measuring import study


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


def main():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        results = {"time": measure_time()}
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    Path(__file__).with_suffix(".json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
