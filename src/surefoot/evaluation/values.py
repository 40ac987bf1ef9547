"""The result of an off-policy evaluation: values of several policies as numbers, sentences, tables and plots."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from rich.markup import escape

from surefoot.data.frames import make_frame
from surefoot.evaluation.estimators import find_estimator
from surefoot.inference.intervals import Interval, describe_roughness
from surefoot.log_checks import Check, list_warnings
from surefoot.reports import figures
from surefoot.reports.numbers import OutcomeUnit, count_decimals, format_cells, format_decimals, format_value
from surefoot.reports.summaries import Overview, ShownResult, make_table, to_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

LOGGED = "as logged"
"""The policy that made the logs."""
PREFERRED = "doubly robust"  # The estimator that the sentences use.
COLOURS = (figures.GREY, figures.ORANGE, figures.GREEN, figures.BLUE, figures.PURPLE, figures.BROWN, figures.NAVY)
"""Of the estimators, in their order."""


@dataclass(frozen=True)
class Value:
    """Value of one policy by one estimator, and its difference from the logging policy."""

    policy: str
    """Its name."""
    estimator: str
    """The name of the estimator."""
    value: Interval
    """The mean outcome per decision point under the policy."""
    difference: Interval
    """From the mean outcome of the logs, paired within people."""


@dataclass(frozen=True)
class Contrast:
    """The difference in value between two baselines, by the preferred estimator."""

    policy: str
    """The baseline that is compared."""
    other: str
    """The baseline it is compared with."""
    difference: Interval
    """The value of `policy` minus that of `other`, paired within people."""


@dataclass(frozen=True)
class Overlap:
    """The information of the logs about a policy."""

    policy: str
    """Its name."""
    description: str
    """The policy in words."""
    action_rates: tuple[float, ...]
    """Mean probability of every action, nothing first."""
    effective_sample_size: float
    """(Σρ)² / Σρ²: this many decision points drawn from the policy itself would hold as much information."""
    largest_ratio: float
    """The largest ratio ρ of a decision point: the policy's probability of the action taken over the logged one."""
    warning: str
    """Empty when the overlap is good."""

    @property
    def send_rate(self) -> float:
        """Mean probability of an action other than nothing."""
        return 1 - self.action_rates[0]


@dataclass(frozen=True)
class LongRunValue:
    """Value of a policy after a long time."""

    policy: str
    """Its name."""
    value: Interval
    """The average outcome per decision point."""
    difference: Interval
    """From never acting, paired within people."""
    immediate_difference: float
    """From never acting, by the next outcome alone."""

    @property
    def disagreement(self) -> str:
        """Why the next outcome alone would mislead; empty when it would not."""
        if self.difference.high < 0 < self.immediate_difference:
            return "its prompts pay now and cost later"
        if self.immediate_difference < 0 < self.difference.low:
            return "its prompts cost now and pay later"
        return ""


