"""The page of a board: boundaries that may be looked at any time, and draws compared with their probabilities."""

import math
from typing import Any

from fastapi import Response
from markupsafe import Markup

from surefoot.reports.numbers import format_number
from surefoot.service.dashboard import pages
from surefoot.service.dashboard.charts import LINE, Scale, draw_lines
from surefoot.service.database import clock
from surefoot.service.operations.board import BY_ACTION, record_unblinding
from surefoot.service.trial.boundaries import FALSE_ALARMS, Boundary, read_report

POINTS = 30
"""The most days that a chart shows."""
WIDEST = 4.0
"""Earlier intervals that are wider than this many times the last one are not drawn."""
STRATA = 8
COLUMNS = ("boundary", "limit", "unit", "day", "estimate", "low", "high")


@pages.router.get("/boundaries")
def boundaries_page(viewer: pages.BoardMember, download: pages.Download = "") -> Response:
    """Every boundary with its course; whoever is blind to outcomes by action sees only whether one was crossed."""
    return _show_boundaries(viewer, download, is_blind=viewer.is_blind)


@pages.router.post("/boundaries")
def unblinded_page(viewer: pages.BoardSender, fields: pages.Fields) -> Response:
    """All courses for somebody who is blind: that they look, and why, is on the trail first."""
    record_unblinding(viewer.trial, BY_ACTION, reason=pages.read_reason(fields), by=viewer.caller.name)
    return _show_boundaries(viewer, "", is_blind=False)


def _show_boundaries(viewer: pages.Viewer, download: pages.Download, *, is_blind: bool) -> Response:
    at = clock.now().replace(minute=0, second=0, microsecond=0)
    report = read_report(viewer.trial, at)
    shown = [boundary for boundary in report.boundaries if not (is_blind and boundary.by_action)]
    if download:
        rows = [
            (boundary.title, boundary.limit, boundary.unit, day.isoformat(), *estimate)
            for boundary in shown
            for day, estimate in zip(boundary.days, boundary.estimates, strict=True)
        ]
        return pages.send_csv(viewer, "boundaries", COLUMNS, rows)
    return viewer.page(
        "boundaries",
        report=report,
        as_of=at,
        crossings=[boundary for boundary in report.boundaries if boundary.limit is not None],
        shown=[(boundary, describe_last(boundary), draw_boundary(boundary)) for boundary in shown],
        is_blind=is_blind,
        strata=report.draws.strata[:STRATA],
        false_alarms=FALSE_ALARMS,
        format=format_number,
    )


def describe_last(boundary: Boundary) -> str:
    """The last estimate with its interval, in words."""
    if not boundary.estimates:
        return "There is nothing to estimate yet."
    value, low, high = boundary.estimates[-1]
    if math.isnan(low):
        return "There is no interval yet."
    unit = boundary.unit and f" {boundary.unit}"
    interval = f"95 % confidence sequence {format_number(low)} to {format_number(high)}"
    return f"Up to {boundary.days[-1]}: {format_number(value)}{unit} ({interval}), from {boundary.count:,} values."


def draw_boundary(boundary: Boundary) -> Markup | None:
    """Estimates and intervals by day, with the boundary as a dashed line; None where there is no interval yet."""
    known = [
        (day, estimate)
        for day, estimate in zip(boundary.days, boundary.estimates, strict=True)
        if not math.isnan(estimate[1])
    ]
    if not known:
        return None
    width = known[-1][1][2] - known[-1][1][1]
    narrow = [(day, estimate) for day, estimate in known if estimate[2] - estimate[1] <= WIDEST * width]
    step = max(1, -(-len(narrow) // POINTS))
    chosen: list[Any] = narrow[(len(narrow) - 1) % step :: step]
    limit = 0.0 if boundary.limit is None else boundary.limit
    ends = [limit, *(end for _, estimate in chosen for end in estimate)]
    scale = Scale.around(ends, format_number)
    colour = "zero" if boundary.limit is None else "limit"
    line = LINE.format(colour, 0, scale.place(limit), 100, scale.place(limit))
    labels = [f"{day:%d %b}" for day, _ in chosen]
    words = f"{boundary.title}, by day. {describe_last(boundary)}"
    estimates = [estimate for _, estimate in chosen]
    return draw_lines(labels, {boundary.kind: estimates}, words, scale, [line], "95 % confidence sequence")
