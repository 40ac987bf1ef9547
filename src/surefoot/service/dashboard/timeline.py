"""The timeline of a participant: a row for each day, decision points at their time of day, by what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta, tzinfo

from markupsafe import Markup

from surefoot.service.dashboard.participant_view import STATES, Point

ROW = 26
LEFT = 16.0
"""Per cent of the width that the dates take."""
MARK = Markup('<circle class="mark {}" cx="{:.2f}%" cy="{:.1f}" r="{}"><title>{}</title></circle>')
LINE = Markup('<line class="grid" x1="{:.2f}%" y1="{:.1f}" x2="{:.2f}%" y2="{:.1f}"/>')
TEXT = Markup('<text x="{:.2f}%" y="{:.1f}" text-anchor="{}">{}</text>')


def draw_timeline(points: Sequence[Point], zone: tzinfo, moment: str = "decided_at", days: int = 14) -> Markup:
    """The last days that have decision points, by their own time (or `received_at`, by arrival) in the study's zone."""
    if not points:
        return Markup("")
    newest = max(getattr(point, moment).astimezone(zone).date() for point in points)
    first = newest - timedelta(days=days - 1)
    height = ROW * days
    parts = [LINE.format(_place(hour), 0, _place(hour), height) for hour in range(0, 25, 6)]
    for hour in range(0, 25, 6):
        parts.append(TEXT.format(_place(hour), height + 16, "end" if hour == 24 else "middle", f"{hour:02d}:00"))
    parts += [TEXT.format(0, ROW * (row + 0.65), "start", f"{first + timedelta(days=row):%d %b}") for row in range(days)]
    parts += [mark for point in points if (mark := _mark(point, getattr(point, moment).astimezone(zone), first)) is not None]
    counts = Counter(point.state for point in points)
    listing = ", ".join(f"{counts[state]} {state}" for state in STATES if state in counts)
    opening = Markup('<svg class="chart" role="img" aria-label="{}" width="100%" height="{:.0f}">').format(
        f"Decision points by day and time of day: {listing}.", height + 20
    )
    return opening + Markup("").join(parts) + Markup("</svg>")


def _place(hour: float) -> float:
    return LEFT + (98 - LEFT) * hour / 24


def _mark(point: Point, moment: datetime, first: date) -> Markup | None:
    row = (moment.date() - first).days
    if row < 0:
        return None
    missing = point.outcome_state in ("never came", "reported missing")
    kind = point.state.replace(" ", "-") + " lost" * missing + " unworn" * point.unworn
    hour = moment.hour + moment.minute / 60
    words = f"{point.decision_idx}: {moment:%d %b %H:%M}, {point.state}, outcome {point.outcome_state or 'not asked for'}"
    words += ", device not worn" if point.unworn else ""
    return MARK.format(kind, _place(hour), ROW * (row + 0.5), 5, words)
