"""A fitted excursion effect with the interface of statsmodels, and the functions that estimate one from a frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc

from surefoot.data.log_columns import Place, frame_row
from surefoot.data.suspect_columns import warn_of_doubts
from surefoot.effects.analysis import (
    Analysis,
    ExcursionBatch,
    Floats,
    Mask,
    check_randomisation,
    check_uncertainty,
    check_validity,
    read_batch,
)
from surefoot.effects.contrasts import ContrastResults, JointTest, SimultaneousContrasts
from surefoot.effects.distal import TOTAL
from surefoot.effects.estimators import ESTIMATORS, Estimate, fit_least_squares, make_linear, solve
from surefoot.effects.formulas import Terms
from surefoot.effects.missing_outcomes import MISSING_METHODS, Imputations, MissingFit, adapt_fit, fit_missing
from surefoot.effects.observation_model import ObservationModel
from surefoot.errors import InputError, did_you_mean
from surefoot.inference.adaptive_sandwich import UpdateHistory
from surefoot.inference.intervals import Interval, t_interval
from surefoot.inference.simultaneous import LargestT
from surefoot.numerics.masked_quantiles import MAD_TO_STANDARD_DEVIATION
from surefoot.reports.numbers import format_p
from surefoot.reports.signatures import spell_out_keywords
from surefoot.reports.summaries import Overview, Shown, Summary, lay_out_table

Contrast = ArrayLike | Mapping[str, float]
COEFFICIENT_HEADERS = ("", "coef", "std err", "t", "P>|t|", "[0.025", "0.975]")
TAIL = 3.0
"""An outcome is extreme beyond this many robust standard deviations (1.4826 MAD) of a fit that does not know the action."""


@dataclass(frozen=True)
class ShareByAction:
    """How often something happens under each action, and the excursion effect of treatment on it."""

    rows: dict[str, int]
    happened: dict[str, int]
    effect: Interval | None  # First treatment against nothing; None where it never or always happens.

    @property
    def shares(self) -> dict[str, float]:
        return {action: self.happened[action] / rows if rows else np.nan for action, rows in self.rows.items()}


@dataclass(frozen=True)
class SampleQuality:
    """Counts and shares that a reader needs before believing an effect."""

    rows: int
    counted: int
    people: int
    people_counted: int
    reasons: dict[str, int]  # Why the other rows did not count.
    missing: ShareByAction
    tail: ShareByAction | None  # None for outcomes that are 0 or 1.
    effective_share: float  # (Σw)²/(n Σw²): the share of rows that, with equal weights, would be as informative.

    def describe(self) -> list[str]:
        from surefoot.reports.render import write_sentences

        return write_sentences("effects.txt", part="sample", sample=self, limit=TAIL)


def assess_sample(batch: ExcursionBatch) -> SampleQuality:
    """Count rows, missing outcomes and extreme outcomes."""
    counted = batch.counted_only
    weight = counted.weight
    tail = None
    if len(np.unique(counted.outcome[:1000])) > 2:
        residual = counted.outcome - fit_least_squares(counted.controls, counted.outcome) @ counted.controls
        distance = np.abs(residual - np.median(residual))
        extreme = distance > TAIL * MAD_TO_STANDARD_DEVIATION * np.median(distance)
        tail = _count_by_action(counted, np.ones(len(counted), dtype=bool), extreme)
    return SampleQuality(
        rows=len(batch),
        counted=len(counted),
        people=len(batch.order.participants),
        people_counted=len(np.unique(counted.person)),
        reasons={name: int(applies.sum()) for name, applies in batch.reasons.items()},
        missing=_count_by_action(batch, batch.possible, ~batch.observed),
        tail=tail,
        effective_share=float(weight.sum() ** 2 / (len(weight) * (weight**2).sum())),
    )


def _count_by_action(batch: ExcursionBatch, among: Mask, happened: Mask) -> ShareByAction:
    actions = len(batch.action_names)
    rows = np.bincount(batch.action[among], minlength=actions).tolist()
    count = np.bincount(batch.action[among & happened], minlength=actions).tolist()
    other = batch.replace_outcome(np.where(among, happened.astype(np.float64), np.nan))
    effect = None
    if np.ptp(other.counted_only.outcome) > 0:
        try:
            estimate = solve(make_linear(other))
        except InputError:  # Too few participants have a complete row.
            pass
        else:
            first = estimate.function.controls
            error = np.sqrt(estimate.corrected[first, first])
            effect = t_interval(estimate.theta[first], error, estimate.people - len(estimate.theta))
    names = batch.action_names
    return ShareByAction(dict(zip(names, rows, strict=True)), dict(zip(names, count, strict=True)), effect)


@dataclass(frozen=True, eq=False, repr=False)
class EffectResult(Shown):
    """A fitted effect with the names of statsmodels; `params` are the effect's coefficients, `nuisance_params` the
    controls'."""

    estimator: str
    """Its name, such as `wcls`."""
    points: ExcursionBatch
    """The rows that were analysed."""
    estimate: Estimate
    """Coefficients and their covariances."""
    adaptive: Estimate | None = None
    """The same with covariances that count what another run of the trial would have learned, where that is known."""
    errors: str = "usual"
    """Which covariances are used: those of `estimate` (`usual`) or the `adaptive` ones."""
    observation: ObservationModel | None = None
    """The model behind the weights, where missing outcomes are `weighted`."""
    imputations: Imputations | None = None
    """The completed outcomes, where missing ones are `imputed`."""

    def adapt(self, history: UpdateHistory) -> "EffectResult":
        """The same effect with standard errors that count what another run of the trial would have learned.

        Parameters
        ----------
        history
            The updates of the policy; its rows are those of the frame, sorted by participant, then by time.

        Returns
        -------
        EffectResult
        """
        chosen = ESTIMATORS[self.estimator]
        adapted = adapt_fit(MissingFit(self.points, self.estimate, imputations=self.imputations), chosen, history)
        return replace(self, adaptive=adapted, errors="adaptive")

    def with_errors(self, errors: str) -> "EffectResult":
        """With `usual` or `adaptive` standard errors."""
        return replace(self, errors=errors)

    @property
    def has_both_errors(self) -> bool:
        return self.adaptive is not None

    def _overview(self) -> Overview:
        analysis = self.points.analysis
        heading = f"Effect of {analysis.treatment} on {analysis.outcome} by {ESTIMATORS[self.estimator].label}"
        facts = {"sample": f"{self.people:,} people, {self.rows:,} decision points", "standard errors": self.errors}
        return Overview(heading, facts, [COEFFICIENT_HEADERS, *self._list_cells()])

    def _list_cells(self) -> list[list[str]]:
        """A row for every coefficient, as statsmodels prints it."""
        cells = []
        for name, *numbers, p, low, high in zip(
            self.names, self.params, self.bse, self.tvalues, self.pvalues, *self.conf_int().T, strict=True
        ):
            ends = [f"{number:.4f}" for number in (*numbers, low, high)]
            cells.append([name, *ends[:3], format_p(p), *ends[3:]])
        return cells

    def to_frame(self, backend: str | None = None) -> Any:
        """One row for each coefficient: effect, estimate, standard_error, t, p_value, low, high."""
        return self.coefficients.to_frame(backend or self.points.order.backend)

    @property
    def names(self) -> tuple[str, ...]:
        """Of `params`."""
        if not self.parts:
            return self.points.effect_names
        return tuple(f"{part}: {name}" for part in self.parts for name in self.points.moderator_names)

    @property
    def parts(self) -> tuple[str, ...]:
        """Direct and indirect, where the effect has parts."""
        return ESTIMATORS[self.estimator].parts

    @property
    def nuisance_names(self) -> tuple[str, ...]:
        return self.estimate.function.nuisance_names

    @property
    def params(self) -> Floats:
        return self.estimate.theta[self.estimate.function.controls :]

    @property
    def nuisance_params(self) -> Floats:
        function = self.estimate.function
        return self.estimate.theta[: function.controls] if function.nuisance is None else function.nuisance

    @property
    def bse(self) -> Floats:
        """Standard errors."""
        return np.asarray(np.sqrt(np.diagonal(self.cov_params())))

    @property
    def df_resid(self) -> int:
        """n − p − q."""
        return self.people - len(self.estimate.theta)

    @property
    def people(self) -> int:
        """Participants with a row that counts."""
        return self.estimate.people

    @property
    def rows(self) -> int:
        """Rows that count."""
        return int(self.points.counted.sum())

    @property
    def tvalues(self) -> Floats:
        return self.coefficients.tvalue

    @property
    def pvalues(self) -> Floats:
        return self.coefficients.pvalue

    @property
    def is_relative(self) -> bool:
        """Whether e^effect is a ratio: of risks, or of outcomes analysed as logarithms."""
        return ESTIMATORS[self.estimator].binary or self.points.analysis.offset is not None

    @cached_property
    def coefficients(self) -> ContrastResults:
        """Every one of `params` with its test."""
        return self.t_test(np.eye(len(self.params)), names=self.names)

    def conf_int(self, alpha: float = 0.05) -> Floats:
        """(coefficients, 2)."""
        return self.coefficients.conf_int(alpha)

    def cov_params(self, *, nuisance: bool = False, corrected: bool | None = None) -> Floats:
        """Covariance of `params`; with `nuisance` of (nuisance_params, params), where they are estimated jointly.

        Corrected for small samples, except for `dcee`, whose published form is not; `corrected` asks for either.
        """
        is_corrected = not ESTIMATORS[self.estimator].distal if corrected is None else corrected
        first = 0 if nuisance else self.estimate.function.controls
        estimate = self.estimate if self.adaptive is None or self.errors == "usual" else self.adaptive
        return (estimate.corrected if is_corrected else estimate.plain)[first:, first:]

    def t_test(self, contrast: Contrast, *, names: Sequence[str] = ()) -> ContrastResults:
        """Linear combinations of `params`: a vector, a matrix, or {name: coefficient}."""
        matrix = self._read_contrast(contrast)
        spread = matrix @ self.cov_params() @ matrix.T
        labels = tuple(names) or tuple(f"c{j}" for j in range(len(matrix)))
        error = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
        return ContrastResults(labels, matrix @ self.params, error, self._find_degrees(matrix))

    def _find_degrees(self, matrix: Floats) -> int | Floats:
        if self.imputations is None:
            return self.df_resid
        return self.imputations.find_degrees(self.missing_information(matrix), self.df_resid)

    def missing_information(self, contrast: Contrast | None = None) -> Floats:
        """The fraction of information that missing outcomes took, of every coefficient or combination; 0 unless imputed."""
        matrix = np.eye(len(self.params)) if contrast is None else self._read_contrast(contrast)
        if self.imputations is None:
            return np.zeros(len(matrix))
        return self.imputations.find_fractions(matrix, self.cov_params())

    def joint_test(self, names: Sequence[str] | None = None) -> JointTest:
        """F test that the named coefficients (all of `params` unless named) are all 0.

        Hotelling's T² (n − q − p)/(k (n − q − p + k − 1)) ~ F(k, n − q − p) for k of the p coefficients. For all of them
        that is T² (n − q − p)/(p (n − q − 1)), for a single one the square of its t.
        """
        chosen = tuple(self.names if names is None else names)
        matrix = np.vstack([self._read_contrast({name: 1.0}) for name in chosen])
        size = len(matrix)
        # Of imputed outcomes the coefficient that knows least decides.
        degrees = float(np.min(self._find_degrees(matrix)))
        spread = matrix @ self.cov_params() @ matrix.T
        scale = np.sqrt(np.diagonal(spread))
        if not (scale > 0).all():  # An outcome that the action decides leaves no spread.
            return JointTest(chosen, np.nan, size, degrees, np.nan)
        scaled = matrix @ self.params / scale
        statistic = float(scaled @ np.linalg.solve(spread / np.outer(scale, scale), scaled))
        statistic *= degrees / (size * (degrees + size - 1))
        return JointTest(chosen, statistic, size, degrees, float(fdtrc(size, degrees, statistic)))

    def effect_at(
        self, at: Mapping[str, float | str] | None = None, *, action: str | None = None, against: str | None = None
    ) -> ContrastResults:
        """The effect where the moderators have these values, of one action against another (nothing unless named).

        `result.effect_at({"home": 1, "day": 40})` is the effect at home on day 40; every moderator, or every variable of
        a formula, needs a value. Of a mediated effect, `action` is `"direct"`, `"indirect"` or `"total"`, their sum.
        """
        values = dict(at or {})
        row = self._evaluate_moderators(values)
        if self.parts:
            return self._sum_parts(row, values, action or TOTAL)
        actions = self.points.action_names
        chosen = actions[1] if action is None and len(actions) == 2 else action
        matrix = np.zeros((len(actions), len(row)))
        for name, sign in ((chosen, 1.0), (against or actions[0], -1.0)):
            if name not in actions:
                raise InputError(f"action {name!r} is not known; name one of {list(actions)}")
            matrix[actions.index(name)] += sign * row
        label = self._write_condition(values)
        if len(actions) > 2:
            label = f"{chosen} against {against or actions[0]}, {label}"
        return self.t_test(matrix[1:].ravel(), names=(label,))

    def _sum_parts(self, row: Floats, values: Mapping[str, float | str], part: str) -> ContrastResults:
        """One part of a mediated effect, or all of them."""
        if part not in (*self.parts, TOTAL):
            raise InputError(f"'{part}' is no part of a mediated effect; name one of {[*self.parts, TOTAL]}")
        signs = np.array([float(part in (name, TOTAL)) for name in self.parts])
        return self.t_test(np.kron(signs, row), names=(f"{part}: {self._write_condition(values)}",))

    def _write_condition(self, values: Mapping[str, float | str]) -> str:
        named = self.points.moderator_variables
        return ", ".join(f"{name} = {_write_value(values[name])}" for name in named) or "average"

    def compare_actions(self, at: Mapping[str, float | str] | None = None) -> SimultaneousContrasts:
        """Every pair of actions, with intervals and p-values that hold for all pairs together (max-t).

        Each action is first compared with nothing, then the others with each other; `at` as in `effect_at`. The largest
        |t| has the distribution that follows from the joint covariance of the estimates.
        """
        row = self._evaluate_moderators(dict(at or {}))
        if self.parts:
            raise InputError("a mediated effect compares one treatment with nothing; use effect_at")
        actions = self.points.action_names
        pairs = [(action, 0) for action in range(1, len(actions))]
        pairs += [(action, other) for action in range(2, len(actions)) for other in range(1, action)]
        signs = np.array(
            [[(code == action) * 1.0 - (code == other) for code in range(len(actions))] for action, other in pairs]
        )
        matrix = np.kron(signs[:, 1:], row)
        names = [f"{actions[action]} against {actions[other]}" for action, other in pairs]
        contrast = self.t_test(matrix, names=names)
        largest = LargestT.of(matrix @ self.cov_params() @ matrix.T, float(np.min(contrast.df_denom)))
        return SimultaneousContrasts(contrast.names, contrast.effect, contrast.sd, contrast.df_denom, largest)

    def _evaluate_moderators(self, values: dict[str, float | str]) -> Floats:
        """f where the moderators have these values; all of them must be named."""
        moderators = self.points.moderator_variables
        unknown = [name for name in values if name not in moderators]
        if unknown:
            raise InputError(
                f"'{unknown[0]}' is not a moderator{did_you_mean(unknown[0], moderators)}; they are {list(moderators)}"
            )
        absent = [name for name in moderators if name not in values]
        if absent:
            raise InputError(f"say where the effect is wanted: {absent} have no value; moderators are {list(moderators)}")
        return np.asarray(self.points.evaluate_moderators({name: [values[name]] for name in moderators})[0])

    def summary(self) -> Summary:
        """The table of coefficients, as statsmodels prints a fit, with counts of the sample."""
        estimator = ESTIMATORS[self.estimator]
        analysis = self.points.analysis
        lines = [
            f"Causal excursion effect ({estimator.estimand}) by {estimator.label}",
            f"outcome {analysis.outcome}, treatment {analysis.treatment}, {self.people} participants, {self.rows:,} rows, "
            f"{np.min(self.coefficients.df_denom):.4g} degrees of freedom",
            lay_out_table(self._list_cells(), COEFFICIENT_HEADERS),
            f"All coefficients are 0: {self.joint_test()}",
            *self._describe_missing(),
            *assess_sample(self.points).describe(),
        ]
        return Summary("\n".join(lines))

    def _describe_missing(self) -> list[str]:
        """How missing outcomes were treated, where they were not left out."""
        if self.observation is not None:
            limited = self.observation.truncated_rows
            return [f"Missing outcomes: {MISSING_METHODS['weighted'].label}; {limited:,} weights limited"]
        if self.imputations is not None:
            share = self.missing_information().max()
            return [
                f"Missing outcomes: {len(self.imputations)} imputations of {self.imputations.rows:,} outcomes; fraction of "
                f"missing information at most {share:.2f}"
            ]
        return []

    def _read_contrast(self, contrast: Contrast) -> Floats:
        if isinstance(contrast, Mapping):
            unknown = [name for name in contrast if name not in self.names]
            if unknown:
                raise InputError(
                    f"no coefficient '{unknown[0]}'{did_you_mean(unknown[0], self.names)}; they are {self.names}"
                )
            contrast = [float(contrast.get(name, 0.0)) for name in self.names]
        matrix = np.atleast_2d(np.asarray(contrast, dtype=np.float64))
        if matrix.ndim != 2 or matrix.shape[1] != len(self.params):
            raise InputError(f"a contrast needs {len(self.params)} numbers, for {self.names}; got shape {matrix.shape}")
        return matrix


