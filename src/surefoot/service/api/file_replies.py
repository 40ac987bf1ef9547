"""Exports as files to download, with the counts and the hash to check them by."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fastapi import Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from surefoot.service.operations.export import FORMATS, export_decisions, export_outcomes
from surefoot.service.trial.trial import Trial


def export_file(trial: Trial, name: str, form: str) -> Response:
    """`decisions` or `outcomes` as a CSV or Parquet file, sent from the disk and then deleted."""
    handle, place = tempfile.mkstemp(prefix="surefoot-export-")
    os.close(handle)
    path = Path(place)
    try:
        export = (export_decisions if name == "decisions" else export_outcomes)(trial, path, form)
    except BaseException:
        path.unlink()
        raise
    headers = {"X-Row-Count": str(export.rows), "X-Content-SHA256": export.sha256}
    if name == "decisions":
        headers["X-Participant-Count"] = str(export.participants)
    return FileResponse(
        path, media_type=FORMATS[form], headers=headers, filename=f"{name}.{form}", background=BackgroundTask(path.unlink)
    )
