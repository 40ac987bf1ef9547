"""Objects and results as text, tables and pages: for a terminal, a notebook, JSON and a paper."""

import io
import re
import textwrap
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from surefoot.atomic_files import write_texts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: f"\\{c}" for c in "{}$&#_%"
}
WIDTH = 80
"""Columns of the text where there is no terminal."""
SCREEN_WIDTH = 100
SCREEN_ROWS = 8
"""Columns, and rows of a table, that an overview has at most."""
NUMBER = re.compile(r"[\d+−–<.-]|nan|inf|$")
"""How a cell begins that stands to the right of its column."""


class Summary(str):
    """Text of fixed width that shows itself as it is, also at the end of a notebook's cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.25">{escape(self)}</pre>'


@dataclass(frozen=True)
class Overview:
    """One screen about an object: a heading, facts, a short table, and what to type next.

    >>> print(Overview("Logs", {"people": "2"}, [["state", "mean"], ["mood", "3.1"]], {".head()": "the first rows"}))
    Logs
    people  2
    <BLANKLINE>
    state  mean
    mood    3.1
    <BLANKLINE>
    Next: .head()  the first rows
    """

    heading: str
    facts: Mapping[str, str] = field(default_factory=dict)
    """Name of a fact → the fact."""
    table: Sequence[Sequence[str]] = ()
    """Rows of cells, the headers first; an overview shows at most the first few."""
    next_steps: Mapping[str, str] = field(default_factory=dict)
    """Code to type → what it gives; code that starts with a point is called on the object."""

    @property
    def _rows_left_out(self) -> str:
        hidden = len(self.table) - 1 - SCREEN_ROWS
        return f"… {hidden:,} more rows: .to_frame()" if hidden > 0 else ""

    def __str__(self) -> str:
        lines = textwrap.wrap(self.heading, SCREEN_WIDTH)
        lines += _lay_out_pairs("", self.facts)
        if len(self.table) > 1:
            lines += ["", *align_columns(self.table[: SCREEN_ROWS + 1])]
            lines += [self._rows_left_out] if self._rows_left_out else []
        lines += ["", *_lay_out_pairs("Next: ", self.next_steps)] if self.next_steps else []
        return "\n".join(line if len(line) <= SCREEN_WIDTH else line[: SCREEN_WIDTH - 1] + "…" for line in lines)

    def _repr_html_(self) -> str:
        """The same, in tables that take the notebook's own colours."""
        parts = [f"<b>{escape(self.heading)}</b>", _html_table(list(self.facts.items()))]
        if len(self.table) > 1:
            parts += [_html_table(self.table[: SCREEN_ROWS + 1], has_header=True), escape(self._rows_left_out)]
        parts += ["Next:", _html_table(list(self.next_steps.items()), code=True)] if self.next_steps else []
        return f"<div>{''.join(parts)}</div>"


def _lay_out_pairs(opening: str, pairs: Mapping[str, str]) -> list[str]:
    """Names to the left, texts beside them; what is long goes on below."""
    margin = len(opening) + max(map(len, pairs), default=0) + 2
    lines = []
    for number, (name, text) in enumerate(pairs.items()):
        start = (" " * len(opening) if number else opening) + name
        wrapped = textwrap.wrap(text, SCREEN_WIDTH - margin) or [""]
        lines += [f"{start:<{margin}}{wrapped[0]}".rstrip(), *(" " * margin + line for line in wrapped[1:])]
    return lines


def _html_table(rows: Sequence[Sequence[str]], *, has_header: bool = False, code: bool = False) -> str:
    is_number = find_number_columns(rows) if has_header else [False, False]
    styles = [f"text-align: {'right' if right else 'left'}; padding: 0 0.6em; vertical-align: top" for right in is_number]
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if has_header and number == 0 else "td"
        cells = [f"<code>{escape(row[0])}</code>" if code else escape(row[0]), *map(escape, row[1:])]
        styled = [f'<{tag} style="{style}">{cell}</{tag}>' for style, cell in zip(styles, cells, strict=True)]
        lines.append(f"<tr>{''.join(styled)}</tr>")
    return f'<table style="margin: 0.4em 0">{"".join(lines)}</table>'


