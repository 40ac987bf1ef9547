"""The tables, laid out as in the paper, once for Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.experiments.replicate import scene_title
from surefoot.experiments.results import ELRAR, Results
from surefoot.experiments.settings import (
    DATA_SETS,
    FILTER_NAMES,
    RATIOS,
    SCENES,
    STRENGTHS,
    SWEPT_TAUS,
    TYPES,
    Cell,
    Settings,
)
from surefoot.inference.intervals import mean_interval
from surefoot.simulators.measures import reference_policies

TITLES = {"linucb": "LinUCB", "accb": "ACCB", "saccb": "SACCB"}
BOLD = "bold where the 95 % intervals part"
MEASURES = {
    ELRAR: "ElrAR",
    "share_treated": "treated",
    "immediate_regret": "regret",
    "coefficient_error": "‖ŵ − w*‖",
    "share_removed": "removed",
    "precision": "precision",
    "recall": "recall",
}
LATEX = str.maketrans(
    {"%": r"\%", "ψ": r"$\psi$", "ν": r"$\nu$", "τ": r"$\tau$", "±": r"$\pm$", "–": "--", "&": r"\&", "_": r"\_"}
)


class Entry(NamedTuple):
    """One cell of a table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A caption, a header and rows; the first column names the row."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[Entry]]

    def markdown(self) -> str:
        lines = [f"**{self.caption}**", "", "| " + " | ".join(self.header) + " |"]
        lines.append("|" + "|".join(["---"] + ["---:"] * (len(self.header) - 1)) + "|")
        for row in self.rows:
            lines.append("| " + " | ".join(f"**{entry.text}**" if entry.bold else entry.text for entry in row) + " |")
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        def text(entry: Entry) -> str:
            plain = entry.text.replace("‖ŵ − w*‖", "NORM").translate(LATEX).replace("NORM", r"$\|\hat w-w^*\|$")
            return rf"\textbf{{{plain}}}" if entry.bold else plain

        body = [" & ".join(text(Entry(title)) for title in self.header)]
        body += [" & ".join(text(entry) for entry in row) for row in self.rows]
        rows = " \\\\\n".join(body[1:])
        return (
            f"\\begin{{table}}\n\\centering\n\\caption{{{text(Entry(self.caption))}}}\n"
            f"\\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}\n"
            f"\\hline\n{body[0]} \\\\\n\\hline\n{rows} \\\\\n\\hline\n"
            "\\end{tabular}\n\\end{table}\n"
        )


def all_tables(results: Results, settings: Settings) -> dict[str, list[Table]]:
    """Tables by experiment, in the order they are read."""
    makers: dict[str, Callable[[Results, Settings], list[Table]]] = {"s1": _s1, "s2": _s2, "s3": _s3, "s4": _s4}
    return {name: makers[name](results, settings) for name in settings.experiments}


def _number(values: NDArray[np.float64], digits: int = 0) -> str:
    """Mean ± half the width of the 95 % interval."""
    interval = mean_interval(values)
    return f"{interval.value:,.{digits}f} ± {interval.high - interval.value:,.{digits}f}"


def _stand_apart(rivals: Sequence[NDArray[np.float64]]) -> list[bool]:
    """Of each rival, a value per replicate, whether its 95 % interval lies above those of all others."""
    found = [mean_interval(values) for values in rivals]
    return [own.low > max(other.high for other in found if other is not own) for own in found]


def _digits(scene: tuple[str, str]) -> int:
    return 0 if scene[0] == "heartsteps" else 1


def _s1(results: Results, settings: Settings) -> list[Table]:
    """Three sub-tables by type, then everything that was measured, scene by scene."""
    setting = f"ψ = {100 * settings.ratio:g} %, ν = {settings.strength:g}"
    tables = []
    for kind in TYPES:
        rows = _rivals(kind)
        cells = [Cell(method, name, settings.ratio, settings.strength, 1.0) for method, name in rows]
        values = np.array([[results.cell("s1", scene, cell) for scene in SCENES] for cell in cells])
        best = np.array([_stand_apart(list(values[:, place])) for place in range(len(SCENES))]).T
        body = [
            [Entry(_label(method, name))]
            + [Entry(_number(values[row, place], _digits(scene)), best[row, place]) for place, scene in enumerate(SCENES)]
            for row, (method, name) in enumerate(rows)
        ]
        header = ["method", *(scene_title(*scene) for scene in SCENES)]
        tables.append(Table(f"s1-{kind}", f"S1, {TITLES[kind]}: ElrAR at {setting} (± 95 % interval; {BOLD})", header, body))
    return tables + [_tabulate_everything(results, settings, scene, setting) for scene in SCENES]


