"""Results as text, tables and pages: for a terminal, a notebook, JSON and a paper."""

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
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


class Summary(str):
    """Text that shows itself as it is, also at the end of a notebook's cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


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


class ShownResult(ABC):
    """A result that shows itself: as text, as a page, and in a notebook.

    A subclass says how it prints itself on a console and how its page is made.
    """

    page_title: ClassVar[str]

    @abstractmethod
    def print_summary(self, console: "Console") -> None:
        """Print the result on a console of `rich`."""

    @abstractmethod
    def render_page(self, *, title: str, source: str) -> str:
        """A self-contained HTML page; `source` says what the result is about."""

    def summary(self) -> Summary:
        """What the command line prints."""
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

    def _repr_html_(self) -> str:
        """The page in a frame, so that its styles and the notebook's do not meet."""
        style = "width: 100%; height: 640px; border: 1px solid #8884; border-radius: 6px"
        return f'<iframe srcdoc="{escape(self.to_html())}" style="{style}"></iframe>'
