"""Tables for papers."""

from __future__ import annotations

from collections.abc import Sequence

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: f"\\{c}" for c in "{}$&#_%"
}


def latex_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A tabular that needs the package booktabs: text in the first column, numbers in the others.

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
    lines = [" & ".join([_escape(row[0]), *(_escape(cell).replace("-", "$-$") for cell in row[1:])]) for row in rows]
    head = " & ".join(_escape(name) for name in headers)
    body = [head + r" \\", r"\midrule", *(line + r" \\" for line in lines)]
    start = rf"\begin{{tabular}}{{l{'r' * (len(headers) - 1)}}}"
    return "\n".join([start, r"\toprule", *body, r"\bottomrule", r"\end{tabular}", ""])


def _escape(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)
