"""Choices of a method's parts from the logs: which effects to learn, and whether to look ahead.

Candidates for the effects stand in the order of `EFFECT_MODELS`, from the simplest on. Each replaces the last one taken if
what it adds predicts decision points from which it did not learn. Every participant's decision points are cut into blocks,
and effects in a block are learned from other blocks. With τ(s) those of the candidate taken so far, τ′(s) those of the next
one, p the logged probabilities and m(s) the expected outcome, which is the same for both, the slope b of

    r − m(s) − Σ_a (1{a} − p_a) τ_a(s)   on   d = Σ_a (1{a} − p_a) (τ′_a(s) − τ_a(s))

is 1 where the differences are true and 0 where they are noise (the best linear predictor of Chernozhukov, Demirer, Duflo and
Fernández-Val 2018, in Robinson's partially linear model). The candidate is taken if b ≥ ½, above which its squared error is
lower, and if b exceeds its standard error over people. Residuals are capped, so that single wild outcomes do not decide.

The horizon is chosen by the cross-fitted long-run value (`long_run_value`) of two policies for everybody, over folds of
participants: the long run is taken if its policy gains more than one standard error.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.learning.critics import Critic
from surefoot.learning.fitted import ChosenParts, Comparison, Fitted
from surefoot.learning.horizon import LongRun
from surefoot.learning.horizon.long_run_value import LongRunLogs
from surefoot.learning.part import Part
from surefoot.registry import Registry

__all__ = ["CHOICES", "EFFECT_MODELS", "Choice", "CrossFitted", "register_choice"]

Floats = NDArray[np.float64]
FitParts = Callable[[Mapping[str, Any], Trajectories], Fitted]
"""Fits the method with these parameters to these logs."""
FEW_PEOPLE = 6
"""With fewer people, the standard errors over people that decide are a guess."""
ROWS_PER_FEATURE = 10
"""With fewer usable decision points for each of the critic's features, half of them cannot show which model is better."""
FOLDS = 2
BLOCKS = 6
"""Parts of a participant's decision points, which go to the folds in turn."""
CAP = 3.0
"""Residuals are capped at this many robust standard deviations."""
EFFECT_MODELS: tuple[Mapping[str, Any], ...] = ({"pooling": "all"}, {"pooling": "partial"})
"""Candidates for the effects as parameters of a method, from the simplest to the richest. The last one gives m(s)."""


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
    """Chooses the pooling by how well effects predict, and the horizon by the long-run value, both cross-fitted."""

    name: ClassVar[str] = "cross-fitted"
    default: ClassVar[Mapping[str, str]] = {"pooling": "partial", "horizon": "immediate"}
    look_ahead: bool = True
    """Whether the long run is a candidate for the horizon."""
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
        needed = ROWS_PER_FEATURE * (len(logs.state_names) + 1) * logs.actions
        if people < FEW_PEOPLE or points < needed:
            reason = (
                f"Nothing was compared: there are {people:,} people with {points:,} usable decision points, and at least "
                f"{FEW_PEOPLE} people and {needed:,} decision points are needed. The default is used: "
                f"{describe_parameters(self.default)}."
            )
            warnings.warn(reason, FitWarning, stacklevel=4)
            return ChosenParts(self.default, (reason,))
        with warnings.catch_warnings():
            # Each is about a part of the logs; the fit to all of them warns again.
            warnings.simplefilter("ignore", FitWarning)
            effects = _choose_effects(logs, fit_parts)
            horizon = self._choose_horizon(logs, critic, fit_parts)
        return ChosenParts(
            {**effects.parameters, **horizon.parameters},
            (*effects.reasons, *horizon.reasons),
            (*effects.comparisons, *horizon.comparisons),
        )

    def _choose_horizon(self, logs: Trajectories, critic: Critic, fit_parts: FitParts) -> ChosenParts:
        """The long run where its policy has a higher long-run value, by more than one standard error."""
        immediate: dict[str, Any] = {"horizon": "immediate"}
        if not self.look_ahead:
            return ChosenParts(immediate, ("horizon = 'immediate', because look_ahead is false.",))
        long_run: dict[str, Any] = {"horizon": self._long_run}
        try:
            data = LongRunLogs.of_logs(logs, critic, max_gap=self.max_gap, day_boundary=self.day_boundary)
            soon = data.solve(_cross_fit_policies(logs, data.following, immediate, fit_parts))
            later = data.solve(_cross_fit_policies(logs, data.following, long_run, fit_parts))
        except InputError as problem:
            return ChosenParts(immediate, (f"horizon = 'immediate': the long run could not be judged, because {problem}.",))
        people = len(soon.influence)
        gain = later.value - soon.value
        error = float(np.sqrt(((later.influence - soon.influence) ** 2).sum() * people / (people - 1)))
        comparison = Comparison(
            simpler="horizon = 'immediate'",
            richer="horizon = 'long-run'",
            measure="gain in the long-run mean outcome",
            estimate=gain,
            standard_error=error,
            richer_taken=bool(gain > error),
        )
        return ChosenParts(long_run if comparison.richer_taken else immediate, (explain(comparison),), (comparison,))


