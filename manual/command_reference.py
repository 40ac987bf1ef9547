"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from surefoot.cli import app
from surefoot.cli.application import PANELS

PAGE = "reference/commands.md"
INTRODUCTION = """# Commands

Every command says the same with `--help`. Mistakes that you can mend are one line on standard error and exit code 2
([what they say](../mistakes.md)); an interrupted command exits with 130.
"""


def list_commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command by the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def write_page() -> str:
    """The page's Markdown."""
    commands = dict(list_commands(typer.main.get_command(app), "surefoot"))
    lines = [INTRODUCTION]
    for panel, names in PANELS.items():
        lines += [f"## {panel}", ""]
        lines += [
            _describe(path, command) for name in names for path, command in commands.items() if path.split()[1] == name
        ]
    return "\n".join(lines)


def _describe(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    lines = [f"### `{name}`", "", (command.help or "").replace("\b", ""), ""]
    lines += ["```text", " ".join([name, *command.collect_usage_pieces(context)]), "```", ""]
    records = (part.get_help_record(context) for part in command.params)
    rows = [f"| `{spelling}` | {said.replace('|', '/')} |" for spelling, said in filter(None, records)]
    lines += [(command.epilog or "").replace("\b", ""), ""]
    return "\n".join([*lines, "| | |", "|---|---|", *rows, ""])
