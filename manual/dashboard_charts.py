"""Charts of the dashboard for the gallery: of a trial that is run against a live server when the manual is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from manual.code_blocks import ROOT, working_folder

COMMAND = "python examples/trial/run.py --people 15 --days 7 --stay"
"""What runs that trial; the manual leaves out --stay, which keeps the server for somebody to look."""
PAGES = {
    "/": "Overview",
    "/participants/p000": "One participant",
    "/adherence": "Adherence",
    "/policies": "The live policy",
    "/policies/drift": "All versions of the policy",
}
"""Every page with charts, and what the gallery calls it."""
PARTS = re.compile(r'<h[23]>(?P<heading>.*?)</h[23]>|(?P<shown><ul class="key".*?</ul>|<figure.*?</figure>)', re.DOTALL)
STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
IN_THE_MANUAL = """.dashboard figure { background: none; text-align: start; }
.dashboard ul.key:not([hidden]) { display: flex; margin: 0; font-size: .7rem; } .dashboard ul.key li { margin: 0; }"""
"""What the manual's own style would do otherwise."""
DARK = "@media screen and (prefers-color-scheme: dark)"


def write_section() -> str:
    """The dashboard's part of the gallery in Markdown."""
    pages = _read_pages()
    parts = [f"## Dashboard\n\n```sh\n{COMMAND}\n```\n", write_style(next(iter(pages.values())))]
    parts += [f"### {name}\n\n{show_charts(pages[path])}" for path, name in PAGES.items()]
    return "\n\n".join(parts)


def show_charts(page: str) -> str:
    """The charts of a page, each with its heading and the key of its colours."""
    shown, heading, key = [], "", ""
    for found in PARTS.finditer(page):
        if found["heading"] is not None:
            heading, key = f"<p><b>{found['heading']}</b></p>", ""
        elif found["shown"].startswith("<ul"):
            key = found["shown"]
        else:
            shown.append(f"<div>{heading}{key}{found['shown']}</div>")
    # On one line: an empty line would end the block of HTML.
    inside = "\n".join(re.sub(r"\s*\n\s*", " ", one) for one in shown)
    return f'<div class="gallery dashboard">\n{inside}\n</div>'


def write_style(page: str) -> str:
    """The page's own style, for what is inside the gallery, by the manual's switch between day and night."""
    found = STYLE.search(page)
    own = re.sub(r"\s*\n\s*", " ", found[1] if found else "")
    own = own.replace(DARK, '[data-md-color-scheme="slate"] &').replace(":root", "&")
    return f"<style>\n.dashboard {{ {own} }}\n{IN_THE_MANUAL}\n</style>"


def _read_pages() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = [sys.executable, str(ROOT / "examples" / "trial" / "run.py"), *COMMAND.split()[2:-1], "--out", name]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own example
        with working_folder(folder):
            return _ask_pages(folder)


def _ask_pages(folder: Path) -> dict[str, str]:
    """As somebody of the team sees them who has signed in."""
    from starlette.testclient import TestClient

    from surefoot import Study
    from surefoot.service.access import create_key
    from surefoot.service.app import create_app
    from surefoot.service.database.clock import VARIABLE
    from surefoot.service.trial.trial import open_trial

    os.environ[VARIABLE] = str(folder / "clock.txt")
    trial = open_trial(Study.load(folder / "study.toml"), f"sqlite:///{folder / 'trial.db'}")
    key = create_key(trial.database, "analyst")
    with TestClient(create_app(trial)) as browser:
        token = re.search(r'name="token" value="(\w+)"', browser.get("/sign-in").text)
        browser.post("/sign-in", data={"token": token[1] if token else "", "key": key})
        pages = {path: browser.get(path) for path in PAGES}
    trial.close()
    return {path: page.raise_for_status().text for path, page in pages.items()}
