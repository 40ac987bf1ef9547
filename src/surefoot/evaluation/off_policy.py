"""Off-policy evaluation: what a policy would have earned, from logs of another.

The estimand is the mean proximal outcome over the available, usable decision points of the logs,

    V(π) = E[ Σ_a π(a | S) · E(R | S, a) ],   S as logged:

a myopic value. That a policy would change later states (fatigue, say) is not in it. People are the units: the intervals
say how far V would move with other people from the same population.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.data.decision_times import DayBoundary
from surefoot.data.mean_weights import check_probabilities
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.evaluation.candidates import Candidate, Evaluated, choose_cross_fit, list_candidates, note_same_people
from surefoot.evaluation.cross_fitting import CROSS_FITS, assign_folds, expect_rewards
from surefoot.evaluation.estimators import ESTIMATORS, JudgedPolicy, find_estimator
from surefoot.evaluation.long_run import LongRunLogs, value_long_run
from surefoot.evaluation.overlap import measure_overlap
from surefoot.evaluation.page import render_page
from surefoot.evaluation.summary import print_values
from surefoot.evaluation.values import LOGGED, PREFERRED, Contrast, LongRunValue, Overlap, PolicyValues, Value
from surefoot.inference.intervals import Interval, difference_interval, ratio_interval, sum_by_participant
from surefoot.learning.critics import Critic, make_critic
from surefoot.learning.diagnostics import Learnable
from surefoot.log_checks import Check, check_logs
from surefoot.reports.reward_units import RewardUnit
from surefoot.reports.summaries import ShownResult
from surefoot.study.collection_section import CollectionSection

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, repr=False)
class OffPolicy(PolicyValues, ShownResult):
    """Values of several policies from the same logs.

    Attributes
    ----------
    people, decision_points
        How many could be used.
    action_names
        Nothing first.
    unit
        Of the values.
    cross_fit
        `person` or `time`.
    critic
        Of the reward model.
    estimators
        Their names.
    values
        Of every policy by every estimator.
    overlap
        How far the logs speak about each policy.
    checks
        Whether the logs are what they are said to be.
    contrasts
        Of every baseline that sends with the one that never does: what sending is worth.
    long_run
        What policies are worth once in force for long; empty unless it was asked for.
    notes
        What is to be kept in mind, in words.
    """

    page_title: ClassVar[str] = "Values of policies"

    def print_summary(self, console: Console) -> None:
        print_values(self, console)

    def render_page(self, *, title: str, source: str) -> str:
        return render_page(self, title=title, source=source)


def evaluate(
    logs: Trajectories,
    policies: Mapping[str, Evaluated],
    *,
    cross_fit: str | None = None,
    folds: int = 5,
    critic: str | Critic = "ridge",
    clip_probabilities: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    collection: CollectionSection | None = None,
    long_run: bool = False,
    max_gap: int = 1,
    day_boundary: DayBoundary = None,
    unit: RewardUnit | None = None,
    checks: Sequence[Check] | None = None,
    seed: int = 0,
) -> OffPolicy:
    """Values of policies by name, of the baselines (`never`, `always`, or `always walk` …) and of the logging policy.

    Parameters
    ----------
    logs
        What happened, with the probabilities of the actions taken.
    policies
        By name. A `Method` is learned anew without the fold that judges it; `Policies` are refused where they were learned
        from these logs; a function gets states (n, variables) and gives probabilities (n, actions), and an array holds them
        for every row.
    cross_fit, folds
        How methods and the reward model are learned without the rows they judge: by `person` or by `time`, in so many folds.
    critic
        Of the reward model.
    clip_probabilities
        A study's own.
    collection
        How the actions in the logs were chosen: `[collection]` of a study. Unknown where it is not given.
    long_run, max_gap, day_boundary
        Whether to add what policies are worth once in force for long, and which decision points then follow each other.
    unit
        How the reward was transformed, for the words.
    checks
        Of the logs, from `check_logs`; by default the logs are checked here, without their study.
    seed
        With which people are dealt into folds.

    Returns
    -------
    OffPolicy
        Values by every estimator, differences to the logging policy, overlap, and a page.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> found = evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
    >>> round(found.value("mostly").value.value), round(found.value("as logged").value.value)
    (1325, 1270)
    """
    rows, candidates = _find_rows(logs), list_candidates(policies, logs)
    cross_fit, model = choose_cross_fit(policies, cross_fit), make_critic(critic)
    fold = assign_folds(logs, cross_fit, folds, seed)
    expected = expect_rewards(logs, fold, critic=model, pooling=CROSS_FITS.find(cross_fit).pooling)[rows]
    ahead = LongRunLogs.of_logs(logs, model, max_gap=max_gap, day_boundary=day_boundary) if long_run else None
    judge = _Judge(logs, rows, fold, expected, ahead)
    for candidate in candidates:
        judge.judge(candidate, None if candidate.is_baseline else clip_probabilities)
    later, cautions = judge.value_long_run()
    notes = (CollectionSection() if collection is None else collection).describe(logs) + note_same_people(policies, logs)
    checked = check_logs(logs) if checks is None else tuple(checks)
    about = (logs.action_names, unit or RewardUnit(logs.names.reward), cross_fit, model.name, tuple(ESTIMATORS))
    return OffPolicy(
        *(judge.people, len(rows), *about),
        **judge.conclude(candidates),
        long_run=later,
        checks=checked,
        notes=(*notes, *cautions),
    )


def _find_rows(logs: Trajectories) -> NDArray[np.int64]:
    """The usable rows, all with a probability that can be what it is said to be."""
    Learnable.of_logs(logs).require(logs.names.reward)
    rows = np.flatnonzero(logs.usable)
    missing = rows[np.isnan(logs.probability[rows])]
    if missing.size:
        row, participant = int(missing[0]), logs.participant[missing[0]].item()
        raise InputError(
            f"row {row}, column '{logs.names.probability}', participant {participant!r}: "
            f"the probability of the action taken is missing"
            f" ({missing.size} of {len(rows)} usable decision points); log it, or state the design's with "
            "actions.probabilities in study.toml",
            row=row,
            column=logs.names.probability,
            participant=participant,
        )
    check_probabilities(logs)
    return rows


NOT_KNOWN = Interval(np.nan, np.nan, np.nan, np.nan)


class _Judge:
    """Judges one policy after the other by the same rows, folds and expected rewards."""

    def __init__(
        self,
        logs: Trajectories,
        rows: NDArray[np.int64],
        fold: NDArray[np.int64],
        expected: NDArray[np.float64],
        ahead: LongRunLogs | None,
    ) -> None:
        self.logs, self.rows, self.fold, self.expected, self.ahead = logs, rows, fold, expected, ahead
        present, self._participant_index = np.unique(logs.participant_index[rows], return_inverse=True)
        self.people = len(present)
        self._action, self._outcome = logs.action[rows], logs.reward[rows]
        self._reward, self._count = self._sum(self._outcome), self._sum(np.ones(len(rows)))
        self._decided = rows if ahead is None else np.union1d(rows, ahead.following)
        self._preferred: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._following: dict[str, NDArray[np.float64]] = {}
        self._values: list[Value] = []
        self._overlap: list[Overlap] = []

    def _sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return sum_by_participant(self._participant_index, self.people, values)

    def judge(self, candidate: Candidate, clip: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None) -> None:
        """What a policy is worth by every estimator, and how far the logs speak about it."""
        everywhere = candidate.decide(self.logs, self._decided, self.fold)
        everywhere = everywhere if clip is None else clip(everywhere)
        probabilities = everywhere[np.searchsorted(self._decided, self.rows)]
        if self.ahead is not None:
            self._following[candidate.name] = everywhere[np.searchsorted(self._decided, self.ahead.following)]
        ratio = probabilities[np.arange(len(self.rows)), self._action] / self.logs.probability[self.rows]
        self._overlap.append(measure_overlap(candidate, probabilities, ratio))
        judged = JudgedPolicy(probabilities, ratio, self.expected, self._action, self._outcome)
        for estimator in map(find_estimator, ESTIMATORS):
            top, bottom = map(self._sum, estimator.compute_scores(judged))
            if estimator.name == PREFERRED:
                self._preferred[candidate.name] = top, bottom
            value = ratio_interval(top, bottom)
            difference = difference_interval(top, bottom, self._reward, self._count)
            if not ratio.any():
                # No decision point has an action that it takes: a model's guess, or a sum of nothing, is no value.
                value, difference = NOT_KNOWN, NOT_KNOWN
            elif not estimator.has_interval:
                value, difference = (Interval(part.value, np.nan, np.nan, np.nan) for part in (value, difference))
            self._values.append(Value(candidate.name, estimator.name, value, difference))

    def conclude(self, candidates: list[Candidate]) -> dict[str, Any]:
        """What was found about all of them, and about the logs."""
        mean = Value(LOGGED, PREFERRED, ratio_interval(self._reward, self._count), Interval(0.0, 0.0, 0.0, 0.0))
        return {
            "values": (*self._values, mean),
            "overlap": tuple(self._overlap),
            "contrasts": self._contrast_baselines(candidates),
        }

    def _contrast_baselines(self, candidates: list[Candidate]) -> tuple[Contrast, ...]:
        """How much more every baseline that sends is worth than the first, which never does."""
        first, *others = [candidate.name for candidate in candidates if candidate.is_baseline]
        judged = {row.policy for row in self._overlap if row.effective_sample_size > 0}
        never = self._preferred[first]
        contrasts = []
        for name in others:
            known = {name, first} <= judged
            difference = difference_interval(*self._preferred[name], *never) if known else NOT_KNOWN
            contrasts.append(Contrast(name, first, difference))
        return tuple(contrasts)

    def value_long_run(self) -> tuple[tuple[LongRunValue, ...], tuple[str, ...]]:
        """What the policies are worth in the long run and what to keep in mind about it, if that was asked for."""
        if self.ahead is None:
            return (), ()
        now = {value.policy: value.value.value for value in self._values if value.estimator == PREFERRED}
        return value_long_run(self.ahead, self._following, now)
