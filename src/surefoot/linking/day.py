"""One participant's day: rows of each feature, its windows, and the decision points they may not cross."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from surefoot.linking.plan import LinkPlan
from surefoot.linking.times import MINUTE, SECOND

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.reports.figures import Drawable


@dataclass(frozen=True)
class Day:
    """One participant's day, to draw: moments in UTC."""

    participant: str
    date: date
    zone: str
    decisions: tuple[int, ...]
    features: Mapping[str, tuple[list[tuple[int, float, bool]], list[tuple[int, int]]]] = field(default_factory=dict)
    """Feature → rows (time, value, worn), and windows (begin, end)."""

    @property
    def limits(self) -> tuple[int, int]:
        """Midnight to midnight on the participant's clock."""
        zone = ZoneInfo(self.zone)
        midnight = datetime(self.date.year, self.date.month, self.date.day, tzinfo=zone)
        following = datetime.fromordinal(self.date.toordinal() + 1).replace(tzinfo=zone)
        return int(midnight.timestamp()) * SECOND, int(following.timestamp()) * SECOND

    def draw(self, plan: LinkPlan, ax: Drawable) -> Axes:
        """A line per feature: rows with data as a band, rows not worn in grey, the windows as bars above it."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        from surefoot.reports.figures import BLUE, GREY, INK, ORANGE, SKY, add_legend, choose_axes, label_axes

        axes = choose_axes(ax, width=9.0, height=1.8 + 0.7 * len(self.features))
        begin, end = self.limits
        for height, (name, (rows, windows)) in enumerate(self.features.items()):
            feature = plan.features[name]
            length = (plan.row_minutes_of(feature) or 3) * MINUTE
            for worn, colour in ((True, SKY), (False, GREY)):
                spans = [(time - begin, length) for time, _, was_worn in rows if was_worn == worn]
                axes.broken_barh(spans, (height - 0.1, 0.3), color=colour, linewidth=0)
            # Bars of neighbouring windows stand at two heights, so that overlaps can be seen.
            for number, (opens, closes) in enumerate(windows):
                if opens is None:
                    continue
                level = height - 0.2 - 0.12 * (number % 2)
                colour = BLUE if feature.is_state else ORANGE
                axes.plot([opens - begin, closes - begin], [level, level], color=colour, linewidth=3, solid_capstyle="butt")
        for decision in self.decisions:
            axes.axvline(decision - begin, color=INK, linewidth=1, linestyle="--")
        axes.set_xlim(0, end - begin)
        axes.set_ylim(len(self.features) - 0.4, -0.6)
        axes.set_yticks(range(len(self.features)), list(self.features))
        hours = range(0, round((end - begin) / MINUTE / 60) + 1, 3)
        moments = [
            datetime.fromtimestamp(begin / SECOND + 3600 * hour, UTC).astimezone(ZoneInfo(self.zone)) for hour in hours
        ]
        axes.set_xticks([hour * 60 * MINUTE for hour in hours], [f"{moment:%H:%M}" for moment in moments])
        label_axes(axes, x=f"{self.date}, {self.zone}", y="", title=f"A day of participant {self.participant}")
        handles = [
            Patch(color=SKY, label="rows with data"),
            Patch(color=GREY, label="not worn"),
            Line2D([], [], color=BLUE, linewidth=3, label="window of a state"),
            Line2D([], [], color=ORANGE, linewidth=3, label="window of an outcome"),
            Line2D([], [], color=INK, linewidth=1, linestyle="--", label="decision point"),
        ]
        add_legend(axes, columns=len(handles), handles=handles)
        return axes
