"""Pages about participants: all of them, one of them, adherence, and devices that are not worn.

Adherence does not depend on the actions taken: availability is what the app reported, whatever a dose limit made of it.
"""

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, tzinfo
from itertools import groupby, takewhile
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from fastapi import Response
from markupsafe import Markup
from pydantic import ValidationError

from surefoot.screening.not_worn import NotWorn
from surefoot.service.api.routes import Change, export_file, export_study
from surefoot.service.dashboard import pages
from surefoot.service.dashboard.charts import LINE, POINT, TEXT, draw_lines, make_svg, write_share
from surefoot.service.database import clock
from surefoot.service.database.schema import decisions, outcomes, participant_events, participants
from surefoot.service.operations.board import record_unblinding
from surefoot.service.trial import states
from surefoot.service.trial.api_models import ApiError, Registration
from surefoot.service.trial.participants import (
    PAUSED,
    RESUMED,
    WITHDRAWN,
    find_status,
    find_statuses,
    register_participant,
    set_pause,
    withdraw,
)
from surefoot.service.trial.states import CURRENT
from surefoot.service.trial.trial import Trial
from surefoot.trial_rules.choices import DOSE

POINTS_SHOWN = 40
"""Decision points on one page."""
PEOPLE_SHOWN = 40
CALL_AFTER = timedelta(days=2)
LOOK_BACK = timedelta(days=30)
"""Older decision points say nothing about today, and a page should not read a whole trial."""
DAY_HEIGHT = 26
DATE_WIDTH = 16.0
"""Per cent of the width that the dates take."""
SpanName = Literal["day", "week"]
SPANS: dict[SpanName, tuple[int, int]] = {"day": (14, 1), "week": (8, 7)}
"""How many rows there are, and of how many days each."""
Counts = defaultdict[tuple[str, int], Counter[str]]
"""Numbers by what is counted, for every participant and day."""
Order = Literal["participant", "arrived", "available", "outcomes", "worn", "seen"]
SHARES = {
    "arrived": ("punctual", "expected"),
    "available": ("available", "arrived"),
    "outcomes": ("known", "due"),
    "worn": ("worn", "judged"),
}
"""What of what: counts of an adherence row."""
PARTICIPANT_COLUMNS = ("id", "status", "registered_at", "last_decided", "last_contact", "decisions", "missing")
BLIND_COLUMNS = ("decision_idx", "decided_at", "received_at", "state", "reasons", "outcome_state", "unworn")
POINT_COLUMNS = (*BLIND_COLUMNS, "action_name", "probability", "source", "outcome")
UNWORN_COLUMNS = ("id", "since", "last_worn", "last_contact", "decision_points")
ADHERENCE_COLUMNS = (
    *("label", "begins", "expected", "punctual", "arrived", "available", "due", "known", "judged", "worn"),
    *("last_seen", "status"),
)
TITLES = {"label": "participant", "begins": "from", "punctual": "arrived of these", "due": "outcomes due"}
TITLES |= {"known": "outcomes known", "last_seen": "last seen"}
"""How the file of an adherence row calls its columns, where it has other words."""
WITH_OUTCOMES = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
REPORTED_AVAILABLE = sa.or_(decisions.c.available, decisions.c.fallback_reasons.startswith(f'["{DOSE}'))
"""Whether the app said that the participant was available."""


def is_closed(trial: Trial, at: datetime) -> sa.ColumnElement[bool]:
    """Whether the outcome of a decision can no longer come."""
    return decisions.c.decided_at <= at - timedelta(hours=trial.settings.outcome_hours)


def label_outcome(trial: Trial, at: datetime, available: sa.ColumnElement[bool]) -> sa.Label[str]:
    """What became of a decision's outcome, as the column `outcome_state`; nothing where none can come."""
    return sa.case(
        (decisions.c.salt.is_(None), "erased"),
        (CURRENT.c.outcome.is_not(None), "known"),
        (CURRENT.c.id.is_not(None), "reported missing"),
        (~available, ""),
        (is_closed(trial, at), "never came"),
        else_="awaited",
    ).label("outcome_state")


