"""The files that blocks of README and docs read: small, made up, and the same for every page."""

import csv
import shutil

import numpy as np

import surefoot as sf
from surefoot.datasets.heartsteps_v1 import SOURCE

STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"

[state.weather]
[state.engagement]
[state.fatigue]

[outcome]
column = "steps"

[method]
name = "ro-accb"
pooling = "all"

[probability_limits]
minimum = 0.1
maximum = 0.9

[trial]
update_time = "never"
"""


def make_example_files(folder):
    """Logs of a small trial, of a pilot and of what came later, the study, a fit, and a file like HeartSteps V1's."""
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    for seed, name in enumerate(("logs", "pilot", "new-logs")):
        write_logs(folder / f"{name}.csv", seed)
    write_trial(folder / "trial.csv")
    write_suggestions(folder / "suggestions.csv")
    study = sf.Study.load(folder / "study.toml")
    sf.fit_study(folder / "logs.csv", study, folder / "fitted")


def write_logs(path, seed, people=10, points=40):
    sim = sf.simulators.HeartSteps(participants=people)
    frame = sim.collect(sf.policies.coin(2), decision_points=points, seed=seed).to_frame("pandas")
    frame["participant"] += 100 * seed  # other people
    frame.rename(columns={"outcome": "steps"}).to_csv(path, index=False)


def write_trial(path, people=20, points=40):
    rng = np.random.default_rng(0)
    rows = [["person", "t", "y", "sent", "p", "available", "home", "x"]]
    for person in range(people):
        for t in range(points):
            home, x, sent = int(rng.random() < 0.5), rng.normal(), int(rng.random() < 0.5)
            rows.append([person, t, 0.2 * sent * home + x + rng.normal(), sent, 0.5, 1, home, x])
    _write(path, rows)


def write_suggestions(path, people=12, days=15):
    """Columns and quirks of HeartSteps V1's `suggestions.csv`, with made-up people."""
    rng = np.random.default_rng(0)
    extra = ["jbsteps30.zero", "jbsteps60pre", "jbsteps60pre.zero"]
    rows = [[*SOURCE.values(), *extra]]
    for person in range(1, people + 1):
        for point in range(5 * days):
            sent, away = int(rng.random() < 0.6), rng.random() < 0.1
            steps, before = (int(value) for value in np.exp(rng.normal(4 + 0.1 * sent, 1.5, size=2)))
            row = {
                **dict.fromkeys(SOURCE, ""),
                **{"participant": person, "decision": point, "nogap": point, "slot": point % 5 + 1},
                **{"decided_at": f"2015-09-{point // 5 % 28 + 1:02d} {8 + 3 * (point % 5):02d}:30:00"},
                **{
                    "available": "TRUE",
                    "send": str(bool(sent)).upper(),
                    "active": str(bool(sent)).upper(),
                    "sedentary": "FALSE",
                },
                **{
                    "steps": "" if away else steps,
                    "steps_before": "" if away else before,
                    "temperature": rng.integers(0, 25),
                },
                **{"location": rng.choice(["home", "work", "other"])},
            }
            rows.append([*row.values(), 0 if away else steps, row["steps_before"], 0 if away else before])
    _write(path, rows)


def _write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def copy_example_files(source, folder, without=()):
    """A folder of its own for every page."""
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*without))
