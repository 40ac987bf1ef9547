"""A whole analysis as plain text, LaTeX and CSV."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from surefoot.data.frames import csv_text
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.report import EffectRow, EffectsReport
from surefoot.effects.text import lay_out, quality_lines
from surefoot.log_checks import list_warnings
from surefoot.reports.latex import latex_table

TABLE_HEADERS = ("", "coef", "std err", "[0.025", "0.975]", "P>|t|", "p (Holm)")
WIDTH = 80


def table_rows(rows: Sequence[EffectRow]) -> list[list[str]]:
    """Lines for `lay_out` with `TABLE_HEADERS`; without the last column where nothing is adjusted."""
    lines = []
    for row in rows:
        numbers = [row.estimate, row.standard_error, row.low, row.high, row.p]
        adjusted = [] if np.isnan(row.p_holm) else [row.p_holm]
        lines.append([row.label, *(f"{value:.4f}" for value in (*numbers, *adjusted))])
    return lines


def report_text(report: EffectsReport) -> str:
    """The whole report for a terminal."""
    estimator = ESTIMATORS[report.estimator]
    warnings = _wrap(list_warnings(report.checks))
    parts = [
        *warnings,
        *([""] if warnings else []),
        *_wrap(report.sentences),
        *_wrap([] if report.screened is None else report.screened.lines()),
        "",
        f"{estimator.estimand.capitalize()} by {estimator.label}",
    ]
    parts.append(lay_out(table_rows(report.table), TABLE_HEADERS))
    for name, test in report.joint.items():
        words = f"F({test.df_num}, {test.df_denom}) = {test.fvalue:.3f}, p = {test.pvalue:.4f}"
        parts.append(f"Does the effect differ {name}? {words}")
    if report.other_missing:
        parts += ["", "Missing outcomes treated the other way, which makes a difference here:"]
        parts.append(lay_out(table_rows(report.other_missing), TABLE_HEADERS[:-1]))
    parts += ["", *_wrap(quality_lines(report.quality))]
    if report.sensitivity:
        warning = "Sensitivity, never the headline: a robust loss estimates something else than a difference of means."
        parts += ["", *_wrap([warning]), lay_out(table_rows(report.sensitivity), TABLE_HEADERS[:-1])]
    return "\n".join([*parts, "", *_wrap(report.notes)])


def _wrap(paragraphs: Sequence[str]) -> list[str]:
    return [textwrap.fill(text, WIDTH) for text in paragraphs]


def report_latex(report: EffectsReport) -> str:
    """The table as a LaTeX tabular that needs the package booktabs."""
    headers = ["Effect", "Estimate", "Std. error", "95 % from", "to", "p", "p (Holm)"]
    return latex_table(headers, table_rows(report.table))


def report_csv(report: EffectsReport) -> str:
    """The table as CSV."""
    return csv_text(report.to_frame())
