"""The report of a qualification: every check with what was wanted and found, as HTML to sign and JSON."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from surefoot.atomic_files import atomic_write
from surefoot.reports.render import render
from surefoot.service.database import databases
from surefoot.service.database.clock import now
from surefoot.service.qualification.checks import QualificationCheck
from surefoot.service.qualification.installation import check_installation
from surefoot.service.qualification.operation import check_operation
from surefoot.service.qualification.scratch import scratch_trial
from surefoot.study import Study


@dataclass(frozen=True)
class Qualification:
    """What an installation showed."""

    title: str
    host: str
    database: str
    study_hash: str
    at: datetime
    installation: list[QualificationCheck]
    operation: list[QualificationCheck]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in (*self.installation, *self.operation))


def qualify(study_file: Path, url: str) -> Qualification:
    """Run every check; the trial's own tables are only looked at."""
    study = Study.load(study_file)
    database = databases.connect(url, create=False)
    try:
        installation = list(check_installation(study, study_file, database))
        with scratch_trial(study, url) as trial:
            study_hash = trial.study_id
            title = trial.settings.title
            operation = list(check_operation(trial, url))
        name = database.name
    finally:
        database.close()
    return Qualification(title, socket.gethostname(), name, study_hash, now(), installation, operation)


def write_report(found: Qualification, folder: Path) -> tuple[Path, Path]:
    """`qualification.html` and `qualification.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "qualification.html"
    data = folder / "qualification.json"
    with atomic_write(page) as temporary:
        text = render("qualification.html", package="surefoot.service.qualification", title="Qualification", found=found)
        temporary.write_text(text, encoding="utf-8")
    with atomic_write(data) as temporary:
        content = {**asdict(found), "at": found.at.isoformat(), "passed": found.passed}
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return page, data
