"""Participation: who takes part, what arrived of the design, what came back, and whose device is not worn.

Adherence does not depend on the actions taken: availability is what the app reported, whatever a dose limit made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from surefoot.screening.not_worn import NotWorn
from surefoot.service.database.schema import decisions, outcomes, participant_events, participants
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.outcomes import CURRENT
from surefoot.service.trial.participants import RESUMED, WITHDRAWN, find_statuses
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import trial_logs
from surefoot.trial_rules.choices import DOSE

CALL_AFTER = timedelta(days=2)
LOOK_BACK = timedelta(days=30)
"""Older decision points say nothing about today, and a page should not read a whole trial."""


@dataclass(frozen=True)
class Unworn:
    """One participant whose device has recorded nothing but zeros for too long."""

    id: str
    last_worn: datetime | None
    """The last decision point at which the device was worn; None when it never was in the days looked at."""
    since: datetime
    """The first decision point from which on it was not."""
    last_contact: datetime
    decision_points: int
    """With the device not worn, since then."""


def names_a_device(trial: Trial) -> bool:
    """Whether the study says which columns a device measures."""
    study = trial.study
    return study.reward.device is not None or any(variable.device is not None for variable in study.state.values())


def flag_unworn(trial: Trial, since: datetime) -> list[tuple[Any, bool]]:
    """Every decision point since a moment and whether the device was not worn then; empty where no device is named."""
    if not names_a_device(trial):
        return []
    with trial.database.snapshot() as connection:
        rows = trial_logs.read_rows(connection, since=since)
    screen = trial_logs.make_study_logs(trial.study.with_screen(), rows).screen if rows else None
    if screen is None:
        return []
    unworn = np.zeros(len(rows), dtype=bool)
    chosen = screen.screener.detector_names(screen.flags) == NotWorn.name
    unworn[screen.row[screen.flags.row[chosen]]] = True
    return list(zip(rows, unworn.tolist(), strict=True))


def find_unworn_points(trial: Trial, participant_id: str, at: datetime) -> set[int]:
    """The decision points of one participant, by their index, at which the device was not worn."""
    flagged = flag_unworn(trial, at - LOOK_BACK)
    return {row["decision_idx"] for row, off in flagged if off and row["participant_id"] == participant_id}


def list_unworn(trial: Trial, at: datetime) -> list[Unworn]:
    """Participants who have not worn the device for two days, the longest first."""
    by_participant: dict[str, list[tuple[Any, bool]]] = {}
    for row, off in flag_unworn(trial, at - LOOK_BACK):
        by_participant.setdefault(row["participant_id"], []).append((row, off))
    people = [_describe(name, points) for name, points in by_participant.items()]
    late = [person for person in people if person is not None and at - (person.last_worn or person.since) >= CALL_AFTER]
    return sorted(late, key=lambda person: (person.since, person.id))


def _describe(name: str, points: Sequence[tuple[Any, bool]]) -> Unworn | None:
    """What there is to say about one participant's decision points, in order; None when the device was worn at the last."""
    run = next((position for position, (_, off) in enumerate(reversed(points)) if not off), len(points))
    if run == 0:
        return None
    first = len(points) - run
    last_worn = points[first - 1][0]["decided_at"] if first else None
    return Unworn(name, last_worn, points[first][0]["decided_at"], points[-1][0]["received_at"], run)


Counts = dict[str, NDArray[np.int64]]
"""By what is counted, (people, days)."""
SpanName = Literal["day", "week"]
Order = Literal["participant", "arrived", "available", "outcomes", "worn", "seen"]


SPANS: dict[SpanName, tuple[int, int]] = {"day": (14, 1), "week": (8, 7)}
"""How many rows there are, and of how many days each."""


@dataclass(frozen=True)
class Adherence:
    """Counts of one participant, or of one day or week."""

    label: str
    expected: int | None
    """By the design, in whole days of taking part; None where the study does not say how many decision points a day has."""
    punctual: int
    """Those that arrived of the expected ones."""
    arrived: int
    available: int
    due: int
    """Available decision points whose outcome can no longer come, unless it came."""
    known: int
    """Outcomes of these that came."""
    judged: int
    """Decision points of which it is known whether the device was worn."""
    worn: int
    last_seen: datetime | None = None
    status: str | None = None
    begins: date | None = None
    """The first day, of a row that is a day or a week."""

    @property
    def shares(self) -> dict[str, float | None]:
        """Of what was expected, arrived, due and judged; None of nothing."""
        pairs = {
            "arrived": (self.punctual, self.expected or 0),
            "available": (self.available, self.arrived),
            "outcomes": (self.known, self.due),
            "worn": (self.worn, self.judged),
        }
        return {name: part / total if total else None for name, (part, total) in pairs.items()}


