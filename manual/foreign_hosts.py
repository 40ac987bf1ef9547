"""What a built page would load from another host: it must be nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

LOADING = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
}
FOREIGN = re.compile(r"\s*(?:[a-z][a-z+.-]*:)?//", re.IGNORECASE)
STYLE = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+(?:url\()?['\"]?((?:https?:)?//[^)'\"]+)")


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attributes}
        if tag == "link" and named.get("rel") == "canonical":
            return
        self.found += [value for name, value in named.items() if (tag, name) in LOADING and FOREIGN.match(value)]
        self.found += _list_style_loads(named.get("style", ""))
        if "mermaid" in named.get("class", "").split():
            self.found.append("a diagram in Mermaid")


def _list_style_loads(text: str) -> list[str]:
    return [one or other for one, other in STYLE.findall(text)]


def list_loads(html: str) -> list[str]:
    """Addresses on other hosts that a page loads by itself; links to follow are none of them.

    >>> list_loads('<a href="https://a.org">A</a><script src="//b.org/x.js"></script><img src="c.png">')
    ['//b.org/x.js']
    >>> list_loads('<style>@import "https://d.org/f.css"; p { background: url(//e.org/g.png) }</style>')
    ['https://d.org/f.css', '//e.org/g.png']
    """
    parser = _Loads()
    parser.feed(html)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", html, re.DOTALL)
    return parser.found + [load for style in styles for load in _list_style_loads(style)]


def list_foreign_loads(site: Path) -> list[str]:
    """Of every page and style sheet of a built site, as `file: address`."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8")
            loads = list_loads(text) if path.suffix == ".html" else _list_style_loads(text)
            found += [f"{path.relative_to(site)}: {load}" for load in loads]
    return found
