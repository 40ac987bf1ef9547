"""The container files, as far as they can be judged without pulling images."""

import re
from pathlib import Path

import pytest
import typer

from surefoot.cli import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def compose():
    yaml = pytest.importorskip("yaml", reason="no PyYAML: it comes with the extra dev")
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_three_containers_of_which_only_the_proxys_ports_are_open(compose):
    assert set(compose["services"]) == {"database", "surefoot", "proxy"}
    assert compose["services"]["proxy"]["network_mode"] == "service:surefoot"
    assert [port.split(":")[1] for port in compose["services"]["surefoot"]["ports"]] == ["80", "443"]
    assert "ports" not in compose["services"]["database"]
    assert all(one["restart"] == "always" for one in compose["services"].values())


def test_every_container_that_is_waited_for_or_watched_has_a_health_check(compose):
    test = compose["services"]["surefoot"]["healthcheck"]["test"]
    assert test[:3] == ["CMD", "python", "-c"] and "http://127.0.0.1:8000/healthz" in test[3]
    compile(test[3], "the health check", "exec")
    assert compose["services"]["database"]["healthcheck"]["test"][1] == "pg_isready"


def test_no_password_is_in_the_file_and_no_image_names_a_host(compose):
    for one in compose["services"].values():
        for value in one.get("environment", {}).values():
            assert "PASSWORD" not in value or value.startswith(("${POSTGRES_PASSWORD:?", "postgresql://surefoot:${"))
        assert re.fullmatch(r"[a-z]+:[\d.]+", one.get("image", "built:1"))
    bases = re.findall(r"^FROM (\S+)", (DEPLOY / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert bases and all(re.fullmatch(r"[a-z]+:[\w.-]+", base) for base in bases)


def test_what_the_container_file_copies_is_there_and_the_command_exists():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())
    assert (
        "USER surefoot" in text
        and "--uid 990 " in text
        and "chown 0:990" in (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    )
    assert re.search(r'^CMD \["(\w+)"', text, re.MULTILINE)[1] in typer.main.get_command(app).commands


def test_the_environment_file_is_read_alike_by_systemd_and_by_a_shell():
    for line in (DEPLOY / "environment").read_text(encoding="utf-8").splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r'[A-Z_]+="[^"$`\\]*"', line)
