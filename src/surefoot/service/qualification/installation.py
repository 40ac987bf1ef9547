"""Installation qualification: what was installed where, with which rights, and whether it can run."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa

from surefoot.service.database import clock, databases
from surefoot.service.database.databases import Database
from surefoot.service.qualification.checks import QualificationCheck
from surefoot.service.trial.trial import check_servable
from surefoot.study import Study
from surefoot.version import __version__

PACKAGES = ("fastapi", "numpy", "psycopg", "pydantic", "scipy", "sqlalchemy", "starlette", "uvicorn")
FREE_BYTES = 1_000_000_000
CLOCK_SECONDS = 5.0


def check_installation(study: Study, study_file: Path, database: Database) -> Iterator[QualificationCheck]:
    """The checks that look and change nothing."""
    yield QualificationCheck("versions", "named in the report", _describe_versions(database), passed=True)
    check_servable(study)
    yield QualificationCheck(
        "study file", "is a study that can be served", f"{study_file}, title '{_title(study)}'", passed=True
    )
    yield _check_rights("rights on the study file", study_file)
    if database.is_sqlite:
        yield _check_rights("rights on the database file", Path(str(database.engine.url.database)))
    else:
        yield _check_role(database)
    version = databases.schema_version(database)
    needed = databases.newest_schema_version()
    shown = "empty" if version is None else f"schema version {version}"
    yield QualificationCheck("schema", f"empty, or schema version {needed}", shown, passed=version in (None, needed))
    yield _check_disk(database)
    yield _check_clock(database)


def _title(study: Study) -> str:
    return "" if study.trial is None else study.trial.title


def _describe_versions(database: Database) -> str:
    with database.autocommit() as connection:
        query = "SELECT sqlite_version()" if database.is_sqlite else "SHOW server_version"
        server = f"{connection.dialect.name} {connection.exec_driver_sql(query).scalar()}"
    installed = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"surefoot {__version__}, Python {platform.python_version()}, {platform.platform()}, {server}, {installed}"


def _check_rights(name: str, path: Path) -> QualificationCheck:
    mode = stat.S_IMODE(path.stat().st_mode)
    return QualificationCheck(name, "others may neither read nor write", f"{path}: {mode:o}", passed=not mode & 0o007)


def _check_role(database: Database) -> QualificationCheck:
    with database.autocommit() as connection:
        above = connection.exec_driver_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").scalar()
    shown = "a superuser" if above else "not a superuser"
    return QualificationCheck("rights in the database", "the service's role is not a superuser", shown, passed=not above)


def _check_disk(database: Database) -> QualificationCheck:
    folder = Path(str(database.engine.url.database)).resolve().parent if database.is_sqlite else Path.cwd()
    free = shutil.disk_usage(folder).free
    return QualificationCheck("disk", "1 GB or more is free", f"{folder}: {free / 1e9:.1f} GB", passed=free >= FREE_BYTES)


def _check_clock(database: Database) -> QualificationCheck:
    wanted = f"not simulated, within {CLOCK_SECONDS:g} s of the database's clock"
    if os.environ.get(clock.VARIABLE):
        return QualificationCheck("clock", wanted, f"{clock.VARIABLE} is set", passed=False)
    with database.autocommit() as connection:
        query = "SELECT unixepoch('now')" if database.is_sqlite else "SELECT extract(epoch FROM clock_timestamp())"
        database_time = float(connection.execute(sa.text(query)).scalar() or 0.0)
    apart = abs(datetime.now(UTC).timestamp() - database_time)
    return QualificationCheck("clock", wanted, f"{apart:.1f} s apart", passed=apart <= CLOCK_SECONDS)
