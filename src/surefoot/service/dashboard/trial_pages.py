"""Pages about the whole trial: overview, alerts, staff and updates."""

from collections import Counter
from datetime import date, datetime
from typing import Annotated, Any

import numpy as np
import sqlalchemy as sa
from fastapi import Query, Response

from surefoot.inference.intervals import wilson_interval
from surefoot.service import access, messages
from surefoot.service.api.routes import Id, export_file
from surefoot.service.dashboard import pages, participant_pages
from surefoot.service.dashboard.charts import draw_limits, draw_lines, draw_stacks, write_share
from surefoot.service.database import clock
from surefoot.service.database.schema import alerts, decisions, outcomes
from surefoot.service.trial.alerts import MEANINGS, SEVERITIES, assess_trial, close_alert, count_warnings, find_severity
from surefoot.service.trial.api_models import ApiError
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_status
from surefoot.service.trial.trial import Trial
from surefoot.service.updates import schedule, updates

SOURCES = ("policy", "warm-up", "fallback", "unavailable")
DAYS = 14
MESSAGES_SHOWN = 5
ALERTS_SHOWN = 8
UPDATES_LISTED = 1000
UPDATES_SHOWN = 6
REMOVED_SHOWN = 6
"""Rows of a table on one page; on a phone each of them is a card."""
DAY_COLUMNS = ("date", *SOURCES, "decisions", "available", "sent", "send rate", "low", "high")
OUTCOME_STATES = ("known", "reported missing", "awaited", "never came", "erased")
Month = Annotated[str, Query(pattern=r"^(20\d\d-(0[1-9]|1[0-2]))?$")]


def make_day(day: date, sources: dict[str, int], sent: int) -> dict[str, Any]:
    """A day of the study's time zone, by `DAY_COLUMNS`.

    The send rate is the share of available decision points with anything sent, with its 95 % interval (Wilson).
    """
    counts = {source: sources.get(source, 0) for source in SOURCES}
    decided = sum(counts.values())
    available = decided - counts["unavailable"]
    rate: tuple[float | None, float | None, float | None] = (None, None, None)
    if available:
        low, high = wilson_interval(np.array([sent]), np.array([available]))
        rate = (sent / available, float(low[0]), float(high[0]))
    return dict(zip(DAY_COLUMNS, (day, *counts.values(), decided, available, sent, *rate), strict=True))


def count_days(trial: Trial, at: datetime, number: int = DAYS, by: str = "received_at") -> list[dict[str, Any]]:
    """The last days, today last; by arrival, or by the decision points' own time (`decided_at`)."""
    moment = decisions.c[by]
    days, edges = participant_pages.find_days(trial, at, number)
    sent = sa.func.count().filter(decisions.c.action > 0)
    columns = (
        participant_pages.place_in_days(moment, edges),
        decisions.c.source,
        sa.func.count().label("number"),
        sent.label("sent"),
    )
    counted = sa.select(*columns).where(moment >= edges[0], moment < edges[-1])
    with trial.database.snapshot() as connection:
        rows = connection.execute(counted.group_by("day", decisions.c.source)).all()
    listed = []
    for position, day in enumerate(days):
        of_day = [row for row in rows if row.day == position]
        listed.append(make_day(day, {row.source: row.number for row in of_day}, sum(row.sent for row in of_day)))
    return listed


def count_outcomes(trial: Trial, at: datetime) -> dict[str, int]:
    """Of all available decision points: outcome known, known to be missing, still awaited, never came, erased."""
    state = participant_pages.label_outcome(trial, at, decisions.c.available)
    counted = (
        sa.select(state, sa.func.count().label("number"))
        .select_from(participant_pages.WITH_OUTCOMES)
        .where(decisions.c.available)
    )
    with trial.database.autocommit() as connection:
        numbers = {row.outcome_state: row.number for row in connection.execute(counted.group_by(state))}
        late = connection.scalar(sa.select(sa.func.count()).select_from(outcomes).where(outcomes.c.late))
    return {**{name: numbers.get(name, 0) for name in OUTCOME_STATES}, "late": late or 0}


