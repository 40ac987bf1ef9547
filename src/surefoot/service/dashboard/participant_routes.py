"""Pages about participants: all of them, one of them, who takes part how much, who does not wear the device."""

from __future__ import annotations

from typing import Literal

from fastapi import Response

from surefoot.service.api.file_replies import export_file, export_study
from surefoot.service.dashboard import adherence, charts, overview, participant_view, wearing
from surefoot.service.dashboard.downloads import send_csv
from surefoot.service.dashboard.page_access import Viewer, router
from surefoot.service.dashboard.parameters import (
    MOMENTS,
    Actor,
    Before,
    By,
    Change,
    Download,
    Fields,
    ParticipantId,
    Reader,
    Search,
    TeamMember,
    go_to,
    read_reason,
)
from surefoot.service.dashboard.timeline import draw_timeline
from surefoot.service.database import clock
from surefoot.service.trial.api_errors import ApiError
from surefoot.service.trial.pauses import find_status, set_pause, withdraw
from surefoot.service.trial.point_query import PAUSED, WITHDRAWN


@router.get("/participants")
def participants_page(viewer: TeamMember, search: Search = "", download: Download = "") -> Response:
    """Everybody, or whose pseudonym holds the text searched for; the longest silent first."""
    at = clock.now()
    everybody = overview.list_participants(viewer.trial, at)
    wanted = search.strip().lower()
    people = [person for person in everybody if wanted in person.id.lower()]
    if download:
        columns = ("id", "status", "registered_at", "last_decided", "last_contact", "decisions", "missing")
        return send_csv(viewer, "participants", columns, [[getattr(person, name) for name in columns] for person in people])
    return viewer.page(
        "participants",
        at=at.astimezone(viewer.trial.settings.zone),
        people=people,
        search=search,
        everybody=len(everybody),
        outcome_hours=viewer.trial.settings.outcome_hours,
    )


@router.get("/participants/{participant_id}")
def participant_page(
    participant_id: str, viewer: TeamMember, before: Before = None, by: By = "decided", download: Download = ""
) -> Response:
    """One participant: timeline and decision points."""
    trial = viewer.trial
    view = participant_view.describe_participant(trial, participant_id, clock.now(), before, blind=viewer.is_blind)
    if download:
        columns = participant_view.BLIND_COLUMNS if viewer.is_blind else participant_view.COLUMNS
        rows = [[getattr(point, name) for name in columns] for point in view.points]
        return send_csv(viewer, f"participant-{participant_id}", columns, rows)
    status = find_status(trial, participant_id)
    return viewer.page(
        "participant",
        one=view,
        timeline=draw_timeline(view.points, trial.settings.zone, MOMENTS[by]),
        by=by,
        paused=status == PAUSED,
        withdrawn=status == WITHDRAWN,
    )


@router.post("/participants/{participant_id}/withdraw")
def withdraw_participant(participant_id: str, viewer: Actor, fields: Fields) -> Response:
    """A participant leaves, for good; the form asks for the id again, so that no slip of the hand does it."""
    if fields.get("repeated", "").strip() != participant_id:
        raise ApiError(422, "invalid", f"write the participant's id, {participant_id}, to confirm; nothing was changed")
    withdraw(viewer.trial, participant_id, reason=read_reason(fields), by=viewer.caller.name)
    return go_to(f"/participants/{participant_id}")


@router.post("/participants/{participant_id}/{change}")
def pause_participant(participant_id: str, change: Change, viewer: Actor, fields: Fields) -> Response:
    """Pause a participant, or go on."""
    _set_pause(viewer, participant_id, change, fields)
    return go_to(f"/participants/{participant_id}")


@router.post("/study/{change}")
def pause_study(change: Change, viewer: Actor, fields: Fields) -> Response:
    """Pause the study, or go on."""
    _set_pause(viewer, None, change, fields)
    return go_to("/")


def _set_pause(viewer: Viewer, participant_id: str | None, change: Change, fields: dict[str, str]) -> None:
    by = viewer.caller.name
    set_pause(viewer.trial, participant_id, paused=change == "pause", reason=read_reason(fields), by=by)


@router.get("/download/study.toml")
def download_study(viewer: Reader) -> Response:
    """The study that goes with the decisions."""
    return export_study(viewer.trial, viewer.caller.name)


@router.get("/download/{name}.{form}")
def download_export(name: Literal["decisions", "outcomes"], form: Literal["csv", "parquet"], viewer: Reader) -> Response:
    """The export, for those who have no command line."""
    return export_file(viewer.trial, name, form, viewer.caller.name)


@router.get("/adherence")
def adherence_page(
    viewer: TeamMember,
    by: By = "decided",
    span: adherence.SpanName = "day",
    order: adherence.Order = "seen",
    participant: ParticipantId = "",
    download: Download = "",
) -> Response:
    """How much of what the design has arrived, came back and was worn: of the study or one participant, and of everybody."""
    spans = adherence.SPANS[span]
    view = adherence.describe_adherence(viewer.trial, clock.now(), spans, MOMENTS[by], participant, order)
    if download:
        return send_csv(viewer, "adherence", adherence.COLUMNS, adherence.list_cells(view, participant))
    return viewer.page(
        "adherence",
        found=view,
        chart=charts.adherence(view.spans),
        by=by,
        span=span,
        order=order,
        orders=adherence.ORDERS,
        participant=participant,
        at=clock.now(),
        outcome_hours=viewer.trial.settings.outcome_hours,
    )


@router.get("/not-worn")
def not_worn_page(viewer: TeamMember, download: Download = "") -> Response:
    """Who has not worn the device for two days."""
    at = clock.now()
    people = wearing.list_unworn(viewer.trial, at)
    if download:
        columns = ("id", "since", "last_worn", "last_contact", "decision_points")
        return send_csv(viewer, "not-worn", columns, [[getattr(person, name) for name in columns] for person in people])
    return viewer.page(
        "wearing",
        at=at.astimezone(viewer.trial.settings.zone),
        device=wearing.names_a_device(viewer.trial),
        people=people,
        days=wearing.LOOK_BACK.days,
    )
