"""The TypeScript client is the API's, and an app server made of it works."""

import http.client
import json
import os
import re
import runpy
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from surefoot.service.database.schema import decisions, outcomes
from surefoot.version import __version__
from tests.client.test_clients import CONTEXT, rows

ROOT = Path(__file__).parents[2] / "clients" / "typescript"
COMPILER = ROOT / "node_modules" / ".bin" / "tsc"
POINT = {"decision_idx": 0, "timestamp": "2026-03-01T09:30:00+01:00", "context": CONTEXT}


def test_the_committed_file_is_what_the_description_gives():
    generator = runpy.run_path(str(ROOT / "generate.py"))
    written = generator["write_api"](generator["describe_api"]())
    assert written == generator["OUTPUT"].read_text(encoding="utf-8"), "run: python clients/typescript/generate.py"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/components/schemas/Outcome"}, "Outcome"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "Record<string, boolean>"),
        ({"type": "array", "items": {"type": "object"}}, "Record<string, unknown>[]"),
        ({}, "unknown"),
    ],
)
def test_types_are_written_as_typescript(schema, expected):
    assert runpy.run_path(str(ROOT / "generate.py"))["write_type"](schema) == expected


def test_the_package_names_exact_versions_and_no_host():
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert all(re.fullmatch(r"[0-9.]+", version) for version in package["devDependencies"].values())
    assert package["version"] == __version__
    assert "://" not in (ROOT / "package-lock.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_programs_run_against_a_served_trial(served, proxy, participant):
    """In one test: both are compiled into the same folder."""
    node = shutil.which("node")
    if node is None or not COMPILER.exists():
        pytest.skip("no TypeScript: install Node 20 or newer and run `make typescript`")
    subprocess.run([COMPILER], cwd=ROOT, check=True)  # noqa: S603 - our own words
    check_readme(node, served)
    check_app_server(node, served, proxy, participant)


def check_readme(node, served):
    page, program = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "example/first_decision.ts"))
    assert f"```ts\n{program}```" in page
    given = {**os.environ, "SUREFOOT_URL": served.url, "SUREFOOT_KEY": served.app}
    words = [node, "build/example/first_decision.js"]
    done = subprocess.run(words, cwd=ROOT, env=given, capture_output=True, text=True, check=True)  # noqa: S603 - our own words
    assert re.fullmatch(r"(nothing|send) \[ 0.5, 0.5 \] warm-up recorded\n", done.stdout)


@contextmanager
def app_server(node, url, key, participant):
    """The example, run."""
    given = {"SUREFOOT_URL": url, "SUREFOOT_KEY": key, "PORT": "0", "PHONES": json.dumps({"phone": participant})}
    words = [node, "build/example/app_server.js"]
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **given}, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        yield int(process.stdout.readline().split()[-1])
    finally:
        process.terminate()
        process.communicate(timeout=10)


def ask(port, path, body, token="phone"):  # noqa: S107 - made up
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {token}"})
    reply = connection.getresponse()
    found = reply.status, json.loads(reply.read())
    connection.close()
    return found


def check_app_server(node, served, proxy, participant):
    with app_server(node, proxy.url, served.app, participant) as port:
        proxy.seen.clear()
        proxy.faults.extend(["lost_answer", "busy"])
        status, answer = ask(port, "/prompt", POINT)
        assert status == 200 and len(proxy.seen) == 3 and len(set(proxy.seen)) == 1
        (row,) = rows(served.trial, decisions, participant_id=participant)
        assert answer == {"prompt": row.action > 0, "decision_id": row.id}
        assert ask(port, "/prompt", POINT) == (status, answer)
        assert ask(port, "/prompt", {**POINT, "context": {}})[0] == 409
        assert ask(port, "/prompt", POINT, token="another")[0] == 401  # noqa: S106 - made up
        measured = {"decision_id": row.id, "outcome": 312, "timestamp": "2026-03-01T10:30:00+01:00"}
        assert ask(port, "/outcome", measured) == (200, {"status": "recorded"})
        assert ask(port, "/outcome", measured) == (200, {"status": "repeated"})
        assert [one.outcome for one in rows(served.trial, outcomes, decision_id=row.id)] == [312]