def list_alerts(trial: Trial, *, only_open: bool = False, newest: int = 200) -> list[dict[str, Any]]:
    """Alerts with their severity, the newest first."""
    chosen = sa.select(alerts).order_by(alerts.c.id.desc()).limit(newest)
    if only_open:
        chosen = chosen.where(alerts.c.closed_at.is_(None))
    with trial.database.autocommit() as connection:
        rows = connection.execute(chosen).mappings().all()
    return [{**row, "severity": find_severity(row["kind"])} for row in rows]


@pages.router.get("/")
def overview_page(viewer: pages.Reader, by: pages.By = "arrived", download: pages.Download = "") -> Response:
    """Counts, charts, alerts: the state of the trial."""
    trial = viewer.trial
    at = clock.now()
    days = count_days(trial, at, by=pages.MOMENTS[by])
    if download:
        return pages.send_csv(viewer, f"decisions-by-day-{by}", DAY_COLUMNS, days)
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    people = participant_pages.list_participants(trial, at)
    labels = [f"{day['date']:%d %b}" for day in days]
    by_source = "; ".join(f"{source} {days[-1][source]:,}" for source in SOURCES)
    rates = [None if day["send rate"] is None else (day["send rate"], day["low"], day["high"]) for day in days]
    today = "nobody was available" if rates[-1] is None else write_share(rates[-1][0])
    about_rates = f"Share of available decision points with {trial.study.a_treatment}, by day."
    words = f"{about_rates} Today: {today}; limits {limits[0]:g} to {limits[1]:g}."
    return viewer.page(
        "overview",
        today=days[-1],
        sources=SOURCES,
        decisions_chart=draw_stacks(
            labels, days, SOURCES, f"Decisions a day by source over {len(days)} days. Today: {by_source}."
        ),
        send_chart=draw_lines(labels, {"share": rates}, words, marks=draw_limits(limits)),
        limits=limits,
        by=by,
        outcomes=count_outcomes(trial, at),
        everybody=len(people),
        in_contact=sum(person["last_contact"] is not None for person in people),
        shown=[person for person in people if person["status"] != WITHDRAWN][:8],
        alerts=list_alerts(trial, only_open=True),
        state=assess_trial(trial, at),
        meanings=MEANINGS,
        warnings=count_warnings(trial, at),
        live=trial.policies.live(),
        paused=find_status(trial, None) == PAUSED,
        updates=updates.list_updates(trial, 1),
        states=schedule.WORDS,
    )


@pages.router.get("/alerts")
def alerts_page(
    viewer: pages.Reader, page: pages.PageNumber = 1, closed: pages.PageNumber = 1, download: pages.Download = ""
) -> Response:
    """Open alerts, then those dealt with, then what was sent about them."""
    listed = list_alerts(viewer.trial)
    if download:
        return pages.send_csv(
            viewer, "alerts", ("id", "severity", "kind", "raised_at", "times", "closed_at", "message"), listed
        )
    settings = viewer.trial.settings.alerts
    ways = {"email": ", ".join(settings.email), "webhook": settings.webhook}
    return viewer.page(
        "alerts",
        open=pages.cut_page([alert for alert in listed if alert["closed_at"] is None], page, ALERTS_SHOWN),
        closed=pages.cut_page([alert for alert in listed if alert["closed_at"] is not None], closed, ALERTS_SHOWN),
        severities=SEVERITIES,
        meanings=MEANINGS,
        ways=ways,
        messages=messages.list_messages(viewer.trial, MESSAGES_SHOWN),
    )


@pages.router.post("/alerts/test")
def send_test_messages(viewer: pages.Actor) -> Response:
    """Send a message by every channel; it leaves within seconds, and the page says whether it did."""
    messages.add_test_messages(viewer.trial, clock.now())
    return pages.go_to("/alerts")


