"""Fits from and to URLs: in this process' memory, in files, and on a server of S3 (`conftest.py`)."""

import pyarrow.parquet as pq
import pytest

import surefoot as sf
from surefoot import fitting
from surefoot.data.locations import Url, locate
from surefoot.fitting import FittedStudy, fit_study, folder, parts
from tests.fitting.test_fitting import one_file_per, study, table  # noqa: F401 - a fixture

registry = pytest.importorskip("fsspec.registry", reason="fsspec is optional: pip install 'surefoot[cluster]' to run these")


@pytest.fixture(scope="module", params=["memory", "s3"])
def store(request, tmp_path_factory):
    """A folder of every store that is tested."""
    if request.param == "s3":
        return request.getfixturevalue("s3")
    if request.param == "memory":
        registry.get_filesystem_class("memory")().makedirs("/trial", exist_ok=True)
    return {"memory": "memory://trial", "file": f"file://{tmp_path_factory.mktemp('store')}"}[request.param]


@pytest.fixture
def logs(table, store, tmp_path, monkeypatch):  # noqa: F811
    """Three files of twelve people, here and in the store; parts are of a few people."""
    monkeypatch.setattr(parts, "PART_ROWS", 200)
    here = one_file_per(table, tmp_path / "logs", "participant", 3)
    there = Url(f"{store}/{tmp_path.name}/logs")
    for file in here.iterdir():
        (there / file.name).write_bytes(file.read_bytes())
    return here, str(there)


