"""Files that speak of the project agree with it."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from surefoot.version import __version__

yaml = pytest.importorskip("yaml", reason="no PyYAML: it comes with the extra dev")
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_every_extra_is_documented():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (extras,) = re.findall(r"Extras: (.+)", readme)
    assert set(re.findall(r"`(\w+)`", extras)) == PROJECT["optional-dependencies"].keys()


def test_the_citation_is_of_this_version():
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == __version__ and citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"] and citation["cff-version"] == "1.2.0"
    assert all(reference["authors"] and reference["title"] for reference in citation["references"])


def test_every_version_is_the_same():
    lock = json.loads((ROOT / "clients/typescript/package-lock.json").read_text(encoding="utf-8"))
    assert lock["version"] == lock["packages"][""]["version"] == __version__


def test_hooks_are_our_own():
    (only,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert only["repo"] == "local" and all(hook["language"] == "system" for hook in only["hooks"])
    entries = [hook["entry"].split() for hook in only["hooks"]]
    assert all(words[0].startswith(".venv/bin/") for words in entries)
    assert [word for words in entries for word in words if word.endswith(".py") and not (ROOT / word).exists()] == []


def test_a_tag_releases_what_passed_every_check():
    workflow = read_yaml(".github/workflows/release.yml")
    assert list(workflow[True]["push"]) == ["tags"]  # YAML reads the key `on` as true
    jobs = workflow["jobs"]
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == ("check", "build")
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert any(".ci/run" in step for step in steps) and any("make dist" in step for step in steps)
    for target in ("dist", "sbom", "typescript"):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_changelog_keeps_its_form():
    """Sections are versions with dates, newest first; every entry says whether it was added, changed or mended."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "Unreleased" and all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", one) for one in versions)
    numbers = [tuple(map(int, one.split(" ")[0].split("."))) for one in versions]
    assert numbers == sorted(numbers, reverse=True)
    kinds = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert not re.search(r"^- ", section.split("### ")[0], re.MULTILINE), "an entry stands under no kind of change"