def find_days(trial: Trial, at: datetime, number: int) -> tuple[list[date], list[datetime]]:
    """The last days of the trial, today last, and the moments at which they begin, with the end of today: a day may have 23
    or 25 hours."""
    settings = trial.settings
    today = settings.find_day(at)
    days = [today - timedelta(days=back) for back in reversed(range(number))]
    return days, [datetime.combine(day, settings.day_begins, settings.zone) for day in (*days, today + timedelta(days=1))]


def place_in_days(moment: sa.Column[Any], edges: Sequence[datetime]) -> sa.Label[int]:
    """Which of the days between these edges a moment is in, as the column `day` of a query."""
    return sa.case(*((moment < end, position) for position, end in enumerate(edges[1:]))).label("day")


def list_participants(trial: Trial, at: datetime) -> list[dict[str, Any]]:
    """All participants, the longest silent first: last contact and decision point, decisions, outcomes that are missing.

    Outcomes are missing where the app reported available: dose limits tell of earlier prompts, and coordinators are blind.
    """
    is_missing = (REPORTED_AVAILABLE, decisions.c.salt.is_not(None), CURRENT.c.outcome.is_(None))
    columns = (
        sa.func.count().label("decisions"),
        sa.func.count().filter(*is_missing, is_closed(trial, at)).label("missing"),
        sa.func.max(decisions.c.decided_at).label("last_decided"),
        sa.func.max(decisions.c.received_at).label("last_received"),
    )
    by_participant = sa.select(decisions.c.participant_id).group_by(decisions.c.participant_id)
    points = by_participant.add_columns(*columns).select_from(WITH_OUTCOMES).subquery()
    newest = sa.func.max(outcomes.c.received_at).label("last_heard")
    heard = by_participant.add_columns(newest).join_from(outcomes, decisions).subquery()
    left = sa.select(participant_events.c.participant_id, participant_events.c.happened_at.label("left_at"))
    left_at = left.where(participant_events.c.kind == WITHDRAWN).subquery()
    further = [column for table in (points, heard, left_at) for column in table.c if column.name != "participant_id"]
    query = sa.select(*participants.c, *further)
    for table in (points, heard, left_at):
        query = query.outerjoin(table, table.c.participant_id == participants.c.id)
    with trial.database.snapshot() as connection:
        rows = connection.execute(query).mappings().all()
        statuses = {person: status for person, status in find_statuses(connection).items() if status != RESUMED}
    people = []
    for row in rows:
        contacts = [moment for moment in (row["last_received"], row["last_heard"]) if moment is not None]
        counts = {name: row[name] or 0 for name in ("decisions", "missing")}
        last = max(contacts, default=None)
        people.append({**row, **counts, "last_contact": last, "status": statuses.get(row["id"])})
    return sorted(people, key=lambda person: (person["last_contact"] or person["registered_at"], person["id"]))


def names_a_device(trial: Trial) -> bool:
    """Whether the study says which columns a device measures."""
    study = trial.study
    return study.outcome.device is not None or any(variable.device is not None for variable in study.state.values())


def flag_unworn(trial: Trial, since: datetime) -> list[tuple[Any, bool]]:
    """Every decision point since a moment and whether the device was not worn then; empty where no device is named."""
    if not names_a_device(trial):
        return []
    with trial.database.snapshot() as connection:
        rows = states.read_rows(connection, since=since)
    screen = states.make_study_logs(trial.study.with_screen(), rows).screen if rows else None
    if screen is None:
        return []
    unworn = np.zeros(len(rows), dtype=bool)
    chosen = screen.flags.detector == NotWorn.name
    unworn[screen.row[screen.flags.row[chosen]]] = True
    return list(zip(rows, unworn.tolist(), strict=True))


def list_unworn(trial: Trial, at: datetime) -> list[dict[str, Any]]:
    """Participants who have not worn the device for two days, the longest first."""
    people = []
    for name, group in groupby(flag_unworn(trial, at - LOOK_BACK), key=lambda flagged: flagged[0]["participant_id"]):
        points = list(group)
        unworn = [row for row, _ in takewhile(lambda point: point[1], reversed(points))]
        if not unworn:
            continue
        since = unworn[-1]["decided_at"]
        last_worn = points[-len(unworn) - 1][0]["decided_at"] if len(unworn) < len(points) else None
        if at - (last_worn or since) >= CALL_AFTER:
            facts = {"id": name, "since": since, "last_worn": last_worn, "last_contact": unworn[0]["received_at"]}
            people.append({**facts, "decision_points": len(unworn)})
    return sorted(people, key=lambda person: (person["since"], person["id"]))


