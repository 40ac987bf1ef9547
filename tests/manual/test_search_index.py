"""The manual's search, which also works for pages that are opened from disk."""

import json
import shutil

import pytest

from manual import search_index
from tests.browser import CHROMIUM, WHY_NOT, Browser

HEADING = '<h1 id="x">{}<a class="headerlink" href="#x" title="Permanent link">&para;</a></h1>'
TITLES = {"pooling.html": "Partial <code>pooling</code>", "ahead.html": "Now &amp; later", "new.html": "New"}
SECTIONS = [
    {
        "location": "pooling.html",
        "title": "Partial pooling",
        "text": "<p>People who differ.</p><p>Borrow <em>strength</em>.</p>",
    },
    {"location": "ahead.html", "title": "Now &amp; later", "text": "<p>Prompts tire people.</p>"},
    {"location": "ahead.html#cost", "title": "The cost of a prompt", "text": ""},
]


@pytest.fixture
def site(tmp_path):
    """A built manual of three pages; MkDocs did not collect one of them."""
    for name, title in TITLES.items():
        (tmp_path / name).write_text(f"<body>{HEADING.format(title)}</body>", encoding="utf-8")
    (tmp_path / "search").mkdir()
    (tmp_path / search_index.SOURCE).write_text(json.dumps({"docs": SECTIONS}), encoding="utf-8")
    return tmp_path


def test_pages_that_the_search_does_not_know_are_named(site):
    assert search_index.write_index(site) == ["new.html: New"]
    script = (site / search_index.INDEX).read_text(encoding="utf-8")
    sections = json.loads(script.removeprefix("window.manualIndex = ").removesuffix(";\n"))
    assert [section["title"] for section in sections] == ["Partial pooling", "Now & later", "The cost of a prompt"]
    assert sections[0]["text"] == "People who differ. Borrow strength."


@pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
def test_a_word_is_looked_for_in_a_page_from_disk(site):
    root = search_index.ROOT
    search_index.write_index(site)
    shutil.copy(root / "docs/assets/search.js", site)
    form = (root / "manual/theme/partials/search.html").read_text(encoding="utf-8").replace("{{ base_url }}", ".")
    page = f'<input type="checkbox" id="__search">{form}<script src="search.js"></script>'
    (site / "index.html").write_text(page, encoding="utf-8")
    type_words = """(async words => {
        const field = document.querySelector("#manual-search input");
        field.dispatchEvent(new Event("focus"));
        for (let wait = 0; !window.manualIndex && wait < 100; wait++) await new Promise(done => setTimeout(done, 50));
        field.value = words;
        field.dispatchEvent(new Event("input"));
        return [...document.querySelectorAll(".md-search-result__list a")].map(link => link.href.split("/").pop());
    })"""
    with Browser() as browser:
        browser.visit(site / "index.html")
        assert browser.evaluate(f"{type_words}('people')") == ["pooling.html", "ahead.html"]
        assert browser.evaluate(f"{type_words}('PROMPT')") == ["ahead.html#cost", "ahead.html"]
        assert browser.evaluate(f"{type_words}('tire people')") == ["ahead.html"]
        assert browser.evaluate(f"{type_words}('ire (')") == []
