"""The standardised effect at every decision point: a smoothed effect divided by a smoothed standard deviation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from surefoot.data.frames import arrow_table, make_frame
from surefoot.data.log_columns import Place, frame_row
from surefoot.data.suspect_columns import warn_of_doubts
from surefoot.effects.analysis import (
    Analysis,
    Codes,
    ExcursionBatch,
    Floats,
    check_randomisation,
    check_validity,
    read_batch,
)
from surefoot.effects.formulas import Terms
from surefoot.errors import InputError
from surefoot.reports.summaries import Overview, Shown, Summary, lay_out_table, to_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.reports.figures import Drawable

SINGULAR = 1e-10
"""Columns of a regression whose correlations have a smaller determinant count as collinear."""
ESTIMATED = 0.9
"""A point has an interval if at least this share of the resamples has an estimate there."""
FEWEST_RESAMPLES = 100
NUMBERS = ("effect", "sd", "smooth_effect", "smooth_sd", "size")
CAVEAT = (
    "Each interval holds for its decision point alone. It does not account for the bias of smoothing. In small samples "
    "it covers the true effect in somewhat less than 95 % of trials."
)


@dataclass(frozen=True, eq=False, repr=False)
class EffectSize(Shown):
    """Standardised proximal effects d(t) over decision points, with percentile intervals."""

    outcome: str
    """Column of the outcome."""
    over: str
    """Column that numbers the decision points."""
    people: int
    """Participants with a row that counts."""
    points: Floats
    """Values of `over`, ascending."""
    untreated: Codes
    """Outcomes without treatment at every point."""
    treated: Codes
    """Outcomes with treatment at every point."""
    effect: Floats
    """b(t); NaN where it cannot be estimated."""
    sd: Floats
    """s(t), the pooled standard deviation of the outcome; NaN where b(t) is."""
    smooth_effect: Floats
    """b(t) after smoothing."""
    smooth_sd: Floats
    """s(t) after smoothing."""
    draws: Floats
    """d(t) of every resample of participants, (resamples, points)."""
    smoother: str
    """How the two curves were smoothed, in words."""
    backend: str | None = None
    """Library of the frame."""

    @cached_property
    def size(self) -> Floats:
        """d(t); NaN at points without an estimate."""
        return _divide(self.smooth_effect, self.smooth_sd)

    @property
    def missing(self) -> Floats:
        """Points without an estimate: fewer than 2 outcomes in an arm, collinear covariates, or no spread."""
        return self.points[np.isnan(self.size)]

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """Percentile intervals, (points, 2); NaN where fewer than 90 % of the resamples have an estimate."""
        ends = np.full((len(self.points), 2), np.nan)
        known = np.isfinite(self.draws).mean(axis=0) >= ESTIMATED
        ends[known] = np.nanquantile(self.draws[:, known], [alpha / 2, 1 - alpha / 2], axis=0).T
        return ends

    def describe(self) -> list[str]:
        """Sample, smoother, points without an estimate or an interval, and the limits of the intervals."""
        sentences = [
            f"{self.people} participants, {self.untreated.sum():,} outcomes without treatment and {self.treated.sum():,} "
            f"with treatment at {len(self.points)} decision points.",
            f"{self.smoother} Intervals: percentiles of {len(self.draws):,} resamples of participants.",
        ]
        if len(self.missing):
            sentences.append(
                f"No estimate at {self._name_points(self.missing)}: an arm has fewer than 2 outcomes, covariates are "
                "collinear, or the outcomes do not vary."
            )
        without = np.isfinite(self.size) & np.isnan(self.conf_int()[:, 0])
        if without.any():
            sentences.append(
                f"No interval at {self._name_points(self.points[without])}: too few resamples have 2 outcomes in both arms."
            )
        return [*sentences, CAVEAT]

    def _name_points(self, points: Floats) -> str:
        first = ", ".join(f"{point:g}" for point in points[:5]) + " …" * (len(points) > 5)
        return f"{len(points)} decision point{'s' * (len(points) > 1)} ({self.over} {first})"

    def _list_cells(self, chosen: Codes) -> list[list[str]]:
        numbers = np.column_stack([self.smooth_effect, self.smooth_sd, self.size, self.conf_int()])[chosen].tolist()
        points = self.points[chosen].tolist()
        return [[f"{point:g}", *(f"{n:.4f}" for n in row)] for point, row in zip(points, numbers, strict=True)]

    @property
    def _headers(self) -> tuple[str, ...]:
        return (self.over, "effect", "sd", "d", "[0.025", "0.975]")

    def _overview(self) -> Overview:
        heading = f"Standardised effect on {self.outcome} over {self.over}"
        facts = {"sample": f"{self.people} people, {len(self.points)} decision points", "smoothing": self.smoother}
        return Overview(heading, facts, [self._headers, *self._list_cells(np.arange(len(self.points)))])

    def summary(self) -> Summary:
        """The curve at up to nine decision points, and how to read it."""
        estimated = np.flatnonzero(np.isfinite(self.size))
        chosen = np.unique(estimated[np.linspace(0, len(estimated) - 1, 9).round().astype(np.int64)])
        table = lay_out_table(self._list_cells(chosen), self._headers)
        return Summary("\n".join([f"Standardised effect on {self.outcome}", table, *self.describe()]))

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each decision point: counts, raw and smoothed effect and standard deviation, size, low, high."""
        low, high = self.conf_int().T
        columns: dict[str, Any] = {self.over: self.points, "untreated": self.untreated, "treated": self.treated}
        columns |= {name: getattr(self, name) for name in NUMBERS}
        return make_frame(columns | {"low": low, "high": high}, backend or self.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON; None where there is no estimate."""
        low, high = self.conf_int().T
        columns = {name: getattr(self, name) for name in NUMBERS} | {"low": low, "high": high}
        curves = {
            name: [value if np.isfinite(value) else None for value in values.tolist()] for name, values in columns.items()
        }
        counts = {name: getattr(self, name) for name in ("outcome", "over", "people", "points", "untreated", "treated")}
        return {**to_plain(counts), **curves, "resamples": len(self.draws), "sentences": self.describe()}

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """The curve with its pointwise band; dots are b(t)/s(t) before smoothing."""
        from surefoot.reports.figures import BLUE, INK, add_legend, choose_axes, label_axes

        axes = choose_axes(ax, width=5.6, height=3.6)
        low, high = self.conf_int().T
        axes.axhline(0, color=INK, linewidth=0.8, linestyle="--", label="no effect")
        axes.fill_between(self.points, low, high, color=BLUE, alpha=0.3, linewidth=0, label="95 %, each point alone")
        axes.plot(self.points, _divide(self.effect, self.sd), ".", color=INK, markersize=3, label="not smoothed")
        axes.plot(self.points, self.size, color=BLUE, linewidth=1.8, label="d")
        title = f"Standardised effect on {self.outcome}"
        label_axes(axes, x=self.over, y="Effect in standard deviations", title=title)
        add_legend(axes, columns=2)
        return axes


def _divide(effect: Floats, sd: Floats) -> Floats:
    """Missing where there is no spread to divide by."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.divide(effect, sd, out=np.full(effect.shape, np.nan), where=sd > 0))


def effect_size(
    frame: Any,
    *,
    participant: str,
    time: str,
    outcome: str,
    treatment: str,
    probability: float | str,
    probability_of: str | None = None,
    available: str | None = None,
    covariates: Terms = (),
    missing_as: float | Mapping[str, float] | None = None,
    transform: str = "none",
    actions: Sequence[str] | None = None,
    smooth: bool = True,
    span: float = 0.25,
    degree: int = 1,
    resamples: int = 1000,
    seed: int = 0,
    name_row: Place = frame_row,
) -> EffectSize:
    """Estimate the standardised proximal effect at every decision point.

    With weights 1/p(A), over the available rows of point t with an outcome: b(t) is the coefficient of A in the weighted
    least squares of Y on (1, A, covariates). s(t) is √(((n₀ − 1) v₀ + (n₁ − 1) v₁)/(n₀ + n₁ − 2)), where
    v = Σw(y − μ)²/(Σw − Σw²/Σw) is the variance of the outcomes of an arm. It is the spread of the outcome, not of
    residuals, so that covariates which predict well do not enlarge the effect. LOESS smooths both over t, and
    d(t) = b(t)/s(t).

    Intervals are percentiles over resamples of participants. Each holds for its point alone and does not account for the
    bias of smoothing. In small samples they cover somewhat less than 95 % (docs/effects.md).

    The standardised effect of `surefoot effects` is another number: the average effect, divided by one standard deviation
    of the whole study.

    Parameters
    ----------
    frame, participant, outcome, treatment, probability, probability_of, available, missing_as, transform, actions, name_row
        As in `excursion_effect`, with one treatment.
    time
        A column with numbers that count the decision points alike for all participants: 0, 1, 2 …
    covariates
        Columns known before the decision, or a formula. They make b(t) more precise.
    smooth
        Whether the two curves are smoothed.
    span, degree
        Of the smoother: the share of the decision points in a neighbourhood, and the degree of its polynomial (0, 1 or 2).
    resamples, seed
        Number of resamples, at least 100, and the seed of their random numbers.

    Returns
    -------
    EffectSize

    References
    ----------
    Luers, Klasnja and Murphy 2019, Standardized effect sizes for preventive mobile health interventions in micro-randomized
    trials, Prevention Science 20(1).

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=30, seed=0)
    >>> columns = {"participant": "participant", "time": "time", "outcome": "outcome", "treatment": "action"}
    >>> curve = sf.effects.effect_size(logs.to_frame(), **columns, probability=0.5, covariates=["engagement"])
    >>> curve.size[:3].round(2)
    array([0.05, 0.08, 0.1 ])
    """
    if not 0 < span <= 1:
        raise InputError(f"span is {span:g}; it is a share of the decision points, above 0 and at most 1")
    if degree not in (0, 1, 2):
        raise InputError(f"degree is {degree}; the local polynomial has degree 0, 1 or 2")
    if resamples < FEWEST_RESAMPLES:
        raise InputError(f"resamples is {resamples}; percentile intervals need at least {FEWEST_RESAMPLES}")
    analysis = Analysis(
        participant=participant,
        time=time,
        outcome=outcome,
        treatment=treatment,
        probability=probability,
        probability_of=probability_of,
        available=available,
        controls=covariates,
        missing_as=missing_as,
        transform=transform,
        actions=actions,
    )
    batch, times = _read_sample(frame, analysis, name_row)
    return size_in_batch(batch, times, smooth=smooth, span=span, degree=degree, resamples=resamples, seed=seed)


def size_in_batch(
    batch: ExcursionBatch, times: Floats, *, smooth: bool, span: float, degree: int, resamples: int, seed: int
) -> EffectSize:
    """The same for rows whose decision points have these numbers."""
    rows = batch.counted_only
    points, position = np.unique(times, return_inverse=True)
    position = position[batch.counted]
    people, person = np.unique(rows.person, return_inverse=True)
    chances = np.full(len(people), 1 / len(people))
    drawn = np.random.default_rng(seed).multinomial(len(people), chances, size=resamples)
    # The first row is the sample itself.
    counts = np.vstack([np.ones(len(people)), drawn]).astype(np.float64)
    effects = np.full((len(counts), len(points)), np.nan)
    deviations = np.full((len(counts), len(points)), np.nan)
    for point in np.unique(position):
        present = position == point
        effects[:, point], deviations[:, point] = estimate_point(rows.take(present), counts[:, person[present]])
    known = np.isfinite(effects[0])
    time = rows.analysis.time
    if not known.any():
        raise InputError(
            f"at no value of '{time}' do both arms have 2 outcomes and covariates that are not collinear; give a column "
            "that numbers decision points alike for all participants, such as the day, or leave covariates out",
            column=time,
        )
    # A resample may have the only outcome of an arm twice.
    effects[:, ~known] = np.nan
    deviations[:, ~known] = np.nan
    smooth_effects = effects.copy()
    smooth_deviations = deviations.copy()
    if smooth:
        _require_span(points[known], span, degree)
        smooth_effects[:, known] = _smooth(points[known], effects[:, known], span, degree)
        smooth_deviations[:, known] = _smooth(points[known], deviations[:, known], span, degree)
    return EffectSize(
        outcome=rows.analysis.outcome,
        over=time,
        people=len(people),
        points=points,
        untreated=np.bincount(position[rows.action == 0], minlength=len(points)),
        treated=np.bincount(position[rows.action == 1], minlength=len(points)),
        effect=effects[0],
        sd=deviations[0],
        smooth_effect=smooth_effects[0],
        smooth_sd=smooth_deviations[0],
        draws=_divide(smooth_effects[1:], smooth_deviations[1:]),
        smoother=f"Smoothed by LOESS (span {span:g}, degree {degree})." if smooth else "Not smoothed.",
        backend=rows.order.backend,
    )


def _read_sample(frame: Any, analysis: Analysis, name_row: Place) -> tuple[ExcursionBatch, Floats]:
    """The rows, checked, and the numbers of their decision points."""
    batch = read_batch(frame, analysis, name_row=name_row)
    if len(batch.action_names) > 2:
        raise InputError(
            f"effect_size compares one treatment with nothing, here there are {len(batch.action_names) - 1}; keep the rows "
            "of one treatment, or compare all by sf.effects.wcls(…).compare_actions()"
        )
    check_validity(batch, binary=False, distal=False)
    check_randomisation(batch)
    logs = batch.to_trajectories()
    warn_of_doubts(logs.participants, len(logs), logs.names)
    name = analysis.time
    table, _ = arrow_table(frame, [name], None)
    kind = table.schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(
            f"column '{name}' holds {kind}, but points are compared between participants; give a column that numbers the "
            "decision points 0, 1, 2 … alike for all participants",
            column=name,
        )
    return batch, np.asarray(table[name].to_numpy(), dtype=np.float64)[batch.order.row]


def estimate_point(rows: ExcursionBatch, counts: Floats) -> tuple[Floats, Floats]:
    """b and s of one decision point for every resample; `counts` (resamples, rows) says how often it has a row."""
    weight = 1 / rows.taken
    covariates = rows.controls[1:]
    # Centred and scaled columns give the same coefficient of A, and moments without cancellation.
    covariates = covariates - covariates.mean(axis=1, keepdims=True)
    covariates = covariates / np.maximum(np.abs(covariates).max(axis=1, keepdims=True), np.finfo(float).tiny)
    outcome = rows.outcome - rows.outcome.mean()
    design = np.vstack([np.ones(len(rows)), rows.action, covariates])
    size = len(design)
    gram = (counts @ (weight * design[:, None] * design).reshape(size * size, -1).T).reshape(-1, size, size)
    products = counts @ (weight * design * outcome).T
    arms = [rows.action == 0, rows.action == 1]
    numbers = np.stack([counts[:, arm].sum(axis=1) for arm in arms])
    scale = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    known = (numbers >= 2).all(axis=0) & (scale > 0).all(axis=1)
    scale = np.where(known[:, None], scale, 1.0)
    correlations = gram / (scale[:, :, None] * scale[:, None])
    known &= np.linalg.det(correlations) > SINGULAR
    correlations[~known] = np.eye(size)
    effect = np.linalg.solve(correlations, (products / scale)[:, :, None])[:, 1, 0] / scale[:, 1]
    variances = np.stack([_weigh_variance(outcome[arm], weight[arm], counts[:, arm]) for arm in arms])
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.sqrt(np.sum((numbers - 1) * variances, axis=0) / (numbers.sum(axis=0) - 2))
    return np.where(known, effect, np.nan), np.where(known, deviation, np.nan)


def _weigh_variance(outcome: Floats, weight: Floats, counts: Floats) -> Floats:
    """Σw(y − μ)²/(Σw − Σw²/Σw) for every resample; NaN for fewer than two outcomes."""
    centred = outcome - outcome.mean() if len(outcome) else outcome
    total, squared, first, second = (counts @ np.vstack([weight, weight**2, weight * centred, weight * centred**2]).T).T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.maximum(second - first**2 / total, 0.0) / (total - squared / total))