def find_number_columns(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Whether a column holds numbers, which stand to the right; the first never does, and the first row has headers."""
    columns = range(len(rows[0]))
    return [column > 0 and all(NUMBER.match(row[column]) for row in rows[1:]) for column in columns]


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, the headers first: text to the left, numbers to the right.

    >>> align_columns([["policy", "value"], ["never", "3.1"]])
    ['policy  value', 'never     3.1']
    """
    columns = []
    for cells, is_number in zip(zip(*rows, strict=True), find_number_columns(rows), strict=True):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in cells])
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def lay_out_table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    """A table between rules, as statsmodels prints it."""
    lines = align_columns([headers, *rows])
    width = max(map(len, lines))
    return "\n".join(["=" * width, lines[0], "-" * width, *lines[1:], "=" * width])


def describe_shapes(values: Mapping[str, Any]) -> dict[str, str]:
    """Large arrays by their shapes, other values by their text: the facts of an object that holds many numbers."""
    facts = {}
    for name, value in values.items():
        facts[name] = textwrap.shorten(repr(value), SCREEN_WIDTH // 2, placeholder=" …")
        if isinstance(value, np.ndarray):
            is_small = value.size <= SCREEN_ROWS
            facts[name] = np.array2string(value, precision=3) if is_small else f"array of shape {value.shape}"
    return facts


@cache
def read_next_steps() -> dict[str, dict[str, str]]:
    """For every class the code to type next, and what it gives."""
    return tomllib.loads(files("surefoot.reports").joinpath("templates/next_steps.toml").read_text(encoding="utf-8"))


class Shown:
    """An object that shows itself on one screen, in a console and in a notebook, and says what to do next.

    A subclass says what the screen holds, its fields unless it says otherwise; `machinery` are public names that `dir` and
    tab completion leave out.
    """

    machinery: ClassVar[frozenset[str]] = frozenset({"machinery", "topic"})

    @property
    def topic(self) -> str:
        """The section of next_steps.toml."""
        return type(self).__name__

    def _overview(self) -> Overview:
        """The screen, without the next steps."""
        return Overview(self.topic, describe_shapes({name: value for name, value in vars(self).items() if name[0] != "_"}))

    def _screen(self) -> Overview:
        return replace(self._overview(), next_steps=read_next_steps().get(self.topic, {}))

    def __repr__(self) -> str:
        return str(self._screen())

    def _repr_html_(self) -> str:
        return self._screen()._repr_html_()

    def __dir__(self) -> list[str]:
        return sorted(name for name in super().__dir__() if name[0] != "_" and name not in self.machinery)


def make_table(*names: str, text: int = 1) -> "Table":
    """A table without boxes; after the first `text` columns come numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for position, name in enumerate(names):
        table.add_column(name, justify="left" if position < text else "right")
    return table


def to_plain(value: Any) -> Any:
    """Dataclasses, named tuples and arrays, however nested, as plain dicts, lists, numbers and text for JSON."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def latex_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A tabular for the package booktabs: text in the first column, numbers in the others.

    >>> print(latex_table(["Effect", "Estimate"], [["per day_1", "-0.02"]]))
    \\begin{tabular}{lr}
    \\toprule
    Effect & Estimate \\\\
    \\midrule
    per day\\_1 & $-$0.02 \\\\
    \\bottomrule
    \\end{tabular}
    <BLANKLINE>
    """
    cells = [[_escape(row[0]), *(_escape(cell).replace("-", "$-$") for cell in row[1:])] for row in rows]
    head, *lines = [" & ".join(row) + r" \\" for row in ([_escape(name) for name in headers], *cells)]
    start = rf"\begin{{tabular}}{{l{'r' * (len(headers) - 1)}}}"
    return "\n".join([start, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", ""])


def _escape(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)


class ShownResult(Shown, ABC):
    """A result with a summary and a page.

    A subclass says how it prints itself on a console and how its page is made.
    """

    machinery = Shown.machinery | {"page_title", "print_summary", "render_page"}
    page_title: ClassVar[str]

    @abstractmethod
    def print_summary(self, console: "Console") -> None:
        """Print the result on a console of `rich`."""

    @abstractmethod
    def render_page(self, *, title: str, source: str) -> str:
        """A self-contained HTML page; `source` says what the result is about."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""

    def summary(self) -> Summary:
        """All findings as text and tables of fixed width: what the command line prints."""
        from rich.console import Console

        console = Console(file=io.StringIO(), width=WIDTH, color_system=None)
        self.print_summary(console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        return Summary("\n".join(line.rstrip() for line in text.splitlines()))

    def to_html(self, path: str | Path | None = None, *, title: str | None = None, source: str = "") -> str:
        """The page, also written to a file if one is named."""
        page = self.render_page(title=title or self.page_title, source=source)
        if path is not None:
            write_texts({Path(path): page})
        return page
