"""Whether the search of a built manual, which runs in the reader's browser, knows every page by its title."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

INDEX = "search/search_index.json"
TITLE = re.compile(r"<h1[^>]*>(.*?)(?:<a class=\"headerlink\".*?)?</h1>", re.DOTALL)
WITHOUT = {"404.html", "reproduction/report.html"}
"""What nobody looks for, and a report as its command wrote it."""


def list_unknown_pages(site: Path) -> list[str]:
    """Pages of a built manual that its search index lacks, or has under another title."""
    entries = json.loads((site / INDEX).read_text(encoding="utf-8"))["docs"]
    known = {entry["location"]: _read_words(entry["title"]) for entry in entries}
    missing = []
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix()
        title = TITLE.search(path.read_text(encoding="utf-8"))
        if page not in WITHOUT and title is not None and known.get(page) != _read_words(title[1]):
            missing.append(f"{page}: {_read_words(title[1])}")
    return missing


def _read_words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())
