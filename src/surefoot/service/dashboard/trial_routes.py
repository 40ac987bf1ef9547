"""Pages about the whole trial: its state, alerts, safety, staff."""

from __future__ import annotations

from fastapi import Response

from surefoot.service.access import keys
from surefoot.service.access.staff_trail import list_actions
from surefoot.service.api.file_replies import export_file
from surefoot.service.dashboard import charts, overview
from surefoot.service.dashboard.downloads import send_csv
from surefoot.service.dashboard.page_access import router
from surefoot.service.dashboard.parameters import (
    MOMENTS,
    Actor,
    Admin,
    Before,
    BoardMember,
    By,
    Download,
    Id,
    Reader,
    go_to,
)
from surefoot.service.database import clock
from surefoot.service.messages import outbox
from surefoot.service.messages.channels import make_channels
from surefoot.service.trial.alerts import close_alert, count_warnings
from surefoot.service.trial.pauses import find_status
from surefoot.service.trial.point_query import PAUSED, WITHDRAWN
from surefoot.service.trial.safety import count_safety
from surefoot.service.updates import queries, update_calendar


@router.get("/")
def overview_page(viewer: Reader, by: By = "arrived", download: Download = "") -> Response:
    """Counts, charts, alerts: the state of the trial."""
    trial = viewer.trial
    at = clock.now()
    days = overview.count_days(trial, at, by=MOMENTS[by])
    if download:
        columns = ("date", *overview.SOURCES, "decisions", "available", "sent", "send rate", "low", "high")
        return send_csv(viewer, f"decisions-by-day-{by}", columns, map(overview.list_cells, days))
    limits = (trial.study.probability_limits.minimum, trial.study.probability_limits.maximum)
    people = overview.list_participants(trial, at)
    return viewer.page(
        "overview",
        at=at.astimezone(trial.settings.zone),
        today=days[-1],
        sources=overview.SOURCES,
        decisions_chart=charts.decisions_by_day(days),
        send_chart=charts.send_rate_by_day(days, limits),
        limits=limits,
        by=by,
        outcomes=overview.count_outcomes(trial, at),
        outcome_hours=trial.settings.outcome_hours,
        people=people,
        silent=[person for person in people if person.status != WITHDRAWN][:8],
        alerts=overview.list_alerts(trial, only_open=True),
        warnings=count_warnings(trial, at),
        live=trial.policies.live(),
        paused=find_status(trial, None) == PAUSED,
        updates=queries.list_updates(trial, 1),
        states=update_calendar.WORDS,
    )


@router.get("/alerts")
def alerts_page(viewer: Reader, download: Download = "") -> Response:
    """Open alerts, then those dealt with, then what was sent about them."""
    listed = overview.list_alerts(viewer.trial)
    if download:
        columns = ("id", "kind", "raised_at", "closed_at", "message")
        return send_csv(viewer, "alerts", columns, [[alert[name] for name in columns] for alert in listed])
    settings = viewer.trial.settings.alerts
    ways = {"email": ", ".join(settings.email), "webhook": settings.webhook}
    return viewer.page(
        "alerts",
        alerts=listed,
        ways={name: where for name, where in ways.items() if where},
        messages=outbox.list_messages(viewer.trial),
    )


@router.post("/alerts/test")
def send_test_messages(viewer: Actor) -> Response:
    """Send a message by every channel; it leaves within seconds, and the page says whether it did."""
    outbox.add_test_messages(viewer.trial, make_channels(viewer.trial.settings.alerts), clock.now())
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
        "staff", actions=list_actions(viewer.trial.database, before), keys=keys.list_keys(viewer.trial.database)
    )


@router.get("/staff/staff-actions.csv")
def download_staff_actions(viewer: Admin) -> Response:
    """The staff trail as a file."""
    return export_file(viewer.trial, "staff-actions", "csv", viewer.caller.name)
