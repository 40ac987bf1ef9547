"""What the manual generates from the code is whole."""

import inspect

import pytest

pytest.importorskip("griffe", reason="no griffe: it comes with the extra docs")

from manual.foreign_hosts import list_foreign_loads

import surefoot as sf
from manual import api_reference, command_reference, repository_pages, study_reference
from surefoot.screening import DETECTORS


def list_public():
    for name, module in api_reference.list_modules().items():
        for part in set(module.__all__) - {"__version__"}:
            if not inspect.ismodule(getattr(module, part)):
                yield name, module, part


def test_the_python_reference_names_every_public_name():
    modules = [getattr(sf, name) for name in sf.__all__ if inspect.ismodule(getattr(sf, name))]
    assert list(api_reference.list_modules().values()) == [sf, *modules]
    for name, module, part in list_public():
        assert f"::: {module.__name__}.{part}\n" in api_reference.write_page(name, module, {})


def test_every_public_name_has_an_example():
    """In its docstring, which doctest runs, or in manual/examples, which `make docs` runs."""
    for name, module, part in list_public():
        path = api_reference.find_examples(name)
        shown = api_reference.split_examples(path.read_text(encoding="utf-8"), "") if path.is_file() else {}
        documented = inspect.getdoc(getattr(module, part)) if callable(getattr(module, part)) else ""
        assert part in shown or ">>>" in (documented or ""), f"{name}.{part}"


def test_the_command_reference_has_every_command_and_option():
    page = command_reference.write_page()
    assert "## `surefoot fit`" in page and "## `surefoot keys create`" in page
    assert "| `--force` | Replace an earlier fit in that folder. |" in page
    assert "[default: study.toml]" in page


def test_every_key_of_the_study_file_says_what_it_means():
    sections = dict(study_reference.list_sections(sf.Study))
    assert {"columns", "state.NAME", "method.prior.NAME", "trial.guard_rails", "questionnaire.NAME"} <= sections.keys()
    assert {f"screen.{name}" for name in DETECTORS} <= sections.keys()
    page = study_reference.write_page()
    assert "| `decimal` | With a comma" in page and '| `"."` or `","` | `"."` |' in page
    for name, model in sections.items():
        meanings = study_reference.read_meanings(model)
        for field, (key, *_) in study_reference.list_keys(model).items():
            inner = f"{name}.{key}" in {other.removesuffix(".NAME") for other in sections}
            assert inner or f"| `{key}` | {meanings[field]} |" in page, f"[{name}] {key}"
    for name in sf.METHODS:
        for key in sf.method(name).list_settings().keys() - set(study_reference.SET_BY_STUDY):
            assert f"| `{key}` |" in page


def test_pages_from_elsewhere_keep_their_links():
    for page in repository_pages.PAGES:
        for _, _, target, _ in repository_pages.LINK.findall(repository_pages.read_page(page)):
            held = (repository_pages.ROOT / "docs" / target).exists() or target in repository_pages.PAGES
            assert held or target.startswith("reference/"), f"{page}: {target}"


def test_a_page_that_loads_from_elsewhere_is_found(tmp_path):
    (tmp_path / "good.html").write_text(
        '<a href="https://a.org">A</a><script src="x.js"></script><link rel="canonical" href="//b">'
    )
    assert list_foreign_loads(tmp_path) == []
    (tmp_path / "bad.html").write_text('<link rel="stylesheet" href="https://fonts.example/f.css"><img src="//c.org/p.png">')
    (tmp_path / "bad.css").write_text("@font-face { src: url('https://fonts.example/f.woff') }")
    assert [found.split(": ")[0] for found in list_foreign_loads(tmp_path)] == ["bad.css", "bad.html", "bad.html"]
