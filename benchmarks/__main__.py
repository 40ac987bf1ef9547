"""Surefoot beside its alternatives, measured in one run on one machine.

    make bench                          everything
    python -m benchmarks fitting        one part; the others stay as they were in results.json
    python -m benchmarks --check        measures, compares with results.json, names what became slower; writes nothing

Writes benchmarks/results.json and benchmarks/results.md, which begins with every goal and whether it holds. What other
files here measured, each at its own time and place (`ELSEWHERE`), goes in with it.
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

from benchmarks.goals import find_slower, list_goals
from benchmarks.measuring import best_of

PARTS = ("fitting", "deciding", "simulating", "scaling", "quality", "starting")
ELSEWHERE = ("cluster", "gpu", "insight", "million", "processes", "service", "threads")
FOLDER = Path(__file__).resolve().parent
COMPARED = ("surefoot", "numpy", "scipy", "scikit-learn", "mabwiser", "contextualbandits", "vowpalwabbit", "gymnasium")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--check", action="store_true", help="compare with results.json instead of writing it")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    path = FOLDER / "results.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if asked.check:
        return check(before, {**before, **dict(measure_parts(asked.parts or PARTS))})
    results = dict(before)
    for name, part in measure_parts(asked.parts or PARTS):
        results[name] = part
        results["versions"] = {**{package: version(package) for package in COMPARED}, "python": platform.python_version()}
        results["machine"] = {"cores": len(os.sched_getaffinity(0)), "processor": platform.machine()}
        write(path, results)
    for name in ELSEWHERE:
        results[name] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    write(path, results)
    table = markdown(results)
    (FOLDER / "results.md").write_text(table, encoding="utf-8")
    print(table)
    return 0


def measure_parts(names):
    """(name, figures) of every part, as soon as it is measured."""
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        part = starting() if name == "starting" else importlib.import_module(f"benchmarks.{name}").measure()
        yield name, rounded({"measured": datetime.datetime.now(datetime.UTC).date().isoformat(), **part})


def check(before, now):
    """Say what became slower; the exit code says whether anything did."""
    slower = find_slower(before, now)
    print("\n".join(slower) or "nothing became slower by more than 15 %")
    return 1 if slower else 0


def write(path, results):
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def starting():
    """Import alone, and import with a first fit of 50 people, in fresh processes."""
    fit = (
        "import surefoot as sf; s = sf.simulators.HeartSteps(participants=50);"
        "sf.method('ro-accb').fit(s.collect(sf.policies.coin(2), decision_points=210, seed=0))"
    )
    commands = {
        "nothing": ["-c", ""],
        "import surefoot": ["-c", "import surefoot"],
        "surefoot --help": ["-m", "surefoot", "--help"],
        "import, simulate and fit 50 people": ["-c", fit],
    }
    return {"seconds": {name: best_of(lambda command=command: _run(command), 5) for name, command in commands.items()}}


def _run(command):
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def markdown(results):
    lines = [
        "# Measured side by side",
        "",
        "Made by `make bench`; the numbers are in `results.json`.",
        "",
        *list_goals(results),
    ]
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
        lines += ["## Growth of the cost", "", "| exponent over | |", "|---|---:|"]
        lines += [f"| {what} | {value:.2f} |" for what, value in results["scaling"]["exponents"].items()] + [""]
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
    sys.exit(main())
