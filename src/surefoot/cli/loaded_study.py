"""What `audit`, `explain` and `evaluate` share: reading a study with its logs, fitting it, and handing out the results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from surefoot.audit import Audit
    from surefoot.learning.methods import Method
    from surefoot.reports.reward_units import RewardUnit
    from surefoot.study import Study, StudyLogs


def check_writable(path: Path | None) -> Path | None:
    """Refuse an output that cannot be written before anything is computed for it."""
    from surefoot.atomic_files import check_output

    if path is not None:
        check_output(path)
    return path


Logs = Annotated[Path, typer.Argument(help="Logged decision points: .csv, .tsv, .parquet, .xlsx or a folder of .parquet.")]
StudyFile = Annotated[Path, typer.Option(help="What the columns mean and what to fit (see `surefoot init`).")]
HtmlFile = Annotated[Path | None, typer.Option(help="Also write a self-contained page with plots.", callback=check_writable)]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON on standard output.")]


@dataclass(frozen=True)
class LoadedStudy:
    """A study and its logs; nothing is fitted until it is asked for."""

    study: Study
    read: StudyLogs
    source: str

    @classmethod
    def of(cls, logs: Path, study: Path) -> LoadedStudy:
        from surefoot.study import Study

        described = Study.load(study)
        read = described.read(logs)
        for message in [] if read.screen is None else read.screen.warnings():
            typer.echo(f"surefoot: warning: {message}", err=True)
        return cls(described, read, f"{logs.name}, as described by {study.name}")

    def fit_method(self) -> Method:
        """The study's method fitted to the logs; what rests on too little is said on standard error."""
        from surefoot.errors import FitWarning

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FitWarning)
            fitted = self.study.method().fit(self.read.logs)
        for warning in caught:
            typer.echo(f"surefoot: warning: {warning.message}", err=True)
        return fitted

    def audit_fit(self, fitted: Method) -> Audit:
        """The audit of the fit, with what reading the logs found out."""
        from surefoot.audit import audit

        read = self.read
        return audit(fitted, raw_reward=read.raw_reward, implausible=read.implausible, study=self.study, screen=read.screen)

    @property
    def unit(self) -> RewardUnit:
        """What the fitted reward is counted in."""
        return self.study.reward_unit


def console() -> Console:
    """Standard output; 80 columns where it is not a terminal."""
    from rich.console import Console

    wide = Console()
    return wide if wide.is_terminal else Console(width=80)


def new_table(*names: str, text: int = 1) -> Table:
    """A table without boxes; after the first `text` columns come numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number < text else "right")
    return table


@contextmanager
def write_outputs(texts: Mapping[Path | None, str]) -> Iterator[None]:
    """Write the files that were asked for, all or none; after what is printed within, say where they are."""
    from surefoot.atomic_files import write_texts

    wanted = {path: text for path, text in texts.items() if path is not None}
    write_texts(wanted)
    yield
    for path in wanted:
        typer.echo(f"Written: {path}", err=True)


def print_json(data: Any) -> None:
    """Strict JSON on standard output."""
    from surefoot.atomic_files import json_text

    typer.echo(json_text(data))
