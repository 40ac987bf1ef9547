"""Choices of a method's parts from the logs: critic, effects, baseline, and whether to look ahead.

Candidates are compared at decision points from which they did not learn: everybody's are cut into blocks, and what is
expected in a block is learned from other blocks. A baseline is the same for everybody, so what is expected of one half of
the participants is learned from the other half.

The critic comes first, with the richest of `EFFECT_MODELS`: what a poor model cannot explain looks like outliers. Least
squares replaces a critic that removes decision points if its squared errors are smaller, capped so that artefacts do not
decide. Without artefacts it is the more precise one; and where most outcomes are alike, as steps are without a prompt, a
robust critic may remove what prompts achieve. What the critic removes is removed for all candidates that follow.

The effects' candidates stand in the order of `EFFECT_MODELS`, from the simplest on, and each replaces the last one taken if
what it adds is more truth than noise. With τ(s) the effects of the candidate taken so far, τ′(s) those of the next one, p
the logged probabilities and m(s) the expected outcome, which is the same for both, the slope b of

    r − m(s) − Σ_a (1{a} − p_a) τ_a(s)   on   d = Σ_a (1{a} − p_a) (τ′_a(s) − τ_a(s))

is 1 where the differences are true and 0 where they are noise (the best linear predictor of Chernozhukov, Demirer, Duflo and
Fernández-Val 2018, in Robinson's partially linear model). A candidate is taken if b is at least ½: above that its squared
error is lower. A smooth baseline changes what is expected without an action, so it is taken if its capped squared errors
are smaller by more than the standard error of the difference.

For the long run only effects that do not change are candidates: its policy is followed for many decision points, and those
at the next one are no guide to them. There the burden of proof is on the richer candidate: what the linear model of the next
state misses looks like people who differ, and the policy of somebody new then hardly differs from chance.

The horizon rests on two estimates, each divided by its standard error: the delayed effect of an action on later outcomes, in
the linear model of outcome and next state at the mean state; and the gain in the mean outcome of a policy for the long run
over one for the next outcome. For the gain, both policies are learned without a fold of participants, and followed through
the model that this fold gives, with its residuals and the same random numbers. The long run is taken if both add up to more
than 2.5. Of this the gain adds or takes at most 1: four folds say little of its standard error, and the linear model fails
where people leave or outcomes are dirty. If a fold has too few transitions for a policy, the delayed effect decides alone.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.learning.critics import Critic
from surefoot.learning.fitted import ChosenParts, Comparison, Fitted
from surefoot.learning.horizon import LongRun
from surefoot.learning.horizon.horizon import Outlook
from surefoot.learning.horizon.transitions import find_transitions
from surefoot.learning.part import Part
from surefoot.policies.features import critic_features
from surefoot.policies.policies import Policies
from surefoot.registry import Registry

__all__ = ["CHOICES", "EFFECT_MODELS", "Choice", "CrossFitted", "register_choice"]

Floats = NDArray[np.float64]
FitParts = Callable[[Mapping[str, Any], Trajectories], Fitted]
"""Fits the method with these parameters to these logs."""
FEW_PEOPLE = 6
"""With fewer people, the standard errors over people that decide are a guess."""
ROWS_PER_FEATURE = 20
"""With fewer usable decision points for each of the critic's features, half of them cannot show which model is better."""
FOLDS = 2
BLOCKS = 6
"""Parts of a participant's decision points, which go to the folds in turn."""
PEOPLE_FOLDS = 4
"""Folds of participants, each of which judges the two horizons once."""
LANES = 100
STEPS = 30
"""Series that a policy is followed through, and the decision points of each."""
CLEAR = 2.5
"""The delayed effect and the gain of the long run, each in standard errors, must add up to more."""
MOST_GAIN = 1.0
"""So many standard errors are the most that the gain adds or takes."""
PLAIN = "ridge"
"""The critic that keeps every decision point."""
CAP = 3.0
"""Residuals are capped at this many robust standard deviations."""
AGREEMENT = 1e-4
"""Candidates whose effects differ by less than this share of the residuals agree: a variance of zero is one of 1e-12."""
CHANGING: Mapping[str, Any] = {"name": "partial", "time": "smooth"}
EFFECT_MODELS: tuple[Mapping[str, Any], ...] = (
    {"pooling": "all", "baseline": "linear"},
    {"pooling": "partial", "baseline": "linear"},
    {"pooling": CHANGING, "baseline": "linear"},
    {"pooling": CHANGING, "baseline": "smooth"},
)
"""Candidates for the effects as parameters of a method, from the simplest to the richest. The last one gives m(s)."""


