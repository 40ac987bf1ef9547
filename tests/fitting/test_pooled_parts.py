"""Pooled fits in parts equal those in memory."""

import hashlib

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.data import log_files
from surefoot.fitting import FittedStudy, fit_study, partition, pooled_parts
from surefoot.learning import penalty_units
from surefoot.numerics import streamed_arrays
from tests.fitting.test_kept_logs import write_study


@pytest.fixture(scope="module")
def logs():
    made = sf.simulators.HeartSteps(participants=9).collect(sf.policies.coin(2), decision_points=40, seed=3)
    reward = np.where(made.time % 6 == 2, np.nan, made.reward)
    reward = np.where((made.time % 10 == 3) & (made.action == 1), reward + 5000, reward)  # For robust critics to remove.
    state = np.where(made.time[:, None] == 7, np.nan, made.state)
    return made.with_values(reward=reward, state=state)


def fit_inputs(path):
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [
        {"name": one.name, "bytes": one.stat().st_size, "sha256": hashlib.sha256(one.read_bytes()).hexdigest()}
        for one in files
    ]


def write_files(logs, folder, form):
    table, path = logs.to_frame("pyarrow"), folder / "logs.csv"
    if form == "parquet":
        path = folder / "logs.parquet"
        pq.write_table(table, path, row_group_size=50)
    elif form == "folder":
        path = folder / "logs"
        path.mkdir()
        for number, rows in enumerate((slice(0, 150), slice(150, 360))):
            pq.write_table(table.slice(rows.start, rows.stop - rows.start), path / f"{number}.parquet")
    else:
        pyarrow.csv.write_csv(table, path)
    return path


IN_MOMENTS = [("linucb", "all"), ("ts", "partial"), ("ts", "all")]
IN_FILES = [(name, "all") for name in ("accb", "ro-saccb", "hb-accb", "filter-accb")]
IN_FILES += [(name, "partial") for name in ("accb", "hb-accb", "ro-ts")]
CASES = [(*kind, form) for kind in IN_MOMENTS for form in ("csv", "parquet", "folder")]
CASES += [(*kind, "folder") for kind in IN_FILES]


@pytest.mark.parametrize(("name", "pooling", "form"), CASES)
def test_it_equals_the_fit_in_memory(logs, tmp_path, monkeypatch, name, pooling, form):
    """From one file, from one with row groups, and from a folder; there somebody's rows are in two of them."""
    monkeypatch.setattr(partition, "PART_ROWS", 90)
    monkeypatch.setattr(log_files, "SPLIT_BYTES", 0)
    monkeypatch.setattr(streamed_arrays, "BLOCK_ROWS", 128)
    monkeypatch.setattr(penalty_units, "MOST_ROWS", 100)
    study = write_study(tmp_path, name, pooling)
    path = write_files(logs, tmp_path, form)
    calls = []
    whole_pass = pooled_parts._fit_everybody
    monkeypatch.setattr(
        pooled_parts, "_fit_everybody", lambda parts, where: calls.append(len(parts.parts)) or whole_pass(parts, where)
    )
    found = fit_study(path, study, tmp_path / "fitted")
    whole = fit_study(path, study)
    assert calls and calls[0] >= 4
    assert (found.manifest["removed"] > 0) == name.startswith(("ro-", "hb-"))
    assert found.manifest["inputs"] == fit_inputs(path)
    for column in whole.critic.column_names[1:]:
        assert_allclose(found.critic[column].to_numpy(), whole.critic[column].to_numpy(), rtol=1e-9, atol=1e-9)
    parts, everything = (
        one.weights.sort_by([("participant", "ascending"), ("time", "ascending")]) for one in (found, whole)
    )
    for column in ("row", "weight", "residual"):
        theirs = everything[column].to_numpy(zero_copy_only=False)
        assert_allclose(parts[column].to_numpy(zero_copy_only=False), theirs, rtol=1e-9, atol=1e-8)
    usable = logs.usable
    for policies in (found.policies, sf.policies.load(tmp_path / "fitted" / "policies.json")):
        assert_allclose(
            policies.probabilities(logs.participant[usable], logs.state[usable]),
            whole.policies.probabilities(logs.participant[usable], logs.state[usable]),
            rtol=1e-9,
            atol=1e-9,
        )
    for key in ("people", "decision_points", "available", "used", "removed", "missing", "reward_range", "warnings"):
        assert found.manifest[key] == whole.manifest[key], key
    assert FittedStudy.load(tmp_path / "fitted").policies.training.fingerprint == whole.policies.training.fingerprint


def test_what_stays_in_memory():
    for text, pooled in (
        ('name = "linucb"', True),
        ('name = "hb-accb"', True),
        ('name = "accb"\nparameters = { critic = "random-forest" }', False),
        ('name = "ahead"', False),
    ):
        study = sf.Study.parse(
            f'[state.weather]\n[columns]\nparticipant = "a"\ntime = "b"\n[method]\npooling = "all"\n{text}\n'
        )
        assert pooled_parts.can_pool_parts(study) == pooled


@pytest.mark.parametrize("pooling", ["all", "partial"])
def test_what_is_forgotten_and_centred_counts_as_in_memory(logs, tmp_path, monkeypatch, pooling):
    monkeypatch.setattr(partition, "PART_ROWS", 90)
    parameters = "forgetting = 0.97\nparameters = { centre_actions = true }"
    study, path = write_study(tmp_path, "accb", pooling, parameters), tmp_path / "logs.csv"
    pyarrow.csv.write_csv(logs.to_frame("pyarrow"), path)
    found, whole = fit_study(path, study, tmp_path / "fitted"), fit_study(path, study)
    assert pooled_parts.can_pool_parts(sf.Study.load(study))
    usable = (logs.participant[logs.usable], logs.state[logs.usable])
    assert_allclose(found.policies.probabilities(*usable), whole.policies.probabilities(*usable), rtol=1e-9, atol=1e-9)
