"""Pages about updates: one in full, all of them as a list, and month by month."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from surefoot.service.dashboard import policy_views
from surefoot.service.dashboard.downloads import send_csv
from surefoot.service.dashboard.page_access import Viewer, router
from surefoot.service.dashboard.parameters import Actor, Download, Id, Reader, go_to
from surefoot.service.database import clock
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.updates import queries, update_calendar, update_process
from surefoot.service.updates.updates import UpdateRunningError

Month = Annotated[str, Query(pattern=r"^(20\d\d-(0[1-9]|1[0-2]))?$")]
LISTED = 60


@router.get("/updates")
def updates_page(viewer: Reader, download: Download = "") -> Response:
    """The newest update in full, the others as a list."""
    newest = queries.list_updates(viewer.trial, 1)
    return _update_page(viewer, newest[0] if newest else None, download)


@router.get("/updates/calendar")
def calendar_page(viewer: Reader, month: Month = "", download: Download = "") -> Response:
    """What became of every night of a month."""
    shown = update_calendar.find_month(viewer.trial, month, clock.now())
    if download:
        nights = [(day.date.isoformat(), entry) for week in shown.weeks for day in week for entry in day.entries]
        columns = ("date", "update", "what became of it", "started at", "started by", "reason")
        rows = [
            (
                date,
                entry.update_id,
                entry.words,
                entry.at,
                entry.started_by,
                entry.reason,
            )
            for date, entry in nights
        ]
        return send_csv(viewer, f"updates-{shown.first:%Y-%m}", columns, rows)
    return viewer.page("calendar", month=shown)


@router.get("/updates/{update_id}")
def update_page(update_id: Id, viewer: Reader, download: Download = "") -> Response:
    """One update."""
    return _update_page(viewer, queries.update_status(viewer.trial, update_id), download)


def _update_page(viewer: Viewer, update: dict[str, Any] | None, download: Download) -> Response:
    removed = None if update is None else policy_views.list_removed_rows(viewer.trial, update)
    listed = queries.list_updates(viewer.trial, LISTED)
    if download:
        columns = ("id", "created_at", "finished_at", "started_by", "state", "policy_id", "message")
        rows = [[*(row[name] for name in columns), *_count_rows(row["result"])] for row in listed]
        return send_csv(viewer, "updates", (*columns, "used", "removed"), rows)
    when = viewer.trial.settings.update_time
    return viewer.page("updates", update=update, removed=removed, listed=listed, states=update_calendar.WORDS, when=when)


def _count_rows(result: dict[str, Any]) -> tuple[int | None, int | None]:
    return result.get("used"), result.get("removed")


@router.post("/updates")
def start_update(viewer: Actor) -> Response:
    """Fit now, in a process of its own."""
    try:
        update_id = update_process.start_update(viewer.trial, viewer.caller.name, by_staff=True)
    except UpdateRunningError as error:
        raise ApiError(409, "update_running", str(error)) from error
    return go_to(f"/updates/{update_id}")
