"""The manual's search, which `make docs` checks on every page that it built."""

import json

from manual import search_index


def test_pages_that_the_search_does_not_know_are_named(tmp_path):
    heading = '<h1 id="x">{}<a class="headerlink" href="#x" title="Permanent link">&para;</a></h1>'
    for name, title in {
        "pooling.html": "Partial <code>pooling</code>",
        "ahead.html": "Now &amp; later",
        "new.html": "New",
    }.items():
        (tmp_path / name).write_text(f"<body>{heading.format(title)}</body>", encoding="utf-8")
    docs = [{"location": "pooling.html", "title": "Partial pooling"}, {"location": "ahead.html", "title": "Now &amp; later"}]
    (tmp_path / "search").mkdir()
    (tmp_path / search_index.INDEX).write_text(json.dumps({"docs": docs}), encoding="utf-8")
    assert search_index.list_unknown_pages(tmp_path) == ["new.html: New"]
