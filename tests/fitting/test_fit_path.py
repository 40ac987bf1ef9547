"""How long the way from a file to a fit is: the files of the package that it crosses and the functions that it calls."""

import sys
from collections import Counter
from pathlib import Path

import pyarrow.csv
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app

MOST_FILES = 40
MOST_CALLS = 900
PACKAGE = str(Path(sf.__file__).parent)
STUDY = """
[columns]
participant = "participant"
time = "time"
probability = "probability"
[state.weather]
[state.engagement]
[state.fatigue]
[method]
name = "ro-accb"
"""


def count_calls(function):
    """Calls of the package's own functions by file, without comprehensions and the bodies of modules."""
    calls = Counter()

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            calls[code.co_filename] += 1

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def test_a_small_fit_takes_a_short_way(tmp_path, monkeypatch):
    logs = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=50, seed=0)
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), tmp_path / "logs.csv")
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    # The first fit imports what the second uses.
    for out in ("first", "second"):
        calls = count_calls(
            lambda out=out: CliRunner().invoke(app, ["fit", "logs.csv", "--out", out], catch_exceptions=False)
        )
    assert (tmp_path / "second" / "manifest.json").is_file()
    assert len(calls) <= MOST_FILES, sorted(calls)
    assert calls.total() <= MOST_CALLS, calls.most_common(15)
