"""Tables and counts as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.effects.sample_quality import TAIL, SampleQuality, ShareByAction
from surefoot.reports.numbers import format_interval, format_number

HEADERS = ("", "coef", "std err", "t", "P>|t|", "[0.025", "0.975]")


def lay_out(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    """Columns side by side, the first to the left, the others to the right, between rules.

    >>> print(lay_out([["a", "1.5"]], ["", "coef"]))
    =======
       coef
    -------
    a   1.5
    =======
    """
    widths = [max(len(row[j]) for row in (headers, *rows)) for j in range(len(headers))]
    lines = []
    for row in (headers, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]))
    rule = max(len(line) for line in lines)
    return "\n".join(["=" * rule, lines[0].rstrip(), "-" * rule, *lines[1:], "=" * rule])


def quality_lines(found: SampleQuality) -> list[str]:
    """What a reader needs before believing an effect."""
    why = "; ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
    lines = [
        f"Counted: {found.counted:,} of {found.rows:,} rows" + (f" ({why})" if why else "")
        + f", {found.people_counted} of {found.people} participants.",
        f"Missing outcomes: {_share_words(found.missing)}.",
    ]  # fmt: skip
    if found.tail is not None:
        lines.append(f"Extreme outcomes (beyond {TAIL:g} robust standard deviations): {_share_words(found.tail)}.")
    lines.append(f"Effective share of the sample: {100 * found.effective_share:.0f} %.")
    return lines


def _share_words(share: ShareByAction) -> str:
    by_action = ", ".join(f"{100 * value:.1f} % under {action}" for action, value in share.shares.items())
    if share.effect is None:
        return by_action
    return f"{by_action}; effect of treatment {format_number(share.effect.value)} ({format_interval(share.effect)})"