@dataclass(frozen=True, repr=False)
class OffPolicy(ShownResult):
    """Values of several policies from the same logs."""

    page_title: ClassVar[str] = "Values of policies"
    machinery = ShownResult.machinery | {"backend"}

    people: int
    """The number of participants with a decision point that counts."""
    decision_points: int
    """The number of decision points that count."""
    action_names: tuple[str, ...]
    """The names of the actions, nothing first."""
    unit: OutcomeUnit
    """How the outcome was transformed."""
    cross_fit: str
    """`person` or `time`."""
    critic: str
    """The name of the outcome model."""
    estimators: tuple[str, ...]
    """The names of the estimators."""
    values: tuple[Value, ...]
    """Of every policy by every estimator."""
    overlap: tuple[Overlap, ...]
    """How much the logs say about each policy."""
    contrasts: tuple[Contrast, ...]
    """Of every baseline that sends with the one that never does: the value of sending."""
    long_run: tuple[LongRunValue, ...] = ()
    """Values of the policies after a long time in force; empty unless requested."""
    checks: tuple[Check, ...] = ()
    """Whether the logs agree with their description."""
    notes: tuple[str, ...] = ()
    """What a reader should know before the values."""
    backend: str | None = None
    """The library whose frames go out: that of the logs."""

    def _overview(self) -> Overview:
        rows = [["policy", "value", "more than was logged"]]
        for value in (self.value(row.policy) for row in self.overlap):
            level, difference = ("{} ({})".format(*format_cells(interval)) for interval in (value.value, value.difference))
            rows.append([value.policy, level, "–" if value.policy == LOGGED else difference])
        cautions = [*list_warnings(self.checks), *(row.warning for row in self.overlap if row.warning), *self.notes]
        facts = {
            "outcome": f"mean {self.unit} per decision point, with 95 % interval",
            "estimator": f"{PREFERRED}; {self.critic} critic, cross-fitted by {self.cross_fit}",
            "cautions": f"{len(cautions)}: see .summary()" if cautions else "none",
        }
        heading = f"Values of policies: {self.people:,} people, {self.decision_points:,} decision points"
        return Overview(heading, facts, rows)

    def value(self, policy: str, estimator: str = PREFERRED) -> Value:
        """Value of one policy by one estimator."""
        return next(value for value in self.values if (value.policy, value.estimator) == (policy, estimator))

    def headlines(self) -> list[str]:
        """A sentence about every policy by the preferred estimator, and about every contrast of baselines."""
        from surefoot.reports.render import write_sentences

        values = [self.value(row.policy) for row in self.overlap]
        return write_sentences("evaluate.txt", unit=self.unit, values=values, contrasts=self.contrasts, long_run=())

    def describe_long_run(self) -> list[str]:
        """A sentence about the long-run value of every policy but never."""
        from surefoot.reports.render import write_sentences

        return write_sentences("evaluate.txt", unit=self.unit, values=(), contrasts=(), long_run=self.long_run)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per policy and estimator, in columns policy, estimator, value, standard_error, low, high, difference, …"""
        columns: dict[str, list[Any]] = {
            "policy": [row.policy for row in self.values],
            "estimator": [row.estimator for row in self.values],
        }
        for name in Interval._fields:
            columns[name] = [getattr(row.value, name) for row in self.values]
        for name, end in (("difference", "value"), ("difference_low", "low"), ("difference_high", "high")):
            columns[name] = [getattr(row.difference, end) for row in self.values]
        return make_frame(columns, backend or self.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            **{name: value for name, value in to_plain(self).items() if name != "backend"},
            "unit": str(self.unit),
            "overlap": [{**to_plain(row), "send_rate": row.send_rate} for row in self.overlap],
            "long_run": [{**to_plain(row), "disagreement": row.disagreement} for row in self.long_run],
        }

    def print_summary(self, console: "Console", note: str = "") -> None:
        """Sentences, then tables of the values, the overlap and the long run."""

        def print_lines(*lines: str) -> None:
            for line in lines:
                console.print(line, markup=False, highlight=False)

        few = describe_roughness(self.people)
        print_lines(
            *list_warnings(self.checks),
            f"{self.people} people, {self.decision_points} usable decision points; {self.critic} critic, cross-fitted by "
            f"{self.cross_fit}. Mean {self.unit} per decision point, states as logged. {f'{few}. ' if few else ''}{note}",
            *(f"- {sentence}" for sentence in self.headlines()),
            *(f"look: {text}" for text in self.notes),
            "",
        )
        table = make_table("policy", "estimator", "value", "95 % interval", "more", "95 % interval", text=2)
        decimals = count_decimals(row.value for row in self.values)
        difference_decimals = count_decimals(row.difference for row in self.values if row.policy != LOGGED)
        for row in self.values:
            is_logged = row.policy == LOGGED
            label = "mean" if is_logged else find_estimator(row.estimator).label
            difference = ("–", "–") if is_logged else format_cells(row.difference, difference_decimals)
            table.add_row(escape(row.policy), label, *format_cells(row.value, decimals), *difference)
        console.print(table)
        table = make_table(
            "policy", *(f"{escape(name)} %" for name in self.action_names), "effective sample", "largest ratio"
        )
        for overlap in self.overlap:
            rates = [f"{100 * rate:.0f}" for rate in overlap.action_rates]
            size = f"{overlap.effective_sample_size:.0f} of {self.decision_points}"
            table.add_row(escape(overlap.policy), *rates, size, format_decimals(overlap.largest_ratio, 1))
        console.print(table)
        print_lines(
            *(f"{row.policy}: {row.description}" for row in self.overlap),
            *(f"look: {row.policy}: {row.warning}" for row in self.overlap if row.warning),
        )
        if not self.long_run:
            return
        print_lines("", *(f"- {sentence}" for sentence in self.describe_long_run()), "")
        table = make_table("policy", "immediate", "long run", "95 % interval", "more than never", "95 % interval")
        decimals = count_decimals(later.value for later in self.long_run)
        difference_decimals = count_decimals(later.difference for later in self.long_run if later.policy != "never")
        for later in self.long_run:
            immediate = format_value(self.value(later.policy).value, decimals)
            difference = ("–", "–") if later.policy == "never" else format_cells(later.difference, difference_decimals)
            table.add_row(escape(later.policy), immediate, *format_cells(later.value, decimals), *difference)
        console.print(table)

    def plot(self, field: str = "value", *, ax: figures.Drawable = None) -> "Axes":
        """Values (or `difference`s from the logging policy) of the policies with intervals, by every estimator."""
        names = [row.policy for row in self.overlap]
        axes = figures.choose_axes(ax, width=5.2, height=2.0 + 0.55 * len(names))
        distance = 0.64 / len(self.estimators)
        for number, estimator in enumerate(self.estimators):
            values, ends = figures.interval_bars([getattr(self.value(name, estimator), field) for name in names])
            height = np.arange(len(names)) + distance * (number - (len(self.estimators) - 1) / 2)
            look: dict[str, Any] = {"fmt": "o", "color": COLOURS[number % len(COLOURS)], "markersize": 4, "linewidth": 1.2}
            axes.errorbar(values, height, xerr=ends, label=find_estimator(estimator).label, **look)
        logged = getattr(self.value(LOGGED), field).value
        axes.axvline(logged, color=figures.INK, linewidth=0.8, linestyle="--", label=LOGGED)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        title = "Value" if field == "value" else "More than was logged"
        figures.label_axes(axes, x=f"{self.unit} per decision point", y="", title=title)
        figures.add_legend(axes)
        return axes

    def plot_overlap(self, *, ax: figures.Drawable = None) -> "Axes":
        """Effective sample size of every policy as a share of the decision points."""
        axes = figures.choose_axes(ax, width=5.2, height=1.5 + 0.4 * len(self.overlap))
        for is_poor, label, colour in ((False, "enough", figures.BLUE), (True, "too little", figures.ORANGE)):
            heights = [number for number, row in enumerate(self.overlap) if bool(row.warning) == is_poor]
            if heights:
                sizes = [self.overlap[height].effective_sample_size for height in heights]
                shares = [100 * size / self.decision_points for size in sizes]
                axes.barh(heights, shares, color=colour, height=0.6, label=label)
        axes.set_yticks(range(len(self.overlap)), [row.policy for row in self.overlap])
        axes.set_ylim(len(self.overlap) - 0.5, -0.5)
        axes.set_xlim(0, 100)
        figures.label_axes(axes, x="effective sample size (% of decision points)", y="", title="Overlap with the logs")
        figures.add_legend(axes)
        return axes

    def render_page(self, *, title: str, source: str) -> str:
        from surefoot.reports.render import embed_pictures, render

        alternative = f"Values of the policies by {len(self.estimators)} estimators"
        dashed = "Dots are estimates, bars 95 % intervals over people where there are any. Dashed: the mean of the logs."
        right = "A policy to the right of the dashed line is worth more than the logging policy."
        pictures = [
            (self.plot(ax=figures.new_page_figure()), alternative, dashed),
            (self.plot("difference", ax=figures.new_page_figure()), "Differences from the logging policy", right),
            (
                self.plot_overlap(ax=figures.new_page_figure()),
                "Effective sample sizes",
                "How much the logs say about each policy.",
            ),
        ]
        return render(
            "evaluate.html",
            title=title,
            result=self,
            few=describe_roughness(self.people),
            charts=embed_pictures(pictures),
            labels={name: find_estimator(name).label for name in self.estimators},
            logged=LOGGED,
            source=source,
        )
