"""What predicts a missing outcome: the model of being observed, its weights, and standard errors that count its estimation.

A decision point t with state S, action A, past and attendance has its outcome observed (R = 1) with probability
π = expit(zᵀα), z = [1, A, S, A S, past, attendance, time]. Every estimating function ψ = D r is then weighted by R/π. With
B = Σ π(1 − π) zzᵀ + Λ, s_i = Σ (R − π) z and G = Σ (1 − π) ψ zᵀ the stacked equations of α and θ have the derivative
M = [[B, 0], [G, A]]. A participant's influence on θ is A⁻¹ (u_i − G B⁻¹ s_i). The correction for small samples replaces
(s_i, u_i) by (I − S_i M⁻¹)⁻¹ (s_i, u_i), S_i the participant's part of M, as Mancl and DeRouen's does without a model.
"""

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from surefoot.data.frames import make_frame
from surefoot.effects.analysis import Codes, ExcursionBatch, Floats, Mask
from surefoot.effects.estimators import Estimate
from surefoot.effects.formulas import INTERCEPT
from surefoot.inference.intervals import wilson_interval
from surefoot.reports.summaries import Overview, Shown, Summary, lay_out_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.reports.figures import Drawable

RIDGE = 1.0
"""Penalty of every standardised coefficient but the intercept's: an arm without a missing outcome leaves it finite."""
LEAST_PROBABILITY = 0.05
"""Weights grow no further where an outcome is less likely to be observed than this; the rows are named."""
CONSTANT = 1e-10
"""A column that varies less, compared with its largest value, counts as constant."""
NEWTON_STEPS = 100
GROUPS = 10


@dataclass(frozen=True, eq=False)
class OutcomeSeries:
    """Decision points in their order with what predicts their outcomes; for a distal outcome one entry per participant."""

    index: Codes  # Entry of every row of the batch; −1 for none.
    rows: Codes  # Row of every entry; for a distal outcome the participant's first.
    person: Codes  # Ascending.
    previous: Codes  # The participant's previous entry; −1 for none.
    possible: Mask  # Whether a missing outcome leaves a row out of the analysis.
    outcome: Floats  # NaN where missing.
    treated: Floats  # (entries, actions − 1); for a distal outcome shares of decision points.
    names: tuple[str, ...]
    predictors: Floats  # (entries, d): intercept and standardised columns, without previous outcomes.
    action_names: tuple[str, ...]

    @property
    def missing(self) -> Mask:
        return np.isnan(self.outcome)

    @property
    def has_past(self) -> bool:
        """Whether previous outcomes are among the predictors."""
        return bool((self.previous >= 0).any())

    @property
    def past_names(self) -> tuple[str, ...]:
        if not self.has_past:
            return ()
        return ("previous outcome", *(f"{action} × previous outcome" for action in self.action_names[1:]))

    @property
    def centre(self) -> float:
        return float(np.nanmean(self.outcome))

    @property
    def scale(self) -> float:
        deviation = float(np.nanstd(self.outcome))
        return deviation if deviation > 0 else 1.0

    def make_past(self, scaled: Floats) -> Floats:
        """(…, entries, actions): the previous outcome, standardised and 0 where unknown, and its product with actions."""
        if not self.has_past:
            return np.empty((*scaled.shape, 0))
        past = np.where(self.previous >= 0, np.nan_to_num(scaled[..., self.previous]), 0.0)
        return past[..., None] * np.column_stack([np.ones(len(self.rows)), self.treated])


def make_series(batch: ExcursionBatch, *, distal: bool = False) -> OutcomeSeries:
    """The entries and their predictors: state, action, their products, the past, attendance and time."""
    return _make_person_series(batch) if distal else _make_point_series(batch)


