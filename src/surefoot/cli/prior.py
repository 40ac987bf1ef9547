"""`surefoot prior`: a prior for posterior sampling from pilot data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.application import app
from surefoot.cli.loaded_study import AsJson, LoadedStudy, Logs, StudyFile, print_json, write_outputs


@app.command()
def prior(
    pilot: Logs,
    study: StudyFile = Path("study.toml"),
    out: Annotated[Path | None, typer.Option(help="Write the section [method.prior] to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set the prior of a study that samples from the posterior: print [method.prior] for its file, from pilot data."""
    from surefoot.atomic_files import check_output
    from surefoot.errors import InputError
    from surefoot.inference.pilot_priors import estimate_prior
    from surefoot.learning.methods import PosteriorSampler
    from surefoot.learning.priors import write_prior

    if out is not None:
        check_output(out)
    studied = LoadedStudy.of(pilot, study)
    method = studied.study.method()
    if not isinstance(method, PosteriorSampler):
        raise InputError(f"{study}: {studied.study.method_name} has no prior; a method that samples from the posterior has")
    estimates = estimate_prior(studied.read.logs, method)
    text = write_prior(
        {name: {key: float(f"{value:.4g}") for key, value in estimate.items()} for name, estimate in estimates.items()}
    )
    with write_outputs({out: text} if out else {}):
        if as_json:
            print_json(estimates)
        elif out is None:
            typer.echo(text, nl=False)
