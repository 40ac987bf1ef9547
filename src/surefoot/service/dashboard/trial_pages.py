"""Pages about the whole trial: overview, alerts, safety, staff and updates."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Query, Response
from markupsafe import Markup

from surefoot.service import access, messages
from surefoot.service.access import list_actions
from surefoot.service.api.routes import export_file
from surefoot.service.dashboard import policy_pages
from surefoot.service.dashboard.access import (
    MOMENTS,
    Actor,
    Admin,
    Before,
    BoardMember,
    By,
    Download,
    Id,
    Reader,
    Viewer,
    go_to,
    router,
    send_csv,
)
from surefoot.service.dashboard.charts import SHARE, Series, draw_limits, draw_series, draw_stacks, write_share
from surefoot.service.dashboard.participation import (
    find_days,
    find_last_closed,
    join_outcomes,
    list_participants,
    place_in_days,
)
from surefoot.service.database import clock
from surefoot.service.database.schema import alerts, decisions, outcomes
from surefoot.service.messages import make_channels
from surefoot.service.trial.alerts import close_alert, count_safety, count_warnings
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.outcomes import CURRENT
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_status
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import schedule, updates

SOURCES = ("policy", "warm-up", "fallback", "unavailable")
DAYS = 14


@dataclass(frozen=True)
class Day:
    """The decisions of one day of the study's time zone."""

    date: date
    sources: dict[str, int] = field(default_factory=dict)
    sent: int = 0

    @property
    def decisions(self) -> int:
        return sum(self.sources.values())

    @property
    def available(self) -> int:
        return self.decisions - self.sources.get("unavailable", 0)

    @property
    def send_rate(self) -> tuple[float, float, float] | None:
        """The share of available decision points with anything sent, and its 95 % interval (Wilson)."""
        from scipy.stats import binomtest

        if not self.available:
            return None
        interval = binomtest(self.sent, self.available).proportion_ci(method="wilson")
        return self.sent / self.available, float(interval.low), float(interval.high)


def list_day_cells(day: Day) -> list[Any]:
    """A day as a row of a table: date, sources, sums, and the send rate with its interval."""
    rate = day.send_rate or (None, None, None)
    return [day.date, *(day.sources.get(source, 0) for source in SOURCES), day.decisions, day.available, day.sent, *rate]


def count_days(trial: Trial, at: datetime, number: int = DAYS, by: str = "received_at") -> list[Day]:
    """The last days, today last; by arrival, or by the decision points' own time (`decided_at`)."""
    moment = decisions.c[by]
    days, edges = find_days(trial, at, number)
    sent = sa.func.sum(sa.case((decisions.c.action > 0, 1), else_=0))
    columns = (place_in_days(moment, edges), decisions.c.source, sa.func.count().label("number"), sent.label("sent"))
    counted = sa.select(*columns).where(moment >= edges[0], moment < edges[-1])
    with trial.database.snapshot() as connection:
        rows = connection.execute(counted.group_by("day", decisions.c.source)).all()
    rows_by_day = [[row for row in rows if row.day == position] for position in range(number)]
    return [
        Day(day, {row.source: row.number for row in day_rows}, sum(row.sent for row in day_rows))
        for day, day_rows in zip(days, rows_by_day, strict=True)
    ]


def count_outcomes(trial: Trial, at: datetime) -> dict[str, int]:
    """Of all available decision points: outcome known, known to be missing, still awaited, never came, erased."""
    closed = decisions.c.decided_at <= find_last_closed(trial, at)
    state = sa.case(
        (decisions.c.salt.is_(None), "erased"),
        (CURRENT.c.proximal_outcome.is_not(None), "known"),
        (CURRENT.c.id.is_not(None), "reported missing"),
        (closed, "never came"),
        else_="awaited",
    ).label("state")
    counted = join_outcomes(sa.select(state, sa.func.count().label("number"))).group_by(state)
    with trial.database.autocommit() as connection:
        numbers = {row.state: row.number for row in connection.execute(counted)}
        late = connection.scalar(sa.select(sa.func.count()).select_from(outcomes).where(outcomes.c.late))
    return {
        **{name: numbers.get(name, 0) for name in ("known", "reported missing", "awaited", "never came", "erased")},
        "late": late or 0,
    }


def list_alerts(trial: Trial, *, only_open: bool = False, newest: int = 200) -> Sequence[Any]:
    """Alerts, the newest first."""
    chosen = sa.select(alerts).order_by(alerts.c.id.desc()).limit(newest)
    if only_open:
        chosen = chosen.where(alerts.c.closed_at.is_(None))
    with trial.database.autocommit() as connection:
        return connection.execute(chosen).mappings().all()


@router.get("/")
def overview_page(viewer: Reader, by: By = "arrived", download: Download = "") -> Response:
    """Counts, charts, alerts: the state of the trial."""
    trial = viewer.trial
    at = clock.now()
    days = count_days(trial, at, by=MOMENTS[by])
    if download:
        columns = ("date", *SOURCES, "decisions", "available", "sent", "send rate", "low", "high")
        return send_csv(viewer, f"decisions-by-day-{by}", columns, map(list_day_cells, days))
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    people = list_participants(trial, at)
    today = "; ".join(f"{source} {days[-1].sources.get(source, 0):,}" for source in SOURCES)
    return viewer.page(
        "overview",
        at=at.astimezone(trial.settings.zone),
        today=days[-1],
        sources=SOURCES,
        decisions_chart=draw_stacks(
            [f"{day.date:%d %b}" for day in days],
            [day.sources for day in days],
            SOURCES,
            f"Decisions a day by source over {len(days)} days. Today: {today}.",
        ),
        send_chart=_draw_send_rate(days, limits),
        limits=limits,
        by=by,
        outcomes=count_outcomes(trial, at),
        outcome_hours=trial.settings.outcome_hours,
        people=people,
        silent=[person for person in people if person.status != WITHDRAWN][:8],
        alerts=list_alerts(trial, only_open=True),
        warnings=count_warnings(trial, at),
        live=trial.policies.live(),
        paused=find_status(trial, None) == PAUSED,
        updates=updates.list_updates(trial, 1),
        states=schedule.WORDS,
    )


