"""What a release gives people: an sdist and a wheel that install into an empty environment and are whole."""

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from surefoot.version import __version__

ROOT = Path(__file__).parents[2]
NAME = f"surefoot-{__version__}"
pytestmark = pytest.mark.slow

OPEN_A_TRIAL = """
import sys
from pathlib import Path
import surefoot
from surefoot.client import Client
from surefoot.datasets import heartsteps_v1
from surefoot.service.app import create_app
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study

assert Path(surefoot.__file__).is_relative_to(sys.prefix), surefoot.__file__
trial = open_trial(Study.load("study.toml"), "sqlite:///trial.db")
assert create_app(trial).state.description.content["info"]["version"] == surefoot.__version__
trial.close()
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Built as `make dist` does it: the wheel from the sdist, from a copy of what git knows."""
    pytest.importorskip("build", reason="no build: it comes with the extra dev")
    folder = tmp_path_factory.mktemp("release")
    copy = folder / "checkout"
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in (name for name in tracked if (ROOT / name).is_file() and not name.startswith(("docs/", "benchmarks/"))):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(dist):
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as one:
        yield one


def test_the_wheel_is_small_and_holds_every_file_of_the_package(dist, wheel):
    assert (dist / f"{NAME}-py3-none-any.whl").stat().st_size < 2**20
    package = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src/surefoot").rglob("*") if path.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == package
    assert any(name.endswith(".html") for name in package) and any(name.endswith(".mako") for name in package)


def test_the_metadata_are_complete(wheel):
    metadata = Parser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == ("surefoot", __version__, "MIT")
    assert f"{NAME}.dist-info/licenses/LICENSE" in wheel.namelist()
    for field in ("Summary", "Author", "Keywords", "Classifier", "Project-URL", "Requires-Python"):
        assert metadata[field], field
    assert metadata["Description-Content-Type"] == "text/markdown" and "# Surefoot" in metadata.get_payload()
    assert set(metadata.get_all("Provides-Extra")) >= {"service", "client", "cluster", "gpu", "sklearn", "excel", "dev"}


def test_the_sdist_brings_what_a_packager_needs_and_no_tests(dist):
    with tarfile.open(dist / f"{NAME}.tar.gz") as sdist:
        names = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "constraints.txt"} <= names
    assert not [name for name in names if name.startswith(("tests", "results", "."))]


def test_the_wheel_works_in_an_environment_without_this_checkout(dist, tmp_path):
    """Dependencies are those of this environment, so that no network is needed; Surefoot itself is the wheel's."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    alone = {"cwd": tmp_path, "env": {"PATH": str(environment / "bin")}}
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin/python"]
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", dist / f"{NAME}-py3-none-any.whl", **alone)
    (packages,) = (environment / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "study.toml").write_bytes((ROOT / "examples/trial/study.toml").read_bytes())
    assert run(environment / "bin/surefoot", "--version", **alone) == f"surefoot {__version__}\n"
    assert "serve" in run(environment / "bin/surefoot", "--help", **alone)
    run(environment / "bin/python", "-c", OPEN_A_TRIAL, **alone)
