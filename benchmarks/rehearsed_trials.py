"""What a rehearsal must hold: type I error, costs that come later, too few data, speed.

python -m benchmarks.rehearsed_trials type-one ../shared/heartsteps_v1/suggestions.csv --trials 1000
python -m benchmarks.rehearsed_trials costs-later
python -m benchmarks.rehearsed_trials too-few
python -m benchmarks.rehearsed_trials speed ../shared/heartsteps_v1/suggestions.csv
"""

import argparse
import resource
import time
from pathlib import Path

import surefoot as sf
from surefoot.data.log_table import LogTable
from surefoot.effects.study_effects import plan_primary_effect
from surefoot.experiments.engine import UnitProgress
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.trial_blocks import analyse_trial
from surefoot.rehearsal.trial_run import run_trials
from surefoot.study.log_reader import parse_logs
from surefoot.study.model import MethodChoice

METHODS = ("linucb", "accb", "saccb", "ro-linucb", "ro-accb", "ro-saccb", "hb-linucb", "hb-accb", "hb-saccb", "ts")
STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.mood]
range = [0, 10]
scaling = { centre = 5.0, scale = 1.7 }
[state.dose]
derived = "dose"
discount = 0.8
[outcome]
range = [0, 100]
[method]
name = "saccb"
pooling = "all"
[probability_limits]
minimum = 0.1
maximum = 0.9
[effects]
controls = ["mood"]
[trial.guard_rails]
max_send_rate_change = 0.6 # from a coin to rarely is further than the default allows
"""
COSTS = """
seed = 5
[[environment]]
name = "costs later"
effect = 0.6
burden = { response = 0.3, baseline = 0.05 }
[design]
per_day = 5
screen = false
"""


def read_pilot(path):
    """HeartSteps V1, to be continued with `saccb` for all together and probabilities from 0.1 to 0.9."""
    found = sf.datasets.heartsteps_v1(path, backend="pyarrow")
    pilot = parse_logs(found.study, LogTable.of(found.frame, "participant"))
    study = found.study.with_method(MethodChoice(name="saccb", pooling="all"))
    limits = study.probability_limits.model_copy(update={"minimum": 0.1, "maximum": 0.9})
    return pilot, study.model_copy(update={"probability_limits": limits})


def measure_type_one(options):
    pilot, study = read_pilot(options.pilot)
    plan = RehearsalPlan.parse("environment = []\n[design]\nper_day = 5\nscreen = false")
    found = rehearse(pilot, study, plan, options)
    print(f"checks of the model: {found.checks.verdict} ({len(found.checks.checks)})")
    for name in ("coin", "saccb"):
        one = found.answers["no effect"][name]
        print(
            f"{name}: type I error {one.rejections}, SD/SE {one.honesty}, effective {one.mean('effective_share').value:.3f}"
        )


def show_costs(options, design=""):
    plan = RehearsalPlan.parse(COSTS + design).model_copy(update={"methods": (*METHODS, "hb-ahead")})
    print(rehearse(None, sf.Study.parse(STUDY), plan, options).summary())


def measure_speed(options):
    """CPU seconds of 100 trials of 50 × 210, weekly `ro-saccb`, with the primary analysis."""
    pilot, study = read_pilot(options.pilot)
    model = sf.rehearsal.fit_pilot(pilot, study, per_day=5).in_environment(sf.rehearsal.Environment(effect=0.2))
    seeds = list(range(100))
    for pooling, screen in (("all", "true"), ("all", "false"), ("person", "true")):
        candidate = sf.rehearsal.Candidate.with_method(study, MethodChoice(name="ro-saccb", pooling=pooling))
        design = RehearsalPlan.parse(f"[design]\nper_day = 5\nscreen = {screen}").design
        began = time.process_time()
        records = run_trials(model.draw_people(50, seed=seeds), candidate, design, seeds=seeds)
        ran = time.process_time()
        analyse(study, records)
        how = f"pooling {pooling}, screen {'on' if screen == 'true' else 'off'}"
        print(f"{how}: {ran - began:.1f} CPU s for the trials, {time.process_time() - ran:.1f} for the analysis")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def analyse(study, records):
    analysis, estimator, _ = plan_primary_effect(study)
    for record in records:
        analyse_trial(study, record, analysis, estimator)


def rehearse(pilot, study, plan, options):
    how = {"folder": options.out, "jobs": options.jobs, "progress": UnitProgress("rehearse")}
    return sf.rehearsal.rehearse(pilot, study, plan, trials=options.trials, **how)


QUESTIONS = {
    "type-one": measure_type_one,
    "costs-later": show_costs,
    "too-few": lambda options: show_costs(options, "participants = 10\ndays = 14\n"),
    "speed": measure_speed,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=QUESTIONS)
    parser.add_argument("pilot", nargs="?", help="suggestions.csv of HeartSteps V1")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for finished blocks")
    options = parser.parse_args()
    QUESTIONS[options.question](options)


if __name__ == "__main__":
    main()