@router.get("/alerts")
def alerts_page(viewer: Reader, download: Download = "") -> Response:
    """Open alerts, then those dealt with, then what was sent about them."""
    listed = list_alerts(viewer.trial)
    if download:
        columns = ("id", "kind", "raised_at", "closed_at", "message")
        return send_csv(viewer, "alerts", columns, [[alert[name] for name in columns] for alert in listed])
    settings = viewer.trial.settings.alerts
    ways = {"email": ", ".join(settings.email), "webhook": settings.webhook}
    return viewer.page(
        "alerts",
        alerts=listed,
        ways={name: address for name, address in ways.items() if address},
        messages=messages.list_messages(viewer.trial),
    )


@router.post("/alerts/test")
def send_test_messages(viewer: Actor) -> Response:
    """Send a message by every channel; it leaves within seconds, and the page says whether it did."""
    messages.add_test_messages(viewer.trial, make_channels(viewer.trial.settings.alerts), clock.now())
    return go_to("/alerts")


@router.post("/alerts/{alert_id}/close")
def close(alert_id: Id, viewer: Actor) -> Response:
    """Mark an alert as dealt with; closing a closed one changes nothing."""
    close_alert(viewer.trial.database, alert_id, viewer.caller.name)
    return go_to("/alerts")


@router.get("/safety")
def safety_page(viewer: BoardMember, download: Download = "") -> Response:
    """Counts for a safety board."""
    counts = count_safety(viewer.trial, clock.now())
    if download:
        rows = [(name, "; ".join(value) if isinstance(value, list) else value) for name, value in counts.items()]
        return send_csv(viewer, "safety", ("count", "found"), rows)
    return viewer.page("safety", counts=counts)


@router.get("/staff")
def staff_page(viewer: Admin, before: Before = None) -> Response:
    """Who did what, the newest first."""
    return viewer.page(
        "staff", actions=list_actions(viewer.trial.database, before), keys=access.list_keys(viewer.trial.database)
    )


@router.get("/staff/staff-actions.csv")
def download_staff_actions(viewer: Admin) -> Response:
    """The staff trail as a file."""
    return export_file(viewer.trial, "staff-actions", "csv", viewer.caller.name)


Month = Annotated[str, Query(pattern=r"^(20\d\d-(0[1-9]|1[0-2]))?$")]
LISTED = 60


@router.get("/updates")
def updates_page(viewer: Reader, download: Download = "") -> Response:
    """The newest update in full, the others as a list."""
    newest = updates.list_updates(viewer.trial, 1)
    return _update_page(viewer, newest[0] if newest else None, download)


@router.get("/updates/calendar")
def calendar_page(viewer: Reader, month: Month = "", download: Download = "") -> Response:
    """What became of every night of a month."""
    shown = schedule.find_month(viewer.trial, month, clock.now())
    if download:
        nights = [(day.date.isoformat(), entry) for week in shown.weeks for day in week for entry in day.entries]
        columns = ("date", "update", "what became of it", "started at", "started by", "reason")
        rows = [(date, entry.update_id, entry.words, entry.at, entry.started_by, entry.reason) for date, entry in nights]
        return send_csv(viewer, f"updates-{shown.first:%Y-%m}", columns, rows)
    return viewer.page("calendar", month=shown)


@router.get("/updates/{update_id}")
def update_page(update_id: Id, viewer: Reader, download: Download = "") -> Response:
    """One update."""
    return _update_page(viewer, updates.update_status(viewer.trial, update_id), download)


def _update_page(viewer: Viewer, update: dict[str, Any] | None, download: Download) -> Response:
    removed = None if update is None else policy_pages.list_removed_rows(viewer.trial, update)
    listed = updates.list_updates(viewer.trial, LISTED)
    if download:
        columns = ("id", "created_at", "finished_at", "started_by", "state", "policy_id", "message")
        counted = ("used", "removed")
        rows = [[*(row[name] for name in columns), *map(row["result"].get, counted)] for row in listed]
        return send_csv(viewer, "updates", (*columns, *counted), rows)
    when = viewer.trial.settings.update_time
    return viewer.page("updates", update=update, removed=removed, listed=listed, states=schedule.WORDS, when=when)


@router.post("/updates")
def start_update(viewer: Actor) -> Response:
    """Fit now, in a process of its own."""
    try:
        update_id = updates.start_update(viewer.trial, viewer.caller.name, by_staff=True)
    except updates.UpdateRunningError as error:
        raise ApiError(409, "update_running", str(error)) from error
    return go_to(f"/updates/{update_id}")


def _draw_send_rate(days: Sequence[Day], limits: tuple[float, float]) -> Markup:
    """The observed share of sending with its interval, within the band of the study's probability limits."""
    now = days[-1].send_rate
    today = "nobody was available" if now is None else write_share(now[0])
    least, most = limits
    words = f"Share of available decision points with anything sent, by day. Today: {today}; limits {least:g} to {most:g}."
    rate = Series("send rate", [day.send_rate for day in days])
    return draw_series([f"{day.date:%d %b}" for day in days], [rate], SHARE, words, draw_limits(limits))
