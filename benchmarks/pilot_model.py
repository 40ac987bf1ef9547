"""The model of HeartSteps V1 as pilot: its kind of outcome, its effects, its checks, its speed."""

import sys
import time

import surefoot as sf
from surefoot.data.log_table import LogTable
from surefoot.study.log_reader import parse_logs


def main(path):
    found = sf.datasets.heartsteps_v1(path, backend="pyarrow")
    pilot = parse_logs(found.study, LogTable.of(found.frame, "participant"))
    began = time.process_time()
    model = sf.rehearsal.fit_pilot(pilot, found.study, per_day=5)
    print(f"{model}, fitted in {time.process_time() - began:.1f} CPU s")
    print(f"effect at once {model.effects.now}, of earlier prompts {model.effects.later}")
    checks = sf.rehearsal.check_pilot_model(model)
    print(checks, *checks.differences, sep="\n")
    began = time.process_time()
    people = model.draw_people(50, seed=range(100))
    drawn = time.process_time()
    people.start(seed=range(100)).advance(sf.policies.coin(2), 210)
    ended = time.process_time()
    print(
        f"100 trials of 50 people × 210: {drawn - began:.2f} CPU s for the people, {ended - drawn:.2f} CPU s for the trials"
    )


if __name__ == "__main__":
    main(sys.argv[1])