class Evidence(NamedTuple):
    """An estimate on which a choice rests."""

    measure: str
    estimate: float
    standard_error: float

    @property
    def ratio(self) -> float:
        """The estimate in standard errors; 0 where nothing varies."""
        return self.estimate / self.standard_error if self.standard_error > 0 else 0.0


@dataclass(frozen=True)
class Choice(Part, ABC):
    """What chooses parts of a method from the logs, before each fit; the fields of a subclass are its parameters."""

    kind: ClassVar[str] = "choice"
    default: ClassVar[Mapping[str, str]]
    """The slots whose parts it chooses, and the parts that are taken where the logs are too small."""

    @abstractmethod
    def choose(self, logs: Trajectories, critic: Critic, fit_parts: FitParts) -> ChosenParts:
        """The parts for these logs; the same logs give the same parts."""


CHOICES: Registry[type[Choice]] = Registry("choice")
register_choice = CHOICES.register
"""Adds a class of choices under its `name`, which must be free."""


@register_choice
@dataclass(frozen=True)
class CrossFitted(Choice):
    """Chooses critic and pooling by how well effects predict, and the horizon by its policy's value, all cross-fitted."""

    name: ClassVar[str] = "cross-fitted"
    default: ClassVar[Mapping[str, str]] = {"pooling": "partial", "baseline": "linear", "horizon": "immediate"}
    look_ahead: bool = True
    """Whether the long run is a candidate for the horizon."""
    choose_critic: bool = True
    """Whether least squares is a candidate for the critic."""
    max_gap: int = 1
    """Decision points this far apart still count as consecutive."""
    day_boundary: DayBoundary = None
    """Decision points a day, or the clock time at which a day begins."""

    def check_parameters(self) -> None:
        super().check_parameters()
        self._long_run.check_parameters()

    @property
    def _long_run(self) -> LongRun:
        return LongRun(max_gap=self.max_gap, day_boundary=self.day_boundary)

    def choose(self, logs: Trajectories, critic: Critic, fit_parts: FitParts) -> ChosenParts:
        people = len(np.unique(logs.participant_index[logs.usable]))
        points = int(logs.usable.sum())
        features = (len(logs.state_names) + 1) * logs.actions
        needed = ROWS_PER_FEATURE * features
        if people < FEW_PEOPLE or points < needed:
            # With fewer decision points than features nobody's own coefficients can be told.
            default = {**self.default, **EFFECT_MODELS[0]} if points < people * features else self.default
            reason = (
                f"Nothing was compared: the logs have {people:,} of at least {FEW_PEOPLE} people, and {points:,} of at "
                f"least {needed:,} usable decision points. The default is used: {describe_parameters(default)}."
            )
            warnings.warn(reason, FitWarning, stacklevel=4)
            return ChosenParts(default, (reason,))
        with warnings.catch_warnings():
            # Each is about a part of the logs; the fit to all of them warns again.
            warnings.simplefilter("ignore", FitWarning)
            compare_critics = self.choose_critic and critic.weighs_rows
            learned, predictions = _choose_critic(logs, critic, fit_parts, compare=compare_critics)
            horizon = self._choose_horizon(logs, learned.parameters, fit_parts)
            lasting = any(comparison.richer_taken for comparison in horizon.comparisons)
            effects = _choose_effects(logs, predictions, fit_parts, lasting=lasting)
        choices = (learned, effects, horizon)
        return ChosenParts(
            {**learned.parameters, **effects.parameters, **horizon.parameters},
            tuple(reason for choice in choices for reason in choice.reasons),
            tuple(comparison for choice in choices for comparison in choice.comparisons),
        )

    def _choose_horizon(self, logs: Trajectories, fixed: Mapping[str, Any], fit_parts: FitParts) -> ChosenParts:
        """The long run where the delayed effect and the gain in value speak for it together."""
        immediate: dict[str, Any] = {"horizon": "immediate"}
        if not self.look_ahead:
            return ChosenParts(immediate, ("horizon = 'immediate', because look_ahead is false.",))
        long_run: dict[str, Any] = {"horizon": self._long_run}
        candidates = [{**fixed, **EFFECT_MODELS[0], **horizon} for horizon in (immediate, long_run)]
        try:
            delayed = _find_delayed(fit_parts(candidates[1], logs), logs.action_names)
        except InputError as problem:
            return ChosenParts(immediate, (f"horizon = 'immediate': the long run could not be judged, because {problem}.",))
        estimates = [delayed]
        total = abs(delayed.ratio)
        # A fold of few people may have too few transitions; then the delayed effect decides alone.
        with suppress(InputError):
            gain = self._compare_horizons(logs, candidates, fit_parts)
            estimates.append(gain)
            total += float(np.clip(gain.ratio, -MOST_GAIN, MOST_GAIN))
        taken = total > CLEAR
        comparisons = tuple(
            Comparison("horizon = 'immediate'", "horizon = 'long-run'", *estimate, richer_taken=taken)
            for estimate in estimates
        )
        return ChosenParts(long_run if taken else immediate, (explain(*comparisons),), comparisons)

    def _compare_horizons(
        self, logs: Trajectories, candidates: Sequence[Mapping[str, Any]], fit_parts: FitParts
    ) -> Evidence:
        """The gain of the long run, cross-fitted over folds of participants."""
        fold = logs.participant_index % PEOPLE_FOLDS
        gains = []
        for number in range(PEOPLE_FOLDS):
            judging = fit_parts(candidates[1], logs[fold == number])
            world = LinearWorld.of_fit(judging, max_gap=self.max_gap, day_boundary=self.day_boundary)
            soon, later = (world.follow(fit_parts(given, logs[fold != number]).policies) for given in candidates)
            gains.append(later - soon)
        gain = float(np.mean(gains))
        error = float(np.std(gains, ddof=1) / np.sqrt(PEOPLE_FOLDS))
        return Evidence("gain in the mean outcome", gain, error)


