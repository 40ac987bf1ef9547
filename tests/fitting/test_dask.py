"""The same fit on a cluster of several worker processes on this machine, which read and write by path and by URL."""

import os
import signal

import pytest

from surefoot import InputError
from surefoot.data.locations import Url
from surefoot.fitting import FittedStudy, fit_study, parts
from surefoot.numerics import parallel
from tests.fitting.test_fitting import one_file_per, study, table  # noqa: F401 - a fixture

distributed = pytest.importorskip("distributed", reason="Dask is optional: pip install 'surefoot[cluster]' to run these")
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, on ending processes


@pytest.fixture(scope="module")
def cluster(s3):
    """Processes of their own, which know the store of objects by the environment they were started in."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as running:
        yield running


@pytest.fixture(scope="module")
def victims(cluster):
    """The processes that the workers began with, one for each test to kill; others take their place."""
    return [worker.pid for worker in cluster.workers.values()]


@pytest.fixture
def parts_of_a_few(monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 100)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("spread_by", ["participant", "time"])
def test_results_equal_the_local_ones_to_the_last_bit(table, cluster, parts_of_a_few, spread_by, tmp_path):  # noqa: F811
    """By participant: everybody's rows are in one file; by time: in all of them."""
    logs = one_file_per(table, tmp_path / "logs", spread_by, 3)
    fit_study(logs, study(), tmp_path / "here")
    done = []
    there = tmp_path / "there"
    address = cluster.scheduler_address
    fit_study(logs, study(), there, engine="dask", scheduler=address, progress=lambda people, total: done.append(people))
    assert contents(there) == contents(tmp_path / "here")
    assert done[-1] == 12
    assert len(done) > 3


@pytest.mark.parametrize("store", ["", "s3://"])
def test_a_killed_worker_costs_time_and_no_result(store, table, cluster, victims, s3, parts_of_a_few, tmp_path):  # noqa: F811
    """Logs and results by path, and by the URL of objects."""
    here = one_file_per(table, tmp_path / "logs", "participant", 3)
    place = f"{s3}/killed" if store else str(tmp_path)
    if store:
        for file in here.iterdir():
            (Url(f"{place}/logs") / file.name).write_bytes(file.read_bytes())
    alive = [victims.pop()]

    def kill_one(people, total):
        assert people < total or not alive
        while alive:
            os.kill(alive.pop(), signal.SIGKILL)

    address = cluster.scheduler_address
    fit_study(f"{place}/logs", study(), f"{place}/there", engine="dask", scheduler=address, progress=kill_one)
    there, expected = FittedStudy.load(f"{place}/there"), fit_study(here, study())
    assert there.manifest == expected.manifest
    assert there.critic.to_pylist() == expected.critic.to_pylist()
    assert there.weights.to_pylist() == expected.weights.to_pylist()
    ask = (expected.policies.participants, [[0.5, 0.1, 0.2]] * 12)
    assert (there.policies.probabilities(*ask) == expected.policies.probabilities(*ask)).all()


def test_without_an_address_workers_are_started_here(table, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("SUREFOOT_THREADS", "2")
    logs = one_file_per(table, tmp_path / "logs", "participant", 2)
    fit_study(logs, study(), tmp_path / "here")
    fit_study(logs, study(), tmp_path / "there", engine="dask")
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_wrong_input_on_a_worker_is_the_same_error(table, cluster, tmp_path):  # noqa: F811
    wrong = table.set_column(table.schema.get_field_index("action"), "action", table["action"].slice(0).cast("float64"))
    wrong = wrong.set_column(wrong.schema.get_field_index("action"), "action", [[7.0] * len(wrong)])
    logs = one_file_per(wrong, tmp_path / "logs", "participant", 2)
    with pytest.raises(InputError, match="never declared"):
        fit_study(logs, study(), tmp_path / "out", engine="dask", scheduler=cluster.scheduler_address)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_wrong_combinations_are_refused(table, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(parallel, "ANSWER_SECONDS", 0.1)
    logs = one_file_per(table, tmp_path / "logs", "participant", 2)
    for arguments, words in (
        ({"engine": "dsk"}, "did you mean"),
        ({"engine": "numpy", "scheduler": "tcp://127.0.0.1:1"}, "scheduler is for engine 'dask'"),
        ({"engine": "dask", "scheduler": "tcp://127.0.0.1:1"}, "no Dask scheduler answers"),
    ):
        with pytest.raises(InputError, match=words):
            fit_study(logs, study(), tmp_path / "out", **arguments)
    with pytest.raises(InputError, match="folder"):
        fit_study(logs, study(), engine="dask")
