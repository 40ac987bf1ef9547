"""Pages about participants: all of them, one of them, adherence, and devices that are not worn."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal

import sqlalchemy as sa
from fastapi import Response
from markupsafe import Markup

from surefoot.service.api.routes import export_file, export_study
from surefoot.service.dashboard import participation
from surefoot.service.dashboard.access import (
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
    Viewer,
    go_to,
    read_reason,
    router,
    send_csv,
)
from surefoot.service.dashboard.charts import POINT, SHARE, Series, draw_line, draw_series, draw_text, make_svg, write_share
from surefoot.service.dashboard.participation import find_unworn_points
from surefoot.service.database import clock
from surefoot.service.database.schema import decisions, participants
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.outcomes import CURRENT
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_status, set_pause, withdraw
from surefoot.service.trial.trial import Trial
from surefoot.trial_rules.choices import DOSE

PAGE = 100
"""Decision points on one page."""
STATES = ("sent", "not sent", "available", "unavailable")
BLIND_COLUMNS = ("decision_idx", "decided_at", "received_at", "state", "reasons", "outcome_state", "unworn")
COLUMNS = (*BLIND_COLUMNS, "action_name", "probability", "source", "outcome")
"""What a download has of every decision point."""


@dataclass(frozen=True)
class Point:
    """One decision point."""

    decision_idx: int
    decided_at: datetime
    received_at: datetime
    state: str
    """`sent`, `not sent` or `unavailable`; for who is blind `available` or `unavailable`."""
    action_name: str
    probability: float | None
    source: str
    reasons: str
    outcome: float | None
    outcome_state: str
    """`known`, `reported missing`, `never came`, `awaited`, `erased`, or nothing where none can come."""
    unworn: bool
    """Whether the device was not worn."""

    @property
    def delay(self) -> str:
        """How long after its own time it arrived, in words."""
        return _describe_delay((self.received_at - self.decided_at).total_seconds())


def _describe_delay(seconds: float) -> str:
    """A span in the unit that fits it.

    >>> [_describe_delay(seconds) for seconds in (-30, 0.4, 59, 120, 7200, 200_000)]
    ['30 s before', '0 s', '59 s', '2 min', '2.0 h', '2.3 days']
    """
    size = abs(seconds)
    after = "" if seconds > -1 else " before"
    for unit, length, digits in (("days", 86_400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if size >= (2 * length if unit == "days" else length):
            return f"{size / length:.{digits}f} {unit}{after}"
    return f"{size:.0f} s{after}"


@dataclass(frozen=True)
class ParticipantView:
    """A participant with the newest decision points first."""

    id: str
    registered_at: datetime
    points: list[Point]
    total: int
    states: Counter[str]
    outcome_states: Counter[str]
    earlier: int | None
    """The `before` of the next page; None on the last."""


def describe_participant(
    trial: Trial, participant_id: str, at: datetime, before: int | None = None, *, blind: bool = False
) -> ParticipantView:
    """One participant; `before` shows the decision points below that index, `blind` hides what was sent and what came."""
    joined = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
    columns = (decisions, CURRENT.c.proximal_outcome, CURRENT.c.id.label("outcome_id"))
    query = sa.select(*columns).select_from(joined).where(decisions.c.participant_id == participant_id)
    with trial.database.snapshot() as connection:
        registered = connection.scalar(sa.select(participants.c.registered_at).where(participants.c.id == participant_id))
        if registered is None:
            raise ApiError(404, "unknown_participant", "there is no such participant")
        rows = connection.execute(query.order_by(decisions.c.decision_idx.desc())).mappings().all()
    unworn = find_unworn_points(trial, participant_id, at)
    points = [_describe_point(trial, row, at, unworn=row["decision_idx"] in unworn, blind=blind) for row in rows]
    shown = [point for point in points if before is None or point.decision_idx < before][:PAGE]
    last = shown[-1].decision_idx if shown else 0
    has_earlier = any(point.decision_idx < last for point in points[-1:])
    return ParticipantView(
        participant_id,
        registered,
        shown,
        len(points),
        Counter(point.state for point in points),
        Counter(point.outcome_state for point in points if point.outcome_state),
        last if has_earlier else None,
    )


def _describe_point(trial: Trial, row: Any, at: datetime, *, unworn: bool, blind: bool) -> Point:
    """Blindly: without action, probability, source and outcome, and without dose limits, which tell of earlier prompts."""
    reasons = json.loads(row["availability_reasons"])
    stops = json.loads(row["fallback_reasons"])
    available = row["available"] or (blind and any(reason.startswith(DOSE) for reason in stops))
    state = "sent" if row["action"] else "not sent"
    if blind or not available:
        state = "available" if available else "unavailable"
    return Point(
        row["decision_idx"],
        row["decided_at"],
        row["received_at"],
        state,
        "" if blind else trial.study.actions.names[row["action"]],
        None if blind else row["probability"],
        "" if blind else row["source"],
        "; ".join(reasons if blind else reasons + stops),
        None if blind else row["proximal_outcome"],
        _describe_outcome(trial, {**row, "available": available}, at),
        unworn,
    )


def _describe_outcome(trial: Trial, row: Any, at: datetime) -> str:
    if row["salt"] is None:
        return "erased"
    if row["proximal_outcome"] is not None:
        return "known"
    if row["outcome_id"] is not None:
        return "reported missing"
    if not row["available"]:
        return ""
    closed = row["decided_at"] <= at - timedelta(hours=trial.settings.outcome_hours)
    return "never came" if closed else "awaited"


DAY_HEIGHT = 26
DATE_WIDTH = 16.0
"""Per cent of the width that the dates take."""


def draw_timeline(points: Sequence[Point], zone: tzinfo, moment: str = "decided_at", days: int = 14) -> Markup:
    """The last days with decision points, each at its own time (or at its arrival, `received_at`) in the study's zone."""
    if not points:
        return Markup("")
    moments = [getattr(point, moment).astimezone(zone) for point in points]
    first = max(moments).date() - timedelta(days=days - 1)
    height = DAY_HEIGHT * days

    def place(hour: float) -> float:
        return DATE_WIDTH + (98 - DATE_WIDTH) * hour / 24

    shapes = []
    for hour in range(0, 25, 6):
        shapes.append(draw_line(place(hour), 0, place(hour), height, "grid"))
        shapes.append(draw_text(f"{place(hour):.2f}%", height + 16, "end" if hour == 24 else "middle", f"{hour:02d}:00"))
    for row in range(days):
        shapes.append(draw_text("0%", DAY_HEIGHT * (row + 0.65), "start", f"{first + timedelta(days=row):%d %b}"))
    for point, at in zip(points, moments, strict=True):
        row = (at.date() - first).days
        if row >= 0:
            missing = point.outcome_state in ("never came", "reported missing")
            kind = f"mark {point.state.replace(' ', '-')}" + " lost" * missing + " unworn" * point.unworn
            words = (
                f"{point.decision_idx}: {at:%d %b %H:%M}, {point.state}, outcome {point.outcome_state or 'not asked for'}"
            )
            words += ", device not worn" if point.unworn else ""
            shapes.append(POINT.format(kind, place(at.hour + at.minute / 60), DAY_HEIGHT * (row + 0.5), 5, words))
    counts = Counter(point.state for point in points)
    listing = ", ".join(f"{counts[state]} {state}" for state in STATES if state in counts)
    return make_svg(shapes, height + 20, f"Decision points by day and time of day: {listing}.")


