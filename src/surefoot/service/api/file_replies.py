"""Exports as files to download, with the counts and the hash to check them by."""

from __future__ import annotations

from fastapi import Response

from surefoot.service.operations.export import FORMATS, export_decisions, export_outcomes
from surefoot.service.trial.trial import Trial


def export_file(trial: Trial, name: str, form: str) -> Response:
    """`decisions` or `outcomes` as a CSV or Parquet file."""
    export = (export_decisions if name == "decisions" else export_outcomes)(trial, form)
    headers = {
        "X-Row-Count": str(export.rows),
        "X-Content-SHA256": export.sha256,
        "Content-Disposition": f'attachment; filename="{name}.{form}"',
    }
    if name == "decisions":
        headers["X-Participant-Count"] = str(export.participants)
    return Response(export.content, media_type=FORMATS[form], headers=headers)
