"""What a page shows, as a CSV file: checked by the page's own role, on the staff trail like every export."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fastapi import Response

from surefoot.service.access.staff_trail import record_action
from surefoot.service.dashboard.page_access import Viewer
from surefoot.service.operations.export import FORMATS, FORMULA


def send_csv(viewer: Viewer, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    """A table as a file; nothing where a cell is None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    listed = [[format_cell(cell) for cell in row] for row in rows]
    writer.writerows(listed)
    content = text.getvalue().encode()
    digest = hashlib.sha256(content).hexdigest()
    with viewer.trial.database.transaction() as connection:
        detail = f"{len(listed)} rows, SHA-256 {digest}"
        record_action(connection, viewer.caller.name, "exported", f"{name}.csv (page)", detail)
    headers = {"X-Row-Count": str(len(listed)), "X-Content-SHA256": digest}
    headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return Response(content, media_type=FORMATS["csv"], headers=headers)


def format_cell(cell: Any) -> Any:
    """A cell as it is written: times in UTC, and no text that a spreadsheet would run as a formula.

    >>> format_cell("=cmd()"), format_cell(-1.5), format_cell(None)
    ("'=cmd()", -1.5, None)
    """
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="seconds")
    return re.sub(FORMULA, r"'\1", cell) if isinstance(cell, str) else cell