def _write_value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class Options(TypedDict, total=False):
    """The arguments of `excursion_effect`."""

    participant: str
    time: str
    outcome: str
    treatment: str
    probability: float | str | Sequence[str] | None
    probability_of: str | None
    available: str | None
    moderators: Terms
    controls: Terms
    numerator: float | str | Sequence[float] | None
    lag: int
    future: str
    missing_as: float | Mapping[str, float] | None
    transform: str
    actions: Sequence[str] | None
    learner: Any
    missing: str
    auxiliary: Terms
    imputations: int
    seed: int
    folds: int | None
    mediator: str | None
    point_weight: str | None


@spell_out_keywords(Analysis)
def excursion_effect(
    frame: Any, *, estimator: str = "wcls", name_row: Place = frame_row, **options: Unpack[Options]
) -> EffectResult:
    """Estimate the causal excursion effect of treatment, averaged over history or by moderators.

    Parameters
    ----------
    frame
        A pandas, polars or Arrow table with a row for every decision point, in any order.
    estimator
        `wcls` or `dr-wcls` (continuous outcome; the second with a regressor that predicts it), `emee` or `emee2` (binary
        outcome, log relative risk), `dcee` (one distal outcome), `mcee` (the same, directly and through a mediator).
    participant, time, outcome, treatment
        Names of columns. Treatment is 0 for nothing, 1 for treatment, or up to K − 1 with several.
    probability
        Column with the probabilities (with several treatments, one column for each), or the number with which treatment was
        sent throughout.
    probability_of
        What a column of probabilities is of: `"action taken"`, or `"sending"` whether or not something was sent. It may be
        left out only where both are the same: where the probability is 0.5.
    available
        Column with 1 or 0; None when everybody always is.
    moderators, controls
        Names of columns, or a formula such as `~ home + day`. Moderators should be among the controls too.
    numerator
        p̃: a number, a column that depends on the moderators only, or a number for each treatment.
    lag, future
        The outcome `lag` decision points later, with treatment in between as `observed` or `none`.
    missing_as
        Where the study defined what a missing outcome stands for: that value, or {column: value}.
    transform
        Of the outcome: `none`, `sqrt`, `log(x + c)`.
    actions
        Names of the actions, nothing first.
    learner, folds
        Of `dr-wcls`, `dcee` and `mcee`: `forest`, `boosting` or any regressor of scikit-learn, fitted to participants of
        other folds; `dcee` and `mcee` by default have `linear` models, which are cross-fitted only where `folds` is given.
    mediator
        Of `mcee`: the column through which treatment may act, measured between the decision and the outcome.
    point_weight
        Of `dcee` and `mcee`: a column with the weight of a decision point in the average over all of them.
    missing
        What happens to rows without an outcome: `complete` leaves them out, `weighted` weights the others by the inverse
        probability of being observed, `imputed` draws the outcomes several times and combines the results.
    auxiliary
        Further columns, known before the decision, that predict missing outcomes or which are missing.
    imputations, seed
        Number of imputations, and the seed of their random numbers.
    name_row
        How messages name a row of the frame.

    Returns
    -------
    EffectResult

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, surefoot as sf
    >>> rng = np.random.default_rng(0)
    >>> sent, before = rng.integers(0, 2, 600), rng.normal(size=600)
    >>> frame = pa.table({"person": np.repeat(np.arange(20), 30), "t": np.tile(np.arange(30), 20), "sent": sent,
    ...                   "p": np.full(600, 0.5), "x": before, "y": before + 0.4 * sent + rng.normal(size=600)})
    >>> result = sf.effects.wcls(frame, participant="person", time="t", outcome="y", treatment="sent", probability="p",
    ...                         controls=["x"])
    >>> result.params.round(2), result.conf_int().round(2), result.df_resid
    (array([0.38]), array([[0.25, 0.51]]), 17)
    """
    result = fit_analysis(frame, Analysis(**options), estimator=estimator, name_row=name_row)
    logs = result.points.to_trajectories()
    warn_of_doubts(logs.participants, len(logs), logs.names)
    return result


