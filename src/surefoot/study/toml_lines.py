"""On which line of a TOML file a key stands, so that an error can name it."""

from __future__ import annotations

import re
import tomllib

KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
DOTTED = rf"{KEY}(?:\s*\.\s*{KEY})*"
HEADER = re.compile(rf"\s*\[\[?\s*({DOTTED})\s*\]\]?\s*(?:#.*)?$")
ASSIGNMENT = re.compile(rf"\s*({DOTTED})\s*=")


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of every table and of every key that begins a line; keys of inline tables count as their table's.

    >>> key_lines('[reward]\\ncolumn = "steps"')
    {('reward',): 1, ('reward', 'column'): 2}
    """
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = _parts(header[1])
            for depth in range(1, len(table) + 1):
                lines.setdefault(table[:depth], number)
        elif assignment := ASSIGNMENT.match(line):
            path = (*table, *_parts(assignment[1]))
            lines.setdefault(path, number)
    return lines


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line of a key, or of the nearest table around it."""
    lines = key_lines(text)
    return next((lines[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in lines), 1)


def _parts(dotted: str) -> tuple[str, ...]:
    """`a."b.c"` as its parts: the TOML reader itself says what a key means."""
    try:
        value: object = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    parts = []
    while isinstance(value, dict):
        key, value = next(iter(value.items()))
        parts.append(str(key))
    return tuple(parts)
