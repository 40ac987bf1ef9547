import json
from dataclasses import replace

import pytest

from surefoot import InputError
from surefoot.experiments.engine import Experiment, Limit, Report, keep_units, run_experiment
from surefoot.reports.figures import new_figure


def run_toy(replicate, parameters):
    return [{"product": replicate * parameters["seed"], "size": parameters["size"]}]


def report_toy(rows, parameters):
    assert [row["replicate"] for row in rows] == list(range(parameters["replicates"]))
    total = float(sum(row["product"] for row in rows))
    limits = [Limit("total", "toy", total, 10.0)]
    return Report(rows, new_figure(width=2, height=2)[0], "nothing", f"total {total:g}", limits, {"total": total})


TOY = Experiment("toy", "A toy", {"replicates": 4, "size": 9}, {"replicates": 2}, run_toy, report_toy)


def run(experiment, out, *, quick=False, seed=3):
    return run_experiment(experiment, seed, out, quick=quick, jobs=1)


def test_an_experiment_writes_its_files_and_keeps_no_units(tmp_path):
    summary = run(TOY, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"toy.{end}" for end in ("json", "md", "parquet", "svg")]
    assert summary["total"] == 3 * (0 + 1 + 2 + 3)
    assert summary["limits"][0]["held"] is False
    assert json.loads((tmp_path / "toy.json").read_text()) == summary
    assert "| total | toy | 18 (missed) | at most 10 |" in (tmp_path / "toy.md").read_text()
    assert run(TOY, tmp_path, quick=True)["parameters"] == {"replicates": 2, "size": 9, "seed": 3}


def test_a_run_goes_on_where_it_stopped(tmp_path):
    started = []

    def stop_at_two(replicate, parameters):
        started.append(replicate)
        if replicate == 2 and started.count(2) == 1:
            raise KeyboardInterrupt
        return run_toy(replicate, parameters)

    fragile = replace(TOY, run=stop_at_two)
    with pytest.raises(KeyboardInterrupt):
        run(fragile, tmp_path)
    assert not (tmp_path / "toy.json").exists()
    assert run(fragile, tmp_path)["total"] == 18
    assert started == [0, 1, 2, 2, 3]


def test_units_of_other_settings_are_never_mixed_in(tmp_path):
    folders = set()
    for settings in ({"seed": 0}, {"seed": 1}, {"seed": 0, "size": 2}):
        with keep_units(tmp_path, settings) as folder:
            folders.add(folder.name)
    assert len(folders) == 3


def test_a_negative_seed_is_refused(tmp_path):
    with pytest.raises(InputError, match="seed is -1"):
        run(TOY, tmp_path, seed=-1)


def test_limits_say_whether_they_hold():
    assert Limit("", "", 1.0, None).held is None
    assert Limit("", "", 1.0, 1.0).held
    assert Limit("", "", 0.5, 1.0, at_most=False).held is False