@dataclass(frozen=True, eq=False)
class LinearWorld:
    """The linear model of outcome and next state of some people, with the residuals of their next states."""

    coef: Floats
    """C of x(s, a), (features, 1 + variables): the outcome's coefficients, then those of every next state variable."""
    constant: Floats
    """What nights and unavailability add on average, (1 + variables,)."""
    states: Floats
    """Observed states, (rows, variables), from which series begin and beyond whose range none moves."""
    residuals: Floats
    participant: Any
    """An id for which policies can be asked."""
    actions: int

    @classmethod
    def of_fit(cls, fitted: Fitted, *, max_gap: int, day_boundary: DayBoundary) -> "LinearWorld":
        """Of a fit to everybody that looks ahead."""
        logs = fitted.logs
        model = cast("Outlook", fitted.outlook).model
        features = logs.actions * (len(logs.state_names) + 1)
        coef = np.asarray(model.coef[0, :features])
        following = find_transitions(logs, max_gap=max_gap, day_boundary=day_boundary).following
        known = ~np.isnan(logs.state).any(axis=1)
        paired = [following >= 0, known, np.take(known, following), logs.available]
        rows = logs.order[np.all(paired, axis=0)[logs.order]]
        expected = np.asarray(critic_features(logs.state[rows], logs.action[rows], logs.actions)) @ coef[:, 1:]
        residuals = logs.state[following[rows]] - expected
        constant = np.asarray(model.nuisance[0] @ model.coef[0, features:])
        return cls(coef, constant, logs.state[rows], residuals - residuals.mean(axis=0), logs.participants[0], logs.actions)

    def follow(self, policies: Policies) -> float:
        """The mean outcome under policies: the same random numbers each time."""
        rng = np.random.default_rng(0)
        low, high = np.quantile(self.states, (0.005, 0.995), axis=0)
        state = self.states[rng.integers(len(self.states), size=LANES)]
        people = np.full(LANES, self.participant)
        total = 0.0
        for _ in range(STEPS):
            probabilities = policies.probabilities(people, state)
            drawn = rng.random(LANES)[:, None] >= np.cumsum(probabilities, axis=1)[:, :-1]
            following = np.asarray(critic_features(state, drawn.sum(axis=1), self.actions)) @ self.coef + self.constant
            total += float(following[:, 0].mean())
            state = np.clip(following[:, 1:] + self.residuals[rng.integers(len(self.residuals), size=LANES)], low, high)
        return total / STEPS


