"""Exports as files to download, with the counts and the hash to check them by, and the study that goes with them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fastapi import Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from surefoot.service.access.staff_trail import record_action
from surefoot.service.operations.export import EXPORTS, FORMATS, write_study_text
from surefoot.service.trial.trial import Trial


def export_file(trial: Trial, name: str, form: str, by: str) -> Response:
    """An export as a CSV or Parquet file, sent from the disk and then deleted; on the staff trail."""
    handle, temporary = tempfile.mkstemp(prefix="surefoot-export-")
    os.close(handle)
    path = Path(temporary)
    try:
        export = EXPORTS[name](trial, path, form)
        with trial.database.transaction() as connection:
            record_action(connection, by, "exported", f"{name}.{form}", f"{export.rows} rows, SHA-256 {export.sha256}")
    except BaseException:
        path.unlink()
        raise
    headers = {"X-Row-Count": str(export.rows), "X-Content-SHA256": export.sha256}
    if name == "decisions":
        headers["X-Participant-Count"] = str(export.participants)
    return FileResponse(
        path, media_type=FORMATS[form], headers=headers, filename=f"{name}.{form}", background=BackgroundTask(path.unlink)
    )


def export_study(trial: Trial, by: str) -> Response:
    """The study file that goes with the decisions; on the staff trail."""
    text = write_study_text(trial)
    with trial.database.transaction() as connection:
        record_action(connection, by, "exported", "study.toml")
    headers = {"Content-Disposition": 'attachment; filename="decisions.study.toml"'}
    return Response(text, media_type="application/toml", headers=headers)
