"""Surefoot beside its alternatives, measured in one run on one machine.

    make bench                          everything
    python -m benchmarks fitting        one part; the others stay as they were in results.json

Writes benchmarks/results.json and benchmarks/results.md. What `gpu.py`, `million.py`, `service.py` and `threads.py`
measured, each at its own time and place, goes in with it.
"""

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

from benchmarks.measuring import best_of

PARTS = ("fitting", "deciding", "simulating", "scaling", "quality", "starting")
ELSEWHERE = ("gpu", "million", "service", "threads")
FOLDER = Path(__file__).resolve().parent
COMPARED = ("surefoot", "numpy", "scipy", "scikit-learn", "mabwiser", "contextualbandits", "vowpalwabbit", "gymnasium")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    wanted = parser.parse_args().parts or PARTS
    warnings.simplefilter("ignore")
    path = FOLDER / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in wanted:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        part = starting() if name == "starting" else importlib.import_module(f"benchmarks.{name}").measure()
        results[name] = rounded({"measured": datetime.datetime.now(datetime.UTC).date().isoformat(), **part})
        results["versions"] = {**{package: version(package) for package in COMPARED}, "python": platform.python_version()}
        results["machine"] = {"cores": len(os.sched_getaffinity(0)), "processor": platform.machine()}
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in ELSEWHERE:
        results[name] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    table = markdown(results)
    (FOLDER / "results.md").write_text(table, encoding="utf-8")
    print(table)


def starting():
    """Import alone, and import with a first fit of 50 people, in fresh processes."""
    fit = (
        "import surefoot as sf; s = sf.simulators.HeartSteps(participants=50);"
        "sf.method('ro-accb').fit(s.collect(sf.policies.coin(2), decision_points=210, seed=0))"
    )
    programs = {"nothing": "", "import surefoot": "import surefoot", "import, simulate and fit 50 people": fit}
    return {
        "seconds": {
            name: best_of(lambda program=program: subprocess.run([sys.executable, "-c", program], check=True), 3)
            for name, program in programs.items()
        }
    }


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def markdown(results):
    lines = ["# Measured side by side", "", "Made by `make bench`; the numbers are in `results.json`.", ""]
    units = {"microseconds_per_person": "µs per participant", "microseconds": "µs", "nanoseconds": "ns", "seconds": "s"}
    for name in ("fitting", "deciding", "simulating", "starting"):
        part = results.get(name, {})
        for key, unit in units.items():
            if key in part:
                lines += [f"## {name.capitalize()}", "", f"| | {unit} |", "|---|---:|"]
                lines += [f"| {what} | {value:,} |" for what, value in part[key].items()] + [""]
        if "ratios" in part:
            lines += ["| ratio | |", "|---|---:|"]
            lines += [f"| {what} | {value:,.1f} |" for what, value in part["ratios"].items()] + [""]
    if "scaling" in results:
        exponents = results["scaling"]["exponents"]
        lines += [
            "## Scaling of ro-accb",
            "",
            f"Exponent over people {exponents['people']:.2f}, over decision points {exponents['tuples']:.2f}.",
        ]
        lines += [""]
    if "quality" in results:
        lines += _quality(results["quality"]["rows"])
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return "\n".join([*lines, f"Versions: {versions}. {results['machine']['cores']} cores.", ""])


def _quality(rows):
    lines = []
    for scene in dict.fromkeys(row["scene"] for row in rows):
        own = [row for row in rows if row["scene"] == scene]
        ratios = sorted({row["ratio"] for row in own})
        for measure, title in (("long_run_average_reward", "ElrAR"), ("immediate_regret", "immediate regret")):
            lines += [f"## Quality: {scene}, {title}", ""]
            lines += ["| | " + " | ".join(f"ψ = {100 * ratio:g} %" for ratio in ratios) + " |"]
            lines += ["|---|" + "---:|" * len(ratios)]
            found = {(row["name"], row["ratio"]): row["mean"] for row in own if row["measure"] == measure}
            for name in dict.fromkeys(row["name"] for row in own):
                lines += [f"| {name} | " + " | ".join(f"{found[name, ratio]:,.1f}" for ratio in ratios) + " |"]
            lines += [""]
    return lines


if __name__ == "__main__":
    main()
