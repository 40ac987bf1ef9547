"""A sample size as a page: the protocol's sentence, the curve of power, the table over effect sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.reports.figures import BLUE, GREY, ORANGE, add_legend, label_axes, new_figure
from surefoot.reports.render import inline_svg, render
from surefoot.sample_size.sized_trial import SizedTrial

if TYPE_CHECKING:
    from markupsafe import Markup


def page(trial: SizedTrial) -> str:
    """A self-contained HTML page."""
    return render("size.html", title="Size of the trial", trial=trial, charts=[_power_curve(trial)],
                  rows=[list(row.values()) for row in trial.size.table().to_pylist()])  # fmt: skip


def _power_curve(trial: SizedTrial) -> tuple[Markup, str]:
    figure, axes = new_figure(width=5.6, height=3.4)
    people, power = trial.size.curve()
    axes.plot(people, 100 * power, color=BLUE, linewidth=1.8, label="as assumed")
    if trial.cautious is not None:
        design = trial.cautious.design
        axes.plot(people, [100 * design.power(int(n)) for n in people], color=ORANGE, label="cautious ends of the pilot")
    axes.axvline(trial.size.people, color=GREY, linewidth=0.8, linestyle="--", label="this trial")
    axes.axhline(100 * trial.size.power, color=GREY, linewidth=0.8, linestyle="--")
    axes.set_ylim(0, 100)
    label_axes(axes, x="participants", y="power (%)", title="Power")
    add_legend(figure, axes)
    note = f"Dashed: {trial.size.people} participants with {100 * trial.size.power:.1f} % power."
    return inline_svg(figure, f"Power by number of participants; {note}"), note