def fit_analysis(
    frame: Any, analysis: Analysis, *, estimator: str = "wcls", name_row: Place = frame_row, check_draws: bool = True
) -> EffectResult:
    """As `excursion_effect`, with the options in one object; the draws of simulated trials need no check."""
    if estimator not in ESTIMATORS:
        raise InputError(f"no estimator '{estimator}'{did_you_mean(estimator, ESTIMATORS)}; choose from {list(ESTIMATORS)}")
    if hasattr(frame, "weights_"):
        raise InputError(
            "this is a fitted method, and what a robust fit left over is not analysed: whether it left a row out depends on "
            "the outcome, and so on treatment; give the frame of all decision points"
        )
    chosen = ESTIMATORS[estimator]
    if (analysis.mediator is None) == bool(chosen.parts):
        remedy = "name the mediator" if chosen.parts else "leave the mediator out, or use 'mcee'"
        raise InputError(f"the estimator '{estimator}' {'needs a' if chosen.parts else 'has no'} mediator; {remedy}")
    if not chosen.distal and not (analysis.point_weight is None and analysis.folds is None):
        raise InputError(f"folds and point_weight belong to 'dcee' and 'mcee', not to '{estimator}'; leave them out")
    if analysis.learner is not None and not (chosen.learns or chosen.distal):
        raise InputError(f"'{estimator}' learns nothing, so a learner changes nothing; leave it out, or use 'dr-wcls'")
    if analysis.numerator is not None and not chosen.weighs:
        raise InputError(f"'{estimator}' has no numerator of weights; leave the numerator out")
    batch = read_batch(frame, analysis, name_row=name_row)
    check_validity(batch, binary=chosen.binary, distal=chosen.distal)
    if check_draws:
        check_randomisation(batch)
    treatments = len(batch.action_names) - 1
    if chosen.several_by is not None and treatments > 1:
        raise InputError(
            f"{estimator} compares one treatment with nothing, here there are {treatments}; use {chosen.several_by}, or one "
            "treatment at a time"
        )
    fit = fit_missing(batch, chosen)
    result = EffectResult(estimator, fit.batch, fit.estimate, observation=fit.observation, imputations=fit.imputations)
    check_uncertainty(batch, result.bse)
    return result


