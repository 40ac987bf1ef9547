"""Pages about safety: counts and reports for a board, and adverse events."""

from datetime import datetime
from typing import Any, Literal

from fastapi import Response

from surefoot.service.api.routes import Id
from surefoot.service.dashboard import pages
from surefoot.service.database import clock
from surefoot.service.operations.board import BoardReport, make_closed_report, make_open_report
from surefoot.service.trial.adverse_events import LONGEST, RELATIONS, list_events, record_event
from surefoot.service.trial.alerts import count_safety
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.trial import Trial

Form = Literal["html", "json"]
EVENTS_SHOWN = 12
EVENT_COLUMNS = (
    *("id", "participant_id", "happened_at", "serious", "related", "description"),
    *("recorded_at", "recorded_by", "corrections"),
)


@pages.router.get("/safety")
def safety_page(viewer: pages.BoardMember, download: pages.Download = "") -> Response:
    """Counts for a safety board, and its reports."""
    counts = count_safety(viewer.trial, clock.now())
    if download:
        rows = [(name, "; ".join(value) if isinstance(value, list) else value) for name, value in counts.items()]
        return pages.send_csv(viewer, "safety", ("count", "found"), rows)
    return viewer.page("safety", counts=counts)


@pages.router.get("/safety/open.{form}")
def download_open_report(form: Form, viewer: pages.BoardMember, since: pages.ShortText = "") -> Response:
    """The open part of the report for a meeting."""
    return _send_report(make_open_report(viewer.trial, read_moment(viewer.trial, since)), form)


@pages.router.post("/safety/closed")
def download_closed_report(viewer: pages.BoardSender, fields: pages.Fields) -> Response:
    """The closed part, with outcomes by action: who gets it and why is on the trail first."""
    since = read_moment(viewer.trial, fields.get("since", ""))
    reason = pages.read_reason(fields)
    report = make_closed_report(viewer.trial, since, reason=reason, by=viewer.caller.name)
    return _send_report(report, "json" if fields.get("form") == "json" else "html")


def _send_report(report: BoardReport, form: Form) -> Response:
    text, kind = (report.to_html(), "text/html") if form == "html" else (report.to_json(), "application/json")
    headers = {"Content-Disposition": f'attachment; filename="board-{report.part}-{report.made_at:%Y-%m-%d}.{form}"'}
    return Response(text, media_type=kind, headers=headers)


def read_moment(trial: Trial, text: str) -> datetime | None:
    """A date, or date and time, of a form, in the study's time zone; None for an empty field."""
    if not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ApiError(422, "invalid", "write the date and time like 2026-03-02T09:30") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=trial.settings.zone)


@pages.router.get("/events")
def events_page(viewer: pages.StaffMember, page: pages.PageNumber = 1, download: pages.Download = "") -> Response:
    """All adverse events, the newest first, and the form to record one."""
    events = _read_events(viewer.trial)
    if download:
        return pages.send_csv(viewer, "adverse-events", EVENT_COLUMNS, events)
    listing = pages.cut_page(events, page, EVENTS_SHOWN)
    return viewer.page("events", listing=listing, event=None, relations=RELATIONS, longest=LONGEST)


@pages.router.get("/events/{event_id}")
def event_page(event_id: Id, viewer: pages.StaffMember) -> Response:
    """One adverse event with all its versions, and the form to correct it."""
    event = next((event for event in _read_events(viewer.trial) if event["id"] == event_id), None)
    if event is None:
        raise ApiError(404, "unknown_event", "there is no such event")
    return viewer.page("event", event=event, relations=RELATIONS, longest=LONGEST)


def _read_events(trial: Trial) -> list[dict[str, Any]]:
    with trial.database.autocommit() as connection:
        events = list_events(connection)
    return [{**event, "corrections": len(event["versions"]) - 1} for event in events]


@pages.router.post("/events")
def record_adverse_event(viewer: pages.Carer, fields: pages.Fields) -> Response:
    """Record an adverse event, or correct one; the first record stays."""
    happened_at = read_moment(viewer.trial, fields.get("happened_at", ""))
    if happened_at is None:
        raise ApiError(422, "invalid", "say when the event happened; nothing was recorded")
    if fields.get("serious") not in ("yes", "no"):
        raise ApiError(422, "invalid", "say whether the event is serious; nothing was recorded")
    corrects = fields.get("corrects", "")
    event_id = record_event(
        viewer.trial,
        fields.get("participant_id", "").strip(),
        happened_at=happened_at,
        description=fields.get("description", ""),
        serious=fields["serious"] == "yes",
        related=fields.get("related", ""),
        by=viewer.caller.name,
        corrects=int(corrects) if corrects.isdecimal() and len(corrects) < 10 else None,
    )
    return pages.go_to(f"/events/{corrects or event_id}")