def names(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


def test_a_fit_at_a_url_is_the_local_one_in_parts(logs, store, tmp_path):
    here, there = logs
    local = fit_study(here, study(), tmp_path / "fitted")
    stored = fit_study(there, study(), f"{store}/{tmp_path.name}/fitted/")
    assert stored.manifest == local.manifest
    assert stored.critic.to_pylist() == local.critic.to_pylist()
    assert stored.weights.to_pylist() == local.weights.to_pylist()
    again = FittedStudy.load(f"{store}/{tmp_path.name}/fitted")
    for policies in (again.policies, sf.policies.load(f"{store}/{tmp_path.name}/fitted/policies.parquet")):
        ask = (local.policies.participants, [[0.5, 0.1, 0.2]] * 12)
        assert (policies.probabilities(*ask) == local.policies.probabilities(*ask)).all()
    assert again.policies.training.fingerprint == local.policies.training.fingerprint
    count = len({name for name in names(stored.folder) if name.startswith("policies.parquet/")})
    assert count > 3
    tables = {f"{name}.parquet/part-{n:06d}.parquet" for name in ("policies", "critic", "weights") for n in range(count)}
    assert names(stored.folder) == {"manifest.json", "study.toml", *tables}


@pytest.mark.parametrize("store", ["file", "s3"], indirect=True, scope="module")
def test_others_read_the_tables_as_partitioned_data_sets(logs, store, tmp_path):
    """Each table is one folder for pandas, polars, pyarrow and Dask's kind of reader, whatever lies beside the parts."""
    import fsspec
    import pandas
    from pyarrow import dataset

    stored = fit_study(logs[1], study(), f"{store}/{tmp_path.name}/fitted")
    place = f"{stored.folder}/critic.parquet"
    expected = stored.critic.to_pydict()
    files, path = fsspec.core.url_to_fs(place)
    assert pandas.read_parquet(place).sort_values("participant").to_dict("list") == expected
    assert dataset.dataset(path, filesystem=files).to_table().sort_by("participant").to_pydict() == expected
    assert pq.read_table(path, filesystem=files).sort_by("participant").to_pydict() == expected


def test_an_interrupted_fit_continues_and_is_no_fit_before(logs, store, tmp_path, monkeypatch):
    _, there = logs
    out, written = f"{store}/{tmp_path.name}/fitted", []
    write = folder.PartWriter.write

    def stop_in_the_third_part(self, number, part):
        with pytest.MonkeyPatch.context() as patch:
            if number == 2:
                patch.setattr(Url, "write_bytes", write_no_weights)
            write(self, number, part)

    put = Url.write_bytes

    def write_no_weights(self, data):
        return 1 / 0 if "weights.parquet" in self.url else put(self, data)

    monkeypatch.setattr(folder.PartWriter, "write", stop_in_the_third_part)
    with pytest.raises(ZeroDivisionError):
        fit_study(there, study(), out)
    with pytest.raises(sf.InputError, match="not a folder of a fit"):
        FittedStudy.load(out)
    with pytest.raises(sf.InputError, match="unfinished fit of other logs"):
        fit_study(there, study(name="ro-linucb"), out)
    monkeypatch.setattr(folder.PartWriter, "write", lambda *a: written.append(a[1]) or write(*a))
    found = fit_study(there, study(), out)
    assert written == list(range(2, 1 + max(written)))  # neither of the two that were whole
    assert found.manifest["people"] == len(found.policies) == 12


def test_force_replaces_a_fit_and_nothing_else(logs, store, tmp_path, monkeypatch):
    _, there = logs
    out = f"{store}/{tmp_path.name}/fitted"
    fit_study(there, study(), out)
    with pytest.raises(sf.InputError, match="--force"):
        fit_study(there, study(), out)
    monkeypatch.setattr(parts, "PART_ROWS", 10**6)
    small = fit_study(there, study(name="ro-linucb"), out, force=True)
    assert small.manifest["method"]["name"] == "ro-linucb"
    assert len(names(small.folder)) == 5
    assert len(small.policies) == len(small.critic) == 12
    with pytest.raises(sf.InputError, match="is not a fit"):
        fit_study(there, study(), there, force=True)


def test_wrong_input_leaves_nothing(table, store, tmp_path):  # noqa: F811
    wrong = table.set_column(table.schema.get_field_index("action"), "action", [[7.0] * len(table)])
    pq.write_table(wrong, tmp_path / "wrong.parquet")
    with pytest.raises(sf.InputError, match="never declared"):
        fit_study(tmp_path / "wrong.parquet", study(), f"{store}/{tmp_path.name}/fitted")
    assert names(Url(f"{store}/{tmp_path.name}")) == set()


def test_one_text_file(table, store, tmp_path):  # noqa: F811
    from pyarrow import csv

    csv.write_csv(table, tmp_path / "logs.csv")
    place = Url(f"{store}/{tmp_path.name}")
    (place / "logs.csv").write_bytes((tmp_path / "logs.csv").read_bytes())
    stored = fit_study(f"{place}/logs.csv", study(), f"{place}/first")
    local = fit_study(tmp_path / "logs.csv", study(), tmp_path / "first")
    assert stored.manifest == local.manifest


@pytest.mark.parametrize("store", ["file"], indirect=True, scope="module")
def test_processes_read_and_write_by_url(logs, store, tmp_path, monkeypatch):
    """On Dask's workers, and in S3: `test_dask.py`."""
    monkeypatch.setattr(fitting, "ENOUGH_PARTS", 1)
    monkeypatch.setattr(fitting, "count_cores", lambda: 2)
    here, there = logs
    stored = fit_study(there, study(), f"{store}/{tmp_path.name}/fitted")
    assert stored.critic.to_pylist() == fit_study(here, study()).critic.to_pylist()


def test_the_command_takes_urls(logs, store, tmp_path):
    from typer.testing import CliRunner

    from surefoot.cli import app

    (tmp_path / "study.toml").write_text(study().text)
    out = f"{store}/{tmp_path.name}/fitted"
    found = CliRunner().invoke(app, ["fit", logs[1], "--study", str(tmp_path / "study.toml"), "--out", out])
    assert found.exit_code == 0, found.output
    assert f"Written: {out}/" in found.output


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s4://bucket/logs.csv", "Protocol not known: s4"),
        ("nowhere://bucket/logs.csv", "Install nowherefs; install it with: pip install nowherefs"),
        ("memory://empty/logs.parquet", "there is no such file"),
    ],
)
def test_what_cannot_be_reached_is_refused_with_the_remedy(url, words, monkeypatch):
    known = {"class": "nowherefs.System", "err": "Install nowherefs"}
    monkeypatch.setitem(registry.known_implementations, "nowhere", known)
    with pytest.raises(sf.InputError, match=words):
        fit_study(url, study())


def test_a_bucket_that_is_not_there_is_not_made(table, store, tmp_path):  # noqa: F811
    pq.write_table(table, tmp_path / "logs.parquet")
    with pytest.raises(sf.InputError, match=r"there is no /?not-there there"):
        fit_study(tmp_path / "logs.parquet", study(), f"{store.split(':')[0]}://not-there/a/fitted")


def test_paths_stay_paths(tmp_path):
    assert locate(str(tmp_path)) == tmp_path
    assert locate(f"file://{tmp_path}/") == Url(f"file://{tmp_path}")
