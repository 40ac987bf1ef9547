"""A release knows its tag and its place; a change says what it changes."""

import doctest
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from surefoot.version import __version__

ROOT = Path(__file__).parents[2]
HOME = "https://forge.example.org/us/surefoot"
prepare = SimpleNamespace(**runpy.run_path(str(ROOT / "release/prepare.py")))
check = SimpleNamespace(**runpy.run_path(str(ROOT / "release/check_changelog.py")))


@pytest.fixture
def checkout(tmp_path):
    for name in ("README.md", "pyproject.toml", "src/surefoot/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"## Unreleased\n\n## {__version__} - 2026-11-15\n")
    return tmp_path


def test_links_of_the_readme_lead_somewhere_and_are_absolute_in_a_release(checkout):
    before = (checkout / "README.md").read_text(encoding="utf-8")
    paths = [found[2] for found in prepare.LINK.findall(before)]
    assert len(paths) > 20 and [path for path in paths if not (ROOT / path).exists()] == []
    prepare.prepare(checkout, f"v{__version__}", f"{HOME}/")
    after = (checkout / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", after)
    assert len(targets) == len(re.findall(r"\]\(([^)]+)\)", before))
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert f"]({HOME}/blob/v{__version__}/LICENSE)" in after and f"]({HOME}/raw/v{__version__}/docs/" in after
    urls = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Source"] == f"{HOME}/tree/v{__version__}" and len(urls) == 6


def test_the_examples_of_the_links_hold():
    for example in doctest.DocTestFinder().find(prepare.make_absolute, globs=vars(prepare)):
        assert doctest.DocTestRunner().run(example) == (0, 1)


@pytest.mark.parametrize(("tag", "changelog"), [("v9.9.9", None), (f"v{__version__}", "## Unreleased\n")])
def test_a_tag_that_is_not_the_version_or_has_no_date_is_refused(checkout, tag, changelog):
    if changelog:
        (checkout / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(SystemExit, match=r"version\.py says|no line"):
        prepare.prepare(checkout, tag, HOME)


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit on main, and a branch that is checked out."""
    me = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]

    def git(*words):
        subprocess.run(["git", *me, *words], cwd=tmp_path, check=True, capture_output=True)  # noqa: S603, S607

    git("init", "-q", "-b", "main")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("")
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n")
    git("add", "-A")
    git("commit", "-qm", "First")
    git("checkout", "-qb", "change")
    return SimpleNamespace(folder=tmp_path, git=git)


def test_a_change_to_the_package_must_add_to_the_changelog(repository):
    assert check.check_changelog(repository.folder) is None
    (repository.folder / "README.md").write_text("not seen\n")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "Words")
    assert check.check_changelog(repository.folder) is None
    (repository.folder / "src/a.py").write_text("new = 1\n")
    repository.git("commit", "-qam", "New")
    assert "src/a.py" in check.check_changelog(repository.folder)
    assert "src/a.py" in check.check_changelog(repository.folder, "main")
    (repository.folder / "CHANGELOG.md").write_text("## Unreleased\n- `new`.\n")
    assert check.check_changelog(repository.folder) is None


def test_a_change_that_users_cannot_see_says_so(repository):
    (repository.folder / "src/a.py").write_text("new = 1\n")
    repository.git("commit", "-qam", "Tidy up\n\nChangelog: none")
    assert check.check_changelog(repository.folder) is None


def test_a_line_taken_away_is_not_one_added(repository):
    (repository.folder / "CHANGELOG.md").write_text("")
    (repository.folder / "src/a.py").write_text("new = 1\n")
    assert check.check_changelog(repository.folder) is not None


def test_without_another_branch_there_is_nothing_to_say(tmp_path, capsys):
    assert check.check_changelog(tmp_path) is None
    assert "nothing to compare with" in capsys.readouterr().out
