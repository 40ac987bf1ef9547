"""The search index of a built manual, as a script that browsers also load from disk."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "search/search_index.json"
"""What MkDocs collects; browsers refuse to read it for pages that are opened from disk."""
INDEX = "search/index.js"
TITLE = re.compile(r"<h1[^>]*>(.*?)(?:<a class=\"headerlink\".*?)?</h1>", re.DOTALL)
INLINE = re.compile(r"</?(?:a|b|code|em|i|span|strong|wbr)\b[^>]*>")
"""Tags inside words and sentences; all others separate words."""
WITHOUT = {"404.html", "reproduction/report.html"}
"""What nobody looks for, and a report as its command wrote it."""


def write_index(site: Path) -> list[str]:
    """Write the sections of all pages as a script; gives the pages that it lacks, or has under another title."""
    entries = json.loads((site / SOURCE).read_text(encoding="utf-8"))["docs"]
    sections = [
        {"location": entry["location"], "title": _read_words(entry["title"]), "text": _read_words(entry["text"])}
        for entry in entries
    ]
    (site / INDEX).write_text(f"window.manualIndex = {json.dumps(sections, ensure_ascii=False)};\n", encoding="utf-8")
    (site / SOURCE).unlink()
    known = {section["location"]: section["title"] for section in sections}
    missing = []
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix()
        title = TITLE.search(path.read_text(encoding="utf-8"))
        if page not in WITHOUT and title is not None and known.get(page) != _read_words(title[1]):
            missing.append(f"{page}: {_read_words(title[1])}")
    return missing


def _read_words(markup: str) -> str:
    text = INLINE.sub("", markup)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())
