"""What a release gives people: an sdist and a wheel that install into an empty environment and are whole."""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from manual.code_blocks import PROGRAMS, list_blocks

from surefoot.version import __version__
from tests.service.support.postgres import free_port
from tests.studies import write_strangers_trial

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
    assert (dist / f"{NAME}-py3-none-any.whl").stat().st_size < 1.25 * 2**20
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


@pytest.fixture(scope="module")
def alone(dist, tmp_path_factory):
    """Runs words in an environment without this checkout, and without a network: only Surefoot itself is the wheel's."""
    folder = tmp_path_factory.mktemp("alone")
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    options = {"cwd": folder, "env": {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(folder), **threads}}
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin/python"]
    run(*pip, "install", "--no-deps", "--no-index", "--no-compile", dist / f"{NAME}-py3-none-any.whl", **options)
    (packages,) = (environment / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return options


def test_the_wheel_works_in_an_environment_without_this_checkout(alone):
    (alone["cwd"] / "study.toml").write_bytes((ROOT / "examples/trial/study.toml").read_bytes())
    assert run("surefoot", "--version", **alone) == f"surefoot {__version__}\n"
    assert "serve" in run("surefoot", "--help", **alone)
    run("python", "-c", OPEN_A_TRIAL, **alone)
    (alone["cwd"] / "study.toml").unlink()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, which README pastes")
def test_the_commands_of_readme_work_as_they_are_written(alone):
    """Of `make` and `pip` it is checked that what they name exists; tests/test_readme.py runs the Python block."""
    write_strangers_trial(alone["cwd"] / "trial.csv")
    blocks = list_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    commands = "".join(block.code for block in blocks if block.language == "sh").splitlines()
    printed = []
    ran = []
    for command in commands:
        if command.startswith("cd "):
            alone = {**alone, "cwd": alone["cwd"] / command.removeprefix("cd ")}
        elif command.startswith("surefoot serve"):
            printed += paste_guide(command.partition("#")[0], alone)
        elif command.startswith("surefoot"):
            printed += run("bash", "-c", command, **alone).splitlines()
        else:
            program, *words = shlex.split(command, comments=True)
            PROGRAMS[program](words)
        ran.append(command.split()[1])
    assert {"demo", "doctor", "init", "effects", "rehearse", "serve"} <= set(ran)
    shown = [line for block in blocks if block.language == "text" for line in block.code.splitlines()]
    printed += run("surefoot", "effects", "logs.csv", **alone).splitlines()
    printed = " ".join(" ".join(printed).split())
    for line in shown:
        assert re.sub(r'"[0-9a-f]{32}".*', "", line) in printed, line
    assert "240 decisions for 10 people" in printed


def paste_guide(command, alone):
    """Start the service, at another port, and paste all that it says to paste; the lines that this printed."""
    words = f"exec {command} --port {free_port()} --log-level error"
    with subprocess.Popen(["bash", "-c", words], stdout=subprocess.PIPE, text=True, **alone) as service:  # noqa: S603, S607
        guide = []
        for line in service.stdout:
            guide.append(line)
            if line.startswith("Surefoot listens at"):
                break
        try:
            pasted = [line for line in guide if re.match(r"export |curl |  -H |.*bin/python ", line)]
            assert [line.split()[0].rpartition("/")[2] for line in pasted] == ["export", "export", "curl", "-H", "python"]
            wait = f"for try in $(seq 300); do curl -s {guide[-1].split()[-1]}/healthz && break; sleep 0.2; done\n"
            return run("bash", "-c", wait + "".join(pasted), **alone).splitlines()
        finally:
            service.terminate()
