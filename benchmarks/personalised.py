"""How often `surefoot personalised` finds personalisation: where there is none, and where half of the people respond the
other way.

python -m benchmarks.personalised run              # finished trials are kept, and the same command goes on
python -m benchmarks.personalised run --seconds 600
python -m benchmarks.personalised table            # write benchmarks/personalised.md

Trials of 20 people for eight days of five decision points with `ts`, updated every third day. A trial with its 39 resamples
takes about two (`person`) to four seconds (`partial`) of one core.
"""

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.rehearsal import Candidate, Environment, TrialDesign, from_study, run_trials, write_trial

HERE = Path(__file__).parent
RESULTS = HERE / "personalised.jsonl"
TABLE = HERE / "personalised.md"
RESAMPLES = 39
PEOPLE = 20
DESIGN = TrialDesign(participants=PEOPLE, days=8, per_day=5, update_every=3)
TEXT = """
[columns]
participant = "person"
time = "point"
available = "available"
probability = "probability"
[actions]
column = "sent"
[state.mood]
range = [-5, 5]
[outcome]
column = "outcome"
range = [-20, 20]
[method]
name = "ts"
pooling = "{pooling}"
[probability_limits]
minimum = 0.2
maximum = 0.8
[screen]
on = false
[trial]
day_boundary = 5
warm_up_decision_points = 5
[trial.guard_rails]
max_influence = 1
max_send_rate_change = 1
"""
SETTINGS = {  # effect of a prompt in standard deviations, + for half of the people and − for the others; pooling → trials
    (0.0, "person"): 400,
    (0.0, "partial"): 100,
    (0.5, "person"): 40,
    (0.5, "partial"): 40,
}


def run_trial(effect, pooling, number):
    """One trial, and what `surefoot personalised` says about it."""
    study = sf.Study.parse(TEXT.format(pooling=pooling))
    seeds = np.random.default_rng([28, number, int(10 * effect), len(pooling)]).integers(2**32, size=3).tolist()
    options = {"mean": 0.0, "sd": 1.0, "availability": 0.9, "missing": 0.05, "points": DESIGN.decision_points}
    people = from_study(study, participants=PEOPLE, seed=seeds[0], **options)
    if effect:
        people = people.in_environment(Environment(effect=effect))
        people.factor = np.where(np.arange(PEOPLE) % 2, 1.0, -1.0)
    (record,) = run_trials(people, Candidate("ts", study), DESIGN, seeds=seeds[1:2])
    with tempfile.TemporaryDirectory() as folder:
        path = write_trial(record, study, folder)
        result = sf.personalisation.check_personalisation(study, path, resamples=RESAMPLES, seed=seeds[2], jobs=1)
    return {
        "effect": effect,
        "pooling": pooling,
        "number": number,
        "p_value": result.p_value,
        "spread_p_value": result.spread_p_value,
        "lean_p_value": result.lean_p_value,
        "participants": result.p_values.tolist(),
    }


def read_results():
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines]


def run(seconds):
    """The setting that is furthest from its number of trials comes next."""
    end = time.monotonic() + seconds
    done = dict.fromkeys(SETTINGS, 0)
    for row in read_results():
        done[row["effect"], row["pooling"]] += 1
    while time.monotonic() < end:
        setting = min(SETTINGS, key=lambda key: done[key] / SETTINGS[key])
        if done[setting] >= SETTINGS[setting]:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sf.FitWarning)
            row = run_trial(*setting, done[setting])
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        done[setting] += 1


def show_share(values):
    """A share with its Monte Carlo error, in percent."""
    share = np.mean(values)
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / len(values)):.1f}"


def write_table():
    head = [
        "effect",
        "policies",
        "trials",
        "study (%)",
        "between people (%)",
        "over all (%)",
        "participants with p ≤ 0.05 (%)",
    ]
    lines = [
        "# Personalisation found where there is none, and where there is",
        "",
        f"`python -m benchmarks.personalised table`: the share of trials with a p-value of at most 0.05 (± its Monte Carlo "
        f"error), from {RESAMPLES} resamples of every trial; {PEOPLE} people × {DESIGN.decision_points} decision points, "
        "`ts`, two updates. An effect of ± 0.5 is one of 0.5 standard deviations of the outcome, positive for half of the "
        "people and negative for the others.",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
    ]
    rows = read_results()
    for effect, pooling in SETTINGS:
        chosen = [row for row in rows if (row["effect"], row["pooling"]) == (effect, pooling)]
        if len(chosen) > 1:
            shares = [
                show_share([row[name] <= 0.05 for row in chosen]) for name in ("p_value", "spread_p_value", "lean_p_value")
            ]
            people = 100 * np.mean([np.array(row["participants"]) <= 0.05 for row in chosen], axis=1)
            error = people.std(ddof=1) / np.sqrt(len(people))
            name = f"± {effect}" if effect else "none"
            cells = [name, f"`{pooling}`", str(len(chosen)), *shares, f"{people.mean():.1f} ± {error:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    run(arguments.seconds) if arguments.command == "run" else write_table()