def _choose_effects(logs: Trajectories, fit_parts: FitParts) -> ChosenParts:
    """The richest of `EFFECT_MODELS` of which every step predicts what the one before it misses."""
    effects, mean = _cross_fit_effects(logs, fit_parts)
    rows = np.flatnonzero(logs.usable)
    probabilities = spread_probabilities(logs, rows)
    surprise = np.eye(logs.actions)[logs.action[rows]] - probabilities
    predicted = (surprise * effects[:, rows]).sum(axis=-1)
    residuals = logs.outcome[rows] - mean[rows] - (probabilities * effects[-1, rows]).sum(axis=-1)
    cap = CAP * 1.4826 * np.median(np.abs(residuals - predicted[-1]))
    taken = 0
    comparisons = []
    for richer in range(1, len(EFFECT_MODELS)):
        slope, error = estimate_slope(
            np.clip(residuals - predicted[taken], -cap, cap),
            predicted[richer] - predicted[taken],
            logs.participant_index[rows],
        )
        comparison = Comparison(
            simpler=describe_parameters(EFFECT_MODELS[taken]),
            richer=describe_parameters(EFFECT_MODELS[richer]),
            measure="slope of outcomes on the effects that it adds",
            estimate=slope,
            standard_error=error,
            richer_taken=bool(slope >= 0.5 and slope > error),
        )
        comparisons.append(comparison)
        taken = richer if comparison.richer_taken else taken
    return ChosenParts(EFFECT_MODELS[taken], tuple(map(explain, comparisons)), tuple(comparisons))


def _cross_fit_effects(logs: Trajectories, fit_parts: FitParts) -> tuple[Floats, Floats]:
    """Effects of every candidate at every row, (candidates, rows, actions), and the last one's outcome without an action."""
    effects = np.zeros((len(EFFECT_MODELS), len(logs), logs.actions))
    baseline = np.zeros(len(logs))
    fold = cut_into_folds(logs)
    design = np.column_stack([np.ones(len(logs)), logs.state])
    for number in range(FOLDS):
        held_out = fold == number
        hidden = logs.with_values(outcome=np.where(held_out, np.nan, logs.outcome))
        for position, parameters in enumerate(EFFECT_MODELS):
            blocks = fit_parts(parameters, hidden).row_coef[held_out].reshape(-1, logs.actions, design.shape[1])
            expected = np.einsum("rk,rak->ra", design[held_out], blocks)
            effects[position, held_out, 1:] = expected[:, 1:]
            baseline[held_out] = expected[:, 0]
    return effects, baseline


def _cross_fit_policies(
    logs: Trajectories, rows: NDArray[np.int64], parameters: Mapping[str, Any], fit_parts: FitParts
) -> Floats:
    """Probabilities of the actions at these rows, (rows, actions), by a policy learned from the other fold's people."""
    fold = logs.participant_index % FOLDS
    probabilities = np.empty((len(rows), logs.actions))
    for number in range(FOLDS):
        policies = fit_parts({**parameters, "pooling": "all"}, logs[fold != number]).policies
        judged = fold[rows] == number
        states = np.nan_to_num(logs.state[rows[judged]])
        probabilities[judged] = policies.probabilities(logs.participant[rows[judged]], states)
    return probabilities


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

    Candidates that agree everywhere have slope 0.

    >>> estimate_slope(np.array([2.0, -2.0, 1.0]), np.array([1.0, -1.0, 1.0]), np.array([0, 0, 1]))
    (1.6666666666666667, 0.4444444444444444)
    """
    squares = float((added**2).sum())
    if squares == 0:
        return 0.0, 0.0
    slope = float((added * residuals).sum()) / squares
    people = len(np.unique(participant))
    scores = np.bincount(participant, added * (residuals - slope * added))
    return slope, float(np.sqrt((scores**2).sum() * people / (people - 1))) / squares


def explain(comparison: Comparison) -> str:
    """Why one of two candidates was taken, as a sentence."""
    estimated = f"{comparison.measure} {comparison.estimate:.3g}, standard error {comparison.standard_error:.2g}"
    if comparison.richer_taken:
        return f"{comparison.richer} instead of {comparison.simpler}: {estimated}."
    return f"{comparison.simpler}, because {comparison.richer} is not clearly better: {estimated}."
