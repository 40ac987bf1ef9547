import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot import fitting
from surefoot.fitting import FittedStudy, fit_study, parts
from surefoot.fitting import folder as fit_folder
from tests.interrupts import heed_interrupts

STUDY = """
[columns]
participant = "participant"
time = "time"
probability = "probability"
[state.weather]
range = [-2, 2]
[state.engagement]
scaling = { centre = 0.4, scale = 1.2 }
[state.fatigue]
use = "critic"
[method]
name = "ro-accb"
pooling = "person"
"""
RESULTS = {"policies.parquet", "policies.json", "critic.parquet", "weights.parquet", "manifest.json", "study.toml"}


@pytest.fixture(scope="module")
def table():
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=60, seed=0)
    return sf.simulators.contaminate(logs, mechanism="prompted", ratio=0.05, strength=5, seed=1).logs.to_frame("pyarrow")


def study(**changes):
    text = STUDY
    for old, new in changes.items():
        text = text.replace(f'{old} = "', f'{old} = "{new}" # "')
    return sf.Study.parse(text)


def one_file_per(table, folder, column, groups):
    folder.mkdir()
    for group in range(groups):
        rows = table.filter(
            pc.equal(pc.subtract(table[column], pc.multiply(pc.divide(table[column], groups), groups)), group)
        )
        pq.write_table(rows, folder / f"{group:02d}.parquet")
    return folder


def assert_same_fit(fitted, method, read):
    assert_array_equal(fitted.policies.participants, method.policies_.participants)
    for name, values in method.policies_.rule.arrays().items():
        assert_array_equal(fitted.policies.rule.arrays()[name], values)
    assert_array_equal(fitted.critic["threshold"], method.threshold_)
    assert_array_equal(fitted.critic["scale"], method.scale_)
    assert_array_equal(
        np.column_stack([fitted.critic[name] for name in fitted.critic.column_names[7:]]), method.critic_coef_
    )
    weights = fitted.weights.sort_by("row")
    assert_array_equal(weights["row"], read.row)
    assert_array_equal(weights["participant"], read.logs.participant)
    assert_array_equal(weights["time"], read.logs.time)
    assert_array_equal(pc.fill_null(weights["weight"], np.nan), method.weights_)
    assert_array_equal(pc.fill_null(weights["residual"], np.nan), method.residuals_)


