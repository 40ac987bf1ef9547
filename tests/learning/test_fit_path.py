"""A reader who follows a fit crosses few files and few calls."""

import sys
from collections import Counter
from pathlib import Path

import surefoot as sf

MOST_FILES = 18
MOST_CALLS = 500
PACKAGE = str(Path(sf.__file__).parent)


def test_a_fit_crosses_few_files_and_few_calls():
    logs = sf.simulators.HeartSteps(participants=4).collect(sf.policies.coin(2), decision_points=60, seed=0)
    method = sf.method("ro-accb")
    calls = Counter()

    def count(frame, event, argument):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            calls[file] += 1

    sys.setprofile(count)
    try:
        method.fit(logs)
    finally:
        sys.setprofile(None)
    assert len(calls) <= MOST_FILES, sorted(calls)
    assert calls.total() <= MOST_CALLS, calls.most_common(5)
