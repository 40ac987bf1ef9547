"""Whole trials on simulated people, by the service's own rules: CPU seconds of 100 trials of 50 × 210.

python -m benchmarks.rehearsal [trials]
"""

import resource
import sys
import time
from collections import Counter

import surefoot as sf
from surefoot.rehearsal.plan import Candidate, TrialDesign
from surefoot.rehearsal.trial_run import run_trials

STUDY = """[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "ro-saccb"
pooling = "POOLING"
[probability_limits]
minimum = 0.1
maximum = 0.9
[trial]
"""


def measure(pooling, *, trials, screen=True):
    """CPU seconds, and how updates ended."""
    study = sf.Study.parse(STUDY.replace("POOLING", pooling))
    candidate, design = Candidate.with_method(study, "ro-saccb"), TrialDesign(screen=screen)
    began = time.process_time()
    records = run_trials(sf.simulators.HeartSteps(50), candidate, design, seeds=range(trials))
    return time.process_time() - began, Counter(update.state for record in records for update in record.updates)


def main(trials=100):
    for pooling, screen in (("all", True), ("all", False), ("person", True)):
        seconds, states = measure(pooling, trials=trials, screen=screen)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        how = f"weekly ro-saccb, pooling = {pooling!r}, screen {'on' if screen else 'off'}"
        print(f"{trials} trials of 50 × 210, {how}: {seconds:.1f} CPU s, updates {dict(states)}, {memory:.0f} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
