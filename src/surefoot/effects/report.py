"""The report of a trial's effects: the average, by moderators and at lags, with checks, sensitivity and sentences."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.data.log_columns import Place, frame_row
from surefoot.effects.adaptive_errors import adapt_errors
from surefoot.effects.analysis import Analysis
from surefoot.effects.contrasts import ContrastResults, EffectRow, JointTest, SimultaneousContrasts
from surefoot.effects.day_curve import KNOTS, EffectCurve, fit_curve
from surefoot.effects.distal import TOTAL
from surefoot.effects.estimators import ESTIMATORS, ROBUST_LOSSES, estimate_robustly, make_mean, solve
from surefoot.effects.formulas import INTERCEPT, parse_terms
from surefoot.effects.groups import HEADERS, GroupSummary, describe_groups
from surefoot.effects.missing_outcomes import MISSING_METHODS, find_missing_rows
from surefoot.effects.missing_sensitivity import MissingSensitivity, assess_missing
from surefoot.effects.moderator_selection import ModeratorSelection
from surefoot.effects.result import (
    EffectResult,
    Options,
    SampleQuality,
    assess_sample,
    fit_analysis,
)
from surefoot.errors import InputError
from surefoot.inference.adaptive_sandwich import UpdateHistory
from surefoot.inference.intervals import Interval, adjust_p_values, t_interval
from surefoot.log_checks import Check, check_logs, find_worst, list_warnings
from surefoot.log_checks.outcomes_by_action import describe_flags
from surefoot.reports.numbers import format_number, format_p
from surefoot.reports.signatures import spell_out_keywords
from surefoot.reports.summaries import WIDTH, Overview, ShownResult, latex_table, lay_out_table, to_plain
from surefoot.screening.screen import Screen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from surefoot.reports.figures import Drawable

MEDIATION = (
    "Direct and indirect effects are causal only if the controls explain every common cause of mediator and outcome; "
    "randomisation does not ensure that."
)
NAMED = 4
"""A label names the moderators of an effect up to this number."""
NOTABLE = 0.25
"""Two ways to treat missing outcomes are both shown when they differ by more than this share of a standard error."""


@dataclass(frozen=True)
class Words:
    """Names for the sentences of a report."""

    treatment: str = "prompt"
    """What is given."""
    outcome: str = "the outcome"
    """What it may change."""
    relative: bool = False
    """The effect is a difference of logarithms, so that e^effect is a ratio."""
    chance: bool = False
    """The outcome is 0 or 1."""


def describe_effect(words: Words, value: float, low: float, high: float, condition: str = "") -> str:
    """One sentence, and whether no effect is within the interval.

    >>> describe_effect(Words("prompt", "steps in an hour", relative=True), 0.1312, -0.0058, 0.2682)
    'A prompt raises steps in an hour by about 14 % (95 % interval −1 % to +31 %). The interval includes no effect.'
    >>> describe_effect(Words("prompt", "answering", relative=True, chance=True), -0.1, -0.15, -0.05, "on day 3")
    'On day 3, a prompt lowers the chance of answering by about 9.5 % (95 % interval −13.9 % to −4.9 %).'
    """
    from surefoot.reports.render import write_sentences

    effect = Interval(value, math.nan, low, high)
    (sentence,) = write_sentences("effects.txt", part="effect", words=words, effect=effect, condition=condition)
    return sentence


@dataclass(frozen=True, eq=False)
class ScreenedEffect:
    """The average effects as the study screens its logs, compared with those of other screens."""

    screen: Screen
    reported: tuple[EffectRow, ...]
    without: tuple[EffectRow, ...] | None  # Without the screen; None where the logs cannot be read without it.
    removed: tuple[EffectRow, ...] | None = None  # With the flagged outcomes missing, where the study keeps them.
    refusal: str = ""  # Why the logs cannot be read without the screen.

    @property
    def notable(self) -> bool:
        """Whether the screen, or removing flagged outcomes, moves an effect by a quarter of its standard error."""
        pairs = [pair for rows in (self.without, self.removed) for pair in zip(self.reported, rows or (), strict=False)]
        return any(abs(row.estimate - other.estimate) > NOTABLE * row.standard_error for row, other in pairs)

    def lines(self) -> list[str]:
        """The counts, and the estimates next to each other, in words."""
        from surefoot.reports.render import write_sentences

        return write_sentences("effects.txt", part="screen", screened=self, flags=describe_flags(self.screen))

    def to_dict(self) -> dict[str, Any]:
        return {
            "flags": self.screen.list_counts(),
            "with_screen": self.reported,
            "without_screen": self.without,
            "flagged_outcomes_removed": self.removed,
            "notable": self.notable,
        }


@dataclass(frozen=True, eq=False, repr=False)
class EffectsReport(ShownResult):
    """All effects that an analysis asks for, with checks of the logs and the sample."""

    page_title: ClassVar[str] = "Effects"
    checks: tuple[Check, ...]
    """Whether the logs are sound; checks with a problem are shown first."""
    results: dict[str, EffectResult]
    """By analysis: `average`, `by day`, `average, lag 1`, …"""
    table: tuple[EffectRow, ...]
    """A row for every coefficient and contrast."""
    joint: dict[str, JointTest]
    """Of the moderators of an analysis, without its intercept: does the effect differ by them?"""
    other_missing: tuple[EffectRow, ...]
    """The same with missing outcomes treated the other way, where the difference is notable."""
    sensitivity: tuple[EffectRow, ...]
    """The average effect with other choices, where the study asks for them."""
    quality: SampleQuality
    """Numbers of people and rows, and of missing and extreme outcomes."""
    sentences: tuple[str, ...]
    """The findings in words."""
    notes: tuple[str, ...]
    """Conditions under which they hold."""
    words: Words
    """Names of treatment and outcome in the sentences."""
    estimator: str
    """Its name."""
    curve: EffectCurve | None
    """The average effect over study days; None where no day is known, or too little for a line."""
    mean_outcome: EffectRow | None = None
    """The mean outcome of the trial, whatever was sent; None for a distal outcome."""
    screened: ScreenedEffect | None = None
    """The average effect without the screen, and the counts of flagged values; None where the logs are not screened."""
    errors: str = "usual"
    """Which standard errors the report uses: `usual` or `adaptive`."""
    error_sentences: tuple[str, ...] = ()
    """Why, and what each kind answers."""
    error_warning: str = ""
    """Why the report cannot use the valid ones; empty where it does."""
    missing: MissingSensitivity | None = None
    """Complete, weighted and imputed analyses next to each other; None where no outcome is missing."""
    groups: tuple[GroupSummary, ...] = ()
    """Prompts, outcomes, missing values and effects of the groups in `[groups]`."""
    selection: ModeratorSelection | None = None
    """Moderators that half of the participants chose among candidates; None where the study names no candidates."""
    distal: tuple[EffectRow, ...] = ()
    """The effect of one more prompt on a distal outcome, where the study names one."""

    def _overview(self) -> Overview:
        sample = f"{self.quality.people_counted:,} people, {self.quality.counted:,} decision points"
        facts = {"finding": self.sentences[0], "checks": self.verdict, "standard errors": self.errors}
        heading = f"Effects by {ESTIMATORS[self.estimator].label}: {sample}"
        return Overview(heading, facts, _add_headers(_list_cells(self.table)))

    @property
    def verdict(self) -> str:
        """The worst of the checks: `fine`, `look` or `unsafe`."""
        return find_worst(check.verdict for check in self.checks)

    @property
    def main(self) -> EffectResult:
        """The average effect at the shortest lag."""
        return next(iter(self.results.values()))

    @property
    def compared(self) -> list[EffectRow]:
        """Rows with standard errors of both kinds."""
        rows = [*self.table, *([] if self.mean_outcome is None else [self.mean_outcome])]
        return [row for row in rows if np.isfinite(row.ratio)]

    @property
    def pairs(self) -> list[EffectRow]:
        """Rows that compare two of several actions, with intervals that hold for all pairs together."""
        return [row for row in self.table if np.isfinite(row.simultaneous_p)]

    def to_frame(self, backend: str | None = None) -> Any:
        """The table, one row for each effect."""
        standardised = ("standardised", "standardised_low", "standardised_high")
        rows = []
        for row in (*self.table, *self.distal):
            value, _, low, high = row.standardised
            rows.append(asdict(row) | dict(zip(standardised, (value, low, high), strict=True)))
        data = {name: [row[name] for row in rows] for name in rows[0]}
        return make_frame(data, backend or self.main.points.order.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        numbers = {
            "verdict": self.verdict,
            "checks": self.checks,
            "screen": None if self.screened is None else self.screened.to_dict(),
            "estimator": self.estimator,
            "effects": [_standardise(row) for row in self.table],
            "distal": [_standardise(row) for row in self.distal],
            "curve": None if self.curve is None else {**to_plain(self.curve), "bands": self.curve.describe()},
            "mean_outcome": self.mean_outcome,
            "errors": {
                "used": self.errors,
                "warning": self.error_warning,
                "why": self.error_sentences,
                "ratios": {row.label: row.ratio for row in self.compared},
            },
            "joint_tests": self.joint,
            "other_treatment_of_missing": self.other_missing,
            "sensitivity": self.sensitivity,
            "missing_outcomes": None if self.missing is None else self.missing.to_dict(),
            "quality": self.quality,
            "moderator_selection": None if self.selection is None else self.selection.to_dict(),
            "groups": [{**to_plain(group), "small": group.is_small} for group in self.groups],
            "sentences": self.sentences,
            "notes": self.notes,
        }
        return {name: to_plain(value) for name, value in numbers.items()}

    def to_latex(self) -> str:
        """The table as a LaTeX tabular that needs the package booktabs."""
        headers = ["Effect", "Estimate", "Std. error", "95 % from", "to", "p", "p (Holm)", "In SD", "95 % from", "to"]
        cells = zip(_list_cells(self.table), _list_standardised(self.table), strict=True)
        return latex_table(headers, [[*row, *(standardised[1:] or ["–"] * 3)] for row, standardised in cells])

    def print_summary(self, console: "Console") -> None:
        """Print the tables and sentences, at most 80 columns wide where the tables allow it."""

        from surefoot.reports.render import render

        def compare(rows: Sequence[EffectRow]) -> str:
            cells = []
            for row in rows:
                intervals = [row.widen(error) for error in (row.usual_error, row.adaptive_error)]
                ends = [f"{end:.4f}" for interval in intervals for end in (interval.low, interval.high)]
                errors = [f"{row.usual_error:.4f}", f"{row.adaptive_error:.4f}"]
                cells.append([row.label, errors[0], *ends[:2], errors[1], *ends[2:], f"{row.ratio:.2f}"])
            return lay_out_table(cells, ("", "usual", "[0.025", "0.975]", "adaptive", "[0.025", "0.975]", "ratio"))

        def lay_out(rows: Sequence[EffectRow]) -> str:
            headers, *cells = _add_headers(_list_cells(rows))
            return lay_out_table(cells, headers)

        text = render(
            "effects_summary.txt",
            report=self,
            estimator=ESTIMATORS[self.estimator],
            warnings=list_warnings(self.checks),
            wrap=lambda sentence: textwrap.fill(sentence, WIDTH),
            lay_out=lay_out,
            compare=compare,
            lay_out_pairs=_lay_out_pairs,
            lay_out_standardised=_lay_out_standardised,
            lay_out_groups=lambda groups: lay_out_table([group.cells for group in groups], HEADERS),
            group_sentences=describe_groups(self.groups),
        )
        console.out(text.rstrip(), highlight=False)

    def render_page(self, *, title: str, source: str) -> str:
        """A self-contained HTML page."""
        from surefoot.reports.figures import new_page_figure
        from surefoot.reports.render import inline_svg, render

        forest = "Forest plot: " + "; ".join(f"{row.effect} {row.estimate:.3g}" for row in self._forest_rows)
        corrected = "" if ESTIMATORS[self.estimator].distal else "Intervals are corrected for few participants."
        charts = [(inline_svg(self.plot(ax=new_page_figure()), forest), corrected)]
        if self.curve is not None:
            first, last = (format_number(float(self.curve.effect[end])) for end in (0, -1))
            line = inline_svg(
                self.plot_curve(ax=new_page_figure()), f"Effect over {self.curve.over}, from {first} to {last}"
            )
            charts.append((line, self.curve.describe()))
        if self.selection is not None:
            description = f"Change of the effect with {len(self.selection.rows)} candidates; chosen: {self.selection.chosen}"
            figure = inline_svg(self.selection.plot(ax=new_page_figure()), description)
            charts.append((figure, "Simultaneous 95 % intervals: all of one colour hold together."))
        return render(
            "effects.html",
            title=title,
            source=source,
            report=self,
            charts=charts,
            missing_charts=self._draw_missing(),
            estimator=ESTIMATORS[self.estimator],
            group_headers=HEADERS,
            group_sentences=describe_groups(self.groups),
        )

    def _draw_missing(self) -> list[tuple[Any, str]]:
        """The curve over shifts of unseen outcomes, and the calibration of the model of observed ones."""
        from surefoot.reports.figures import new_page_figure
        from surefoot.reports.render import inline_svg

        charts = []
        if self.missing is not None and self.missing.curves:
            drawn = self.missing.plot(unit=self._unit, ax=new_page_figure())
            description = "The average effect over shifts of unseen outcomes. " + self.missing.lines()[-1]
            charts.append((inline_svg(drawn, description), "Each band is pointwise. Standard errors are the usual ones."))
        if self.missing is not None and self.missing.observation is not None:
            groups = self.missing.observation.calibration
            drawn = self.missing.observation.plot(ax=new_page_figure())
            shares = f"from {groups[0].observed:.2f} to {groups[-1].observed:.2f}"
            description = f"Observed against predicted shares of observed outcomes, {shares}"
            charts.append((inline_svg(drawn, description), "Tenths of the predicted probability, with Wilson's intervals."))
        return charts

    @property
    def _forest_rows(self) -> list[EffectRow]:
        """Averages, lags, values at moderators, groups and the distal effect; slopes have another unit and are only in the
        table."""
        grouped = [row for group in self.groups for row in group.effects]
        return [*(row for row in self.table if "per 1 of " not in row.effect), *grouped, *self.distal]

    @property
    def _unit(self) -> str:
        analysis = self.main.points.analysis
        if self.words.chance:
            return "log relative risk"
        return "outcome" if analysis.transform == "none" else analysis.transform.replace("x", analysis.outcome)

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """A forest plot: average, lags, values at moderators, groups and the distal effect.

        With a distal effect, the axis is in standard deviations of the outcome of each row, because outcomes have different
        units. Otherwise it is in units of the outcome, and ratios are also shown as per cent along the upper edge.
        """
        from surefoot.reports.figures import BLUE, GREEN, INK, ORANGE, add_legend, choose_axes, interval_bars, label_axes

        is_standardised = bool(self.distal)
        kinds = {
            "estimate, 95 % interval": (BLUE, "o", self._forest_rows[: -len(self.distal) or None]),
            "distal outcome": (ORANGE, "D", self.distal),
        }
        grouped = {row.label for group in self.groups for row in group.effects}
        axes = choose_axes(ax, width=5.6, height=1.5 + 0.5 * len(self._forest_rows))
        axes.axvline(0, color=INK, linewidth=0.8, linestyle="--", label="no effect")
        labels: list[str] = []
        for label, (colour, marker, rows) in kinds.items():
            for name, chosen, shade in (
                (label, [row for row in rows if row.label not in grouped], colour),
                ("group", [row for row in rows if row.label in grouped], GREEN),
            ):
                if not chosen:
                    continue
                intervals = [row.standardised if is_standardised else row.interval for row in chosen]
                values, bars = interval_bars(intervals)
                heights = np.arange(len(labels), len(labels) + len(chosen))
                style: dict[str, Any] = {"markersize": 5, "linewidth": 1.4, "capsize": 3}
                axes.errorbar(values, heights, xerr=bars, fmt=marker, color=shade, label=name, **style)
                labels += [row.effect if row.effect == row.analysis else f"{row.effect}\n({row.analysis})" for row in chosen]
        axes.set_yticks(np.arange(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        unit = "Effect in standard deviations of the outcome" if is_standardised else f"Effect on {self._unit}"
        label_axes(axes, x=unit, y="", title="Effects")
        add_legend(axes)
        if self.words.relative and not is_standardised:
            _add_percent_axis(axes)
        return axes

    def plot_curve(self, *, ax: "Drawable" = None) -> "Axes":
        """The effect over study days, where they are known."""
        if self.curve is None:
            raise InputError("the effect has no curve: no study day is known, or too little for a line")
        return replace(self.curve, unit=self._unit).plot(ax=ax)


def _add_percent_axis(axes: "Axes") -> None:
    """Ratios as per cent along the upper edge."""
    from surefoot.reports.figures import GREY

    low, high = axes.get_xlim()
    marks = [mark for mark in (-75, -50, -25, 0, 25, 50, 100, 200, 400) if low < math.log1p(mark / 100) < high]
    texts = [f"{mark:+d} %".replace("-", "−").replace("+0", "0") for mark in marks]
    upper = axes.twiny()
    upper.set_xlim(low, high)
    upper.set_xticks([math.log1p(mark / 100) for mark in marks], texts)
    upper.tick_params(colors=GREY, labelsize="small")
    upper.spines[["right", "left", "bottom"]].set_visible(False)
    upper.spines["top"].set_color(GREY)


def _list_cells(rows: Sequence[EffectRow]) -> list[list[str]]:
    """Lines of a table, without the last column where p-values are not adjusted."""
    lines = []
    for row in rows:
        numbers = (row.estimate, row.standard_error, row.low, row.high)
        tests = (row.p,) if np.isnan(row.p_holm) else (row.p, row.p_holm)
        lines.append([row.label, *(f"{value:.4f}" for value in numbers), *map(format_p, tests)])
    return lines


def _list_standardised(rows: Sequence[EffectRow]) -> list[list[str]]:
    """Effects in standard deviations of the outcome; the label alone where there is none."""
    lines = []
    for row in rows:
        value, _, low, high = row.standardised
        lines.append([row.label, *(f"{number:.4f}" for number in (value, low, high) if np.isfinite(number))])
    return lines


def _lay_out_standardised(rows: Sequence[EffectRow]) -> str:
    cells = [line for line in _list_standardised(rows) if len(line) == 4]
    return lay_out_table(cells, ("in standard deviations", "effect", "[0.025", "0.975]")) if cells else ""


def _standardise(row: EffectRow) -> dict[str, Any]:
    """A row with its effect in standard deviations, for JSON."""
    return {**asdict(row), "standardised": row.standardised}


def _lay_out_pairs(rows: Sequence[EffectRow]) -> str:
    cells = []
    for row in rows:
        ends = (row.estimate, row.simultaneous_low, row.simultaneous_high)
        cells.append([row.label, *(f"{value:.4f}" for value in ends), format_p(row.simultaneous_p)])
    return lay_out_table(cells, ("", "coef", "[from", "to]", "p (all pairs)"))


def _add_headers(cells: list[list[str]]) -> list[list[str]]:
    return [["", "coef", "std err", "[0.025", "0.975]", "P>|t|", "p (Holm)"][: len(cells[0])], *cells]


@spell_out_keywords(Analysis)
def analyse(
    frame: Any,
    *,
    estimator: str = "wcls",
    lags: Sequence[int] = (0,),
    at: Sequence[Mapping[str, float]] = (),
    words: Words | None = None,
    notes: Sequence[str] = (),
    checks: Sequence[Check] | None = None,
    sensitivity: Sequence[str] = tuple(ROBUST_LOSSES),
    over: str | None = None,
    knots: int = KNOTS,
    history: UpdateHistory | None = None,
    errors: str | None = None,
    name_row: Place = frame_row,
    **options: Unpack[Options],
) -> EffectsReport:
    """Estimate the average effect and, with moderators, the effect by them, at every lag.

    Parameters
    ----------
    frame, estimator, name_row, **options
        As in `excursion_effect`. Moderators are added to the controls of the analysis by moderators.
    lags, at
        Numbers of decision points between a decision and the outcome; values of the moderators at which the effect is
        estimated.
    words, notes
        Names of treatment and outcome in the sentences; sentences to add to the findings.
    checks
        Of the logs behind the frame; without them the frame itself is checked.
    sensitivity
        Losses with which the average effect is estimated again, robust to outlying outcomes.
    over, knots
        The variable (study day) to draw the effect over, and the number of interior knots of the curve; 0 for a straight
        line.
    history
        The updates of a policy that learned from several participants; its rows are those of the frame, sorted by
        participant, then by time. Both kinds of standard errors are then reported.
    errors
        `usual` or `adaptive`: the kind that intervals and tests use; with `history` by default adaptive.

    Returns
    -------
    EffectsReport

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, surefoot as sf
    >>> rng = np.random.default_rng(0)
    >>> sent = rng.integers(0, 2, 600)
    >>> frame = pa.table({"person": np.repeat(np.arange(20), 30), "t": np.tile(np.arange(30), 20), "sent": sent,
    ...                   "p": np.full(600, 0.5), "y": 0.4 * sent + rng.normal(size=600)})
    >>> report = sf.effects.analyse(frame, participant="person", time="t", outcome="y", treatment="sent", probability="p")
    >>> list(report.results), round(report.table[0].estimate, 2)
    (['average'], 0.59)
    """
    parsed = Analysis(**options)
    moderators = parse_terms(parsed.moderators)
    controls = parse_terms(parsed.controls)
    if not lags:
        raise InputError("lags is empty; give [0] for the proximal outcome")
    # A numerator that depends on the moderators belongs to the effect by them; any constant will do for the average.
    constant = None if isinstance(parsed.numerator, str) and moderators else parsed.numerator
    fit = _Fitter(frame, estimator, name_row, history, errors or ("usual" if history is None else "adaptive"))
    results: dict[str, EffectResult] = {}
    for lag in lags:
        suffix = f", lag {lag}" if lag or len(lags) > 1 else ""
        analyses = {f"average{suffix}": replace(parsed, moderators=(), controls=controls, lag=lag, numerator=constant)}
        if moderators:
            together = tuple(dict.fromkeys((*controls, *moderators)))
            analyses[f"by {', '.join(moderators)}{suffix}"] = replace(parsed, controls=together, lag=lag)
        for name, analysis in analyses.items():
            results[name] = fit(analysis)
    main = next(iter(results.values()))
    actions = main.points.action_names
    chosen_words = words or Words(actions[1] if len(actions) == 2 else "treatment", parsed.outcome)
    chosen_words = replace(chosen_words, relative=main.is_relative, chance=ESTIMATORS[estimator].binary)
    table = [row for name, result in results.items() for row in list_rows(name, result, at)]
    mean_outcome = None if ESTIMATORS[estimator].distal else _estimate_mean(main, history, fit.errors)
    tests = f"p (Holm) is adjusted for all {len(table)} tests of the table." if len(table) > 1 else "The table has one test."
    spread = f"The standard deviation of {parsed.outcome} over the decision points that count is {table[0].outcome_sd:.4g}."
    scale = f"Effects are on the scale {parsed.transform} of {parsed.outcome}."
    return EffectsReport(
        checks=check_logs(main.points.to_trajectories()) if checks is None else tuple(checks),
        results=results,
        table=adjust_rows(table),
        joint={
            name: result.joint_test([term for term in result.names if not term.endswith(INTERCEPT)])
            for name, result in results.items()
            if len(result.points.moderator_names) > 1
        },
        other_missing=_analyse_complete_rows(fit, results),
        sensitivity=_estimate_robustly(results, sensitivity),
        quality=assess_sample(main.points),
        sentences=tuple(sentence for result in results.values() for sentence in _describe(chosen_words, result, at)),
        notes=(
            tests,
            *([] if np.isnan(table[0].outcome_sd) else [spread]),
            *([] if parsed.transform == "none" else [scale]),
            *([MEDIATION] if main.parts else []),
            *dict.fromkeys(note for result in results.values() for note in _note_extrapolations(result, at)),
            *notes,
        ),
        words=chosen_words,
        estimator=estimator,
        curve=None if over is None else fit_curve(fit, main.points.analysis, over, knots=knots),
        mean_outcome=mean_outcome,
        errors=fit.errors,
        missing=_compare_missing(fit, results),
    )


@dataclass(frozen=True, eq=False)
class _Fitter:
    """Fits analyses of one frame, with standard errors of one kind or of both."""

    frame: Any
    estimator: str
    name_row: Place
    history: UpdateHistory | None
    errors: str

    def __post_init__(self) -> None:
        if self.errors not in ("usual", "adaptive"):
            raise InputError(f"errors is {self.errors!r}; choose from ['usual', 'adaptive']")
        if self.errors == "adaptive" and self.history is None:
            raise InputError("adaptive errors need the updates of the policy; give its history")

    def __call__(self, analysis: Analysis) -> EffectResult:
        result = fit_analysis(self.frame, analysis, estimator=self.estimator, name_row=self.name_row)
        return result if self.history is None else result.adapt(self.history).with_errors(self.errors)


def _estimate_mean(main: EffectResult, history: UpdateHistory | None, errors: str) -> EffectRow:
    """The mean of all outcomes, with both kinds of standard errors where the updates are known."""
    usual = solve(make_mean(main.points))
    kinds = {"usual": float(np.sqrt(usual.corrected[0, 0])), "adaptive": math.nan}
    if history is not None:
        adapted = adapt_errors(usual, main.points, make_mean, history)
        kinds["adaptive"] = float(np.sqrt(adapted.corrected[0, 0]))
    degrees = usual.people - 1
    value = t_interval(float(usual.theta[0]), kinds[errors], degrees)
    row = EffectRow(
        "mean outcome", "mean outcome", value.value, kinds[errors], value.low, value.high, math.nan, degrees, math.nan
    )
    return row if history is None else replace(row, usual_error=kinds["usual"], adaptive_error=kinds["adaptive"])


def adjust_rows(rows: Sequence[EffectRow]) -> tuple[EffectRow, ...]:
    """Rows of one table with p-values adjusted for their number."""
    adjusted = adjust_p_values(np.array([row.p for row in rows])).tolist()
    return tuple(replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True))


def find_outcome_sd(result: EffectResult) -> float:
    """Of the outcome (after its transform) over the decision points that count, people and days pooled.

    A distal outcome counts once for each participant. A relative risk has none.
    """
    chosen = ESTIMATORS[result.estimator]
    counted = result.points.counted_only
    if chosen.binary:
        return math.nan
    outcome = counted.outcome[counted.starts] if chosen.distal else counted.outcome
    return float(outcome.std(ddof=1)) if len(outcome) > 1 else math.nan


def list_rows(analysis: str, result: EffectResult, at: Sequence[Mapping[str, float]] = ()) -> list[EffectRow]:
    """Every coefficient, the effect at values of the moderators, and actions compared with each other."""
    spread = find_outcome_sd(result)
    rows = [replace(row, outcome_sd=spread) for row in _list_rows(analysis, result, at)]
    if not result.has_both_errors:
        return rows
    usual = _list_rows(analysis, result.with_errors("usual"), at)
    adaptive = _list_rows(analysis, result.with_errors("adaptive"), at)
    return [
        replace(row, usual_error=first.standard_error, adaptive_error=second.standard_error)
        for row, first, second in zip(rows, usual, adaptive, strict=True)
    ]


def _list_rows(analysis: str, result: EffectResult, at: Sequence[Mapping[str, float]]) -> list[EffectRow]:
    rows = _list_coefficients(analysis, result)
    if result.parts:
        conditions = at if len(result.points.moderator_names) > 1 else [{}]
        for values in conditions:
            for part in (*result.parts, TOTAL):
                # Averages are rows already, and so are effects where the moderators are 0.
                rows += [row for row in _make_rows(analysis, result.effect_at(values, action=part)) if row not in rows]
        return rows
    actions = result.points.action_names[1:]
    if len(result.points.moderator_names) == 1:
        for j, action in enumerate(actions):
            for against in actions[:j]:
                rows += _make_rows(analysis, result.effect_at(action=action, against=against))
        return rows if len(actions) == 1 else _add_simultaneous(rows, result.compare_actions())
    for values in at:
        contrasts = [result.effect_at(values, action=action) for action in actions]
        contrasts += [result.effect_at(values, action=b, against=a) for j, b in enumerate(actions) for a in actions[:j]]
        added = [row for contrast in contrasts for row in _make_rows(analysis, contrast)]
        if len(actions) == 1:
            # Where the moderators are 0, the effect is the intercept, which is a row already.
            rows += [row for row in added if row not in rows]
        else:
            rows += _add_simultaneous(added, result.compare_actions(values))
    return rows


def _add_simultaneous(rows: Sequence[EffectRow], comparison: SimultaneousContrasts) -> list[EffectRow]:
    """Rows of all pairs of actions, in the order of the comparison."""
    numbers = np.column_stack([comparison.conf_int(), comparison.pvalue]).tolist()
    return [
        replace(row, simultaneous_low=low, simultaneous_high=high, simultaneous_p=p)
        for row, (low, high, p) in zip(rows, numbers, strict=True)
    ]


def _list_coefficients(analysis: str, result: EffectResult) -> list[EffectRow]:
    """Every coefficient under a readable name."""
    moderators = result.points.moderator_names[1:]
    actions = result.parts or result.points.action_names[1:]
    zeros = " and ".join(f"{name} = 0" for name in moderators)
    labels = [(zeros if len(moderators) <= NAMED else f"all {len(moderators)} moderators = 0") or "average"]
    labels += [f"per 1 of {name}" for name in moderators]
    names = tuple(f"{action}: {label}" if len(actions) > 1 else label for action in actions for label in labels)
    return _make_rows(analysis, replace(result.coefficients, names=names))


def _make_rows(analysis: str, contrast: ContrastResults) -> list[EffectRow]:
    numbers = np.column_stack([contrast.effect, contrast.sd, contrast.conf_int(), contrast.tvalue, contrast.pvalue]).tolist()
    degrees = np.broadcast_to(contrast.df_denom, len(numbers)).tolist()
    return [
        EffectRow(analysis, name, estimate, error, low, high, t, freedom, p)
        for name, (estimate, error, low, high, t, p), freedom in zip(contrast.names, numbers, degrees, strict=True)
    ]


def _analyse_complete_rows(fit: "_Fitter", results: Mapping[str, EffectResult]) -> tuple[EffectRow, ...]:
    """Complete cases compared with `missing_as`, where a coefficient moves by more than a quarter of a standard error."""
    rows: list[EffectRow] = []
    for name, result in results.items():
        analysis = result.points.analysis
        if analysis.missing_as is None:
            return ()
        complete = fit(replace(analysis, missing_as=None))
        if (np.abs(complete.params - result.params) / result.bse).max() > NOTABLE:
            rows += _list_coefficients(f"{name}, {complete.rows:,} complete rows", complete)
    return tuple(rows)


def _compare_missing(fit: "_Fitter", results: Mapping[str, EffectResult]) -> MissingSensitivity | None:
    """Every analysis with every method of treating missing outcomes."""
    main = next(iter(results.values()))
    if not len(find_missing_rows(main.points)):
        return None
    rows: list[EffectRow] = []
    refusals: dict[str, str] = {}
    averages: dict[str, EffectResult] = {}
    for method in MISSING_METHODS:
        try:
            for name, result in results.items():
                analysis = replace(result.points.analysis, missing=method)
                other = result if analysis == result.points.analysis else fit(analysis)
                averages.setdefault(method, other)
                rows += _list_coefficients(f"{name}, {method}", other)
        except InputError as error:
            refusals[method] = str(error)
    return assess_missing(averages, rows, refusals, main.points.analysis.missing)


def _estimate_robustly(results: Mapping[str, EffectResult], losses: Sequence[str]) -> tuple[EffectRow, ...]:
    rows: list[EffectRow] = []
    for loss in losses:
        for name, result in results.items():
            if ESTIMATORS[result.estimator].binary or ESTIMATORS[result.estimator].distal:
                return ()
            try:
                robust = replace(result, estimate=estimate_robustly(result.points, loss), adaptive=None)
            except InputError:
                if loss not in ROBUST_LOSSES:
                    raise
                continue  # A robust loss has no scale where more than half of the residuals are equal.
            # Every imputation would have a scale of its own.
            rows_used = ", complete rows" if result.imputations is not None else ""
            rows += _list_coefficients(f"{name}, {ROBUST_LOSSES[loss][0]}{rows_used}", robust)
    return tuple(rows)


def _note_extrapolations(result: EffectResult, at: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Values at which an effect is wanted, and which no decision point has."""
    counted = result.points.counted_only
    columns = dict(zip(counted.moderator_names, counted.moderators, strict=True))
    for name, value in (pair for values in at for pair in values.items()):
        column = columns.get(name)
        if column is not None and not column.min() <= value <= column.max():
            yield (
                f"{name} lies between {column.min():g} and {column.max():g} in the trial: the effect where it is {value:g} "
                "extrapolates the straight line."
            )


def _describe(words: Words, result: EffectResult, at: Sequence[Mapping[str, float]]) -> list[str]:
    """A sentence for every action, at all the values of the moderators."""
    sentences = []
    points = result.points
    lag = points.analysis.lag
    later = f" {lag} decision point{'s' * (lag > 1)} later" if lag else ""
    for values in at if len(points.moderator_names) > 1 else [{}]:
        condition = "where " + " and ".join(f"{key} is {value:g}" for key, value in values.items()) if values else ""
        for action in (*result.parts, TOTAL) if result.parts else points.action_names[1:]:
            contrast = result.effect_at(values, action=action)
            low, high = contrast.conf_int()[0]
            treatment = action if len(points.action_names) > 2 else words.treatment
            named = replace(words, treatment=treatment, outcome=words.outcome + later)
            way = _name_way(action, points.analysis.mediator) if result.parts else ""
            circumstances = ", ".join(text for text in (condition, way) if text)
            sentences.append(describe_effect(named, float(contrast.effect[0]), low, high, circumstances))
    return sentences


def _name_way(part: str, mediator: str | None) -> str:
    """How a part of a mediated effect acts, in words."""
    return {"direct": "directly", "indirect": f"through {mediator}"}.get(part, "in total")
