"""Experiments beyond the paper's: a module each, found by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

FURTHER = {
    "s5": "surefoot.experiments.s5_outputs",
    "s6": "surefoot.experiments.s6_outputs",
    "s7": "surefoot.experiments.s7_outputs",
}
"""Name → module with an `EXPERIMENT`; each is imported when it is asked for."""


class SummaryTable(NamedTuple):
    """The few lines of an experiment that the command line prints."""

    title: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]
    """Positions of the columns that hold numbers."""
    rows: tuple[tuple[bool | None, tuple[str, ...]], ...]
    """Whether what the row says holds (None: nothing was promised), and its cells."""


@dataclass(frozen=True)
class FurtherExperiment:
    """How an experiment is run and printed."""

    run: Callable[..., dict[str, Any]]
    """(seed, out, *, quick, jobs, progress) → summary; writes `NAME.*` into the folder, resumable."""
    tabulate: Callable[[dict[str, Any]], SummaryTable]


def find_experiment(name: str) -> FurtherExperiment:
    """The experiment of that name."""
    found: FurtherExperiment = import_module(FURTHER[name]).EXPERIMENT
    return found
