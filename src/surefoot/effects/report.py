"""A whole analysis: the average effect, the effect by moderators, lags, and everything that must stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.problems import Place, frame_row
from surefoot.effects.analysis import Analysis
from surefoot.effects.contrasts import ContrastResults, JointTest
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.excursion import Options, fit_analysis
from surefoot.effects.result import EffectResult
from surefoot.effects.sample_quality import SampleQuality, assess_sample
from surefoot.effects.sensitivity import ROBUST_LOSSES, estimate_robustly
from surefoot.effects.sentences import Words, describe_effect
from surefoot.effects.terms import INTERCEPT, parse_terms
from surefoot.errors import InputError
from surefoot.log_checks import Check, check_logs, find_worst
from surefoot.log_checks.screened_values import describe_flags
from surefoot.reports.numbers import format_interval, format_number
from surefoot.screening.screen import Screen, ScreenTotals

NOTABLE = 0.25
"""Two ways to treat missing outcomes are both shown when they differ by more than this share of a standard error."""


@dataclass(frozen=True)
class EffectRow:
    """One line of the table."""

    analysis: str
    effect: str
    estimate: float
    standard_error: float
    low: float
    high: float
    t: float
    degrees: int
    p: float
    p_holm: float = np.nan
    """Adjusted for all tests of the table, after Holm."""

    @property
    def label(self) -> str:
        return self.effect if self.effect == self.analysis else f"{self.analysis}: {self.effect}"


@dataclass(frozen=True, eq=False)
class EffectCurve:
    """The effect as a straight line over a variable, with pointwise 95 % intervals."""

    over: str
    values: NDArray[np.float64]
    effect: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScreenedEffect:
    """The effect as the study screens its logs, compared with the effect of other screens of them.

    Attributes
    ----------
    screen
        Of the logs that were analysed.
    reported
        The average effects of the analysis.
    without
        The same without the screen; None where the logs cannot be read without it.
    removed
        The same with the flagged outcomes missing, where the study keeps them; None where no outcome is kept so.
    refusal
        Why the logs cannot be read without the screen.
    """

    screen: Screen
    reported: tuple[EffectRow, ...]
    without: tuple[EffectRow, ...] | None
    removed: tuple[EffectRow, ...] | None = None
    refusal: str = ""

    @property
    def notable(self) -> bool:
        """Whether the screen, or removing flagged outcomes, moves an effect by a quarter of its standard error."""
        others = [rows for rows in (self.without, self.removed) if rows is not None]
        pairs = [pair for rows in others for pair in zip(self.reported, rows, strict=True)]
        return any(abs(row.estimate - other.estimate) > NOTABLE * row.standard_error for row, other in pairs)

    def lines(self) -> list[str]:
        """The counts, and the estimates next to each other, in words."""
        flags = describe_flags(self.screen)
        if not flags:
            return ["The screen marked no value as missing."]
        text = f"The screen flagged {flags}."
        if self.without is None:
            text += f" Without the screen the logs cannot be analysed: {self.refusal}."
        else:
            text += f" Average effect {_describe_rows(self.reported)}; without the screen {_describe_rows(self.without)}."
        if self.removed is not None:
            text += (
                " Flagged outcomes are kept ([screen] outcome = false); without them the average effect is "
                f"{_describe_rows(self.removed)}."
            )
        if self.notable:
            text += (
                " These differ by more than a quarter of a standard error: find out what the flagged values are before "
                "relying on either."
            )
        return [text]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "flags": ScreenTotals.of([self.screen]).list_counts(),
            "with_screen": [asdict(row) for row in self.reported],
            "without_screen": None if self.without is None else [asdict(row) for row in self.without],
            "flagged_outcomes_removed": None if self.removed is None else [asdict(row) for row in self.removed],
            "notable": self.notable,
        }


def _describe_rows(rows: tuple[EffectRow, ...]) -> str:
    words = []
    for row in rows:
        name = "" if len(rows) == 1 else f"{row.effect} "
        words.append(f"{name}{format_number(row.estimate)} ({format_interval(row)}, p = {row.p:.4f})")
    return ", ".join(words)


@dataclass(frozen=True, eq=False)
class EffectsReport:
    """Everything that was asked, and what stands beside it.

    Attributes
    ----------
    checks
        Whether the logs are what they are said to be; those that are not fine are shown first.
    results
        By analysis: `average`, `by day`, `average, lag 1`, …
    table
        A row for every coefficient and contrast.
    joint
        Of the moderators of an analysis, without its intercept: does the effect differ by them?
    other_missing
        The same with missing outcomes treated the other way, where that is notable.
    sensitivity
        The average effect with other choices, where the study asks for them.
    quality
        How many people and rows there were, and what was missing.
    sentences
        The findings in words.
    notes
        What holds beside them.
    words
        What the sentences call treatment and outcome.
    estimator
        Its name.
    curve
        The average effect over study days; None where no day is known, or too little for a line.
    screened
        The average effect without the screen, and the counts of flagged values; None where the logs are not screened.
    """

    checks: tuple[Check, ...]
    results: dict[str, EffectResult]
    table: tuple[EffectRow, ...]
    joint: dict[str, JointTest]
    other_missing: tuple[EffectRow, ...]
    sensitivity: tuple[EffectRow, ...]
    quality: SampleQuality
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    words: Words
    estimator: str
    curve: EffectCurve | None
    screened: ScreenedEffect | None = None

    @property
    def verdict(self) -> str:
        """The worst of the checks: `fine`, `look` or `unsafe`."""
        return find_worst(check.verdict for check in self.checks)

    @property
    def main(self) -> EffectResult:
        """The average effect at the shortest lag."""
        return next(iter(self.results.values()))

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """The table, one row for each effect."""
        rows = [asdict(row) for row in self.table]
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        first = self.quality
        shares = {
            name: None if part is None else {"rows": part.rows, "happened": part.happened,
                                             "effect": None if part.effect is None else part.effect._asdict()}
            for name, part in (("missing", first.missing), ("tail", first.tail))
        }  # fmt: skip
        return {
            "verdict": self.verdict,
            "checks": [asdict(check) for check in self.checks],
            "screen": None if self.screened is None else self.screened.to_dict(),
            "estimator": self.estimator,
            "effects": [asdict(row) for row in self.table],
            "joint_tests": {name: asdict(found) for name, found in self.joint.items()},
            "other_treatment_of_missing": [asdict(row) for row in self.other_missing],
            "sensitivity": [asdict(row) for row in self.sensitivity],
            "quality": {**asdict(first), **shares},
            "sentences": list(self.sentences),
            "notes": list(self.notes),
        }


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
    place: Place = frame_row,
    **options: Unpack[Options],
) -> EffectsReport:
    """The average effect and, with moderators, the effect by them, at every lag.

    Parameters
    ----------
    frame, estimator, place, **options
        As in `excursion_effect`. Moderators are added to the controls of the analysis by moderators.
    lags
        Effects on the outcome so many decision points later.
    at
        Values of the moderators at which the effect is asked for.
    words
        What the sentences call treatment and outcome.
    notes
        Sentences to put beside the findings.
    checks
        Of the logs behind the frame; without them the frame itself is checked.
    sensitivity
        Losses with which the average effect is estimated again, robust to outlying outcomes.
    over
        The variable (study day) to draw the effect over.

    Returns
    -------
    EffectsReport
        Tables, sentences, and a page.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, surefoot as sf
    >>> rng = np.random.default_rng(0)
    >>> sent = rng.integers(0, 2, 600)
    >>> frame = pa.table({"person": np.repeat(np.arange(20), 30), "t": np.tile(np.arange(30), 20), "sent": sent,
    ...                   "p": np.full(600, 0.5), "y": 0.4 * sent + rng.normal(size=600)})
    >>> found = sf.effects.analyse(frame, participant="person", time="t", outcome="y", treatment="sent", probability="p")
    >>> list(found.results), round(found.table[0].estimate, 2)
    (['average'], 0.59)
    """
    questions = _questions(Analysis(**options), lags)
    found = {name: fit_analysis(frame, asked, estimator=estimator, place=place) for name, asked in questions.items()}
    main = next(iter(found.values()))
    table = [row for name, result in found.items() for row in _rows(name, result, at)]
    joint = {name: _moderation(result) for name, result in found.items() if len(result.points.moderator_names) > 1}
    spoken = _choose_words(words, main, ESTIMATORS[estimator].binary)
    return EffectsReport(
        checks=check_logs(main.points.to_trajectories()) if checks is None else tuple(checks),
        results=found,
        table=adjust_for_multiplicity(table),
        joint=joint,
        other_missing=_other_missing(frame, estimator, questions, found, place),
        sensitivity=_sensitivity(found, sensitivity, estimator),
        quality=assess_sample(main.points),
        sentences=tuple(_sentences(spoken, found, at)),
        notes=(*_notes(main, table), *notes),
        words=spoken,
        estimator=estimator,
        curve=None if over is None else _curve(frame, main, over, place),
    )


def _curve(frame: Any, main: EffectResult, over: str, place: Place) -> EffectCurve | None:
    """The average analysis with `over` as its only moderator, of the first treatment."""
    analysis = main.points.analysis
    controls = parse_terms(analysis.controls)
    asked = replace(analysis, moderators=(over,), controls=(*controls, *([] if over in controls else [over])))
    try:
        found = fit_analysis(frame, asked, estimator=main.estimator, place=place)
    except InputError:  # One day only, or too few participants for two more coefficients.
        return None
    values = found.points.counted_only.moderators[1]
    grid = np.linspace(values.min(), values.max(), 60)
    matrix = np.zeros((len(grid), len(found.params)))
    matrix[:, 0], matrix[:, 1] = 1.0, grid
    line = found.t_test(matrix)
    low, high = line.conf_int().T
    return EffectCurve(over, grid, line.effect, low, high)


def _questions(analysis: Analysis, lags: Sequence[int]) -> dict[str, Analysis]:
    if not lags:
        raise InputError("lags is empty; give [0] for the proximal outcome")
    moderators, controls = parse_terms(analysis.moderators), parse_terms(analysis.controls)
    together = (*controls, *(term for term in moderators if term not in controls))
    # A numerator that depends on the moderators belongs to the effect by them; any constant will do for the average.
    constant = None if isinstance(analysis.numerator, str) and moderators else analysis.numerator
    found: dict[str, Analysis] = {}
    for lag in lags:
        suffix = f", lag {lag}" if lag or len(lags) > 1 else ""
        found[f"average{suffix}"] = replace(analysis, moderators=(), controls=controls, lag=lag, numerator=constant)
        if moderators:
            found[f"by {', '.join(moderators)}{suffix}"] = replace(analysis, controls=together, lag=lag)
    return found


def _choose_words(words: Words | None, main: EffectResult, binary: bool) -> Words:
    actions = main.points.action_names
    given = words or Words(actions[1] if len(actions) == 2 else "treatment", main.points.analysis.outcome)
    return replace(given, relative=main.is_relative, chance=binary)


def _rows(analysis: str, result: EffectResult, at: Sequence[Mapping[str, float]]) -> list[EffectRow]:
    rows = _contrast_rows(analysis, result.t_test(np.eye(len(result.params)), names=_labels(result)))
    if len(result.points.moderator_names) > 1:
        for values in at:
            for action in result.points.action_names[1:]:
                # Where the moderators are nothing, the effect is the intercept, which is there already.
                rows += [row for row in _contrast_rows(analysis, result.effect_at(values, action=action)) if row not in rows]
    elif len(result.points.action_names) > 2:
        actions = result.points.action_names[1:]
        for j, action in enumerate(actions):
            for against in actions[:j]:
                rows += _contrast_rows(analysis, result.effect_at(action=action, against=against))
    return rows


def _contrast_rows(analysis: str, found: ContrastResults) -> list[EffectRow]:
    ends = found.conf_int()
    return [
        EffectRow(analysis, name, float(found.effect[j]), float(found.sd[j]), float(ends[j, 0]), float(ends[j, 1]),
                  float(found.tvalue[j]), found.df_denom, float(found.pvalue[j]))
        for j, name in enumerate(found.names)
    ]  # fmt: skip


def _labels(result: EffectResult) -> tuple[str, ...]:
    """Readable names of the coefficients."""
    moderators = result.points.moderator_names[1:]
    actions = result.points.action_names[1:]
    base = ["average"] if not moderators else [" and ".join(f"{name} = 0" for name in moderators)]
    labels = [*base, *(f"per 1 of {name}" for name in moderators)]
    return tuple(f"{action}: {label}" if len(actions) > 1 else label for action in actions for label in labels)


def adjust_for_multiplicity(rows: Sequence[EffectRow]) -> tuple[EffectRow, ...]:
    """Holm's p-values over all rows.

    >>> blank = EffectRow("", "", 0, 1, 0, 0, 0, 9, 0.01)
    >>> [row.p_holm for row in adjust_for_multiplicity([replace(blank, p=0.04), replace(blank, p=0.03), blank])]
    [0.06, 0.06, 0.03]
    """
    order = np.argsort([row.p for row in rows])
    scaled = [rows[k].p * (len(rows) - place) for place, k in enumerate(order)]
    highest = np.minimum(np.maximum.accumulate(scaled), 1.0)
    adjusted = dict(zip(order.tolist(), highest.tolist(), strict=True))
    return tuple(replace(row, p_holm=adjusted[k]) for k, row in enumerate(rows))


def _moderation(result: EffectResult) -> JointTest:
    return result.joint_test([name for name in result.names if not name.endswith(INTERCEPT)])


def _other_missing(
    frame: Any, estimator: str, questions: Mapping[str, Analysis], found: Mapping[str, EffectResult], place: Place
) -> tuple[EffectRow, ...]:
    """Complete cases beside `missing_as`, where an average moves by more than a quarter of a standard error."""
    rows: list[EffectRow] = []
    for name, asked in questions.items():
        if asked.missing_as is None:
            return ()
        complete = fit_analysis(frame, replace(asked, missing_as=None), estimator=estimator, place=place)
        moved = np.abs(complete.params - found[name].params) / found[name].bse
        if moved.max() > NOTABLE:
            contrast = complete.t_test(np.eye(len(complete.params)), names=_labels(complete))
            rows += _contrast_rows(f"{name}, {complete.rows:,} complete rows", contrast)
    return tuple(rows)


def _sensitivity(found: Mapping[str, EffectResult], losses: Sequence[str], estimator: str) -> tuple[EffectRow, ...]:
    if ESTIMATORS[estimator].binary or ESTIMATORS[estimator].distal:
        return ()
    rows: list[EffectRow] = []
    for loss in losses:
        for name, result in found.items():
            try:
                robust = replace(result, estimate=estimate_robustly(result.points, loss))
            except InputError:
                if loss not in ROBUST_LOSSES:
                    raise
                continue  # The robust loss has nothing to say: more than half of the residuals are equal.
            contrast = robust.t_test(np.eye(len(robust.params)), names=_labels(robust))
            rows += _contrast_rows(f"{name}, {ROBUST_LOSSES[loss].label}", contrast)
    return tuple(rows)


def _sentences(words: Words, found: Mapping[str, EffectResult], at: Sequence[Mapping[str, float]]) -> list[str]:
    spoken = []
    for result in found.values():
        if len(result.points.moderator_names) > 1 and not at:
            continue
        lag = f" {result.points.analysis.lag} decision points later" if result.points.analysis.lag else ""
        for values in at if len(result.points.moderator_names) > 1 else [{}]:
            for action in result.points.action_names[1:]:
                one = result.effect_at(values, action=action)
                low, high = one.conf_int()[0]
                named = replace(words, treatment=action) if len(result.points.action_names) > 2 else words
                named = replace(named, outcome=named.outcome + lag)
                where = "where " + " and ".join(f"{key} is {value:g}" for key, value in values.items()) if values else ""
                spoken.append(describe_effect(named, float(one.effect[0]), low, high, where))
    return spoken


def _notes(main: EffectResult, table: Sequence[EffectRow]) -> list[str]:
    notes = [f"{len(table)} tests were asked; p (Holm) allows for that." if len(table) > 1 else "One test was asked."]
    if main.points.analysis.transform != "none":
        notes.append(f"Effects are on the scale {main.points.analysis.transform} of {main.points.analysis.outcome}.")
    return notes
