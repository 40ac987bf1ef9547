"""Effects as plain text, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.sample_quality import TAIL, SampleQuality, ShareByAction, assess_sample
from surefoot.reports.numbers import number

if TYPE_CHECKING:
    from surefoot.effects.report import EffectRow, EffectsReport
    from surefoot.effects.result import EffectResult

HEADERS = ("", "coef", "std err", "t", "P>|t|", "[0.025", "0.975]")


def lay_out(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    """Columns side by side, the first to the left, the others to the right, between rules.

    >>> print(lay_out([["a", "1.5"]], ["", "coef"]))
    =========
       coef
    ---------
    a   1.5
    =========
    """
    widths = [max(len(row[j]) for row in (headers, *rows)) for j in range(len(headers))]
    lines = []
    for row in (headers, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]))
    rule = max(len(line) for line in lines) + 2
    return "\n".join(["=" * rule, lines[0].rstrip(), "-" * rule, *lines[1:], "=" * rule])


def summarise(result: EffectResult) -> str:
    """One fitted effect, as statsmodels prints a fit."""
    ends = result.conf_int()
    rows = [
        [
            name,
            *(f"{value:.4f}" for value in (result.params[j], result.bse[j], result.tvalues[j], result.pvalues[j], *ends[j])),
        ]
        for j, name in enumerate(result.names)
    ]
    estimator, joint = ESTIMATORS[result.estimator], result.joint_test()
    head = [
        f"Causal excursion effect ({estimator.estimand}) by {estimator.label}",
        f"outcome {result.points.analysis.outcome}, treatment {result.points.analysis.treatment}, "
        f"{result.people} participants, {result.rows:,} rows, {result.df_resid} degrees of freedom",
    ]
    test = f"All nothing: F({joint.df_num}, {joint.df_denom}) = {joint.fvalue:.3f}, p = {joint.pvalue:.4f}"
    return "\n".join([*head, lay_out(rows, HEADERS), test, *quality_lines(assess_sample(result.points))])


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
    effect = share.effect
    return f"{by_action}; effect of treatment {number(effect.value)} ({number(effect.low)} to {number(effect.high)})"


def table_rows(rows: Sequence[EffectRow]) -> list[list[str]]:
    """Lines for `lay_out` with `TABLE_HEADERS`."""
    return [
        [f"{row.analysis}: {row.effect}" if row.effect != row.analysis else row.effect,
         *(f"{value:.4f}" for value in (row.estimate, row.standard_error, row.t)), f"{row.p:.4f}",
         *(f"{value:.4f}" for value in (row.low, row.high)), "" if row.p_holm != row.p_holm else f"{row.p_holm:.4f}"]
        for row in rows
    ]  # fmt: skip


TABLE_HEADERS = (*HEADERS, "p (Holm)")


def report_text(report: EffectsReport) -> str:
    """The whole report for a terminal."""
    estimator = ESTIMATORS[report.estimator]
    parts = [*report.sentences, "", f"{estimator.estimand.capitalize()} by {estimator.label}",
             lay_out(table_rows(report.table), TABLE_HEADERS)]  # fmt: skip
    for name, test in report.joint.items():
        words = f"F({test.df_num}, {test.df_denom}) = {test.fvalue:.3f}, p = {test.pvalue:.4f}"
        parts.append(f"Does the effect differ {name}? {words}")
    if report.other_missing:
        parts += ["", "Missing outcomes treated the other way:", lay_out(table_rows(report.other_missing), TABLE_HEADERS)]
    parts += ["", *quality_lines(report.quality)]
    if report.sensitivity:
        parts += ["", "Sensitivity, not the primary analysis: robust losses have another estimand than a difference of means.",
                  lay_out(table_rows(report.sensitivity), TABLE_HEADERS)]  # fmt: skip
    return "\n".join([*parts, "", *report.notes])


def report_latex(report: EffectsReport) -> str:
    """The table as a LaTeX tabular that needs the package booktabs."""
    lines = [
        f"{_escape(label)} & {' & '.join(cell.replace('-', '$-$') for cell in (estimate, error, low, high, p, holm))} \\\\"
        for label, estimate, error, _, p, low, high, holm in table_rows(report.table)
    ]
    head = r"Effect & Estimate & Std.\ error & \multicolumn{2}{c}{95\,\% interval} & $p$ & $p$ (Holm) \\"
    return "\n".join(
        [r"\begin{tabular}{lrrrrrr}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", ""]
    )


def _escape(text: str) -> str:
    """Text with LaTeX's own characters written out.

    >>> _escape("log_steps & 5 %")
    'log\\\\_steps \\\\& 5 \\\\%'
    """
    for character in "\\{}$&#_%":
        text = text.replace(character, r"\textbackslash " if character == "\\" else f"\\{character}")
    return text.replace("~", r"\textasciitilde{}").replace("^", r"\textasciicircum{}")


def report_csv(report: EffectsReport) -> str:
    """The table as CSV."""
    import io

    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(report.to_frame(), buffer)
    return buffer.getvalue().decode()