@dataclass(frozen=True)
class AdherenceView:
    """By day or week for the study or one participant, and for everybody over all these days."""

    spans: list[Adherence]
    people: list[Adherence]
    first: date
    per_day: int | None
    day_begins: str | None
    """The clock time of `day_boundary`, where it is one."""
    device: bool


SHARES = ("arrived", "available", "outcomes", "worn")
ORDERS = {"seen": "last seen", **{name: name for name in ("participant", *SHARES)}}
ADHERENCE_COLUMNS = (
    *("participant", "from", "expected", "arrived of these", "arrived", "available", "outcomes due", "outcomes known"),
    *("judged", "worn", "last seen", "status"),
)


def list_adherence_cells(view: AdherenceView, participant: str = "") -> list[tuple[Any, ...]]:
    """Everybody from the first day on, then every day or week of the study or of one participant, as rows of a table."""
    people = [(row.label, view.first, row) for row in view.people]
    spans = [(participant or "everybody", row.begins, row) for row in view.spans]
    return [
        (
            *(name, begins, row.expected, row.punctual, row.arrived, row.available, row.due, row.known),
            *(row.judged, row.worn, row.last_seen, row.status),
        )
        for name, begins, row in (*people, *spans)
    ]


def describe_adherence(
    trial: Trial, at: datetime, spans: tuple[int, int], moment: str, participant: str = "", order: Order = "seen"
) -> AdherenceView:
    """The last days or weeks, today last; by the decision points' own time (`decided_at`) or by arrival (`received_at`)."""
    number, span_days = spans
    days, edges = find_days(trial, at, number * span_days)
    people = list_participants(trial, at)
    places = {person.id: position for position, person in enumerate(people)}
    if participant and participant not in places:
        raise ApiError(404, "unknown_participant", "there is no such participant")
    counts = _count_points(trial, at, places, edges, decisions.c[moment])
    counts |= _count_worn(trial, places, edges, moment)
    per_day = trial.study.days if isinstance(trial.study.days, int) else None
    took_part = _find_whole_days(trial, people, days)
    counts["punctual"] = counts["arrived"] * took_part
    counts["expected"] = took_part * (per_day or 0)
    rows_of_people = slice(places[participant], places[participant] + 1) if participant else slice(None)
    seen = [
        replace(
            _sum_up(counts, position, slice(None), per_day, person.id), last_seen=person.last_contact, status=person.status
        )
        for position, person in enumerate(people)
    ]
    rows = []
    for first in range(0, len(days), span_days):
        chosen = slice(first, first + span_days)
        rows.append(replace(_sum_up(counts, rows_of_people, chosen, per_day, _label_span(days[chosen])), begins=days[first]))
    return AdherenceView(
        rows,
        _sort_people(seen, order),
        days[0],
        per_day,
        day_begins=trial.study.days if isinstance(trial.study.days, str) else None,
        device=names_a_device(trial),
    )


def _label_span(days: Sequence[date]) -> str:
    return f"{days[0]:%d %b}" if len(days) == 1 else f"{days[0]:%d %b} to {days[-1]:%d %b}"


def _sum_up(counts: Counts, people: int | slice, days: slice, per_day: int | None, label: str) -> Adherence:
    sums: dict[str, Any] = {name: int(numbers[people, days].sum()) for name, numbers in counts.items()}
    return Adherence(label, **{**sums, "expected": None if per_day is None else sums["expected"]})


def _sort_people(people: list[Adherence], order: Order) -> list[Adherence]:
    """The longest silent first, or the smallest share; those without one last."""
    if order == "seen":
        return people
    if order == "participant":
        return sorted(people, key=lambda person: person.label)
    shares = [(person.shares[order], person) for person in people]
    return [person for _, person in sorted(shares, key=lambda pair: (pair[0] is None, pair[0] or 0.0, pair[1].label))]


def _count_points(
    trial: Trial, at: datetime, places: dict[str, int], edges: list[datetime], moment: sa.Column[Any]
) -> Counts:
    """Decision points of every participant and day by what became of them, in one query."""
    available = sa.or_(decisions.c.available, decisions.c.fallback_reasons.startswith(f'["{DOSE}'))
    closed = decisions.c.decided_at <= at - timedelta(hours=trial.settings.outcome_hours)
    due = sa.and_(available, closed, decisions.c.salt.is_not(None))
    numbers = {
        "arrived": sa.true(),
        "available": available,
        "due": due,
        "known": sa.and_(due, CURRENT.c.proximal_outcome.is_not(None)),
    }
    sums = [sa.func.sum(sa.case((which, 1), else_=0)).label(name) for name, which in numbers.items()]
    joined = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
    counted = sa.select(decisions.c.participant_id, place_in_days(moment, edges), *sums).select_from(joined)
    counted = counted.where(moment >= edges[0], moment < edges[-1]).group_by(decisions.c.participant_id, "day")
    counts = {name: np.zeros((len(places), len(edges) - 1), dtype=np.int64) for name in numbers}
    with trial.database.snapshot() as connection:
        for row in connection.execute(counted).mappings():
            for name in numbers:
                counts[name][places[row["participant_id"]], row["day"]] = row[name]
    return counts


