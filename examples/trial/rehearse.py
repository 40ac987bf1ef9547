"""Rehearse the example's trial before it is run: a small pilot, and 20 simulated trials of every candidate.

    python examples/trial/rehearse.py

The pilot is of twelve participants of the HeartSteps model over two weeks, randomised by a coin. From it come people like
them; the study is that of run.py. What would happen to them, and what is recommended, stands in results/rehearsal.
"""

import argparse
from pathlib import Path

from pyarrow import csv

import surefoot as sf

HERE = Path(__file__).parent
PLAN = """
trials = 20
methods = ["ro-saccb", "hb-ahead"]
[design]
participants = 30
days = 28
per_day = 5
screen = false
[[environment]]
pilot = true
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument(
        "--out", type=Path, default=Path("results/rehearsal"), help="folder for everything; it can be resumed"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    study = sf.Study.load(HERE / "study.toml")
    plan = sf.rehearsal.RehearsalPlan.parse(PLAN.replace("days = 28", f"days = {options.days}"))
    pilot = write_pilot(options.out / "pilot.csv", study)
    found = sf.rehearsal.rehearse(pilot, study, plan, trials=options.trials, folder=options.out / "blocks")
    found.save(options.out / "blocks")
    found.to_html(options.out / "rehearsal.html", source=f"{pilot.name}, as described by study.toml")
    print(found.summary())
    print(f"\nThe page is {options.out / 'rehearsal.html'}.")


def write_pilot(path, study):
    """The pilot's logs, under the study's names."""
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=70, seed=7)
    names = {"time": study.columns.time, "outcome": study.outcome.column}
    frame = logs.to_frame("pyarrow")
    csv.write_csv(frame.rename_columns([names.get(name, name) for name in frame.column_names]), path)
    return path


if __name__ == "__main__":
    main()
