"""HTML page of a screen: flags by reason, their dependence on the action, and a map of participants and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from surefoot.reports.figures import DARK, GREY, LEGEND, LIGHT, label_axes, new_figure
from surefoot.reports.render import inline_svg, render
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.screen import Screen, ScreenTotals
from surefoot.screening.stuck import Stuck

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_PEOPLE = 100
"""The map shows at most this many people, those with the most flags."""
MEANINGS = (
    ("no decision point", "paper"),
    ("as measured", "grid"),
    ("as measured, sent", "sky"),
    ("missing", "grey"),
    ("not worn", "orange"),
    ("stuck", "purple"),
    ("flagged otherwise", "green"),
)
"""Meanings of a cell of the map, with their colours; later meanings take precedence."""


def render_page(screen: Screen, totals: ScreenTotals, *, title: str, source: str = "", checks: Sequence[Any] = ()) -> str:
    """A self-contained HTML page; `screen` is the part of the logs whose people the map shows, `checks` come first."""
    return render(
        "screen.html",
        title=title,
        source=source,
        totals=totals.to_dict(),
        checks=checks,
        treatment=totals.treatment(),
        detectors=screen.screener.detectors,
        chart=_chart(screen),
        people=_people(screen),
    )


def map_cells(screen: Screen) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Ids of the people shown, and the meaning of each decision point: positions in `MEANINGS`, (people, time)."""
    logs = screen.logs
    cells = np.where(logs.action > 0, 2, 1)
    cells[np.isnan(logs.reward) | np.isnan(logs.state).any(axis=1)] = 3
    names = screen.screener.detector_names(screen.flags)
    for code, chosen in (
        (6, ~np.isin(names, (NotWorn.name, Stuck.name))),
        (5, names == Stuck.name),
        (4, names == NotWorn.name),
    ):
        cells[screen.flags.row[chosen & screen.marks]] = code
    flags = np.bincount(logs.participant_index[screen.flags.row], minlength=len(logs.participants))
    shown = np.sort(np.argsort(-flags, kind="stable")[:SHOWN_PEOPLE])
    longest = int(np.diff(logs.starts)[shown].max(initial=0))
    grid = np.zeros((len(shown), longest), dtype=np.int64)
    for line, person in enumerate(shown):
        rows = logs.order[logs.starts[person] : logs.starts[person + 1]]
        grid[line, : len(rows)] = cells[rows]
    return logs.participants[shown], grid


def heat_map(screen: Screen, palette: Mapping[str, str] = LIGHT) -> Figure:
    """Participants × decision points: worn, not worn, stuck, missing, sent. An image, so it is drawn for day or night."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    people, grid = map_cells(screen)
    figure, axes = new_figure(width=9.0, height=min(2.2 + 0.11 * len(people), 12.0))
    colours = ListedColormap([palette[colour] for _, colour in MEANINGS])
    axes.imshow(grid, cmap=colours, vmin=-0.5, vmax=len(MEANINGS) - 0.5, aspect="auto", interpolation="nearest")
    label_axes(axes, x="decision point", y="participant", title="What was recorded")
    axes.grid(visible=False)
    step = -(-len(people) // 25)
    axes.set_yticks(range(0, len(people), step), [str(name) for name in people[::step]], fontsize=7)
    present = [code for code in range(1, len(MEANINGS)) if (grid == code).any()]
    handles = [Patch(facecolor=palette[MEANINGS[code][1]], edgecolor=GREY, label=MEANINGS[code][0]) for code in present]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), **LEGEND)
    return figure


def _chart(screen: Screen) -> tuple[Markup, str]:
    people = len(screen.logs.participants)
    whom = f"the {SHOWN_PEOPLE} of {people} people with most flags" if people > SHOWN_PEOPLE else f"all {people} people"
    note = f"Each row is a participant, each cell a decision point; {whom}. Long coloured stretches are worth a call."
    words = "Map of participants and decision points: worn, not worn, stuck, missing, sent"
    day, night = (inline_svg(heat_map(screen, palette), words, raster=True) for palette in (LIGHT, DARK))
    return Markup('<span class="day">{}</span><span class="night">{}</span>').format(day, night), note


def _people(screen: Screen) -> list[dict[str, Any]]:
    """Counts of flags by participant and reason; participants with the most flags come first."""
    logs = screen.logs
    flags = screen.flags
    reasons = screen.screener.reasons(flags)
    counts = {
        reason: np.bincount(logs.participant_index[flags.row[reasons == reason]], minlength=len(logs.participants))
        for reason in screen.counts()
    }
    total = sum(counts.values(), np.zeros(len(logs.participants), dtype=np.int64))
    order = [person for person in np.argsort(-total, kind="stable")[:SHOWN_PEOPLE] if total[person]]
    points = np.diff(logs.starts)
    return [
        {
            "participant": logs.participants[person].item(),
            "decision points": int(points[person]),
            **{reason: int(by_person[person]) for reason, by_person in counts.items()},
        }
        for person in order
    ]
