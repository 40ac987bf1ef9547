"""Everything that `reproduce` writes, from the rows of all units."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from surefoot.atomic_files import atomic_write
from surefoot.experiments.claims import Claim, filters_that_win, judge
from surefoot.experiments.paper_figure import sweep_figure
from surefoot.experiments.paper_tables import all_tables
from surefoot.experiments.replicate import COLUMNS, scene_title
from surefoot.experiments.results import ELRAR, Results
from surefoot.experiments.settings import DATA_SETS, SCENES, Settings
from surefoot.inference.intervals import mean_interval
from surefoot.reports.render import inline_svg, render, save_svg
from surefoot.simulators.measures import reference_policies

VERSIONS = ("surefoot", "numpy", "scipy", "array-api-compat", "matplotlib")


def write_results(rows: list[dict[str, Any]], settings: Settings, out: Path, elapsed: float) -> dict[str, Any]:
    """Write runs, tables, figures, report and summary; give back the summary."""
    results = Results(rows)
    claims = judge(results, settings)
    _write_runs(rows, out)
    tables = all_tables(results, settings)
    for name, group in tables.items():
        _write(out / f"{name}.md", "\n".join(table.markdown() for table in group))
        _write(out / f"{name}.tex", "\n".join(table.latex() for table in group))
    figure = sweep_figure(results, settings)
    if figure is not None:
        # Without dates in the files two equal runs are equal byte for byte.
        for ending, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
            with atomic_write(out / f"figure.{ending}") as temporary:
                figure.savefig(temporary, format=ending, dpi=150, metadata=metadata)
        save_svg(
            figure, out / "figure.svg", "Long-run average reward against the cap, the share and the strength of outliers"
        )
    summary = _summary(results, settings, claims, elapsed)
    _write(out / "report.html", _page(results, settings, claims, tables))
    # Last: a summary says that everything else is there.
    _write(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    return summary


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _write_runs(rows: list[dict[str, Any]], out: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kinds[kind], from_pandas=True) for name, kind in COLUMNS.items()}
    )
    with atomic_write(out / "runs.parquet") as temporary:
        parquet.write_table(table, temporary)
    with atomic_write(out / "runs.csv") as temporary:
        csv.write_csv(table, temporary)


def _summary(results: Results, settings: Settings, claims: list[Claim], elapsed: float) -> dict[str, Any]:
    return {
        "caution": settings.caution,
        "claims": [
            {
                "name": claim.name,
                "claim": claim.text,
                "paper": claim.paper,
                "verdict": claim.verdict,
                "rule": claim.rule,
                "findings": [
                    {
                        "where": finding.where,
                        "what": finding.what,
                        "paper": finding.paper,
                        "ours": finding.ours.value,
                        "interval_95": [finding.ours.low, finding.ours.high],
                        "unit": finding.unit,
                        "verdict": finding.verdict,
                        "counts": finding.counts,
                    }
                    for finding in claim.findings
                ],
            }
            for claim in claims
        ],
        "filters_above_the_robust_form": filters_that_win(results, settings),
        "parameters": asdict(settings),
        "versions": {**{name: version(name) for name in VERSIONS}, "python": platform.python_version()},
        "elapsed_seconds": round(elapsed, 1),
    }


def _page(results: Results, settings: Settings, claims: list[Claim], tables: dict[str, list[Any]]) -> str:
    figures = []
    for scenes, caption in (
        ((SCENES[0], SCENES[2]), "Both data sets, as in the paper; bands are 95 % intervals over replicates."),
        ((SCENES[1],), "HeartSteps under sensor outliers: ElrAR hardly tells the methods apart here."),
    ):
        figure = sweep_figure(results, settings, scenes)
        if figure is not None:
            figures.append((inline_svg(figure, caption), caption))
    references = {
        scene_title(*scene): [
            {
                "name": name,
                "reward": mean_interval(results.reference(scene, name)),
                "treated": results.reference(scene, name, "share_treated").mean(),
                "regret": results.reference(scene, name, "immediate_regret").mean(),
            }
            for name in reference_policies(DATA_SETS[scene[0]](participants=1))
        ]
        for scene in (SCENES[0], SCENES[2])
    }
    return render(
        "reproduction.html",
        title="Robust actor-critic contextual bandits: the experiments again",
        settings=settings,
        command=_command(settings),
        claims=claims,
        tables=tables,
        figures=figures,
        references=references,
        filters=filters_that_win(results, settings),
        versions={**{name: version(name) for name in VERSIONS}, "python": platform.python_version()},
        measure=ELRAR,
    )


def _command(settings: Settings) -> str:
    """The command that gives these results again."""
    default = Settings()
    parts = ["surefoot reproduce"]
    if settings.experiments != default.experiments:
        parts += settings.experiments
    for name, value in asdict(settings).items():
        if name != "experiments" and value != getattr(default, name):
            parts.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(parts)