@pytest.mark.parametrize(("method", "rows"), [("ro-accb", 1), ("linucb", 200), ("filter-saccb", 200), ("accb", 10**6)])
def test_parts_of_any_size_give_what_one_fit_in_memory_gives(table, method, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", rows)
    described = study(name=method)
    pq.write_table(table, tmp_path / "logs.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "logs.csv")
    # A participant's rows in one file, and everybody's rows spread over all files.
    by_participant = one_file_per(table, tmp_path / "people", "participant", 5)
    by_time = one_file_per(table, tmp_path / "days", "time", 4)
    for path in (tmp_path / "logs.parquet", tmp_path / "logs.csv", by_participant, by_time):
        read = described.read(path)
        assert_same_fit(fit_study(path, described, tmp_path / f"{path.name}.fit"), described.method().fit(read.logs), read)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
@pytest.mark.parametrize("merged", [100, 5], ids=["one file", "folder of parts"])
def test_parts_are_put_together(table, text, merged, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 130)
    monkeypatch.setattr(fit_folder, "MERGED_PEOPLE", merged)
    folder = one_file_per(table, tmp_path / "people", "participant", 5)
    if text:
        for path in folder.iterdir():
            rows = pq.read_table(path)
            pq.write_table(
                rows.set_column(0, "participant", pc.binary_join_element_wise("p", rows["participant"].cast("str"), "")),
                path,
            )
    read = study().read(folder)
    fitted = fit_study(folder, study(), tmp_path / "fitted")
    assert_same_fit(fitted, study().method().fit(read.logs), read)
    assert fitted.critic["participant"].to_pylist() == read.logs.participants.tolist()
    assert (tmp_path / "fitted" / "policies.parquet").is_dir() == (merged == 5)
    if merged == 100:
        fitted.policies.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == (tmp_path / "fitted" / "policies.json").read_bytes()


@pytest.mark.slow
def test_processes_give_the_same_files_to_the_last_bit(table, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 130)
    monkeypatch.setenv("SUREFOOT_THREADS", "2")
    folder = one_file_per(table, tmp_path / "people", "participant", 5)
    done = []
    fit_study(folder, study(), tmp_path / "here", engine="numpy")
    monkeypatch.setattr(fitting, "ENOUGH_PARTS", 4)
    fit_study(folder, study(), tmp_path / "processes", progress=lambda people, total: done.append((people, total)))
    assert done[-1] == (12, 12) and len(done) > 3
    for name in RESULTS:
        assert (tmp_path / "processes" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_pooled_and_in_memory(table, tmp_path):
    pq.write_table(table, tmp_path / "logs.parquet")
    described = study(pooling="all")
    read = described.read(tmp_path / "logs.parquet")
    method = described.method().fit(read.logs)
    written = fit_study(tmp_path / "logs.parquet", described, tmp_path / "fitted")
    kept = fit_study(tmp_path / "logs.parquet", described)
    given = fit_study(read, described, tmp_path / "given")
    assert kept.folder is None
    for fitted in (written, kept, given, FittedStudy.load(tmp_path / "fitted")):
        assert fitted.policies.participants is None
        assert_array_equal(fitted.policies.rule.coef, method.policies_.rule.coef)
        assert fitted.critic["participant"].to_pylist() == ["everyone"]
        assert len(fitted.weights) == len(table)
    assert written.manifest == kept.manifest
    assert {path.name for path in tmp_path.iterdir()} == {"logs.parquet", "fitted", "given"}


@pytest.mark.parametrize("pooling", ["all", "partial"])
def test_a_pooled_fit_to_a_folder_is_the_fit_to_all_rows(table, pooling, tmp_path, monkeypatch):
    """Everybody's rows are spread over four files, and a part holds fewer rows than a file."""
    monkeypatch.setattr(parts, "PART_ROWS", 60)
    folder, described = one_file_per(table, tmp_path / "days", "time", 4), study(pooling=pooling)
    read = described.read(folder)
    written = fit_study(folder, described, tmp_path / "fitted")
    assert_same_fit(written, described.method().fit(read.logs), read)
    assert written.manifest == fit_study(read, described).manifest


def test_the_manifest_says_what_went_in_and_equal_input_gives_equal_bytes(table, tmp_path):
    import hashlib

    path = tmp_path / "logs.parquet"
    pq.write_table(table, path)
    (tmp_path / "study.toml").write_text(STUDY)
    for out in ("one", "two"):
        fit_study(path, tmp_path / "study.toml", tmp_path / out)
        assert {file.name for file in (tmp_path / out).iterdir()} == RESULTS
    for name in RESULTS:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["inputs"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["study"]["sha256"] == hashlib.sha256(STUDY.encode()).hexdigest()
    assert manifest["versions"]["surefoot"] == sf.__version__
    assert manifest["method"]["name"] == "ro-accb"
    assert manifest["method"]["parameters"]["policy_variables"] == ["weather", "engagement"]
    outside = int((np.abs(table["weather"]) > 2).sum())
    assert manifest["implausible"] == {"weather": outside}
    assert manifest["missing"] == {"weather": outside, "engagement": 0, "fatigue": 0, "outcome": 0}
    assert manifest["people"] == 12
    assert manifest["used"] == 720 - outside
    weights = pq.read_table(tmp_path / "one" / "weights.parquet")
    assert manifest["removed"] == pc.sum(pc.equal(weights["weight"], 0)).as_py()
    assert sf.policies.load(tmp_path / "one" / "policies.json").participants.tolist() == list(range(12))


@pytest.mark.parametrize("name", ["logs.csv", "logs.parquet"])
def test_a_file_is_read_parsed_and_sorted_once(name, table, tmp_path, monkeypatch):
    """One file through `surefoot fit`: its hash and its rows come from the same bytes."""
    from pathlib import Path

    from typer.testing import CliRunner

    from surefoot.cli import app
    from surefoot.data import file_formats, log_columns, trajectories
    from surefoot.learning import methods

    path = tmp_path / name
    (pq.write_table if name.endswith("parquet") else pyarrow.csv.write_csv)(table, path)
    (tmp_path / "study.toml").write_text(STUDY)
    calls = dict.fromkeys(("read", "decode", "parse", "participants", "method", "sort"), 0)

    def count(what, where, attribute, counts=lambda *arguments: True):
        wrapped = getattr(where, attribute)

        def counted(*arguments, **named):
            calls[what] += bool(counts(*arguments))
            return wrapped(*arguments, **named)

        monkeypatch.setattr(where, attribute, counted)

    count("read", Path, "open", lambda file, *_: file == path)
    count("decode", file_formats, "decode_text")
    count("parse", file_formats, "read_text" if name.endswith("csv") else "_read_parquet_table")
    count("participants", log_columns.LogColumn, "participants")
    count("method", methods, "method")
    count("sort", trajectories.np, "lexsort")
    monkeypatch.setattr(pq, "ParquetFile", _only_bytes(pq.ParquetFile, path))
    arguments = ["fit", str(path), "--study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "fitted")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    decoded = 1 if name.endswith("csv") else 0
    assert calls == {"read": 1, "decode": decoded, "parse": 1, "participants": 1, "method": 1, "sort": 1}


def _only_bytes(opens, path):
    """A Parquet file is opened from the bytes that were hashed, not by its path."""

    def opened(source, *arguments, **named):
        assert source != path
        return opens(source, *arguments, **named)

    return opened


PROGRAM = """
    import sys
    from surefoot.fitting import fit_study, parts
    parts.PART_ROWS = 60
    def progress(done, people):
        print(done, flush=True)
        if done == 5:
            sys.stdin.readline()
    fit_study("logs.parquet", "study.toml", "fitted", progress=progress)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_killed_continues(how, table, tmp_path, monkeypatch):
    pq.write_table(table, tmp_path / "logs.parquet")
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    monkeypatch.setattr(parts, "PART_ROWS", 60)
    with heed_interrupts(), subprocess.Popen(command, cwd=tmp_path, **pipes) as process:  # noqa: S603
        assert [int(process.stdout.readline()) for _ in range(5)] == [1, 2, 3, 4, 5]
        with pytest.raises(sf.InputError, match="another run is fitting the same logs"):
            fit_study(tmp_path / "logs.parquet", tmp_path / "study.toml", tmp_path / "fitted")
        os.kill(process.pid, how)
    assert process.returncode != 0
    assert not (tmp_path / "fitted").exists()
    (working,) = tmp_path.glob(".fitted.partial-*")
    assert len(list(working.glob("_parts-*/*.json"))) == 5
    # What died while a part was written must not be taken for a part.
    (working / "unfinished-x").mkdir()
    calls = []
    monkeypatch.setattr(fitting, "fit_part", lambda study, logs, engine: calls.append(logs) or parts.fit_part(study, logs))
    described = sf.Study.load(tmp_path / "study.toml")
    fitted = fit_study(tmp_path / "logs.parquet", described, tmp_path / "fitted")
    assert len(calls) == 7
    read = described.read(tmp_path / "logs.parquet")
    assert_same_fit(fitted, described.method().fit(read.logs), read)
    assert {path.name for path in tmp_path.iterdir()} == {"logs.parquet", "study.toml", "fitted"}


def test_other_input_or_parameters_never_continue_from_these_parts(table, tmp_path, monkeypatch):
    pq.write_table(table, tmp_path / "logs.parquet")
    monkeypatch.setattr(parts, "PART_ROWS", 60)

    def stop(done, people):
        if done == 3:
            raise KeyboardInterrupt

    for described in (study(), study(name="accb")):
        with pytest.raises(KeyboardInterrupt):
            fit_study(tmp_path / "logs.parquet", described, tmp_path / "fitted", progress=stop)
    assert len(list(tmp_path.glob(".fitted.partial-*"))) == 2
    fit_study(tmp_path / "logs.parquet", study(name="accb"), tmp_path / "fitted")
    assert len(list(tmp_path.glob(".fitted.partial-*"))) == 1
    # Nor do parts of another size: they hold other people.
    monkeypatch.setattr(parts, "PART_ROWS", 200)
    read = study().read(tmp_path / "logs.parquet")
    assert_same_fit(fit_study(tmp_path / "logs.parquet", study(), tmp_path / "again"), study().method().fit(read.logs), read)
    fitted = fit_study(tmp_path / "logs.parquet", study(), tmp_path / "fitted", force=True)
    assert_same_fit(fitted, study().method().fit(read.logs), read)


def test_warnings_of_finished_parts_are_told_after_a_restart(table, tmp_path, monkeypatch):
    outcome = np.array(table["outcome"]).copy()
    outcome[np.array(table["participant"]) == 1] = np.nan
    spoiled = table.set_column(table.column_names.index("outcome"), "outcome", pa.array(outcome, from_pandas=True))
    pq.write_table(spoiled, tmp_path / "logs.parquet")
    monkeypatch.setattr(parts, "PART_ROWS", 60)

    def stop(done, people):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_study(tmp_path / "logs.parquet", study(), tmp_path / "fitted", progress=stop)
    with pytest.warns(sf.FitWarning, match="participant 1: no usable decision point"):
        fitted = fit_study(tmp_path / "logs.parquet", study(), tmp_path / "fitted")
    assert fitted.manifest["warnings"] == [
        "participant 1: no usable decision point, so nothing was learned; an actor flips a coin, LinUCB sends nothing, "
        "posterior sampling follows its prior"
    ]


def test_what_is_there_is_replaced_only_when_told_and_only_when_it_is_a_fit(table, tmp_path):
    pq.write_table(table, tmp_path / "logs.parquet")
    out = tmp_path / "fitted"
    fit_study(tmp_path / "logs.parquet", study(), out)
    before = (out / "manifest.json").read_bytes()
    with pytest.raises(sf.InputError, match="already there"):
        fit_study(tmp_path / "logs.parquet", study(name="accb"), out)
    assert (out / "manifest.json").read_bytes() == before
    fit_study(tmp_path / "logs.parquet", study(name="accb"), out, force=True)
    assert json.loads((out / "manifest.json").read_text())["method"]["name"] == "accb"
    mine = tmp_path / "documents"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    with pytest.raises(sf.InputError, match="is not a fit"):
        fit_study(tmp_path / "logs.parquet", study(), mine, force=True)
    assert (mine / "letter.txt").read_text() == "dear"
    with pytest.raises(sf.InputError, match="no folder"):
        fit_study(tmp_path / "logs.parquet", study(), tmp_path / "not" / "there")
    with pytest.raises(sf.InputError, match="not a folder of a fit"):
        FittedStudy.load(mine)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("rows", [60, 10**6], ids=["many parts", "one part"])
@pytest.mark.parametrize(
    ("outcome", "words"),
    [(None, "column 'outcome' is always missing"), (7.0, "the outcome is 7 at all")],
    ids=["missing", "constant"],
)
def test_rewards_that_teach_nothing_are_refused_whatever_the_parts(table, outcome, words, rows, tmp_path, monkeypatch):
    values = pa.array([outcome] * len(table), pa.float64())
    pq.write_table(table.set_column(table.column_names.index("outcome"), "outcome", values), tmp_path / "logs.parquet")
    monkeypatch.setattr(parts, "PART_ROWS", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        for out in (None, tmp_path / "fitted"):
            with pytest.raises(sf.InputError, match=words):
                fit_study(tmp_path / "logs.parquet", study(), out)
    assert not (tmp_path / "fitted").exists()