def _count_worn(trial: Trial, places: dict[str, int], edges: list[datetime], moment: str) -> Counts:
    """Decision points at which the device could be judged, and at which it was worn."""
    counts = {name: np.zeros((len(places), len(edges) - 1), dtype=np.int64) for name in ("judged", "worn")}
    flagged = flag_unworn(trial, edges[0])
    begins = [edge.timestamp() for edge in edges]
    day_indices = np.searchsorted(begins, [row[moment].timestamp() for row, _ in flagged], side="right") - 1
    for (row, off), day in zip(flagged, day_indices.tolist(), strict=True):
        if 0 <= day < len(edges) - 1:
            counts["judged"][places[row["participant_id"]], day] += 1
            counts["worn"][places[row["participant_id"]], day] += not off
    return counts


def _find_whole_days(trial: Trial, people: Sequence[Participant], days: Sequence[date]) -> NDArray[np.int64]:
    """(people, days): 1 on the days after registration, before today and before a withdrawal."""
    left = sa.select(participant_events.c.participant_id, participant_events.c.happened_at).where(
        participant_events.c.kind == WITHDRAWN
    )
    with trial.database.autocommit() as connection:
        ends = {row.participant_id: row.happened_at for row in connection.execute(left)}
    calendar = np.array(days, dtype="datetime64[D]")

    def days_of(moments: list[datetime | None], otherwise: date) -> NDArray[np.datetime64]:
        dates = [otherwise if moment is None else trial.settings.find_day(moment) for moment in moments]
        return np.array(dates, dtype="datetime64[D]")[:, None]

    began = days_of([person.registered_at for person in people], days[-1])
    ended = days_of([ends.get(person.id) for person in people], days[-1])
    return ((calendar > began) & (calendar < ended)).astype(np.int64)


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


@dataclass(frozen=True)
class Participant:
    """One participant and when anything was last heard."""

    id: str
    registered_at: datetime
    last_contact: datetime | None
    """When anything last arrived."""
    last_decided: datetime | None
    """The newest decision point by its own time."""
    decisions: int
    missing: int
    """Available decision points whose outcome can no longer come."""
    status: str | None = None
    """`paused` or `withdrawn`; None for who takes part."""


def list_participants(trial: Trial, at: datetime) -> list[Participant]:
    """All participants, the longest silent first."""
    decision_query = sa.select(
        decisions.c.participant_id,
        sa.func.count().label("number"),
        sa.func.max(decisions.c.received_at).label("last"),
        sa.func.max(decisions.c.decided_at).label("decided"),
    ).group_by(decisions.c.participant_id)
    outcome_query = (
        sa.select(decisions.c.participant_id, sa.func.max(outcomes.c.received_at).label("last"))
        .join_from(outcomes, decisions)
        .group_by(decisions.c.participant_id)
    )
    with trial.database.snapshot() as connection:
        known = connection.execute(sa.select(participants)).all()
        decided = {row.participant_id: row for row in connection.execute(decision_query)}
        heard = {row.participant_id: row.last for row in connection.execute(outcome_query)}
        missing = _count_missing(connection, trial, at)
        statuses = {person: status for person, status in find_statuses(connection).items() if status != RESUMED}
    people = []
    for row in known:
        counts: Any = decided.get(row.id)
        contacts = [moment for moment in (counts and counts.last, heard.get(row.id)) if moment is not None]
        last = max(contacts, default=None)
        number = counts.number if counts else 0
        points = (counts and counts.decided, number, missing.get(row.id, 0))
        people.append(Participant(row.id, row.registered_at, last, *points, statuses.get(row.id)))
    return sorted(people, key=lambda person: (person.last_contact or person.registered_at, person.id))


def _count_missing(connection: sa.Connection, trial: Trial, at: datetime) -> dict[str, int]:
    missing = (
        join_outcomes(sa.select(decisions.c.participant_id, sa.func.count().label("number")))
        .where(decisions.c.salt.is_not(None), CURRENT.c.proximal_outcome.is_(None))
        .where(decisions.c.decided_at <= find_last_closed(trial, at))
        .group_by(decisions.c.participant_id)
    )
    return {row.participant_id: row.number for row in connection.execute(missing)}


def join_outcomes(query: Any) -> Any:
    """Available decision points with their current outcomes."""
    joined = decisions.outerjoin(CURRENT, CURRENT.c.decision_id == decisions.c.id)
    return query.select_from(joined).where(decisions.c.available)


def find_last_closed(trial: Trial, at: datetime) -> datetime:
    """Outcomes of decision points up to this moment can no longer come."""
    return at - timedelta(hours=trial.settings.outcome_hours)