def describe_participant(trial: Trial, participant_id: str, at: datetime, *, blind: bool = False) -> dict[str, Any]:
    """One participant with all decision points, the newest first.

    Blindly: without action, probability, source and outcome, and without dose limits, which tell of earlier prompts.
    """
    available = REPORTED_AVAILABLE if blind else decisions.c.available
    columns = (CURRENT.c.outcome, available.label("was_available"), label_outcome(trial, at, available))
    query = sa.select(decisions, *columns).select_from(WITH_OUTCOMES).where(decisions.c.participant_id == participant_id)
    with trial.database.snapshot() as connection:
        registered = connection.scalar(sa.select(participants.c.registered_at).where(participants.c.id == participant_id))
        if registered is None:
            raise ApiError(404, "unknown_participant", "there is no such participant")
        rows = connection.execute(query.order_by(decisions.c.decision_idx.desc())).mappings().all()
    flagged = flag_unworn(trial, at - LOOK_BACK)
    unworn = {row["decision_idx"] for row, off in flagged if off and row["participant_id"] == participant_id}
    points = []
    for row in rows:
        reasons = json.loads(row["availability_reasons"])
        point = {name: row[name] for name in ("decision_idx", "decided_at", "received_at", "outcome_state")}
        point |= {"unworn": row["decision_idx"] in unworn, "delay": describe_delay(row["received_at"] - row["decided_at"])}
        point |= {"state": "available" if row["was_available"] else "unavailable", "reasons": "; ".join(reasons)}
        point |= {"action_name": "", "probability": None, "source": "", "outcome": None}
        if not blind:
            point |= {"action_name": trial.study.actions.names[row["action"]], "probability": row["probability"]}
            point |= {"source": row["source"], "outcome": row["outcome"]}
            point["reasons"] = "; ".join(reasons + json.loads(row["fallback_reasons"]))
            if row["was_available"]:
                point["state"] = "sent" if row["action"] else "not sent"
        points.append(point)
    return {
        "id": participant_id,
        "registered_at": registered,
        "points": points,
        "total": len(points),
        "states": Counter(point["state"] for point in points),
        "outcome_states": Counter(point["outcome_state"] for point in points),
    }


def describe_delay(delay: timedelta) -> str:
    """A span in the unit that fits it.

    >>> [describe_delay(timedelta(seconds=seconds)) for seconds in (-30, 0.4, 59, 120, 7200, 200_000)]
    ['30 s before', '0 s', '59 s', '2 min', '2.0 h', '2.3 days']
    """
    seconds = abs(delay.total_seconds())
    after = "" if delay > timedelta(seconds=-1) else " before"
    for least, length, digits, unit in ((172_800, 86_400, 1, "days"), (3600, 3600, 1, "h"), (60, 60, 0, "min")):
        if seconds >= least:
            return f"{seconds / length:.{digits}f} {unit}{after}"
    return f"{seconds:.0f} s{after}"