def _find_delayed(fitted: Fitted, action_names: Sequence[str]) -> Evidence:
    """The delayed effect of the action for which it is clearest, at the mean state."""
    view = cast("Outlook", fitted.outlook).pool()
    consequences = {name: view.consequence(action).delayed for action, name in enumerate(action_names) if action > 0}
    effects = [
        Evidence(f"delayed effect of '{name}'", delayed.value, delayed.standard_error)
        for name, delayed in consequences.items()
    ]
    return max(effects, key=lambda effect: abs(effect.ratio))


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a candidate expects in each fold, from the other folds."""

    effects: Floats
    """Of every action, (rows, actions)."""
    baseline: Floats
    """Without an action, (rows,)."""
    removed: NDArray[np.bool_]
    """What its critic left out of the other folds' rows, (folds, rows)."""

    def find_errors(self, logs: Trajectories, rows: NDArray[np.int64]) -> Floats:
        """Of the outcomes at these rows."""
        return np.asarray(logs.outcome[rows] - self.baseline[rows] - self.effects[rows, logs.action[rows]])


def _cross_fit(
    logs: Trajectories,
    parameters: Mapping[str, Any],
    fit_parts: FitParts,
    removed: NDArray[np.bool_] | None = None,
    *,
    by_participant: bool = False,
) -> Predictions:
    """Of the method with these parameters; rows that are `removed`, (folds, rows), teach nothing."""
    fold = logs.participant_index % FOLDS if by_participant else cut_into_folds(logs)
    predictions = Predictions(
        effects=np.zeros((len(logs), logs.actions)),
        baseline=np.zeros(len(logs)),
        removed=np.zeros((FOLDS, len(logs)), dtype=bool) if removed is None else removed.copy(),
    )
    design = np.column_stack([np.ones(len(logs)), logs.state])
    for number in range(FOLDS):
        held_out = fold == number
        hidden = held_out | predictions.removed[number]
        fitted = fit_parts(parameters, logs.with_values(outcome=np.where(hidden, np.nan, logs.outcome)))
        coefficients = fitted.row_coef[held_out].reshape(-1, logs.actions, design.shape[1])
        expected = np.einsum("rk,rak->ra", design[held_out], coefficients)
        predictions.effects[held_out, 1:] = expected[:, 1:]
        predictions.baseline[held_out] = expected[:, 0] + fitted.baseline[held_out]
        predictions.removed[number] |= fitted.removed
    return predictions


