"""The example trial from end to end, small: a live server, a simulated clock, every kind of trouble."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "trial" / "run.py"


def test_a_whole_trial_is_accounted_for(tmp_path):
    command = [sys.executable, str(EXAMPLE), "--people", "20", "--days", "4", "--out", str(tmp_path / "trial")]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "trial" / "summary.json").read_text())
    assert summary["decisions"] == 400
    assert (summary["missing"], summary["wrong_outcomes"]) == (0, 0)
    assert "400 decisions replayed, 0 differences" in summary["replay"] and "0 discrepancies" in summary["replay"]
    # Two nights of warm-up; then the policy decides where the context is whole.
    assert summary["policies"] >= 2 and set(summary["sources"]) == {"policy", "warm-up", "fallback", "unavailable"}
    assert summary["sources"]["policy"] > 50
    # A twelfth of the prompts are artefacts; the robust critic removes mostly those, for they are the largest outcomes.
    assert summary["removed_artefacts"] > 0
    log = (tmp_path / "trial" / "server.log").read_text()
    assert "weather" not in log and "sf_" not in log and "ERROR" not in log


@pytest.mark.slow
def test_the_trial_can_be_rehearsed(tmp_path):
    command = [sys.executable, str(EXAMPLE.with_name("rehearse.py")), "--trials", "2", "--days", "3", "--out", str(tmp_path)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "SUREFOOT_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads((tmp_path / "blocks" / "answers.json").read_text())
    assert {one["candidate"] for one in answers["answers"]} >= {"coin", "never", "always", "ro-saccb", "hb-ahead"}
    assert "Recommended:" in done.stdout and (tmp_path / "rehearsal.html").exists()