@pages.router.post("/alerts/{alert_id}/close")
def close(alert_id: Id, viewer: pages.Actor) -> Response:
    """Mark an alert as dealt with; closing a closed one changes nothing."""
    close_alert(viewer.trial.database, alert_id, viewer.caller.name)
    return pages.go_to("/alerts")


@pages.router.get("/staff")
def staff_page(viewer: pages.Admin, page: pages.PageNumber = 1) -> Response:
    """Who did what, the newest first."""
    database = viewer.trial.database
    rows, total = access.list_actions(database, (page - 1) * pages.ROWS, pages.ROWS)
    return viewer.page("staff", listing=pages.Listing(rows, page, total), keys=access.list_keys(database))


@pages.router.get("/staff/staff-actions.csv")
def download_staff_actions(viewer: pages.Admin) -> Response:
    """The staff trail as a file."""
    return export_file(viewer.trial, "staff-actions", "csv", viewer.caller.name)


@pages.router.get("/updates")
def updates_page(
    viewer: pages.Reader, page: pages.PageNumber = 1, removed: pages.PageNumber = 1, download: pages.Download = ""
) -> Response:
    """The newest update in full, the others as a list."""
    newest = updates.list_updates(viewer.trial, 1)
    return _update_page(viewer, newest[0] if newest else None, page, removed, download)


@pages.router.get("/updates/calendar")
def calendar_page(viewer: pages.Reader, month: Month = "", download: pages.Download = "") -> Response:
    """What became of every night of a month."""
    shown = schedule.find_month(viewer.trial, month, clock.now())
    if download:
        nights = [(day.date.isoformat(), entry) for week in shown.weeks for day in week for entry in day.entries]
        columns = ("date", "update", "what became of it", "started at", "started by", "reason")
        rows = [
            (date, entry.update_id, schedule.WORDS[entry.kind][1], entry.at, entry.started_by, entry.reason)
            for date, entry in nights
        ]
        return pages.send_csv(viewer, f"updates-{shown.first:%Y-%m}", columns, rows)
    return viewer.page("calendar", month=shown, states=schedule.WORDS)


@pages.router.get("/updates/{update_id}")
def update_page(
    update_id: Id,
    viewer: pages.Reader,
    page: pages.PageNumber = 1,
    removed: pages.PageNumber = 1,
    download: pages.Download = "",
) -> Response:
    """One update."""
    return _update_page(viewer, updates.update_status(viewer.trial, update_id), page, removed, download)


def _update_page(
    viewer: pages.Viewer, update: dict[str, Any] | None, page: int, removed_page: int, download: pages.Download
) -> Response:
    listed = updates.list_updates(viewer.trial, UPDATES_LISTED)
    if download:
        columns = ("id", "created_at", "finished_at", "started_by", "state", "policy_id", "message")
        counted = ("used", "removed")
        rows = [[*(row[name] for name in columns), *map(row["result"].get, counted)] for row in listed]
        return pages.send_csv(viewer, "updates", (*columns, *counted), rows)
    removed = [] if update is None else update["result"].get("removed_rows", [])
    return viewer.page(
        "updates",
        update=update,
        # The outcomes of others were erased since.
        removed=pages.cut_page([row for row in removed if row["outcome"] is not None], removed_page, REMOVED_SHOWN),
        removed_people=Counter(row["participant_id"] for row in removed).most_common(10),
        names=viewer.trial.study.actions.names,
        listing=pages.cut_page(listed, page, UPDATES_SHOWN),
        states=schedule.WORDS,
        when=viewer.trial.settings.update_time,
    )


@pages.router.post("/updates")
def start_update(viewer: pages.Actor) -> Response:
    """Fit now, in a process of its own."""
    try:
        update_id = updates.start_update(viewer.trial, viewer.caller.name, by_staff=True)
    except updates.UpdateRunningError as error:
        raise ApiError(409, "update_running", str(error)) from error
    return pages.go_to(f"/updates/{update_id}")