def weigh_neighbours(points: Floats, at: Floats, span: float, degree: int) -> Floats:
    """The matrix L of LOESS: L @ values are the local polynomials at `at`; NaN where too few points are near.

    >>> points = np.arange(8.0)
    >>> (weigh_neighbours(points, points, 0.5, 1) @ (2 * points + 1)).round(6)
    array([ 1.,  3.,  5.,  7.,  9., 11., 13., 15.])
    """
    neighbours = int(np.floor(len(points) * span + 1e-5))
    if neighbours < 1:
        return np.full((len(at), len(points)), np.nan)
    distance = np.abs(at[:, None] - points)
    radius = np.sort(distance, axis=1)[:, neighbours - 1, None]
    radius = np.where(radius > 0, radius, 1.0)
    weight = np.maximum(1 - (distance / radius) ** 3, 0.0) ** 3
    near = (weight > 0).sum(axis=1) > degree
    design = ((points - at[:, None]) / radius)[:, :, None] ** np.arange(degree + 1)
    weighted = design * weight[:, :, None]
    gram = np.swapaxes(weighted, 1, 2) @ design
    gram[~near] = np.eye(degree + 1)
    smoother = np.linalg.solve(gram, np.swapaxes(weighted, 1, 2))[:, 0]
    return np.where(near[:, None], smoother, np.nan)


def _smooth(points: Floats, values: Floats, span: float, degree: int) -> Floats:
    """Every row of (resamples, points); resamples that lack the same points share a smoother."""
    smoothed = np.empty_like(values)
    patterns, group = np.unique(np.isfinite(values), axis=0, return_inverse=True)
    for number, present in enumerate(patterns):
        smoother = weigh_neighbours(points[present], points, span, degree)
        members = group.ravel() == number
        smoothed[members] = values[members][:, present] @ smoother.T
    return smoothed


def _require_span(points: Floats, span: float, degree: int) -> None:
    """Refuse a neighbourhood that does not determine the polynomial."""
    if np.isfinite(weigh_neighbours(points, points, span, degree)).all():
        return
    for neighbours in range(1, len(points) + 1):
        needed = np.ceil(100 * neighbours / len(points)) / 100
        if needed > span and np.isfinite(weigh_neighbours(points, points, needed, degree)).all():
            remedy = f"write span={needed:g} or more, or smooth=False"
            break
    else:
        remedy = "write smooth=False"
    raise InputError(
        f"span {span:g} of {len(points)} decision points with estimates is too small a neighbourhood for a polynomial of "
        f"degree {degree}; {remedy}"
    )