def _make_point_series(batch: ExcursionBatch) -> OutcomeSeries:
    """Decision points that are available, or whose outcome is known; rows without a moderator or control are left out."""
    rows = np.flatnonzero(batch.described & batch.later & (batch.available | ~np.isnan(batch.outcome)))
    person = batch.person[rows]
    entries = np.arange(len(rows))
    first = np.diff(person, prepend=-1) != 0
    before = entries - np.maximum.accumulate(np.where(first, entries, 0))
    previous = np.where(first, -1, entries - 1)
    outcome = batch.outcome[rows]
    known = (~np.isnan(outcome)).astype(np.float64)
    so_far = np.cumsum(known) - known
    so_far -= np.maximum.accumulate(np.where(first, so_far, 0.0))
    treated = batch.treated[:, rows]
    columns = {"available": batch.available[rows].astype(np.float64)}
    columns |= _cross_states(batch, treated, rows)
    if batch.analysis.lag:
        # What happens until the outcome predicts it, and whether it is observed, as well.
        until = rows + batch.analysis.lag
        states = _list_states(batch)
        columns |= {f"{name}, at the outcome": values[until] for name, values in states.items()}
        columns |= {
            f"{action}, at the outcome": values[until]
            for action, values in zip(batch.action_names[1:], batch.treated, strict=True)
        }
    columns["treated before"] = np.where(first, 0.0, treated.sum(axis=0)[np.maximum(previous, 0)])
    columns["previous outcome unknown"] = np.where(first, 1.0, 1 - known[np.maximum(previous, 0)])
    columns["attendance"] = (so_far + known.mean()) / (before + 1)
    columns["time"] = before.astype(np.float64)
    index = np.full(len(batch), -1)
    index[rows] = entries
    names, predictors = _standardise_columns(columns, len(rows))
    possible = batch.possible[rows]
    return OutcomeSeries(index, rows, person, previous, possible, outcome, treated.T, names, predictors, batch.action_names)


def _make_person_series(batch: ExcursionBatch) -> OutcomeSeries:
    """Participants, with the means of their states and actions and the number of their decision points."""
    rows = batch.starts
    shares = _average_people(batch.treated, batch.available, rows)
    treated = np.nan_to_num(shares)
    columns: dict[str, Floats] = {}
    for name, values in _cross_states(batch, batch.treated, np.arange(len(batch))).items():
        columns[name] = _average_people(values[None], batch.available, rows)[0]
    columns["decision points"] = np.log(np.add.reduceat(batch.available.astype(np.float64), rows) + 1)
    names, predictors = _standardise_columns(columns, len(rows))
    entries = np.arange(len(rows))
    return OutcomeSeries(
        index=np.searchsorted(batch.person[rows], batch.person),
        rows=rows,
        person=batch.person[rows],
        previous=np.full(len(rows), -1),
        possible=np.ones(len(entries), dtype=bool),
        outcome=batch.outcome[rows],
        treated=treated.T,
        names=names,
        predictors=predictors,
        action_names=batch.action_names,
    )


def _average_people(values: Floats, among: Mask, starts: Codes) -> Floats:
    """Means of (…, rows) over each participant's rows `among` that are not missing; NaN where there are none."""
    counted = among & ~np.isnan(values)
    total = np.add.reduceat(np.where(counted, values, 0.0), starts, axis=-1)
    count = np.add.reduceat(counted.astype(np.float64), starts, axis=-1)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _list_states(batch: ExcursionBatch) -> dict[str, Floats]:
    """Moderators, controls and auxiliary variables, each once."""
    names = (*batch.moderator_names, *batch.control_names, *batch.auxiliary_names)
    states = dict(zip(names, (*batch.moderators, *batch.controls, *batch.auxiliary), strict=True))
    states.pop(INTERCEPT, None)
    return states


def _cross_states(batch: ExcursionBatch, treated: Floats, rows: Codes) -> dict[str, Floats]:
    """Actions, states and their products."""
    actions = dict(zip(batch.action_names[1:], treated, strict=True))
    states = {name: values[rows] for name, values in _list_states(batch).items()}
    products = {f"{action} × {name}": sent * values for action, sent in actions.items() for name, values in states.items()}
    return {**actions, **states, **products}