def draw_timeline(points: Sequence[Any], zone: tzinfo, moment: str = "decided_at", days: int = 14) -> Markup:
    """The last days with decision points, each at its own time (or at its arrival, `received_at`) in the study's zone."""
    if not points:
        return Markup("")
    moments = [point[moment].astimezone(zone) for point in points]
    first = max(moments).date() - timedelta(days=days - 1)
    height = DAY_HEIGHT * days

    def place(hour: float) -> float:
        return DATE_WIDTH + (98 - DATE_WIDTH) * hour / 24

    shapes = []
    for hour in range(0, 25, 6):
        x = place(hour)
        shapes.append(LINE.format("grid", x, 0, x, height))
        shapes.append(TEXT.format("", f"{x:.2f}%", height + 16, "end" if hour == 24 else "middle", f"{hour:02d}:00"))
    for row in range(days):
        shapes.append(TEXT.format("", "0%", DAY_HEIGHT * (row + 0.65), "start", f"{first + timedelta(days=row):%d %b}"))
    for point, at in zip(points, moments, strict=True):
        row = (at.date() - first).days
        if row < 0:
            continue
        state, outcome = point["state"], point["outcome_state"]
        lost = " lost" if outcome in ("never came", "reported missing") else ""
        unworn = " unworn" if point["unworn"] else ""
        words = f"{point['decision_idx']}: {at:%d %b %H:%M}, {state}, outcome {outcome or 'not asked for'}"
        words += ", device not worn" if unworn else ""
        kind = f"mark {state.replace(' ', '-')}{lost}{unworn}"
        shapes.append(POINT.format(kind, place(at.hour + at.minute / 60), DAY_HEIGHT * (row + 0.5), 5, words))
    counts = Counter(point["state"] for point in points)
    states = ("sent", "not sent", "available", "unavailable")
    listing = ", ".join(f"{counts[state]} {state}" for state in states if state in counts)
    return make_svg(shapes, height + 20, f"Decision points by day and time of day: {listing}.")


def describe_adherence(
    trial: Trial, at: datetime, span: SpanName, moment: str, participant: str = "", order: Order = "seen"
) -> dict[str, Any]:
    """By day or week for the study or one participant, today last, and for everybody over all these days.

    Decision points count by their own time (`decided_at`) or by arrival (`received_at`).
    """
    number, length = SPANS[span]
    days, edges = find_days(trial, at, number * length)
    everybody = list_participants(trial, at)
    names = [person["id"] for person in everybody]
    if participant and participant not in names:
        raise ApiError(404, "unknown_participant", "there is no such participant")
    counts = _count_points(trial, at, edges, moment)
    per_day = trial.study.days if isinstance(trial.study.days, int) else None
    for person in everybody:
        began = trial.settings.find_day(person["registered_at"])
        ended = days[-1] if person["left_at"] is None else trial.settings.find_day(person["left_at"])
        # Whole days: after registration, before today and before a withdrawal.
        for index, day in enumerate(days):
            if began < day < ended:
                cell = counts[person["id"], index]
                cell.update(expected=per_day or 0, punctual=cell["arrived"])
    facts = {"expected": None} if per_day is None else {}
    spans = []
    for first in range(0, len(days), length):
        last = first + length - 1
        label = f"{days[first]:%d %b}" + (f" to {days[last]:%d %b}" if length > 1 else "")
        chosen = [participant] if participant else names
        spans.append(_sum_up(counts, chosen, range(first, last + 1), {"label": label, "begins": days[first], **facts}))
    people = []
    for person in everybody:
        about = {"label": person["id"], "begins": days[0], "last_seen": person["last_contact"], "status": person["status"]}
        people.append(_sum_up(counts, [person["id"]], range(len(days)), {**about, **facts}))
    if order == "participant":
        people.sort(key=lambda row: row["label"])
    elif order != "seen":
        # The smallest share first; those without one last.
        people.sort(key=lambda row: (row["shares"][order] is None, row["shares"][order] or 0.0, row["label"]))
    return {
        "spans": spans,
        "people": people,
        "first": days[0],
        "per_day": per_day,
        "day_begins": trial.study.days if isinstance(trial.study.days, str) else None,
        "device": names_a_device(trial),
    }


def _sum_up(counts: Counts, people: Sequence[str], days: Iterable[int], facts: dict[str, Any]) -> dict[str, Any]:
    """A row of adherence: counts of these people on these days, the shares that follow, and other facts."""
    total: Counter[str] = Counter()
    for day in days:
        for name in people:
            total.update(counts.get((name, day), {}))
    sums = {name: total[name] for pair in SHARES.values() for name in pair}
    shares = {name: sums[part] / sums[base] if sums[base] else None for name, (part, base) in SHARES.items()}
    return {**sums, "shares": shares, "last_seen": None, "status": None, **facts}


