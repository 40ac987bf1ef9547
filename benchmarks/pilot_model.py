"""The model of HeartSteps V1 as pilot: its family, its checks, its effect after the actions were drawn anew, its speed."""

import sys
import time

import surefoot as sf
from surefoot.data.log_table import LogTable
from surefoot.study.log_reader import parse_logs


def main(path):
    found = sf.datasets.heartsteps_v1(path)
    pilot = parse_logs(found.study, LogTable.of(found.frame, "participant"))
    began = time.process_time()
    model = sf.rehearsal.fit_pilot(pilot, found.study, per_day=5)
    print(f"{model}, fitted in {time.process_time() - began:.1f} CPU s; {model.choice.log_likelihood}")
    effect = sf.rehearsal.estimate_pilot_effect(pilot, found.study, redraws=200, seed=1)
    inside = sum(abs(estimate) <= 2 * error for estimate, error in effect.null) / len(effect.null)
    mean, error = effect.null_mean
    print(f"effect {effect.estimate:.3f} ({effect.standard_error:.3f})")
    print(f"drawn anew: {mean:.3f} ({error:.3f}), {inside:.0%} within two standard errors of 0")
    print(sf.rehearsal.check_pilot_model(model, pilot, environment=effect.environment).summary())
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
