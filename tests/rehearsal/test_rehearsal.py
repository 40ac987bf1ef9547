"""A whole rehearsal: the same chance for all, resumption, refusals, the page."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import surefoot as sf
from surefoot.inference.intervals import Interval
from surefoot.rehearsal.plan import RANGE, RehearsalPlan
from surefoot.rehearsal.rehearsal import make_manifest
from surefoot.reports.figures import new_page_figure
from surefoot.trial_rules import proposals
from tests.cli.typed import type_command

STUDY = """
[columns]
participant = "participant"
time = "time"
[state.mood]
range = [0, 10]
scaling = { centre = 5.0, scale = 1.7 }
[outcome]
range = [0, 100]
[method]
name = "saccb"
pooling = "all"
[probability_limits]
minimum = 0.2
maximum = 0.8
"""
PLAN = """
trials = 4
block = 2
probabilities = [0.5]
[[candidate]]
label = "one"
name = "saccb"
pooling = "all"
[[candidate]]
label = "two"
name = "saccb"
pooling = "all"
[[environment]]
effect = 0.4
people_differ = 0.5
[design]
participants = 8
days = 4
per_day = 3
update_every = 2
"""

NULL_PLAN = """
trials = 80
block = 80
environment = []
[design]
participants = 14
days = 4
per_day = 3
update_every = 2
screen = false
"""

SMALL = PLAN.replace('[[candidate]]\nlabel = "two"\nname = "saccb"\npooling = "all"\n', "").replace("days = 4", "days = 2")


def rehearse(folder=None, plan=PLAN, **more):
    return sf.rehearsal.rehearse(None, sf.Study.parse(STUDY), RehearsalPlan.parse(plan), folder=folder, jobs=1, **more)


@pytest.fixture(scope="module")
def found():
    return rehearse()


def test_two_candidates_that_are_the_same_differ_by_exactly_nothing(found):
    for cells in found.answers.values():
        assert cells["one"].minus(cells["two"]).value == 0
        assert cells["coin"].minus(cells["fixed 0.5"]).value == 0
        assert (cells["coin"].values["over_coin"] == 0).all()
        assert (cells["never"].values["over_never"] == 0).all()
        np.testing.assert_array_equal(cells["one"].values["p_value"], cells["two"].values["p_value"])


def test_where_nothing_has_an_effect_no_outcome_differs(found):
    cells = found.answers["no effect"]
    for one in cells.values():
        assert (one.values["over_never"] == 0).all()
        assert (one.values["harmed"] == 0).all()
    assert found.by_environment[0].candidate is None


def test_where_prompts_help_always_earns_more_than_a_coin_and_never_less(found):
    cells = found.answers["effect 0.4, people differ"]
    assert cells["always"].mean("over_coin").low > 0 > cells["never"].mean("over_coin").high
    assert cells["always"].mean("sent").value == 1


def test_with_the_same_seed_everything_is_the_same_whatever_the_blocks(found):
    again = rehearse(plan=PLAN.replace("block = 2", "block = 3"))
    for name, cells in found.answers.items():
        for candidate, one in cells.items():
            for measure, values in one.values.items():
                np.testing.assert_array_equal(values, again.answers[name][candidate].values[measure], err_msg=measure)


def test_what_was_interrupted_goes_on_to_the_same_bytes(tmp_path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    rehearse(whole, SMALL).save(whole)
    rehearse(part, SMALL.replace("trials = 4", "trials = 2"))
    first = {path.name: path.stat().st_mtime_ns for path in (part / "blocks").iterdir()}
    rehearse(part, SMALL).save(part)
    for name in ("answers.json", "table.md", "manifest.json"):
        assert (part / name).read_bytes() == (whole / name).read_bytes()
    for path in (whole / "blocks").iterdir():
        assert (part / "blocks" / path.name).read_bytes() == path.read_bytes()
    assert all((part / "blocks" / name).stat().st_mtime_ns == when for name, when in first.items())


def test_results_of_another_plan_are_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    manifest = make_manifest(sf.Study.parse(STUDY), RehearsalPlan.parse(PLAN), [])
    (tmp_path / "mine" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        sf.InputError, match=r"holds the results of another rehearsal \(another plan\); choose another folder"
    ):
        rehearse(tmp_path / "mine", "seed = 3\n" + PLAN)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").touch()
    with pytest.raises(sf.InputError, match="exists, but is not a rehearsal"):
        rehearse(tmp_path / "other")


def test_a_rehearsal_shows_itself(found, tmp_path):
    page = found.to_html(tmp_path / "page.html", source="no pilot")
    assert "http" not in page.replace("http://www.w3.org", "")
    assert page.count("<svg") == 4
    assert found.plot(ax=new_page_figure()).get_title(loc="left") == "Gain over a coin"
    assert repr(found).startswith("Rehearsal: 6 candidates, 2 environments, 4 trials of each\nrecommended ")
    assert found.overall.sentence.split(":")[0] in found.summary().replace("\n", " ")
    data = json.loads(json.dumps(found.to_dict()))
    assert len(data["answers"]) == 2 * 6
    assert data["manifest"]["plan"]["keys"]["seed"] == 0
    frame = found.to_frame("pyarrow")
    assert {"environment", "candidate", "outcome", "outcome_lower", "outcome_simulation_error", "rejections_upper"} <= set(
        frame.column_names
    )


def test_only_ranges_that_are_rehearsed_are_announced(found):
    interval = Interval(0.0, 1.0, -2.0, 2.0)
    effects = SimpleNamespace(now=interval, later=interval, later_is_unclear=True)
    plain = replace(found, effects=effects)
    assert "does not show whether what was sent before matters" in plain.effect_sentences[-1]
    assert "both ends" in replace(plain, environments=RANGE).effect_sentences[-1]


def test_engines_that_are_not_there_are_refused():
    with pytest.raises(sf.InputError, match=r"there is no engine 'daks' \(did you mean 'dask'"):
        rehearse(engine="daks")
    with pytest.raises(sf.InputError, match="scheduler is for engine 'dask'"):
        rehearse(scheduler="tcp://127.0.0.1:1")


@pytest.mark.slow
def test_a_killed_rehearsal_loses_at_most_a_block(tmp_path, found, monkeypatch):
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "plan.toml").write_text(PLAN)
    arguments = ["--plan", "plan.toml", "--jobs", "1", "--out", "killed"]
    environment = {**os.environ, "PYTHONPATH": str(Path(sf.__file__).parents[1])}
    command = [sys.executable, "-m", "surefoot", "rehearse", *arguments]
    killed = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)  # noqa: S603 - our own command
    blocks = tmp_path / "killed" / "blocks"
    while not list(blocks.glob("*trials*.json")):
        assert killed.poll() is None
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = {path.name: path.stat().st_mtime_ns for path in blocks.glob("environment*.json")}
    assert 1 <= len(before) < 4
    monkeypatch.chdir(tmp_path)
    assert type_command("rehearse", *arguments).returncode == 0
    found.save(tmp_path)
    assert (tmp_path / "killed/answers.json").read_bytes() == (tmp_path / "answers.json").read_bytes()
    assert all((blocks / name).stat().st_mtime_ns == when for name, when in before.items())


@pytest.mark.slow
def test_the_type_one_error_is_that_of_the_level_also_after_learning(monkeypatch):
    # Most of the time would go into this check of a policy, which refuses none here.
    monkeypatch.setattr(proposals, "find_influences", lambda *_: [])
    found = sf.rehearsal.rehearse(None, sf.Study.parse(STUDY), RehearsalPlan.parse(NULL_PLAN), jobs=1)
    for name in ("coin", "saccb"):
        one = found.answers["no effect"][name]
        assert one.to_dict()["analysed"] == 80
        rejected = round(80 * one.rejections.value)
        assert stats.binomtest(rejected, 80, 0.05).pvalue > 0.001
        assert abs(one.honesty.value - 1) < 4 * one.honesty.standard_error
    assert found.answers["no effect"]["saccb"].mean("updates_done").value == 1
