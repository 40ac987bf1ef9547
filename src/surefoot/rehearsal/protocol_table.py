"""The table for the protocol: what every candidate did in an environment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.inference.intervals import Interval
from surefoot.rehearsal.candidate_answers import CandidateAnswers
from surefoot.reports.numbers import format_number, format_percent

HEADERS = (
    "candidate",
    "mean outcome",
    "over coin",
    "prompted",
    "harmed",
    "power",
    "25th percentile",
    "over never",
    "regret",
    "SD / SE",
    "effective share",
    "fallback",
    "updates refused",
    "left",
)


def show_mean(found: Interval) -> str:
    """A mean with its Monte Carlo error, with the digits that this supports."""
    if np.isnan(found.value):
        return "–"
    if not found.standard_error > 0:
        return format_number(found.value)
    digits = max(0, 1 - int(np.floor(np.log10(found.standard_error))))
    return f"{found.value:,.{digits}f} ({found.standard_error:.{digits}f})".replace("-", "−")


def show_share(found: Interval) -> str:
    """A share in per cent with its Monte Carlo error."""
    if np.isnan(found.value):
        return "–"
    return f"{100 * found.value:.1f} ({100 * found.standard_error:.1f}) %"


def tabulate(cells: Mapping[str, CandidateAnswers]) -> list[list[str]]:
    """A row for each candidate, in the order of `HEADERS`."""
    return [_list_entries(one) for one in cells.values()]


def _list_entries(one: CandidateAnswers) -> list[str]:
    prompted = " to ".join(format_percent(one.mean(name).value, 0).removesuffix(" %") for name in ("sent_low", "sent_high"))
    name = one.candidate if one.sends is None or f"{one.sends:g}" in one.candidate else f"{one.candidate} ({one.sends:g})"
    return [
        name,
        show_mean(one.mean("outcome")),
        show_mean(one.mean("over_coin")),
        f"{format_percent(one.mean('sent').value, 0)} ({prompted})",
        show_share(one.mean("harmed")),
        show_share(one.rejections),
        show_mean(one.mean("lower_quarter")),
        show_mean(one.mean("over_never")),
        show_mean(one.mean("regret")),
        show_mean(one.honesty),
        show_share(one.mean("effective_share")),
        show_share(one.mean("fallback")),
        show_share(one.refused_updates),
        show_share(one.mean("left")),
    ]


def write_markdown(answers: Mapping[str, Mapping[str, CandidateAnswers]], harm: float, unit: str) -> str:
    """The table in Markdown, with the Monte Carlo error of every number in brackets."""
    lines: list[str] = []
    for environment, cells in answers.items():
        lines += [
            "",
            f"**{environment}**",
            "",
            "| " + " | ".join(HEADERS) + " |",
            "|---" + "|---:" * (len(HEADERS) - 1) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in tabulate(cells)]
    first = next(iter(next(iter(answers.values())).values()))
    lines += ["", explain_table(first.trials, harm, unit)]
    return "\n".join(lines[1:]) + "\n"


def explain_table(trials: int, harm: float, unit: str) -> str:
    """What the columns mean."""
    return (
        f"{trials} simulated trials; Monte Carlo errors in brackets; outcomes in {unit}. Over coin and over never are "
        "differences of mean outcomes for the same people with the same chance. Prompted is the share of available decision "
        "points, with the 10th and 90th percentile of people. Harmed is the share of people whose mean outcome lies more "
        f"than {format_number(harm)} below what it would have been under never. Power is how often the primary analysis "
        "finds an effect (where there is none: the type I error). Regret is against the best policy of the environment. "
        "SD / SE is the standard deviation of the estimated effects over their mean standard error: 1 is honest."
    )