def _standardise_columns(columns: dict[str, Floats], size: int) -> tuple[tuple[str, ...], Floats]:
    """With an intercept, without constant columns; a missing value counts as the mean, with a column that says so."""
    names = [INTERCEPT]
    values = [np.ones(size)]
    for name, column in columns.items():
        unknown = np.isnan(column)
        filled = np.where(unknown, np.nanmean(column) if not unknown.all() else 0.0, column)
        additions = {name: filled}
        if unknown.any() and " × " not in name:
            additions[f"{name} missing"] = unknown.astype(np.float64)
        for label, addition in additions.items():
            deviation = addition.std()
            if deviation > CONSTANT * (1 + np.abs(addition).max(initial=0.0)):
                names.append(label)
                values.append((addition - addition.mean()) / deviation)
    return tuple(names), np.column_stack(values)


class CalibrationGroup(NamedTuple):
    """Entries with similar predicted probabilities of being observed."""

    entries: int
    predicted: float
    observed: float
    low: float  # Wilson's 95 % interval of the observed share.
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class ObservationModel(Shown):
    """The probability that an outcome is observed, by a pooled logistic model, and the weights that follow."""

    series: OutcomeSeries
    """The entries, and the columns of the model."""
    names: tuple[str, ...]
    """Of the coefficients."""
    design: Floats
    """z of the entries that the model is fitted to, (entries, d)."""
    coefficients: Floats
    """Per standard deviation of the column."""
    probabilities: Floats
    """π of the same entries."""
    fitted: Codes
    """Which entries of the series these are."""
    truncated: tuple[str, ...]
    """Participants with an observed outcome whose weight is limited."""
    truncated_rows: int
    """Their number of outcomes."""

    @property
    def observed(self) -> Mask:
        return ~self.series.missing[self.fitted]

    @property
    def unlimited(self) -> Mask:
        return np.asarray(self.probabilities >= LEAST_PROBABILITY)

    @property
    def information(self) -> Floats:
        """B."""
        z = self.design
        return np.asarray(z.T @ ((self.probabilities * (1 - self.probabilities))[:, None] * z) + _make_penalty(z.shape[1]))

    @property
    def scores(self) -> Floats:
        """(R − π) z of every entry."""
        return np.asarray((self.observed - self.probabilities)[:, None] * self.design)

    @property
    def standard_errors(self) -> Floats:
        """Over participants."""
        person = self.series.person[self.fitted]
        total = np.add.reduceat(self.scores, np.flatnonzero(np.diff(person, prepend=-1)), axis=0)
        influence = np.linalg.solve(self.information, total.T)
        return np.asarray(np.sqrt((influence**2).sum(axis=1)))

    @property
    def calibration(self) -> list[CalibrationGroup]:
        """Predicted and observed shares by tenths of the predicted probability."""
        order = np.argsort(self.probabilities, kind="stable")
        groups = []
        for entries in np.array_split(order, min(GROUPS, len(order))):
            seen = float(self.observed[entries].sum())
            low, high = wilson_interval(np.array([seen]), np.array([float(len(entries))]))
            predicted = float(self.probabilities[entries].mean())
            groups.append(CalibrationGroup(len(entries), predicted, seen / len(entries), float(low[0]), float(high[0])))
        return groups

    def weigh(self, batch: ExcursionBatch) -> ExcursionBatch:
        """The batch with weights (share observed)/π; any constant factor leaves effects as they are."""
        weights = np.ones(len(self.series.rows))
        weights[self.fitted] = self.observed.mean() / np.maximum(self.probabilities, LEAST_PROBABILITY)
        index = self.series.index
        return replace(batch, observation_weight=np.where(index >= 0, weights[index], 1.0))

    def _overview(self) -> Overview:
        facts = {
            "entries": f"{len(self.fitted):,}, {self.observed.mean():.1%} observed",
            "weights limited": f"{self.truncated_rows:,} (probability below {LEAST_PROBABILITY:g})",
        }
        return Overview("Model of observed outcomes", facts, [("", "coef", "std err"), *self.list_cells()])

    def list_cells(self) -> list[tuple[str, str, str]]:
        """Name, coefficient and standard error, as text."""
        numbers = zip(self.names, self.coefficients, self.standard_errors, strict=True)
        return [(name, f"{value:.3f}", f"{error:.3f}") for name, value, error in numbers]

    def summary(self) -> Summary:
        """Coefficients, per standard deviation of a column, and the calibration."""
        cells = [(f"{entries:,}", *(f"{share:.3f}" for share in shares)) for entries, *shares in self.calibration]
        return Summary(
            "\n".join(
                [
                    "Log odds that an outcome is observed, per standard deviation",
                    lay_out_table(self.list_cells(), ("", "coef", "std err")),
                    "Calibration by tenths of the predicted probability",
                    lay_out_table(cells, ("outcomes", "predicted", "observed", "[0.025", "0.975]")),
                ]
            )
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each coefficient."""
        columns = {"name": list(self.names), "coefficient": self.coefficients, "standard_error": self.standard_errors}
        return make_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        numbers = zip(self.names, self.coefficients.tolist(), self.standard_errors.tolist(), strict=True)
        return {
            "coefficients": [
                {"name": name, "coefficient": value, "standard_error": error} for name, value, error in numbers
            ],
            "calibration": [group._asdict() for group in self.calibration],
            "least_probability": LEAST_PROBABILITY,
            "weights_limited": self.truncated_rows,
            "participants_with_limited_weights": list(self.truncated),
        }

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """Observed against predicted shares, with 95 % intervals."""
        from surefoot.reports.figures import BLUE, INK, add_legend, choose_axes, label_axes

        groups = self.calibration
        predicted = np.array([group.predicted for group in groups])
        observed = np.array([group.observed for group in groups])
        ends = np.array([(max(group.observed - group.low, 0), max(group.high - group.observed, 0)) for group in groups]).T
        axes = choose_axes(ax, width=5.6, height=3.6)
        limits = (min(predicted.min(), *(group.low for group in groups)), 1.0)
        axes.plot(limits, limits, color=INK, linewidth=0.8, linestyle="--", label="perfect calibration")
        axes.errorbar(predicted, observed, yerr=ends, fmt="o", color=BLUE, capsize=3, label="observed share, 95 % interval")
        label_axes(
            axes,
            x="Predicted probability that the outcome is observed",
            y="Share of outcomes observed",
            title="Calibration of the model of missing outcomes",
        )
        add_legend(axes)
        return axes


def fit_observation(batch: ExcursionBatch, *, distal: bool = False) -> ObservationModel | None:
    """Fit π to the entries that may count; None where none of their outcomes is missing."""
    series = make_series(batch, distal=distal)
    fitted = np.flatnonzero(series.possible)
    missing = series.missing[fitted]
    if not missing.any():
        return None
    past = series.make_past((series.outcome - series.centre) / series.scale)
    design = np.concatenate([series.predictors, past], axis=1)[fitted]
    varies = design.std(axis=0) > CONSTANT
    varies[0] = True  # The intercept.
    design = design[:, varies]
    coefficients = fit_logistic(design, ~missing)
    probabilities = np.asarray(expit(design @ coefficients), dtype=np.float64)
    limited = (probabilities < LEAST_PROBABILITY) & ~missing
    people = np.unique(series.person[fitted[limited]])
    return ObservationModel(
        series=series,
        names=tuple(itertools.compress((*series.names, *series.past_names), varies)),
        design=design,
        coefficients=coefficients,
        probabilities=probabilities,
        fitted=fitted,
        truncated=tuple(map(str, batch.order.participants[people])),
        truncated_rows=int(limited.sum()),
    )


def _make_penalty(size: int) -> Floats:
    penalty = RIDGE * np.eye(size)
    penalty[0, 0] = 0.0
    return penalty


def fit_logistic(design: Floats, happened: Mask) -> Floats:
    """α that solves Σ (R − expit(zᵀα)) z = Λα, by Newton's method; the first column is the intercept.

    >>> design = np.array([[1.0, -1.0], [1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    >>> fit_logistic(design, np.array([False, True, True, True])).round(3)
    array([1.184, 0.583])
    """
    penalty = _make_penalty(design.shape[1])
    share = np.clip(happened.mean(), 0.5 / len(happened), 1 - 0.5 / len(happened))
    coefficients = np.zeros(design.shape[1])
    coefficients[0] = np.log(share / (1 - share))
    for _ in range(NEWTON_STEPS):
        chance = expit(design @ coefficients)
        score = design.T @ (happened - chance) - penalty @ coefficients
        information = design.T @ ((chance * (1 - chance))[:, None] * design) + penalty
        step = np.linalg.solve(information, score)
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-12:
            break
    return np.asarray(coefficients, dtype=np.float64)


def count_estimated_weights(estimate: Estimate, points: ExcursionBatch, model: ObservationModel) -> Estimate:
    """The same estimate, of the batch `points`, with covariances that count the estimation of the weights."""
    function = estimate.function
    batch = function.batch
    rows = batch.order.find_in(points.order)
    people = len(batch.order.participants)
    size = len(estimate.root)
    width = model.design.shape[1]
    evaluation = function.evaluate(estimate.root, slice(0, len(batch)))
    psi = evaluation.multiplier * evaluation.residual
    position = np.full(len(model.series.rows), -1)
    position[model.fitted] = np.arange(len(model.fitted))
    entry = position[model.series.index[rows]]
    factor = (1 - model.probabilities[entry]) * model.unlimited[entry]
    columns = (factor[:, None] * model.design[entry]).T

    scores = np.zeros((people, width + size))
    stacked = np.zeros((people, width + size, width + size))
    person = model.series.person[model.fitted]
    starts = np.flatnonzero(np.diff(person, prepend=-1))
    scores[person[starts], :width] = np.add.reduceat(model.scores, starts, axis=0)
    information = (model.probabilities * (1 - model.probabilities)) * model.design.T
    for j in range(width):
        stacked[person[starts], j, :width] = np.add.reduceat(information[j][:, None] * model.design, starts, axis=0)
    starts = batch.starts
    counted = batch.person[starts]
    scores[counted, width:] = np.add.reduceat(psi, starts, axis=1).T
    for j in range(size):
        stacked[counted, width + j, :width] = np.add.reduceat(psi[j] * columns, starts, axis=1).T
        products = evaluation.multiplier[j] * evaluation.leverage_slope
        stacked[counted, width + j, width:] = np.add.reduceat(products, starts, axis=1).T

    derivative = stacked.sum(axis=0)
    derivative[:width, :width] = model.information
    derivative[width:, width:] = estimate.bread
    inverse = np.linalg.inv(derivative)
    remainder = np.eye(width + size) - stacked @ inverse
    corrected = np.linalg.solve(remainder, scores[:, :, None])[:, :, 0]
    plain_influence = (scores @ inverse.T)[:, width:]
    corrected_influence = (corrected @ inverse.T)[:, width:]
    back = function.back
    return replace(
        estimate,
        plain=back.T @ plain_influence.T @ plain_influence @ back,
        corrected=back.T @ corrected_influence.T @ corrected_influence @ back,
        scores=(plain_influence @ estimate.bread.T)[counted],
        corrected_scores=(corrected_influence @ estimate.bread.T)[counted],
    )