def _choose_critic(
    logs: Trajectories, critic: Critic, fit_parts: FitParts, *, compare: bool
) -> tuple[ChosenParts, Predictions]:
    """Least squares, where it predicts outcomes better; and what the richest model expects with the critic taken."""
    robust = _cross_fit(logs, EFFECT_MODELS[-1], fit_parts)
    if not compare:
        return ChosenParts({}, ()), robust
    plain = _cross_fit(logs, {**EFFECT_MODELS[-1], "critic": PLAIN}, fit_parts)
    comparison = _compare_errors(logs, robust, plain, f"critic = {critic.name!r}", f"critic = {PLAIN!r}")
    chosen = ChosenParts({"critic": PLAIN} if comparison.richer_taken else {}, (explain(comparison),), (comparison,))
    return chosen, plain if comparison.richer_taken else robust


def _choose_effects(logs: Trajectories, richest: Predictions, fit_parts: FitParts, *, lasting: bool) -> ChosenParts:
    """One of `EFFECT_MODELS`, of which `richest` are the predictions of the last.

    Effects that are to be `lasting`, for the long run, do not change over the study.
    """
    candidates = [model for model in EFFECT_MODELS[:-1] if not (lasting and model["pooling"] == CHANGING)]
    models = [_cross_fit(logs, {**model, "critic": PLAIN}, fit_parts, richest.removed) for model in candidates]
    rows = np.flatnonzero(logs.usable)
    probabilities = spread_probabilities(logs, rows)
    surprise = np.eye(logs.actions)[logs.action[rows]] - probabilities
    predicted = [(surprise * model.effects[rows]).sum(axis=-1) for model in models]
    residuals = logs.outcome[rows] - richest.baseline[rows] - (probabilities * richest.effects[rows]).sum(axis=-1)
    cap = CAP * 1.4826 * np.median(np.abs(richest.find_errors(logs, rows)))
    taken = 0
    comparisons = []
    for richer in range(1, len(models)):
        slope, error = estimate_slope(
            np.clip(residuals - predicted[taken], -cap, cap),
            predicted[richer] - predicted[taken],
            logs.participant_index[rows],
        )
        bound = slope - error if lasting else slope
        comparison = Comparison(
            simpler=describe_parameters(candidates[taken]),
            richer=describe_parameters(candidates[richer]),
            measure="slope of outcomes on the effects that it adds",
            estimate=slope,
            standard_error=error,
            richer_taken=bound >= 0.5,
        )
        comparisons.append(comparison)
        taken = richer if comparison.richer_taken else taken
    chosen = candidates[taken]
    if not lasting:
        rivals = (chosen, EFFECT_MODELS[-1])
        # What is removed in a fold is of the other one's rows; here each row has the verdict of the fold that judged it.
        removed = np.tile(richest.removed.any(axis=0), (FOLDS, 1))
        before, after = (
            _cross_fit(logs, {**model, "critic": PLAIN}, fit_parts, removed, by_participant=True) for model in rivals
        )
        comparisons.append(_compare_errors(logs, before, after, *map(describe_parameters, rivals), margin=1))
        chosen = EFFECT_MODELS[-1] if comparisons[-1].richer_taken else chosen
    return ChosenParts(chosen, tuple(map(explain, comparisons)), tuple(comparisons))


def _compare_errors(
    logs: Trajectories, before: Predictions, after: Predictions, simpler: str, richer: str, *, margin: float = 0
) -> Comparison:
    """The second is taken if its capped squared errors are smaller by more than `margin` standard errors."""
    rows = np.flatnonzero(logs.usable)
    gain, error = compare_capped_errors(
        before.find_errors(logs, rows), after.find_errors(logs, rows), logs.participant_index[rows]
    )
    return Comparison(simpler, richer, "gain in the capped squared error, as a share", gain, error, gain > margin * error)


def describe_parameters(parameters: Mapping[str, Any]) -> str:
    """Parameters in words, as in a study file.

    >>> describe_parameters({"pooling": {"name": "partial", "time": "smooth"}})
    "pooling = 'partial', time = 'smooth'"
    """
    words = []
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            words += [f"{name if key == 'name' else key} = {setting!r}" for key, setting in value.items()]
        else:
            words.append(f"{name} = {value!r}")
    return ", ".join(words)


