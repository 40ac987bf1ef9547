"""`surefoot doctor`: the installation, its extras, and the study and the trial in a folder."""

from __future__ import annotations

import platform
import sys
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli import application
from surefoot.cli.serve import DatabaseUrl
from surefoot.errors import InputError
from surefoot.version import __version__

EXTRAS = {
    "service": "surefoot serve and every command of a trial",
    "client": "surefoot.client, which asks the service",
    "excel": "logs in Excel files",
    "link": "surefoot link, from raw files to decision points",
    "sklearn": "surefoot.regression and scikit-learn regressors as critics",
    "cluster": "fit --engine dask, and logs by URL",
    "gpu": "fit --engine gpu",
}
"""Extras that users install, and the parts of Surefoot that need each."""


@application.app.command()
def doctor(
    folder: Annotated[Path, typer.Argument(help="The folder of a study or a trial.", file_okay=False)] = Path(),
    database: DatabaseUrl = None,
    as_json: application.AsJson = False,
) -> None:
    """Show which extras are installed, and the study and the trial of a folder."""
    extras = {extra: _list_missing(extra) for extra in EXTRAS}
    study = _describe_study(folder / "study.toml")
    trial = _describe_database(database, folder / "surefoot.db", installed=not extras["service"])
    if as_json:
        python = platform.python_version()
        application.print_json(
            {"surefoot": __version__, "python": python, "missing": extras, "study": study, "database": trial}
        )
        return
    typer.echo(f"surefoot {__version__}, Python {platform.python_version()}, {platform.system()}, in {sys.prefix}")
    for extra, missing in extras.items():
        remedy = f"missing {', '.join(missing)}: pip install 'surefoot[{extra}]'" if missing else "installed"
        typer.echo(f"  {extra:<8} {EXTRAS[extra]}: {remedy}")
    typer.echo(f"study: {study['message']}")
    typer.echo(f"trial: {trial['message']}")


def _list_missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed or have another version."""
    from packaging.requirements import Requirement

    missing = []
    for line in metadata.requires("surefoot") or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}) or not marker.evaluate({"extra": extra}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            missing.append(requirement.name)
        else:
            if not requirement.specifier.contains(version, prereleases=True):
                missing.append(f"{requirement.name} {requirement.specifier} (version {version} is installed)")
    return missing


def _describe_study(path: Path) -> dict[str, Any]:
    from surefoot.study import Study

    if not path.is_file():
        return {"path": str(path), "valid": None, "message": f"no {path}; surefoot init LOGS writes a first one"}
    try:
        study = Study.load(path)
    except InputError as error:
        return {"path": str(path), "valid": False, "message": str(error)}
    served = "with" if study.trial is not None else "without"
    message = f"{path} is valid: method {study.method_name}, {len(study.state)} state variables, {served} a [trial] section"
    return {"path": str(path), "valid": True, "message": message}


def _describe_database(url: str | None, file: Path, *, installed: bool) -> dict[str, Any]:
    if not installed:
        return {"message": "the service is not installed, so databases are not read"}
    from surefoot.service.database import databases

    if url is None and not file.is_file():
        return {"message": f"no {file}; surefoot serve makes it, and --database names another one"}
    try:
        with closing(databases.connect(url or f"sqlite:///{file}", create=False)) as opened:
            databases.prepare(opened, create=False)
            version = databases.schema_version(opened)
    except InputError as error:
        return {"message": str(error)}
    message = f"{opened.name} holds a trial with the schema version of this release, {version}"
    return {"name": opened.name, "schema_version": version, "message": message}
