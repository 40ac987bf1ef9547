"""Pages that live elsewhere in the repository, and links that leave docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    "benchmarks.md": "benchmarks/results.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}
"""Of the manual, and the files of the repository that they show."""
SHOWN_AS = {source: page for page, source in PAGES.items()}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def move_links(text: str, source: str, page: str) -> str:
    """Links of a file of the repository as they are on a page of the manual.

    A link to a file that the manual does not hold becomes the words and, unless they say it, the path.

    >>> move_links("[a](docs/method.md#b), [key](LICENSE)", "CONTRIBUTING.md", "contributing.md")
    '[a](method.md#b), key (`LICENSE`)'
    >>> move_links("[the unit](../deploy/nginx.conf)", "docs/service.md", "service.md")
    'the unit (`deploy/nginx.conf`)'
    """

    def move(found: re.Match[str]) -> str:
        image, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        inside = SHOWN_AS.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if inside is None or target.endswith("/"):
            return f"`{path}`" if words.strip("`/") == path else f"{words} (`{path}`)"
        return f"{image}[{words}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"

    return LINK.sub(move, text)


def read_page(page: str) -> str:
    """The text of a page that lives outside docs/."""
    source = PAGES[page]
    return move_links((ROOT / source).read_text(encoding="utf-8"), source, page)