def cut_into_folds(logs: Trajectories) -> NDArray[np.int64]:
    """The fold of every row: blocks of a participant's decision points in turn, and the next participant's one further."""
    lengths = np.diff(logs.starts)
    position = np.empty(len(logs), dtype=np.int64)
    position[logs.order] = np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths)
    block = position * BLOCKS // lengths[logs.participant_index]
    return np.asarray((block + logs.participant_index) % FOLDS)


def spread_probabilities(logs: Trajectories, rows: NDArray[np.int64]) -> Floats:
    """The probability of every action, (rows, actions): the logged one of the action taken; the others share what is left
    in proportion to how often they were taken. Where none is logged, all actions have their rates."""
    action = logs.action[rows]
    rates = np.bincount(action, minlength=logs.actions) / len(rows)
    taken = np.eye(logs.actions, dtype=bool)[action]
    others = np.where(taken, 0.0, rates)
    total = others.sum(axis=1, keepdims=True)
    logged = np.where(np.isnan(logs.probability[rows]), rates[action], logs.probability[rows])[:, None]
    shares = np.divide(others, total, out=np.zeros_like(others), where=total > 0)
    return np.where(taken, logged, (1 - logged) * shares)


def estimate_slope(residuals: Floats, added: Floats, participant: NDArray[np.int64]) -> tuple[float, float]:
    """The slope of residuals on what a candidate adds to the effects, and its standard error over people.

    Candidates that agree everywhere, but for rounding, have slope 0.

    >>> estimate_slope(np.array([2.0, -2.0, 1.0]), np.array([1.0, -1.0, 1.0]), np.array([0, 0, 1]))
    (1.6666666666666667, 0.4444444444444444)
    """
    squares = float((added**2).sum())
    if squares <= AGREEMENT**2 * float((residuals**2).sum()):
        return 0.0, 0.0
    slope = float((added * residuals).sum()) / squares
    people = len(np.unique(participant))
    scores = np.bincount(participant, added * (residuals - slope * added))
    return slope, float(np.sqrt((scores**2).sum() * people / (people - 1))) / squares


def compare_capped_errors(before: Floats, after: Floats, participant: NDArray[np.int64]) -> tuple[float, float]:
    """The share by which the mean of min(e², c²) falls, and its standard error over people.

    c is `CAP` times a scale of `after` that a fifth of wild errors does not move: their 80 % quantile, as a standard
    deviation.

    >>> errors = np.array([2.0, 2.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0])
    >>> np.round(compare_capped_errors(*errors, np.array([0, 0, 1, 1])), 2)
    array([0.6 , 0.24])
    """
    cap = CAP * float(np.quantile(np.abs(after), 0.8)) / 1.2816
    losses = np.minimum(np.stack([before, after]) ** 2, cap**2)
    mean = float(losses[0].mean())
    if mean == 0:
        return 0.0, 0.0
    gain = float((losses[0] - losses[1]).mean()) / mean
    people = len(np.unique(participant))
    scores = np.bincount(participant, losses[0] - losses[1] - gain * losses[0])
    error = float(np.sqrt((scores**2).sum() * people / (people - 1))) / (len(before) * mean)
    return gain, error


def explain(*comparisons: Comparison) -> str:
    """Why one of two candidates was taken, as a sentence; the comparisons are of the same two."""
    measured = [
        f"{comparison.measure} {comparison.estimate:.3g}, standard error {comparison.standard_error:.2g}"
        for comparison in comparisons
    ]
    estimated = "; ".join(measured)
    simpler = comparisons[0].simpler
    richer = comparisons[0].richer
    if comparisons[0].richer_taken:
        return f"{richer} instead of {simpler}: {estimated}."
    return f"{simpler}, because {richer} does not look better: {estimated}."
