"""The bill of materials: complete beside the lock file, and the same twice."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    pytest.importorskip("packaging", reason="no packaging: it comes with the extra dev")
    path = tmp_path_factory.mktemp("sbom") / "new" / "surefoot.cdx.json"
    command = [sys.executable, str(ROOT / "deploy" / "sbom.py"), str(path)]
    texts = [subprocess.run(command, check=True) and path.read_text(encoding="utf-8") for _ in range(2)]  # noqa: S603
    assert texts[0] == texts[1]
    return json.loads(texts[0])


def test_it_names_what_the_service_needs_in_the_locked_versions(bill):
    locked = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    locked = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in locked.items()}
    found = {one["name"]: one["version"] for one in bill["components"]}
    assert found == {name: locked[name] for name in found}
    assert {"numpy", "fastapi", "sqlalchemy", "psycopg", "psycopg-binary", "starlette", "uvicorn", "alembic"} <= set(found)
    assert not {"pytest", "mypy", "hypothesis", "surefoot"} & set(found), "tools are not installed in a trial"


def test_it_has_cyclonedx_form(bill):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    assert bill["metadata"]["component"]["version"] == version("surefoot")
    references = {one["bom-ref"] for one in [bill["metadata"]["component"], *bill["components"]]}
    assert {one["ref"] for one in bill["dependencies"]} == references
    assert all(set(one["dependsOn"]) <= references for one in bill["dependencies"])
    licenses = {
        one["name"]: one["licenses"][0].get("expression") or one["licenses"][0]["license"]["name"]
        for one in bill["components"]
    }
    assert "unknown" not in licenses.values()
