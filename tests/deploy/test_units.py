"""The systemd units: systemd itself reads them, and they call commands that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from surefoot.cli import app

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
EXPOSURE = 20
"""Of 100; what `systemd-analyze security` calls OK begins below 50."""
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze: install it (apt-get install systemd)"
)


def analyze(*words):
    command = [shutil.which("systemd-analyze"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own words


@pytest.fixture
def installed(tmp_path):
    """The units as they are, but with the program where it is here."""
    program = tmp_path / "surefoot"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/opt/surefoot/bin/surefoot", str(program))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    return tmp_path


@needs_systemd
def test_systemd_takes_all_units(installed):
    found = analyze("verify", *(installed / unit.name for unit in UNITS))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@needs_systemd
def test_systemd_finds_a_mistake(installed):
    unit = installed / "surefoot.service"
    unit.write_text(unit.read_text().replace("Restart=always", "Restart=sometimes"))
    assert "sometimes" in analyze("verify", unit).stderr


@needs_systemd
@pytest.mark.parametrize("unit", [unit.name for unit in SERVICES])
def test_the_services_have_few_rights(installed, unit):
    found = analyze("security", "--offline=true", f"--threshold={EXPOSURE}", installed / unit)
    assert found.returncode == 0, found.stdout[-300:]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_the_units_call_commands_that_exist(unit):
    commands = typer.main.get_command(app).commands
    called = re.findall(r"/opt/surefoot/bin/surefoot (\w+)", unit.read_text(encoding="utf-8"))
    assert called and set(called) <= set(commands)


def test_every_timer_has_its_service_and_makes_up_for_missed_nights():
    timers = [unit for unit in UNITS if unit.suffix == ".timer"]
    assert timers
    for timer in timers:
        assert timer.with_suffix(".service") in SERVICES
        assert "Persistent=true" in timer.read_text(encoding="utf-8")