def _count_points(trial: Trial, at: datetime, edges: list[datetime], moment: str) -> Counts:
    """What arrived, was available, has an outcome that is due and known, and whether the device was judged and worn."""
    column = decisions.c[moment]
    due = sa.and_(REPORTED_AVAILABLE, is_closed(trial, at), decisions.c.salt.is_not(None))
    numbers = {"arrived": sa.true(), "available": REPORTED_AVAILABLE, "due": due}
    numbers["known"] = sa.and_(due, CURRENT.c.outcome.is_not(None))
    counted = sa.select(decisions.c.participant_id, place_in_days(column, edges)).select_from(WITH_OUTCOMES)
    counted = counted.add_columns(*(sa.func.count().filter(which).label(name) for name, which in numbers.items()))
    counted = counted.where(column >= edges[0], column < edges[-1]).group_by(decisions.c.participant_id, "day")
    counts: Counts = defaultdict(Counter)
    with trial.database.snapshot() as connection:
        for row in connection.execute(counted).mappings():
            counts[row["participant_id"], row["day"]].update({name: row[name] for name in numbers})
    for point, off in flag_unworn(trial, edges[0]):
        counts[point["participant_id"], bisect_right(edges, point[moment]) - 1].update(judged=1, worn=int(not off))
    return counts


@pages.router.get("/participants")
def participants_page(
    viewer: pages.TeamMember,
    search: pages.ShortText = "",
    page: pages.PageNumber = 1,
    download: pages.Download = "",
) -> Response:
    """Everybody, or whose pseudonym holds the text searched for; the longest silent first."""
    at = clock.now()
    everybody = list_participants(viewer.trial, at)
    people = [person for person in everybody if search.strip().lower() in person["id"].lower()]
    if download:
        return pages.send_csv(viewer, "participants", PARTICIPANT_COLUMNS, people)
    listing = pages.cut_page(people, page, PEOPLE_SHOWN)
    return viewer.page("participants", listing=listing, shown=listing.rows, search=search, everybody=len(everybody))


@pages.router.post("/participants")
def register(viewer: pages.Carer, fields: pages.Fields) -> Response:
    """Register a participant by a pseudonym; on the staff trail."""
    try:
        participant_id = Registration(participant_id=fields.get("participant_id", "").strip()).participant_id
    except ValidationError as error:
        message = "a pseudonym has 1 to 64 letters, digits, dots, hyphens and underscores; nobody was registered"
        raise ApiError(422, "invalid", message, "participant_id") from error
    register_participant(viewer.trial.database, participant_id, by=viewer.caller.name)
    return pages.go_to(f"/participants/{participant_id}")


@pages.router.get("/participants/{participant_id}")
def participant_page(
    participant_id: str,
    viewer: pages.TeamMember,
    page: pages.PageNumber = 1,
    by: pages.By = "decided",
    download: pages.Download = "",
) -> Response:
    """One participant: timeline and decision points."""
    if download:
        participant = describe_participant(viewer.trial, participant_id, clock.now(), blind=viewer.is_blind)
        columns = BLIND_COLUMNS if viewer.is_blind else POINT_COLUMNS
        return pages.send_csv(viewer, f"participant-{participant_id}", columns, participant["points"])
    return show_participant(viewer, participant_id, page, by, blind=viewer.is_blind)


def show_participant(
    viewer: pages.Viewer, participant_id: str, page: int = 1, by: pages.By = "decided", *, blind: bool
) -> Response:
    """The page of a participant, blindly or not."""
    trial = viewer.trial
    participant = describe_participant(trial, participant_id, clock.now(), blind=blind)
    listing = pages.cut_page(participant["points"], page, POINTS_SHOWN)
    status = find_status(trial, participant_id)
    return viewer.page(
        "participant",
        participant=participant,
        listing=listing,
        timeline=draw_timeline(listing.rows, trial.settings.zone, pages.MOMENTS[by]),
        by=by,
        blind=blind,
        paused=status == PAUSED,
        withdrawn=status == WITHDRAWN,
    )