@router.get("/participants")
def participants_page(viewer: TeamMember, search: Search = "", download: Download = "") -> Response:
    """Everybody, or whose pseudonym holds the text searched for; the longest silent first."""
    at = clock.now()
    everybody = participation.list_participants(viewer.trial, at)
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
    view = describe_participant(trial, participant_id, clock.now(), before, blind=viewer.is_blind)
    if download:
        columns = BLIND_COLUMNS if viewer.is_blind else COLUMNS
        rows = [[getattr(point, name) for name in columns] for point in view.points]
        return send_csv(viewer, f"participant-{participant_id}", columns, rows)
    status = find_status(trial, participant_id)
    return viewer.page(
        "participant",
        participant=view,
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
    span: participation.SpanName = "day",
    order: participation.Order = "seen",
    participant: ParticipantId = "",
    download: Download = "",
) -> Response:
    """How much of what the design has arrived, came back and was worn: of the study or one participant, and of everybody."""
    spans = participation.SPANS[span]
    view = participation.describe_adherence(viewer.trial, clock.now(), spans, MOMENTS[by], participant, order)
    if download:
        return send_csv(
            viewer, "adherence", participation.ADHERENCE_COLUMNS, participation.list_adherence_cells(view, participant)
        )
    return viewer.page(
        "adherence",
        adherence=view,
        chart=_draw_adherence(view.spans),
        by=by,
        span=span,
        order=order,
        orders=participation.ORDERS,
        participant=participant,
        at=clock.now(),
        outcome_hours=viewer.trial.settings.outcome_hours,
    )


@router.get("/not-worn")
def not_worn_page(viewer: TeamMember, download: Download = "") -> Response:
    """Who has not worn the device for two days."""
    at = clock.now()
    people = participation.list_unworn(viewer.trial, at)
    if download:
        columns = ("id", "since", "last_worn", "last_contact", "decision_points")
        return send_csv(viewer, "not-worn", columns, [[getattr(person, name) for name in columns] for person in people])
    return viewer.page(
        "wearing",
        at=at.astimezone(viewer.trial.settings.zone),
        device=participation.names_a_device(viewer.trial),
        people=people,
        days=participation.LOOK_BACK.days,
    )


def _draw_adherence(rows: Sequence[participation.Adherence]) -> Markup:
    """The shares of every day or week: what arrived, was available, came back, was worn."""
    series = [
        Series(name, [None if (share := row.shares[name]) is None else (min(share, 1.0), None, None) for row in rows], name)
        for name in participation.SHARES
    ]
    last_values = []
    for line in series:
        known = [value for value in line.values if value is not None]
        last_values.append(f"{line.name} {write_share(known[-1][0]) if known else 'unknown'}")
    words = f"Adherence over {len(rows)} rows. Last known: {'; '.join(last_values)}."
    return draw_series([row.label for row in rows], series, SHARE, words)
