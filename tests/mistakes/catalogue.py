"""Mistakes that people make, each with the exact message that they get: the source of docs/mistakes.md.

A module of this folder holds a list `MISTAKES`; `SECTIONS` names the modules in the order of the page. After a change run
`python -m tests.mistakes.catalogue`, which writes the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.mistakes.misleading_files import tabulate

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
SECTIONS = {
    "Log files": "tests.mistakes.log_files",
    "Logs that are not what they seem": "tests.mistakes.log_warnings",
    "Study files": "tests.mistakes.study_files",
    "Commands": "tests.mistakes.commands",
    "In Python": "tests.mistakes.python_calls",
    "The service's API": "tests.mistakes.service_api",
}
INTRODUCTION = """\
# Mistakes, and what Surefoot says

Every message names the place and the remedy. This page is written from the tests in `tests/mistakes/`, which make each
mistake and compare the message to the letter: `python -m tests.mistakes.catalogue` writes it, and a test checks it.
"""
MISLEADING = """
## Files that would mislead

Nothing in these files is an error, and each of them would lead to a wrong conclusion. The table says what every command shows
first: the right answer, a refusal, or the name of a check that is not fine. Each file is a trial of 30 people × 60 decision
points, made by `tests/mistakes/misleading_files.py` and run by its test.

"""


@dataclass(frozen=True)
class Mistake:
    """One mistake: what was done, how to do it (in an empty folder), and what is said: by a refusal, or by the warnings that
    `make` returns."""

    what: str
    make: Callable[[], object]
    message: str


def mistakes() -> dict[str, list[Mistake]]:
    """All mistakes by section."""
    return {title: import_module(name).MISTAKES for title, name in SECTIONS.items()}


def page() -> str:
    """docs/mistakes.md as it should be."""
    parts = [INTRODUCTION]
    for title, found in mistakes().items():
        parts.append(f"\n## {title}\n")
        for mistake in found:
            said = "\n".join(f"    {line}" for line in mistake.message.splitlines())
            parts.append(f"\n**{mistake.what}**\n\n{said}\n")
    return "".join([*parts, MISLEADING, tabulate()])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
