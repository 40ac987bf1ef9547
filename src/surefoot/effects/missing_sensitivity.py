"""How much an effect depends on missing outcomes: all methods next to each other, and a curve over shifts of unseen ones.

Imputed outcomes are shifted by δ, for all missing outcomes or for those after an action, and the analysis is repeated: a
pattern-mixture model in which unseen outcomes differ by δ from what state, action, past and attendance predict. The values
of δ at which the 95 % interval includes 0 are a 95 % interval (Fieller's) of the δ at which there is no effect.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from surefoot.effects.analysis import ExcursionBatch, Floats, Mask
from surefoot.effects.contrasts import EffectRow, JointTest
from surefoot.effects.estimators import ESTIMATORS, Estimate, make_linear, solve
from surefoot.effects.missing_outcomes import MISSING_METHODS, Imputations, MissingMethod, find_missing_rows
from surefoot.effects.observation_model import LEAST_PROBABILITY, ObservationModel
from surefoot.effects.result import EffectResult
from surefoot.errors import InputError
from surefoot.reports.summaries import to_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.reports.figures import Drawable

WIDEST = 3.0
"""Shifts are tried up to this many standard deviations of the outcome; for outcomes of 0 and 1, log odds."""
FINE = 121
COARSE = 13
"""Numbers of shifts: a linear estimator needs no further fit for each of them, the others do."""
NAMED = 5
"""Participants that a sentence names."""


@dataclass(frozen=True, eq=False)
class ShiftCurve:
    """The average effect of an action over shifts δ of imputed outcomes, with pointwise 95 % intervals."""

    action: str
    pattern: str
    """Which unseen outcomes are shifted."""
    shifts: Floats
    """In units of the outcome; for outcomes of 0 and 1, log odds."""
    unit: float
    """The standard deviation of observed outcomes, or 1 for log odds."""
    effect: Floats
    low: Floats
    high: Floats

    @property
    def includes_zero(self) -> Mask:
        return np.asarray((self.low <= 0) & (self.high >= 0))

    @property
    def is_clear(self) -> bool:
        """Whether the interval without a shift excludes no effect."""
        return not bool(self.includes_zero[len(self.shifts) // 2])

    @property
    def tipping(self) -> float | None:
        """The smallest shift at which the interval touches 0; None where there is none in the range."""
        touches = _find_crossings(self.shifts, self.low) + _find_crossings(self.shifts, self.high)
        return min(touches, key=abs) if touches else None

    @property
    def crossing(self) -> float | None:
        """The smallest shift at which the effect is 0."""
        crossings = _find_crossings(self.shifts, self.effect)
        return min(crossings, key=abs) if crossings else None

    @property
    def crossing_interval(self) -> tuple[float, float]:
        """95 % interval of `crossing`: where the interval of the effect includes 0; infinite beyond the range."""
        ends = sorted(_find_crossings(self.shifts, self.low) + _find_crossings(self.shifts, self.high))
        inside = self.includes_zero
        low = -np.inf if inside[0] else (ends[0] if ends else np.nan)
        high = np.inf if inside[-1] else (ends[-1] if ends else np.nan)
        return float(low), float(high)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        low, high = self.crossing_interval
        return {
            "action": self.action,
            "pattern": self.pattern,
            "standard_deviation": self.unit,
            "tipping_point": self.tipping,
            "no_effect_at": self.crossing,
            "no_effect_from": low if np.isfinite(low) else None,
            "no_effect_to": high if np.isfinite(high) else None,
            "shifts": self.shifts.tolist(),
            "effect": self.effect.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }


def _find_crossings(shifts: Floats, values: Floats) -> list[float]:
    """Where a curve crosses 0, by straight lines between its points."""
    crossings = []
    for j in np.flatnonzero(np.diff(np.sign(values)) != 0).tolist():
        share = values[j] / (values[j] - values[j + 1])
        crossings.append(float(shifts[j] + share * (shifts[j + 1] - shifts[j])))
    return crossings


def list_curves(result: EffectResult) -> tuple[ShiftCurve, ...]:
    """Of an average effect with imputed outcomes: for every action, outcomes after it shifted, and all outcomes shifted.

    For a distal outcome "after it" means in proportion to the participant's share of decision points with the action.
    """
    imputations = result.imputations
    if imputations is None:
        raise InputError("a curve over shifts needs imputed outcomes; fit with missing='imputed'")
    curves = []
    distal = ESTIMATORS[result.estimator].distal
    treated = imputations.series.treated[imputations.draws.entries]
    for code, action in enumerate(result.points.action_names[1:]):
        after = f"unseen outcomes in proportion to {action}" if distal else f"unseen outcomes after {action}"
        for pattern, amounts in ((after, treated[:, code]), ("all unseen outcomes", np.ones(len(treated)))):
            curves.append(_make_curve(result, imputations, code, pattern, amounts))
    return tuple(curves)


def _make_curve(result: EffectResult, imputations: Imputations, code: int, pattern: str, amounts: Floats) -> ShiftCurve:
    is_linear = imputations.draws.chances is None
    unit = imputations.series.scale if is_linear else 1.0
    shifts = unit * np.linspace(-WIDEST, WIDEST, FINE if is_linear else COARSE)
    position = result.estimate.function.controls + code
    distal = ESTIMATORS[result.estimator].distal

    def refit(shift: float) -> list[Estimate]:
        make = ESTIMATORS[result.estimator].make
        draws = imputations.draws.shift(shift * amounts)
        return [solve(make(imputations.complete(result.points, outcomes))) for outcomes in draws]

    def find_influence(estimate: Estimate) -> Floats:
        return estimate.list_influences(corrected=not distal)[:, position]

    if is_linear:
        # Estimates and influences are linear in the outcomes, so two fits give them for every shift.
        middle = refit(0.0)
        moved = refit(unit)
        start = np.array([estimate.theta[position] for estimate in middle])
        slope = (np.array([estimate.theta[position] for estimate in moved]) - start) / unit
        influence = np.stack([find_influence(estimate) for estimate in middle])
        change = (np.stack([find_influence(estimate) for estimate in moved]) - influence) / unit
        thetas = start + shifts[:, None] * slope
        variances = ((influence + shifts[:, None, None] * change) ** 2).sum(axis=2)
    else:
        fits = [refit(float(shift)) for shift in shifts]
        thetas = np.array([[estimate.theta[position] for estimate in row] for row in fits])
        variances = np.array([[(find_influence(estimate) ** 2).sum() for estimate in row] for row in fits])
    further = (1 + 1 / len(imputations)) * thetas.var(axis=1, ddof=1)
    total = variances.mean(axis=1) + further
    degrees = imputations.find_degrees(further / total, result.df_resid)
    half = stdtrit(degrees, 0.975) * np.sqrt(total)
    effect = thetas.mean(axis=1)
    action = result.points.action_names[1 + code]
    return ShiftCurve(action, pattern, shifts, unit, effect, effect - half, effect + half)


@dataclass(frozen=True, eq=False)
class MissingSensitivity:
    """Missing outcomes by action, the effects of all methods, and the curves over shifts."""

    primary: str
    """The method of the study."""
    rows: tuple[EffectRow, ...]
    """Effects of every method."""
    refusals: dict[str, str]
    """Why a method has no effects."""
    decision_points: dict[str, int]
    """By action: rows that count but for missing outcomes."""
    missing: dict[str, int]
    """By action: how many of these have no outcome."""
    incomplete: int
    """Further available decision points, without a moderator or control: no method analyses them."""
    test: JointTest | None
    """That missingness does not depend on the action; None where it cannot be tested."""
    observation: ObservationModel | None
    """The model behind the weights of the average effect."""
    imputations: int
    fraction: float
    """Of the information about the average effect that missing outcomes took."""
    curves: tuple[ShiftCurve, ...]
    is_chance: bool
    """Whether outcomes are 0 or 1, and shifts are log odds."""
    errors: str = "usual"
    """Standard errors of the effects; those of the curves are always the usual ones."""

    @property
    def method(self) -> MissingMethod:
        return MISSING_METHODS[self.primary]

    @property
    def shares(self) -> dict[str, float]:
        return {action: self.missing[action] / rows if rows else np.nan for action, rows in self.decision_points.items()}

    def list_effects(self) -> dict[str, list[EffectRow]]:
        """Rows of one effect by all methods, by the name of the effect."""
        effects: dict[str, list[EffectRow]] = {}
        for row in self.rows:
            analysis = row.analysis.rpartition(", ")[0]
            effects.setdefault(row.effect if row.effect == analysis else f"{analysis}: {row.effect}", []).append(row)
        return effects

    @property
    def disagreements(self) -> dict[str, list[EffectRow]]:
        """Effects of which some intervals include 0 and others do not."""
        effects = self.list_effects().items()
        return {name: rows for name, rows in effects if len({row.interval.excludes_zero for row in rows}) > 1}

    @property
    def largest_difference(self) -> float:
        """Between two methods, in standard errors of the primary one."""
        differences = [0.0]
        for rows in self.list_effects().values():
            estimates = [row.estimate for row in rows]
            error = next((row.standard_error for row in rows if row.analysis.endswith(self.primary)), rows[0].standard_error)
            differences.append((max(estimates) - min(estimates)) / error)
        return max(differences)

    def lines(self) -> list[str]:
        """The findings in words."""
        from surefoot.reports.render import write_sentences

        return write_sentences(
            "missing_outcomes.txt", report=self, least=LEAST_PROBABILITY, named=NAMED, widest=WIDEST, finite=np.isfinite
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "primary": self.primary,
            "assumption": self.method.assumption,
            "decision_points": self.decision_points,
            "missing": self.missing,
            "without_moderator_or_control": self.incomplete,
            "depends_on_action": to_plain(self.test),
            "effects": to_plain(self.rows),
            "refusals": self.refusals,
            "observation_model": None if self.observation is None else self.observation.to_dict(),
            "imputations": self.imputations,
            "fraction_of_missing_information": self.fraction,
            "shifts": [curve.to_dict() for curve in self.curves],
            "sentences": self.lines(),
        }

    def plot(self, *, unit: str = "outcome", ax: "Drawable" = None) -> "Axes":
        """The effect of the first action over shifts of unseen outcomes."""
        from surefoot.reports.figures import INK, SERIES, add_legend, choose_axes, label_axes

        if not self.curves:
            raise InputError("there is no curve over shifts: missing outcomes could not be imputed")
        axes = choose_axes(ax, width=5.6, height=3.6)
        axes.axhline(0, color=INK, linewidth=0.8, linestyle="--", label="no effect")
        for curve, colour in zip(self.curves[:2], SERIES, strict=False):
            scaled = curve.shifts / curve.unit
            axes.fill_between(scaled, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(scaled, curve.effect, color=colour, linewidth=1.8, label=f"{curve.pattern} (95 % band)")
        axes.axvline(0, color=INK, linewidth=0.6)
        axes.margins(x=0)
        x = "Shift of unseen outcomes (log odds)"
        if not self.is_chance:
            x = f"Shift of unseen outcomes (standard deviations of {self.curves[0].unit:.3g})"
        label_axes(axes, x=x, y=f"Effect on {unit}", title="How much would unseen outcomes have to differ?")
        add_legend(axes, columns=1)
        return axes


def count_missing(batch: ExcursionBatch) -> tuple[dict[str, int], dict[str, int], JointTest | None]:
    """Decision points and missing outcomes by action, and the test that missingness does not depend on the action."""
    missing = np.zeros(len(batch), dtype=bool)
    missing[find_missing_rows(batch)] = True
    among = missing | batch.counted
    actions = batch.action_names
    rows = np.bincount(batch.action[among], minlength=len(actions)).tolist()
    lost = np.bincount(batch.action[missing], minlength=len(actions)).tolist()
    indicator = batch.replace_outcome(np.where(among, missing.astype(np.float64), np.nan))
    test = None
    with suppress(InputError):  # Too few participants have a complete row.
        test = EffectResult("wcls", indicator, solve(make_linear(indicator))).joint_test()
    if test is not None and not np.isfinite(test.pvalue):
        test = None
    return dict(zip(actions, rows, strict=True)), dict(zip(actions, lost, strict=True)), test


def assess_missing(
    averages: Mapping[str, EffectResult],
    rows: Sequence[EffectRow],
    refusals: Mapping[str, str],
    primary: str,
) -> MissingSensitivity:
    """Collect what a report says about missing outcomes.

    Parameters
    ----------
    averages
        The average effect by method of treating missing outcomes.
    rows
        Effects of all methods.
    refusals
        Why a method has no effects.
    primary
        The method of the study.

    Returns
    -------
    MissingSensitivity
    """
    points = next(iter(averages.values())).points
    decision_points, missing, test = count_missing(points)
    models = [result.observation for result in averages.values() if result.observation is not None]
    imputed = [result for result in averages.values() if result.imputations is not None]
    drawn = [result.imputations for result in imputed if result.imputations is not None]
    return MissingSensitivity(
        primary=primary,
        rows=tuple(rows),
        refusals=dict(refusals),
        decision_points=decision_points,
        missing=missing,
        incomplete=int(points.possible.sum()) - sum(decision_points.values()),
        test=test,
        observation=models[0] if models else None,
        imputations=len(drawn[0]) if drawn else 0,
        fraction=float(imputed[0].missing_information().max()) if imputed else np.nan,
        curves=list_curves(imputed[0]) if imputed else (),
        is_chance=any(imputations.draws.chances is not None for imputations in drawn),
        errors=next(iter(averages.values())).errors,
    )