@pages.router.post("/participants/{participant_id}/withdraw")
def withdraw_participant(participant_id: str, viewer: pages.Carer, fields: pages.Fields) -> Response:
    """A participant leaves, for good; the form asks for the id again, so that no slip of the hand does it."""
    if fields.get("repeated", "").strip() != participant_id:
        raise ApiError(422, "invalid", f"write the participant's id, {participant_id}, to confirm; nothing was changed")
    withdraw(viewer.trial, participant_id, reason=pages.read_reason(fields), by=viewer.caller.name)
    return pages.go_to(f"/participants/{participant_id}")


@pages.router.post("/participants/{participant_id}/unblind")
def unblind(participant_id: str, viewer: pages.Carer, fields: pages.Fields) -> Response:
    """One participant's actions, once, in an emergency: who sees them and why is on the trail first."""
    page = show_participant(viewer, participant_id, blind=False)
    record_unblinding(viewer.trial, participant_id, reason=pages.read_reason(fields), by=viewer.caller.name)
    return page


@pages.router.post("/participants/{participant_id}/{change}")
def pause_participant(participant_id: str, change: Change, viewer: pages.Carer, fields: pages.Fields) -> Response:
    """Pause a participant, or go on."""
    reason = pages.read_reason(fields)
    set_pause(viewer.trial, participant_id, paused=change == "pause", reason=reason, by=viewer.caller.name)
    return pages.go_to(f"/participants/{participant_id}")


@pages.router.post("/study/{change}")
def pause_study(change: Change, viewer: pages.Actor, fields: pages.Fields) -> Response:
    """Pause the study, or go on."""
    set_pause(viewer.trial, None, paused=change == "pause", reason=pages.read_reason(fields), by=viewer.caller.name)
    return pages.go_to("/")


@pages.router.get("/download/study.toml")
def download_study(viewer: pages.Reader) -> Response:
    """The study that goes with the decisions."""
    return export_study(viewer.trial, viewer.caller.name)


@pages.router.get("/download/{name}.{form}")
def download_export(
    name: Literal["decisions", "outcomes"], form: Literal["csv", "parquet"], viewer: pages.Reader
) -> Response:
    """The export, for those who have no command line."""
    return export_file(viewer.trial, name, form, viewer.caller.name)


@pages.router.get("/adherence")
def adherence_page(
    viewer: pages.TeamMember,
    by: pages.By = "decided",
    span: SpanName = "day",
    order: Order = "seen",
    participant: pages.ShortText = "",
    page: pages.PageNumber = 1,
    download: pages.Download = "",
) -> Response:
    """How much of what the design has arrived, came back and was worn: of the study or one participant, and of everybody."""
    at = clock.now()
    view = describe_adherence(viewer.trial, at, span, pages.MOMENTS[by], participant, order)
    spans = view["spans"]
    if download:
        rows = [*view["people"], *({**row, "label": participant or "everybody"} for row in spans)]
        titles = [TITLES.get(column, column) for column in ADHERENCE_COLUMNS]
        return pages.send_csv(viewer, "adherence", titles, ([row[column] for column in ADHERENCE_COLUMNS] for row in rows))
    lines = {}
    last_known = []
    for name in SHARES:
        shares = [row["shares"][name] for row in spans]
        lines[name] = [None if share is None else (min(share, 1.0), None, None) for share in shares]
        known = [write_share(share[0]) for share in lines[name] if share is not None]
        last_known.append(f"{name} {known[-1] if known else 'unknown'}")
    words = f"Adherence over {len(spans)} rows. Last known: {'; '.join(last_known)}."
    return viewer.page(
        "adherence",
        adherence=view,
        listing=pages.cut_page(view["people"], page, PEOPLE_SHOWN),
        chart=draw_lines([row["label"] for row in spans], lines, words),
        by=by,
        span=span,
        order=order,
        participant=participant,
    )


@pages.router.get("/not-worn")
def not_worn_page(viewer: pages.TeamMember, page: pages.PageNumber = 1, download: pages.Download = "") -> Response:
    """Who has not worn the device for two days."""
    at = clock.now()
    people = list_unworn(viewer.trial, at)
    if download:
        return pages.send_csv(viewer, "not-worn", UNWORN_COLUMNS, people)
    listing = pages.cut_page(people, page, PEOPLE_SHOWN)
    return viewer.page("wearing", device=names_a_device(viewer.trial), listing=listing, days=LOOK_BACK.days)
