"""Off-policy evaluation: the value of a policy, estimated from logs of another.

The estimand is the mean proximal outcome over the available, usable decision points of the logs,

    V(π) = E[ Σ_a π(a | S) · E(R | S, a) ],   S as logged:

a myopic value. It does not include how a policy would change later states (fatigue, say). People are the units: the
intervals say how far V would move with other people from the same population.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.data.mean_weights import check_probabilities
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.evaluation.candidates import (
    Candidate,
    Evaluated,
    assign_folds,
    choose_cross_fit,
    expect_rewards,
    list_candidates,
)
from surefoot.evaluation.estimators import ESTIMATORS, Estimator, JudgedPolicy, Scores, find_estimator
from surefoot.evaluation.long_run import LongRunLogs, value_long_run
from surefoot.evaluation.values import LOGGED, PREFERRED, Contrast, LongRunValue, OffPolicy, Overlap, Value
from surefoot.inference.intervals import Interval, difference_interval, ratio_interval, sum_by_participant
from surefoot.learning.batch import Learnable
from surefoot.learning.critics import Critic, make_critic
from surefoot.learning.methods import Method
from surefoot.log_checks import Check, check_logs
from surefoot.reports.numbers import RewardUnit
from surefoot.study.collection_section import CollectionSection

LOW_SHARE = 0.1
"""Overlap is poor when the effective sample size is below this share of the decision points …"""
LOW_COUNT = 100
"""… or this number, or …"""
HIGH_WEIGHT = 0.05
"""… when one decision point holds more than this share of the weight."""
NOT_KNOWN = Interval(np.nan, np.nan, np.nan, np.nan)


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
        With the probabilities of the actions taken.
    policies
        By name. A `Method` is learned anew without the fold that judges it; `Policies` are refused where they were learned
        from these logs; a function takes states (n, variables) and gives probabilities (n, actions), and an array holds
        them for every row.
    cross_fit, folds
        How methods and the reward model are learned without the rows they judge: by `person` or by `time`, and the number
        of folds.
    critic
        Of the reward model.
    clip_probabilities
        The study's limits.
    collection
        How the actions in the logs were chosen: `[collection]` of a study. Unknown where it is not given.
    long_run, max_gap, day_boundary
        Whether to add the values after a long time in force, and which decision points then follow each other.
    unit
        How the reward was transformed, for the words.
    checks
        Of the logs, from `check_logs`; by default the logs are checked without their study.
    seed
        With which people are dealt into folds.

    Returns
    -------
    OffPolicy
        Values by every estimator, differences from the logging policy, overlap, and a page.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> values = evaluate(logs, {"mostly": sf.policies.fixed([0.2, 0.8])})
    >>> round(values.value("mostly").value.value), round(values.value("as logged").value.value)
    (1325, 1270)
    """
    rows = _find_rows(logs)
    candidates, notes = list_candidates(policies, logs)
    dealing = choose_cross_fit(policies, cross_fit)
    model = make_critic(critic)
    fold = assign_folds(logs, dealing.name, folds, seed)

    def learn_rewards(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = np.zeros(len(logs))
        counts[rows] = weights
        return expect_rewards(logs, fold, critic=model, pooling=dealing.pooling, weights=counts)[rows]

    expected = learn_rewards(np.ones(len(rows)))
    ahead = LongRunLogs.of_logs(logs, model, max_gap=max_gap, day_boundary=day_boundary) if long_run else None
    decided = rows if ahead is None else np.union1d(rows, ahead.following)
    present, person = np.unique(logs.participant_index[rows], return_inverse=True)

    def sum_scores(scores: Scores) -> Scores:
        numerator, denominator = (sum_by_participant(person, len(present), part) for part in scores)
        return numerator, denominator

    logged = sum_scores((logs.reward[rows], np.ones(len(rows))))
    values: list[Value] = []
    overlap: list[Overlap] = []
    preferred: dict[str, Scores] = {}
    following: dict[str, NDArray[np.float64]] = {}
    for candidate in candidates:
        probabilities = candidate.decide(logs, decided, fold)
        if clip_probabilities is not None and not candidate.is_baseline:
            probabilities = clip_probabilities(probabilities)
        if ahead is not None:
            following[candidate.name] = probabilities[np.searchsorted(decided, ahead.following)]
        judged = JudgedPolicy(
            probabilities=probabilities[np.searchsorted(decided, rows)],
            logged_probability=logs.probability[rows],
            expected=expected,
            action=logs.action[rows],
            reward=logs.reward[rows],
            expect_rewards=learn_rewards,
        )
        overlap.append(_measure_overlap(candidate, judged))
        for estimator in map(find_estimator, ESTIMATORS):
            scores = sum_scores(estimator.compute_scores(judged))
            values.append(_make_value(candidate.name, estimator, scores, logged, known=bool(judged.ratio.any())))
            if estimator.name == PREFERRED:
                preferred[candidate.name] = scores
    later: tuple[LongRunValue, ...] = ()
    cautions: tuple[str, ...] = ()
    if ahead is not None:
        immediate = {value.policy: value.value.value for value in values if value.estimator == PREFERRED}
        later, cautions = value_long_run(ahead, following, immediate)
    values.append(Value(LOGGED, PREFERRED, ratio_interval(*logged), Interval(0.0, 0.0, 0.0, 0.0)))
    return OffPolicy(
        people=len(present),
        decision_points=len(rows),
        action_names=logs.action_names,
        unit=unit or RewardUnit(logs.names.reward),
        cross_fit=dealing.name,
        critic=model.name,
        estimators=tuple(ESTIMATORS),
        values=tuple(values),
        overlap=tuple(overlap),
        contrasts=_contrast_baselines(candidates, overlap, preferred),
        long_run=later,
        checks=check_logs(logs) if checks is None else tuple(checks),
        notes=(*(collection or CollectionSection()).describe(logs), *notes, *cautions),
    )


def _find_rows(logs: Trajectories) -> NDArray[np.int64]:
    """The usable rows, all with a possible probability of the action taken."""
    Learnable.of_logs(logs).require(logs.names.reward)
    rows = np.flatnonzero(logs.usable)
    missing = rows[np.isnan(logs.probability[rows])]
    if missing.size:
        row = int(missing[0])
        participant = logs.participant[row].item()
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


def _measure_overlap(candidate: Candidate, judged: JudgedPolicy) -> Overlap:
    ratio = judged.ratio
    total = ratio.sum()
    largest = float(ratio.max())
    effective = float(total**2 / (ratio**2).sum()) if total > 0 else 0.0
    warning = ""
    if effective < max(LOW_SHARE * len(ratio), LOW_COUNT):
        warning = (
            f"the logs hold as much about this policy as {effective:.0f} decision points would (of {len(ratio)}): "
            "its actions were rarely taken; trust the direct method only as far as its model"
        )
    elif largest > HIGH_WEIGHT * total:
        warning = f"one decision point carries {100 * largest / total:.0f} % of the weight: a probability near 0 was logged"
    rates = tuple(judged.probabilities.mean(axis=0).tolist())
    return Overlap(candidate.name, candidate.description, rates, effective, largest, warning)


def _make_value(policy: str, estimator: Estimator, scores: Scores, logged: Scores, *, known: bool) -> Value:
    """`known` is False where no decision point has an action of the policy: neither a model's guess nor a sum of nothing
    is a value."""
    value = ratio_interval(*scores) if known else NOT_KNOWN
    difference = difference_interval(*scores, *logged) if known else NOT_KNOWN
    if not estimator.has_interval:
        value = NOT_KNOWN._replace(value=value.value)
        difference = NOT_KNOWN._replace(value=difference.value)
    return Value(policy, estimator.name, value, difference)


def _contrast_baselines(
    candidates: list[Candidate], overlap: list[Overlap], preferred: Mapping[str, Scores]
) -> tuple[Contrast, ...]:
    """Every baseline that sends, with the first, which never does."""
    never, *senders = [candidate.name for candidate in candidates if candidate.is_baseline]
    known = {row.policy for row in overlap if row.effective_sample_size > 0}
    contrasts = []
    for name in senders:
        both_known = {name, never} <= known
        difference = difference_interval(*preferred[name], *preferred[never]) if both_known else NOT_KNOWN
        contrasts.append(Contrast(name, never, difference))
    return tuple(contrasts)


def score_method(method: Method, logs: Trajectories, y: None = None) -> float:
    """The doubly robust value of a method by logs, per decision point; no decision point judges what was learned from it.

    One policy for anybody that was learned from other people is judged as it is. In every other case the method is learned
    anew from these logs without the fold that judges it: by participant where one policy serves anybody, else by time. So
    `GridSearchCV(method, grid, scoring=score_method)` works with folds of people, also for policies per participant.

    Parameters
    ----------
    method
        Fitted to other logs or not fitted yet.
    logs
        That judge it.
    y
        Not used; scikit-learn gives it.

    Returns
    -------
    float

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=40, seed=0)
    >>> round(score_method(sf.method("ro-accb", pooling="all"), logs))
    1339
    """
    judged: Evaluated = method
    policies = method.policies_ if method.is_fitted else None
    if policies is not None and policies.participants is None and policies.training is not None:
        is_new = not any(policies.training.count_shared(logs))
        judged = policies if is_new else method
    return evaluate(logs, {"method": judged}).value("method").value.value