@spell_out_keywords(Analysis)
def wcls(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """Estimate the effect on a continuous outcome by weighted and centred least squares (WCLS).

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> columns = {"participant": "participant", "time": "time", "outcome": "outcome", "treatment": "action"}
    >>> wcls(logs.to_frame(), **columns, probability=0.5, controls=["engagement"]).params.round(1)
    array([153.5])
    """
    return excursion_effect(frame, estimator="wcls", **options)


@spell_out_keywords(Analysis)
def emee(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """Estimate the effect on an outcome that is 0 or 1, as a log relative risk (EMEE).

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> frame = logs.with_values(outcome=(logs.outcome > 1000).astype(float)).to_frame()
    >>> columns = {"participant": "participant", "time": "time", "outcome": "outcome", "treatment": "action"}
    >>> emee(frame, **columns, probability=0.5).params.round(4)
    array([0.0775])
    """
    return excursion_effect(frame, estimator="emee", **options)


@spell_out_keywords(Analysis)
def emee2(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """Estimate the effect on an outcome that is 0 or 1 without weights (EMEE2).

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> frame = logs.with_values(outcome=(logs.outcome > 1000).astype(float)).to_frame()
    >>> columns = {"participant": "participant", "time": "time", "outcome": "outcome", "treatment": "action"}
    >>> emee2(frame, **columns, probability=0.5).params.round(4)
    array([0.0775])
    """
    return excursion_effect(frame, estimator="emee2", **options)


@spell_out_keywords(Analysis)
def dcee(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """Estimate the effect on one distal outcome at the end of the study (DCEE).

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`; the outcome of a participant stands in all of their rows.

    Returns
    -------
    EffectResult
        `params` with `conf_int`, tests and a summary.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> sent = np.random.default_rng(0).integers(0, 2, (40, 10))
    >>> frame = pa.table({"person": np.repeat(np.arange(40), 10), "t": np.tile(np.arange(10), 40), "sent": sent.ravel(),
    ...                   "y": np.repeat(3.0 * sent.sum(axis=1), 10)})
    >>> result = dcee(frame, participant="person", time="t", outcome="y", treatment="sent", probability=0.5)
    >>> low, high = result.conf_int()[0]
    >>> bool(low < 3 < high)
    True
    """
    return excursion_effect(frame, estimator="dcee", **options)


@spell_out_keywords(Analysis)
def mcee(frame: Any, **options: Unpack[Options]) -> EffectResult:
    """Estimate the direct effect on one distal outcome and the indirect one through a mediator (MCEE).

    Both are averages over all decision points; where nobody is available they are 0. They are causal if the controls also
    explain every common cause of mediator and outcome.

    Parameters
    ----------
    frame, **options
        As in `excursion_effect`, with a `mediator`; the outcome of a participant stands in all of their rows.

    Returns
    -------
    EffectResult
        `params` are the coefficients of the direct, then of the indirect effect; `effect_at(action="total")` is their sum.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> rng = np.random.default_rng(0)
    >>> sent = rng.integers(0, 2, (100, 10))
    >>> steps = sent + rng.normal(size=sent.shape)
    >>> frame = pa.table({"person": np.repeat(np.arange(100), 10), "t": np.tile(np.arange(10), 100), "sent": sent.ravel(),
    ...                   "steps": steps.ravel(), "y": np.repeat((2 * steps + sent).sum(axis=1), 10)})
    >>> roles = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": 0.5}
    >>> result = mcee(frame, mediator="steps", **roles)
    >>> result.names, [bool(low < truth < high) for truth, (low, high) in zip([1, 2], result.conf_int())]
    (('direct: Intercept', 'indirect: Intercept'), [True, True])
    """
    return excursion_effect(frame, estimator="mcee", **options)
