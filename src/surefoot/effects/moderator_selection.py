"""Moderators chosen among many candidates, with inference that stays valid: one half of the participants chooses, the other
half estimates.

The lasso chooses on the first half. Its choice is independent of the second half, because participants are. There the usual
analysis with the chosen moderators has its usual errors, whatever was chosen. The price is power: both halves are small.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from scipy.special import ndtri

from surefoot.data.frames import make_frame
from surefoot.data.log_columns import Place, frame_row
from surefoot.effects.analysis import (
    Analysis,
    Codes,
    ExcursionBatch,
    Floats,
    check_randomisation,
    check_validity,
    read_batch,
)
from surefoot.effects.doubly_robust import predict_residuals, shrink_predictions
from surefoot.effects.estimators import ESTIMATORS, make_linear, solve
from surefoot.effects.formulas import INTERCEPT, Terms
from surefoot.effects.result import EffectResult, Options
from surefoot.errors import InputError
from surefoot.inference.intervals import Interval, adjust_p_values
from surefoot.reports.numbers import format_p
from surefoot.reports.signatures import spell_out_keywords
from surefoot.reports.summaries import Overview, Shown, Summary, lay_out_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.reports.figures import Drawable

DIVISIONS = 100
"""How many other divisions of the participants show how stable the choice is."""
FALSE_SELECTIONS = 1.0
"""The penalty lets about this many candidates through where no candidate moderates."""
LASSO_STEPS = 10_000
HEADERS = ("", "alone", "[0.025", "0.975]", "together", "[0.025", "0.975]", "p (Holm)", "chosen")


@dataclass(frozen=True)
class CandidateRow:
    """One candidate: by how much the effect changes per 1 of it. Intervals are simultaneous 95 % intervals."""

    moderator: str
    scale: float
    """Its standard deviation over the rows that count."""
    alone: Interval
    """As the only moderator, from all participants; the intervals of all candidates hold together."""
    chosen: bool
    times_chosen: int
    """In how many of `DIVISIONS` other divisions of the participants the lasso would choose it."""
    together: Interval | None = None
    """With the other chosen ones, from the participants that did not choose; the intervals of all chosen hold together."""
    low_each: float = np.nan
    """Ends of the 95 % interval of this coefficient, not adjusted for the number of chosen ones."""
    high_each: float = np.nan
    p: float = np.nan
    p_holm: float = np.nan


@dataclass(frozen=True, eq=False, repr=False)
class ModeratorSelection(Shown):
    """Candidates for moderation, those that one half of the participants chose, and their effects in the other half."""

    rows: tuple[CandidateRow, ...]
    """Every candidate, in the order of the study."""
    result: EffectResult
    """The effect by the chosen moderators, in the participants that did not choose."""
    choosing: int
    """Participants who chose."""
    estimating: int
    """Participants who estimate."""
    seed: int
    """Of the division."""

    @property
    def chosen(self) -> tuple[str, ...]:
        return tuple(row.moderator for row in self.rows if row.chosen)

    def describe(self) -> list[str]:
        """What was chosen, which error is controlled, and what it costs."""
        chosen = ", ".join(self.chosen) or "none"
        sentences = [
            f"Of {len(self.rows)} candidates, {self.choosing} participants chose these moderators: {chosen}. The other "
            f"{self.estimating} participants estimate their coefficients (division by seed {self.seed})."
        ]
        clear = [row.moderator for row in self.rows if row.together is not None and row.together.excludes_zero]
        if self.chosen:
            verdict = f"Intervals without 0: {', '.join(clear)}." if clear else "Every interval includes 0."
            sentences.append(f"{verdict} The intervals of the chosen ones hold together with a chance of 95 %.")
        alone = [row.moderator for row in self.rows if row.alone.excludes_zero]
        sentences += [
            f"Each candidate alone, in all {self.choosing + self.estimating} participants, adjusted for {len(self.rows)} "
            f"candidates: {'intervals without 0: ' + ', '.join(alone) if alone else 'every interval includes 0'}.",
            "Decision points without an outcome are left out.",
            f"The last column counts in how many of {DIVISIONS} other divisions the candidate would be chosen.",
        ]
        return sentences

    def _overview(self) -> Overview:
        facts = {"chosen": ", ".join(self.chosen) or "none", "sample": f"{self.choosing} choose, {self.estimating} estimate"}
        heading = f"Moderators chosen among {len(self.rows)} candidates"
        return Overview(heading, facts, [HEADERS, *self._list_cells()[:12]])

    def _list_cells(self) -> list[list[str]]:
        cells = []
        for row in self.rows:
            together = ["", "", "", ""]
            if row.together is not None:
                together = [*_show(row.together), format_p(row.p_holm)]
            cells.append([row.moderator, *_show(row.alone), *together, str(row.times_chosen)])
        return cells

    def lay_out(self) -> str:
        """The table of candidates as text; coefficients per 1 of the candidate."""
        return lay_out_table(self._list_cells(), HEADERS)

    def summary(self) -> Summary:
        """The sentences and the table of candidates."""
        return Summary("\n".join([*self.describe(), self.lay_out()]))

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each candidate; coefficients per 1 of it."""
        columns: dict[str, list[Any]] = {}
        for row in self.to_dict()["candidates"]:
            alone = row.pop("alone")
            together = row.pop("together") or Interval(np.nan, np.nan, np.nan, np.nan)._asdict()
            row |= {f"alone_{name}": value for name, value in alone.items()}
            row |= {f"together_{name}": value for name, value in together.items()}
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return make_frame(columns, backend or self.result.points.order.backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        candidates = []
        for row in self.rows:
            together = None if row.together is None else row.together._asdict()
            candidates.append({**asdict(row), "alone": row.alone._asdict(), "together": together})
        return {
            "candidates": candidates,
            "chosen": list(self.chosen),
            "choosing_participants": self.choosing,
            "estimating_participants": self.estimating,
            "seed": self.seed,
            "sentences": self.describe(),
        }

    def plot(self, *, ax: "Drawable" = None) -> "Axes":
        """Marginal effects (each candidate alone) and conditional ones (the chosen together), per standard deviation."""
        from surefoot.reports.figures import BLUE, INK, ORANGE, add_legend, choose_axes, interval_bars, label_axes

        axes = choose_axes(ax, width=5.6, height=1.6 + 0.36 * len(self.rows))
        heights = np.arange(len(self.rows))
        axes.axvline(0, color=INK, linewidth=0.8, linestyle="--", label="effect does not change")
        scales = np.array([row.scale for row in self.rows])
        chosen = np.array([row.chosen for row in self.rows], dtype=bool)
        style: dict[str, Any] = {"markersize": 4, "linewidth": 1.3, "capsize": 2}
        values, bars = interval_bars([row.alone for row in self.rows])
        label = "alone, all participants"
        axes.errorbar(scales * values, heights - 0.14, xerr=scales * bars, fmt="o", color=BLUE, label=label, **style)
        values, bars = interval_bars([row.together for row in self.rows if row.together is not None])
        label = "chosen, together, other half"
        positions = heights[chosen] + 0.14
        scales = scales[chosen]
        axes.errorbar(scales * values, positions, xerr=scales * bars, fmt="s", color=ORANGE, label=label, **style)
        axes.set_yticks(heights, [row.moderator for row in self.rows])
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        label_axes(axes, x="Change of the effect per standard deviation of the moderator", y="", title="Moderators")
        add_legend(axes, columns=1)
        return axes


def _show(interval: Interval) -> list[str]:
    return [f"{number:.4f}" for number in (interval.value, interval.low, interval.high)]


@spell_out_keywords(Analysis)
def select_moderators(
    frame: Any,
    candidates: Terms,
    *,
    estimator: str = "wcls",
    division_seed: int = 0,
    name_row: Place = frame_row,
    **options: Unpack[Options],
) -> ModeratorSelection:
    """Choose moderators among candidates by the lasso, and estimate their effects in participants who did not choose.

    Half of the participants, drawn with `division_seed`, choose. There the lasso minimises the weighted squares of WCLS (or
    of the doubly robust one), with a penalty on the candidates alone: z standard errors of a candidate's score, z such that
    about one candidate passes where none moderates. The other half estimates the effect by the chosen ones. Each interval
    has 95 % coverage whatever was chosen. The reported ones are wider: they hold together (Bonferroni). Decision points
    without an outcome are left out.

    Parameters
    ----------
    frame, name_row, **options
        As in `excursion_effect`, without moderators.
    candidates
        Columns, or a formula. Name them before the outcomes are seen.
    estimator
        `wcls` or `dr-wcls`. For the second, each half learns its own predictions, from controls and candidates.
    division_seed
        Of the division of the participants. Fix it before the outcomes are seen, as `[effects] select_seed` does.

    Returns
    -------
    ModeratorSelection

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> columns = {"participant": "participant", "time": "time", "outcome": "outcome", "treatment": "action"}
    >>> selection = sf.effects.select_moderators(
    ...     logs.to_frame(), ["weather", "engagement", "fatigue"], **columns, probability=0.5, controls=["engagement"]
    ... )
    >>> selection.choosing, selection.estimating
    (20, 20)
    """
    if estimator not in ESTIMATORS or ESTIMATORS[estimator].make is not make_linear:
        raise InputError(f"moderators are chosen by 'wcls' or 'dr-wcls', not by '{estimator}'; choose one of them")
    if options.get("moderators"):
        raise InputError("moderators are chosen among the candidates; leave moderators out")
    if options.get("missing", "complete") != "complete":
        raise InputError("moderators are chosen among rows with an outcome; leave missing out, or write missing='complete'")
    options["moderators"] = candidates
    batch = read_batch(frame, Analysis(**options), name_row=name_row)
    check_validity(batch, binary=False, distal=False)
    check_randomisation(batch)
    return select_in_batch(batch, estimator=estimator, seed=division_seed)


def select_in_batch(batch: ExcursionBatch, *, estimator: str = "wcls", seed: int = 0) -> ModeratorSelection:
    """The same for rows whose moderators are the candidates."""
    if len(batch.action_names) > 2:
        raise InputError("moderators are chosen for one treatment; name two actions, or analyse one treatment at a time")
    names = batch.moderator_names[1:]
    if len(names) < 2:
        raise InputError("a choice needs at least two candidates; with one, name it as a moderator")
    counted = batch.counted_only
    people = np.unique(counted.person)
    rng = np.random.default_rng(seed)
    choosing = rng.permutation(people)[: len(people) // 2]
    halves = [np.isin(batch.person, choosing), ~np.isin(batch.person, choosing)]
    if ESTIMATORS[estimator].learns:
        batch = _predict_by_half(batch, halves)
    moments = PersonMoments.of(batch)
    chosen = moments.choose(np.isin(moments.people, choosing))
    times = np.zeros(len(names), dtype=np.int64)
    for _ in range(DIVISIONS):
        times[moments.choose(rng.permutation(len(people)) < len(people) // 2)] += 1
    try:
        together = _fit_part(batch, halves[1], chosen, estimator)
    except InputError as error:
        raise InputError(f"the half of the participants that estimates: {error}") from error
    every = np.ones(len(batch), dtype=bool)
    alone = [_fit_part(batch, every, [position], estimator) for position in range(len(names))]
    rows = [
        CandidateRow(
            moderator=name,
            scale=float(counted.moderators[position + 1].std()),
            alone=_bonferroni(alone[position], 1, len(names)),
            chosen=position in chosen,
            times_chosen=int(times[position]),
        )
        for position, name in enumerate(names)
    ]
    adjusted = adjust_p_values(together.pvalues[1:])
    for order, position in enumerate(chosen):
        low, high = together.conf_int()[order + 1].tolist()
        rows[position] = replace(
            rows[position],
            together=_bonferroni(together, order + 1, len(chosen)),
            low_each=low,
            high_each=high,
            p=float(together.pvalues[order + 1]),
            p_holm=float(adjusted[order]),
        )
    return ModeratorSelection(tuple(rows), together, len(choosing), together.people, seed)


def _predict_by_half(batch: ExcursionBatch, halves: Sequence[Any]) -> ExcursionBatch:
    """γ m̂ of every half from its own participants: what one half learned must not reach the other."""
    predicted = np.zeros(len(batch))
    for half in halves:
        part = batch.take(half)
        average = replace(part, moderators=part.moderators[:1], moderator_names=(INTERCEPT,), moderator_spec=None)
        # Rows count for the average effect that lack a candidate: predictions are for rows with all of them.
        average = average.take(part.counted)
        learned = shrink_predictions(average, predict_residuals(part, part.analysis.learner))
        rows = np.flatnonzero(half)[part.counted]
        predicted[rows] = learned.predicted
    return replace(batch, predicted=predicted)


def _fit_part(batch: ExcursionBatch, rows: Any, chosen: Sequence[int], estimator: str) -> EffectResult:
    """The effect by chosen candidates in some rows; the controls are those of the study."""
    part = batch.take(rows & batch.counted)
    columns = [0, *(position + 1 for position in chosen)]
    names = tuple(part.moderator_names[column] for column in columns)
    part = replace(part, moderators=part.moderators[columns], moderator_names=names, moderator_spec=None)
    return EffectResult(estimator, part, solve(make_linear(part)))


def _bonferroni(result: EffectResult, coefficient: int, tests: int) -> Interval:
    """An interval that holds together with those of the other tests."""
    low, high = result.conf_int(alpha=0.05 / tests)[coefficient].tolist()
    return Interval(float(result.params[coefficient]), float(result.bse[coefficient]), low, high)


@dataclass(frozen=True, eq=False)
class PersonMoments:
    """Σ XᵀWX and Σ XᵀWY of every participant, X = [g, (A − p̃) f] in standardised columns: enough for every division."""

    people: Codes
    squares: Floats  # (people, d, d)
    products: Floats  # (people, d)
    free: int
    """How many columns come first that the lasso does not penalise: controls, and the effect at the means."""

    @classmethod
    def of(cls, batch: ExcursionBatch) -> "PersonMoments":
        function = make_linear(batch)
        size = len(function.start)
        person = function.batch.person
        starts = function.batch.starts
        rows = function.evaluate(np.zeros(size), slice(0, len(person)))
        squares = np.empty((len(starts), size, size))
        for j in range(size):
            squares[:, j] = np.add.reduceat(rows.multiplier[j] * rows.slope, starts, axis=1).T
        products = np.add.reduceat(rows.multiplier * rows.residual, starts, axis=1).T
        return cls(person[starts], squares, products, function.controls + 1)

    def choose(self, included: Any) -> list[int]:
        """Positions of the candidates that the lasso keeps, among the included participants."""
        squares = self.squares[included]
        products = self.products[included]
        free = slice(0, self.free)
        penalised = slice(self.free, None)
        total = squares.sum(axis=0)
        base = np.linalg.pinv(total[free, free])
        without = base @ products[:, free].sum(axis=0)
        slopes = total[penalised, free] @ base
        scores = products - squares[:, :, free] @ without
        # Without the candidates; Mancl and DeRouen's correction as in `solve`.
        pull = np.linalg.solve(total[free, free] - squares[:, free, free], scores[:, free, None])[:, :, 0]
        corrected = scores + np.einsum("ijk,ik->ij", squares[:, :, free], pull)
        spread = np.sqrt(np.square(corrected[:, penalised] - corrected[:, free] @ slopes.T).sum(axis=0))
        gram = total[penalised, penalised] - slopes @ total[free, penalised]
        target = scores[:, penalised].sum(axis=0)
        candidates = len(target)
        limit = float(ndtri(1 - min(FALSE_SELECTIONS, candidates / 2) / (2 * candidates)))
        return np.flatnonzero(solve_lasso(gram, target, limit * spread)).tolist()


def solve_lasso(gram: Floats, target: Floats, penalties: Floats) -> Floats:
    """The θ that minimises θᵀGθ/2 − θᵀt + Σ λ_j |θ_j|, by coordinate descent.

    >>> solve_lasso(np.eye(2), np.array([3.0, 0.5]), np.ones(2))
    array([2., 0.])
    """
    diagonal = np.diagonal(gram)
    scale = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
    theta = np.zeros(len(target))
    gradient = np.array(target, dtype=np.float64)
    for _ in range(LASSO_STEPS):
        largest = 0.0
        for j in np.flatnonzero(diagonal > 0):
            reach = gradient[j] + diagonal[j] * theta[j]
            value = np.sign(reach) * max(abs(reach) - penalties[j], 0.0) / diagonal[j]
            step = value - theta[j]
            if step:
                gradient -= step * gram[:, j]
                theta[j] = value
                largest = max(largest, abs(step) * scale[j])
        if largest <= 1e-10 * np.sqrt(np.sum(np.square(target / scale))):
            break
    return theta
