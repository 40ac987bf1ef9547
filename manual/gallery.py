"""The gallery: every figure of every report of a small trial, under the command that made it.

The commands are run when the manual is built; their pages give the figures. Nothing drawn is kept in the repository.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

from manual import dashboard_charts
from surefoot.reports.figures import DARK, LIGHT

PAGE = "gallery.md"
FIGURE = re.compile(r"<figure.*?</figure>", re.DOTALL)
REPORT = re.compile(r"--html (\S+)")
REPRODUCTION = {
    "figure.svg": "surefoot reproduce --out docs/reproduction",
    "s6.svg": "surefoot reproduce s6 --out docs/reproduction",
    "s7.svg": "surefoot reproduce s7 --out docs/reproduction",
    "s7-people.svg": "surefoot reproduce s7 --out docs/reproduction",
}
"""Figures of the committed reproduction, and what draws them; it takes too long to be run for every manual."""
INTRODUCTION = """# Gallery

Every figure of every report, each under the command that made it, from the trial that `surefoot demo` simulates, and every
chart of the [dashboard](service.md). All have one style: colours that colour-blind readers can tell apart, intervals
wherever something is estimated, and a dark form, which this page shows when it is dark.

```sh
surefoot demo      # makes logs.csv, study.toml and all of this in surefoot-demo/
cd surefoot-demo
```
"""


def list_commands() -> list[str]:
    """Commands whose page has figures: those of the demo, and one that it proposes."""
    from surefoot.cli.demo import NEXT, STEPS

    return [
        command for command in (*(step.command for step in STEPS), *(more for _, more in NEXT)) if REPORT.search(command)
    ]


def write_page(commands: list[str] | None = None) -> str:
    """The gallery in Markdown, with its figures inside; of some commands, without the dashboard."""
    parts = [INTRODUCTION, _style()]
    with tempfile.TemporaryDirectory() as folder:
        for command in list_commands() if commands is None else commands:
            name = command.split()[1]
            parts.append(f"## {name.capitalize()}\n\n```sh\n{command}\n```\n\n{_show(_run(command, Path(folder)))}")
    if commands is None:
        parts.append(dashboard_charts.write_section())
    parts.append("## Reproduce\n")
    parts += [
        f"```sh\n{command}\n```\n\n![What {command} draws](reproduction/{file})" for file, command in REPRODUCTION.items()
    ]
    return "\n\n".join(parts) + "\n"


def _run(command: str, folder: Path) -> list[str]:
    """The figures of the page that a command writes, run in a folder with the demo's files."""
    import shlex

    from pyarrow import csv

    from surefoot.cli import app
    from surefoot.datasets import demo_trial

    if not (folder / "logs.csv").exists():
        csv.write_csv(demo_trial.simulate_logs(), folder / "logs.csv")
        (folder / "study.toml").write_text(demo_trial.study_text(), encoding="utf-8")
        (folder / "rehearsal.toml").write_text(demo_trial.plan_text(), encoding="utf-8")
    quiet = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        app(shlex.split(command)[1:], standalone_mode=False)
    page = REPORT.search(command)
    return [] if page is None else FIGURE.findall((folder / page[1]).read_text(encoding="utf-8"))


def _show(figures: list[str]) -> str:
    # On one line: an empty line would end the block of HTML.
    inside = "\n".join(re.sub(r"\s*\n\s*", " ", figure) for figure in figures)
    return f'<div class="gallery">\n{inside}\n</div>'


def _style() -> str:
    day, night = (" ".join(f"--{name}: {colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    dark = '[data-md-color-scheme="slate"]'
    return f"""<style>
.gallery {{ {day} display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }}
{dark} .gallery {{ {night} }}
.gallery figure {{ margin: 0; padding: .4rem; max-width: none; width: auto; background: var(--paper); }}
.gallery .panorama {{ grid-column: 1 / -1; overflow-x: auto; }}
.gallery svg {{ width: 100%; height: auto; }} .gallery .panorama svg {{ min-width: 40rem; }}
.gallery .night, {dark} .gallery .day {{ display: none; }} {dark} .gallery .night {{ display: inline; }}
</style>"""
