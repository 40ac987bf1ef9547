"""S5 from the command line: run seed by seed, resumable, and written as table, runs, figure and summary."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.experiments import runner
from surefoot.experiments.further import FurtherExperiment, SummaryTable
from surefoot.experiments.progress import UnitProgress
from surefoot.experiments.s5 import (
    SCENARIOS,
    CoefficientErrors,
    SeedErrors,
    errors_of_seed,
    skewed_rewards,
    summarise_errors,
)
from surefoot.reports.render import save_svg
from surefoot.version import __version__

LIMITS = {"clean": 1.04, "sensor": 1.05, "prompted 10 %": 1.06, "prompted 20 %": 1.30}
"""What the high-breakdown critic is held to: clean against least squares, the others against the oracle."""


class S5Unit(NamedTuple):
    """A unit of S5: one replicate's people under every scenario."""

    replicate: int

    @property
    def name(self) -> str:
        return f"s5-{self.replicate:04d}"


@dataclass(frozen=True, kw_only=True)
class S5Settings:
    """Everything that decides the numbers of S5."""

    participants: int = 200
    seeds: int = 5
    seed: int = 0
    peer_participants: int = 40
    """People whom scikit-learn's critics fit, one after the other, of every seed."""

    def check(self) -> None:
        if self.participants < 1 or self.seeds < 1 or self.seed < 0:
            raise InputError(f"S5 needs at least one participant and one seed and a seed of at least 0; got {asdict(self)}")


QUICK = {"participants": 60, "seeds": 2, "peer_participants": 5}


def run_s5(seed: int, out: Path, *, quick: bool, jobs: int, progress: UnitProgress) -> dict[str, Any]:
    """Run S5, write `s5.*` into the folder, and return its summary."""
    settings = S5Settings(seed=seed, **(QUICK if quick else {}))
    settings.check()
    key = "-".join(str(value) for value in (__version__, *asdict(settings).values()))
    folder = out / f".s5-{key}"
    runner.prepare_folder(out, folder)
    units = [S5Unit(replicate) for replicate in range(settings.seeds)]
    work = partial(_errors, settings=settings)
    found = runner.run_units(units, work, folder, jobs=jobs, progress=progress)
    table = summarise_errors(found, SCENARIOS, peer_participants=min(settings.peer_participants, settings.participants))
    summary = _write(table, settings, out)
    runner.remove_folder(folder)
    return summary


def _errors(unit: S5Unit, settings: S5Settings) -> SeedErrors:
    return errors_of_seed(
        SCENARIOS,
        participants=settings.participants,
        replicate=unit.replicate,
        seed=settings.seed,
        peer_participants=settings.peer_participants,
    )


def _write(table: CoefficientErrors, settings: S5Settings, out: Path) -> dict[str, Any]:
    from pyarrow import csv, parquet

    from surefoot.experiments.s5_figures import errors_figure

    skewed = skewed_rewards(participants=settings.participants, seeds=settings.seeds, seed=settings.seed)
    frame = table.to_frame("pyarrow")
    summary = {
        "limits": _compare_with_limits(table),
        "skewed_rewards": [row._asdict() for row in skewed],
        "notes": [*table.notes, BEYOND],
        "parameters": asdict(settings),
        "surefoot": __version__,
    }
    with atomic_write(out / "s5.parquet") as temporary:
        parquet.write_table(frame, temporary)
    with atomic_write(out / "s5.csv") as temporary:
        csv.write_csv(frame, temporary)
    save_svg(errors_figure(table), out / "s5.svg", "Coefficient error by share of decision points touched")
    with atomic_write(out / "s5.md") as temporary:
        temporary.write_text(_page(table, summary), encoding="utf-8")
    with atomic_write(out / "s5.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary


BEYOND = (
    "Under `prompted` outliers only treated decision points are touched. "
    "Beyond half of them no method can know which half is right: "
    "the artefacts are then the majority."
)


def _compare_with_limits(table: CoefficientErrors) -> list[dict[str, Any]]:
    ours = table.critics.index("high-breakdown")
    rows = []
    for place, scenario in enumerate(table.scenarios):
        limit = LIMITS.get(str(scenario), LIMITS.get(scenario.mechanism))
        against = "least squares on clean data" if scenario.mechanism == "clean" else "oracle"
        found = float((table.relative if scenario.mechanism == "clean" else table.to_oracle)[place, ours])
        held = None if limit is None else bool(found <= limit)
        rows.append({"data": str(scenario), "against": against, "ratio": found, "limit": limit, "held": held})
    return rows


def _page(table: CoefficientErrors, summary: dict[str, Any]) -> str:
    skewed = [
        f"| {row['critic']} | {row['bias']:.1f} ± {row['standard_error']:.1f} | {row['deviation']:.0f} "
        f"| {100 * row['decision_points_removed']:.1f} % | {100 * row['reward_removed']:.1f} % |"
        for row in summary["skewed_rewards"]
    ]
    lines = [
        "**S5: mean error ‖ŵ − w*‖ relative to least squares on the clean data**",
        "",
        "The nine methods have the critics `least squares` (plain), `hampel` and `kalman` (filter-) and `capped` (ro-).",
        "",
        table.to_markdown(),
        "",
        *(f"{note[:1].upper()}{note[1:].rstrip('.')}.\n" for note in summary["notes"]),
        "**Skewed but clean rewards (log-normal noise): the estimated mean treatment effect**",
        "",
        "| critic | bias (steps) | standard error of one participant | decision points removed | reward removed |",
        "|---|---:|---:|---:|---:|",
        *skewed,
    ]
    return "\n".join(lines) + "\n"


def tabulate_limits(summary: dict[str, Any]) -> SummaryTable:
    """What the command line prints: every ratio beside its limit."""
    rows = []
    for row in summary["limits"]:
        limit = "–" if row["limit"] is None else f"{row['limit']:.2f}"
        rows.append((row["held"], (row["data"], f"{row['ratio']:.3f}", limit, row["against"])))
    return SummaryTable("S5: error of the high-breakdown critic", ("data", "ratio", "limit", "against"), (1, 2), tuple(rows))


EXPERIMENT = FurtherExperiment(run=run_s5, tabulate=tabulate_limits)