def _tabulate_everything(results: Results, settings: Settings, scene: tuple[str, str], setting: str) -> Table:
    rows = []
    for kind in TYPES:
        for method, name in _rivals(kind):
            cell = Cell(method, name, settings.ratio, settings.strength, 1.0)
            values = {measure: results.cell("s1", scene, cell, measure) for measure in MEASURES}
            rows.append([Entry(_label(method, name)), *_measure_cells(values, scene)])
    for policy in reference_policies(DATA_SETS[scene[0]](participants=1)):
        values = {measure: results.reference(scene, policy, measure) for measure in MEASURES}
        rows.append([Entry(policy), *_measure_cells(values, scene)])
    caption = f"S1, {scene_title(*scene)}: all measures at {setting}"
    return Table(f"s1-{scene[0]}-{scene[1]}", caption, ["method", *MEASURES.values()], rows)


def _rivals(kind: str) -> list[tuple[str, str]]:
    """(method, filter) of all forms of one type."""
    return [(kind, ""), *((f"filter-{kind}", name) for name in FILTER_NAMES), (f"ro-{kind}", "")]


def _measure_cells(by_measure: dict[str, NDArray[np.float64]], scene: tuple[str, str]) -> list[Entry]:
    entries = []
    for measure, values in by_measure.items():
        if np.isnan(values).all():
            entries.append(Entry("–"))
        elif measure in (ELRAR, "immediate_regret", "coefficient_error"):
            entries.append(Entry(_number(values, _digits(scene))))
        else:
            entries.append(Entry(f"{100 * np.nanmean(values):.1f} %"))
    return entries


def _sweep(results: Results, experiment: str, title: str, settings: dict[str, Cell]) -> list[Table]:
    """Methods × settings, one table per scene, in bold the surely better of plain and robust; the cells lack a method."""
    tables = []
    for scene in SCENES:
        rows = []
        for kind in TYPES:
            names = (kind, f"ro-{kind}")
            pairs = [
                [results.cell(experiment, scene, cell._replace(method=name)) for name in names] for cell in settings.values()
            ]
            rows += _compare(names, pairs, _digits(scene))
        caption = f"{title}, {scene_title(*scene)}: ElrAR ({BOLD})"
        tables.append(Table(f"{experiment}-{scene[0]}-{scene[1]}", caption, ["method", *settings], rows))
    return tables


def _compare(names: Sequence[str], columns: Sequence[Sequence[NDArray[np.float64]]], digits: int) -> list[list[Entry]]:
    """A row for each name, an entry for each column of their values."""
    best = [_stand_apart(rivals) for rivals in columns]
    return [
        [Entry(name)]
        + [Entry(f"{rivals[side].mean():,.{digits}f}", apart[side]) for rivals, apart in zip(columns, best, strict=True)]
        for side, name in enumerate(names)
    ]


def _s2(results: Results, settings: Settings) -> list[Table]:
    columns = {f"ψ = {100 * ratio:g} %": Cell("", "", ratio, settings.strength, 1.0) for ratio in RATIOS}
    return _sweep(results, "s2", "S2, share of outliers", columns)


def _s3(results: Results, settings: Settings) -> list[Table]:
    columns = {f"ν = {strength:g}": Cell("", "", settings.ratio, strength, 1.0) for strength in STRENGTHS}
    return _sweep(results, "s3", "S3, strength of outliers", columns)


def _s4(results: Results, settings: Settings) -> list[Table]:
    tables = []
    for scene in SCENES:
        plain = results.cell("s4", scene, Cell("accb", "", settings.ratio, settings.strength, 1.0))
        taus = SWEPT_TAUS[scene[0]]
        robust = [results.cell("s4", scene, Cell("ro-accb", "", settings.ratio, settings.strength, tau)) for tau in taus]
        rows = _compare(("accb", "ro-accb"), [[plain, own] for own in robust], _digits(scene))
        header = ["method", *(f"τ = {tau:g}" for tau in taus)]
        caption = f"S4, factor of the threshold, {scene_title(*scene)}: ElrAR ({BOLD})"
        tables.append(Table(f"s4-{scene[0]}-{scene[1]}", caption, header, rows))
    return tables


def _label(method: str, filter_name: str) -> str:
    return f"{method} ({filter_name})" if filter_name else method
