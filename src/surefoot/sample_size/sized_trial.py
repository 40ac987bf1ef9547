"""The size of a trial by the kind of its outcome, with the estimates of a pilot."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from surefoot.data.frames import make_frame
from surefoot.errors import InputError, did_you_mean
from surefoot.reports.numbers import format_estimate, format_interval, format_number
from surefoot.reports.summaries import WIDTH, ShownResult, latex_table
from surefoot.sample_size.designs import SampleSize, binary, continuous
from surefoot.sample_size.pilot import Pilot

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

OUTCOMES: dict[str, Callable[..., SampleSize]] = {"continuous": continuous, "binary": binary}


@dataclass(frozen=True)
class SizedTrial(ShownResult):
    """The size as asked and, with a pilot, at the cautious end of every interval of the pilot."""

    page_title: ClassVar[str] = "Size of the trial"
    size: SampleSize
    """As asked."""
    pilot: Pilot | None = None
    """What the pilot said, where there is one."""
    cautious: SampleSize | None = None
    """The size with every estimate of the pilot at the cautious end of its interval."""

    @property
    def pilot_lines(self) -> list[str]:
        """What the pilot said, and what it would mean at the cautious ends."""
        if self.pilot is None or self.cautious is None:
            return []
        listed = [
            f"{name} {format_number(interval.value)} ({format_interval(interval)})"
            for name, interval in self.pilot.estimates.items()
        ]
        estimates = f"From {self.pilot.people} people of the pilot, with 95 % intervals: {', '.join(listed)}."
        cautious = f"At the cautious ends {self.cautious.people} participants would be needed."
        if self.size.wanted_power is None:
            cautious = f"At the cautious ends the power would be {100 * self.cautious.power:.1f} %."
        units = []
        if "sd" in self.pilot.estimates:
            sd = self.pilot.estimates["sd"].value
            effect = self.size.design.effect
            units = [
                f"Effects are in units of {self.pilot.outcome}: {format_number(effect)} is {format_number(effect / sd)} of "
                f"its standard deviation in the pilot, and a standardised effect of 0.1 is {format_number(0.1 * sd)}."
            ]
        return [*self.pilot.warnings, *units, estimates, cautious]

    @property
    def _rows(self) -> list[list[str]]:
        return [[format_number(value) for value in row.values()] for row in self.size.table().to_pylist()]

    @property
    def headers(self) -> list[str]:
        """Of the table over effect sizes."""
        return ["mean effect", "people for 80 %", "people for 90 %", f"power with {self.size.people}"]

    def print_summary(self, console: Console) -> None:
        """Print the sentence of the protocol, the pilot's estimates and the table over effect sizes."""
        table = [self.headers, *self._rows]
        widths = [max(len(row[j]) for row in table) for j in range(len(self.headers))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        paragraphs = [textwrap.fill(text, WIDTH) for text in (self.size.sentence, *self.pilot_lines)]
        console.out("\n".join([*paragraphs, "", *lines]), highlight=False)

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """The table over effect sizes."""
        return make_frame(self.size.table().to_pydict(), backend)

    def to_latex(self) -> str:
        """The table over effect sizes, for booktabs."""
        return latex_table(self.headers, self._rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        numbers = self.size.to_dict()
        if self.pilot is not None and self.cautious is not None:
            numbers |= {"pilot": self.pilot.to_dict(), "cautious": self.cautious.to_dict()}
        return numbers

    def render_page(self, *, title: str, source: str) -> str:
        """A self-contained page: the protocol's sentence, the curve of power, the table over effect sizes."""
        from surefoot.reports.render import inline_svg, render

        note = f"Dashed: {self.size.people} participants with {100 * self.size.power:.1f} % power."
        chart = inline_svg(self.plot(), f"Power by number of participants; {note}")
        rows = [list(row.values()) for row in self.size.table().to_pylist()]
        return render("size.html", title=title, source=source, trial=self, charts=[(chart, note)], rows=rows)

    def plot(self) -> Figure:
        """The power by number of participants, as assumed and at the cautious ends of the pilot."""
        from surefoot.reports.figures import BLUE, GREY, ORANGE, add_legend, label_axes, new_figure

        figure, axes = new_figure(width=5.6, height=3.4)
        people, power = self.size.curve()
        axes.plot(people, 100 * power, color=BLUE, linewidth=1.8, label="as assumed")
        if self.cautious is not None:
            powers = [100 * self.cautious.design.power(int(n)) for n in people]
            axes.plot(people, powers, color=ORANGE, label="cautious ends of the pilot")
        axes.axvline(self.size.people, color=GREY, linewidth=0.8, linestyle="--", label="this trial")
        axes.axhline(100 * self.size.power, color=GREY, linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 100)
        label_axes(axes, x="participants", y="power (%)", title="Power")
        add_legend(figure, axes)
        return figure


def size_trial(outcome: str, days: int, decisions_per_day: int, *, pilot: Pilot | None = None, **options: Any) -> SizedTrial:
    """`continuous` or `binary` by name; what is not among the options comes from the pilot.

    Parameters
    ----------
    outcome
        `continuous` or `binary`.
    days, decisions_per_day
        Of the trial.
    pilot
        From `estimate_nuisance`.
    **options
        Of `continuous` or `binary`.

    Returns
    -------
    SizedTrial

    Examples
    --------
    >>> size_trial("continuous", 42, 5, effect=0.1, availability=0.7).size.people
    24
    """
    if outcome not in OUTCOMES:
        raise InputError(f"no outcome '{outcome}'{did_you_mean(outcome, OUTCOMES)}; choose from {list(OUTCOMES)}")
    known = inspect.signature(OUTCOMES[outcome]).parameters
    for name in options:
        if name not in known:
            raise InputError(f"a {outcome} outcome has no {name}; leave it out")
    learned = {} if pilot is None else pilot.values
    needed = [
        name
        for name, parameter in known.items()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    for name in needed:
        if name not in {**learned, **options}:
            raise InputError(f"a {outcome} outcome needs its {name}; give it, or a pilot")
    size = OUTCOMES[outcome](days, decisions_per_day, **{**learned, **options})
    if pilot is None:
        return SizedTrial(size)
    cautious = {**pilot.cautious, **options}
    for name in ("availability", "baseline"):
        if name in pilot.estimates and name not in options and not cautious[name] > 0:
            raise InputError(
                f"the pilot's {name} is {format_estimate(pilot.estimates[name])}: at its lower end no number of people is "
                f"enough; give the {name} yourself, or a longer pilot"
            )
    return SizedTrial(size, pilot, OUTCOMES[outcome](days, decisions_per_day, **cautious))
