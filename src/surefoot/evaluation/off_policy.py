"""Off-policy evaluation: the value of a policy, estimated from logs of another, without the rows that it was learned from.

The estimand is the mean proximal outcome over the available, usable decision points of the logs,

    V(π) = E[ Σ_a π(a | S) · E(R | S, a) ],   S as logged:

a myopic value. It does not include how a policy would change later states (fatigue, say). People are the units: the
intervals say how far V would move with other people from the same population.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DayBoundary
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError, require_known
from surefoot.evaluation.estimators import ESTIMATORS, Estimator, JudgedPolicy, Scores, find_estimator
from surefoot.evaluation.values import LOGGED, PREFERRED, Contrast, LongRunValue, OffPolicy, Overlap, Value
from surefoot.inference.intervals import Interval, difference_interval, ratio_interval, sum_by_participant, t_interval
from surefoot.learning.batch import Batch, Learnable
from surefoot.learning.critics import Critic
from surefoot.learning.critics.regressor import make_critic
from surefoot.learning.horizon.long_run_value import LongRunLogs
from surefoot.learning.methods import Method
from surefoot.learning.pooling import make_pooling
from surefoot.log_checks import Check, check_logs
from surefoot.policies.features import critic_features
from surefoot.policies.policies import Policies, Policy, baselines
from surefoot.reports.numbers import OutcomeUnit
from surefoot.study.collection_section import CollectionSection

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
NUISANCE_PENALTY = 1.0
"""ζ of the critic that judges, on standardised states and with a free intercept: the shrinkage of one decision point."""
Evaluated = Policy | Policies | Method | Callable[[Floats], Any] | Floats
"""A function takes states (n, variables) and gives probabilities (n, actions); an array has a row for each of the logs."""
CROSS_FITS = {"person": "all", "time": "person"}
"""Ways to deal decision points into folds, and who then shares the critic that judges (its pooling)."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A policy under evaluation."""

    name: str
    item: Evaluated
    description: str
    is_baseline: bool = False

    def decide(self, logs: Trajectories, rows: Codes, fold: Codes) -> Floats:
        """π(a | s) at the given rows, (rows, actions)."""
        item = self.item
        if isinstance(item, Policy):
            probabilities = item.probabilities(logs.state[rows])
        elif isinstance(item, Policies):
            probabilities = item.probabilities(logs.participant[rows], logs.state[rows])
        elif isinstance(item, Method):
            probabilities = np.empty((len(rows), logs.actions))
            for number, policies in fit_without_folds(item, logs, fold):
                held_out = fold[rows] == number
                judged = rows[held_out]
                probabilities[held_out] = policies.probabilities(logs.participant[judged], logs.state[judged])
        elif callable(item):
            probabilities = self._complete(item(logs.state[rows]), len(rows))
        else:
            probabilities = self._complete(item, len(logs))[rows]
        if probabilities.shape[1] != logs.actions:
            raise InputError(
                f"'{self.name}': a policy over {probabilities.shape[1]} actions cannot be judged by logs with {logs.actions}"
            )
        sums_to_one = np.abs(probabilities.sum(axis=1) - 1) <= 1e-6
        wrong = np.flatnonzero(~((probabilities >= 0).all(axis=1) & sums_to_one))
        if wrong.size:
            raise InputError(
                f"'{self.name}' gives {probabilities[wrong[0]].tolist()} at a decision point; give probabilities, which sum "
                "to 1"
            )
        return probabilities

    def _complete(self, given: Any, count: int) -> Floats:
        """Probabilities (count, actions); a single number per row is the probability of sending, with two actions."""
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"'{self.name}' is {given!r}; give policies, a method, a function of states, or an array of probabilities"
            ) from error
        if values.shape == (count,):
            values = np.column_stack([1 - values, values])
        if values.ndim != 2 or len(values) != count:
            raise InputError(f"'{self.name}' gives probabilities of shape {values.shape}; give one row for each of {count}")
        return values


def list_candidates(policies: Mapping[str, Evaluated], logs: Trajectories) -> tuple[list[Candidate], list[str]]:
    """The policies, then the baselines; and notes. Policies that were learned from these logs are refused."""
    if not isinstance(policies, Mapping):
        raise InputError(f"policies are given by name, as {{'mine': policy}}, not as a {type(policies).__name__}")
    constant = baselines(logs.action_names)
    candidates = []
    notes = []
    for name, item in policies.items():
        if name in constant or name == LOGGED:
            raise InputError(f"'{name}' is the name of a policy that every evaluation shows; give yours another name")
        description = "as given"
        if isinstance(item, Method):
            description = "learned anew without the decision points that judge it"
        elif isinstance(item, Policy) and item.state_names is None:
            description = "the same probabilities in every state"
        elif isinstance(item, Policies) and item.training is not None:
            same_rows, same_people = item.training.count_shared(logs)
            if same_rows:
                raise InputError(
                    f"'{name}' was learned from {same_rows} of these {len(logs)} decision points, and judged by them it "
                    "would look better than it is; give logs that it has not seen, or evaluate the method, which is then "
                    "cross-fitted"
                )
            if same_people and item.participants is None:
                notes.append(
                    f"{name} was learned from {same_people} of these {len(logs.participants)} people, at other times: it "
                    "may be worth less for new people"
                )
        candidates.append(Candidate(name, item, description))
    for (name, policy), action in zip(constant.items(), logs.action_names, strict=True):
        candidates.append(Candidate(name, policy, f"{action} at every decision point", is_baseline=True))
    return candidates, notes


def choose_cross_fit(policies: Mapping[str, Evaluated], requested: str | None) -> str:
    """The requested one, or the one that suits the methods: by participant only where all of them serve new people."""
    methods = {name: item for name, item in policies.items() if isinstance(item, Method)}
    personal = [name for name, item in methods.items() if not item.pooling.serves_anybody]
    cross_fit = requested or ("time" if personal else "person")
    if personal and cross_fit == "person":
        raise InputError(
            f"'{personal[0]}' learns a policy per participant, which cannot be learned from other people; "
            "cross-fit by time, or learn one policy for all (pooling = 'all')"
        )
    return cross_fit


def assign_folds(logs: Trajectories, cross_fit: str, folds: int, seed: int) -> Codes:
    """The fold of every row: people dealt at random (`person`), or each participant's time cut into stretches of equally
    many usable decision points (`time`)."""
    require_known("cross-fitting", cross_fit, CROSS_FITS)
    if folds < 2:
        raise InputError(f"folds is {folds}; cross-fitting needs at least 2")
    people = len(logs.participants)
    if cross_fit == "person":
        if people < 2:
            raise InputError("cross-fitting by participant needs at least 2 people; cross-fit by time")
        return (np.random.default_rng(seed).permutation(people) % min(folds, people))[logs.participant_index]
    usable = logs.usable[logs.order].astype(np.int64)
    lengths = np.bincount(logs.participant_index[logs.usable], minlength=people)
    ordered = logs.participant_index[logs.order]
    rank = np.cumsum(usable) - usable - np.concatenate([[0], np.cumsum(lengths)])[ordered]
    fold = np.empty(len(logs), dtype=np.int64)
    fold[logs.order] = np.minimum(rank * folds // np.maximum(lengths, 1)[ordered], folds - 1)
    return fold


def expect_rewards(
    logs: Trajectories,
    fold: Codes,
    *,
    critic: Critic,
    pooling: str,
    penalty: float = NUISANCE_PENALTY,
    weights: Floats | None = None,
) -> Floats:
    """q̂(s, a) of every row and action, (rows, actions), by a critic that did not see the row's fold; NaN if not usable.

    `weights` (rows,) say how much each row counts in the critic's fit, by default equally.
    """
    usable = logs.usable
    actions = logs.actions
    width = logs.state[usable].std(axis=0)
    standardised = (logs.state - logs.state[usable].mean(axis=0)) / np.where(width > 0, width, 1.0)
    state = np.where(usable[:, None], standardised, 0.0)
    reward = np.where(usable, logs.outcome, 0.0)
    counts = usable * (1.0 if weights is None else weights)
    shrinkage = np.full((state.shape[1] + 1) * actions, penalty)
    shrinkage[0] = 0.0
    expected = np.full((len(logs), actions), np.nan)
    for _, rows in make_pooling(pooling).list_blocks(logs):
        present = (rows >= 0) & usable[rows]
        features = critic_features(state[rows], logs.action[rows], actions)
        for number in np.unique(fold[usable]):
            seen = np.where(present & (fold[rows] != number), counts[rows], 0.0)
            batch = Batch(features, state[rows], logs.action[rows], reward[rows], seen, actions, shrinkage)
            held_out = present & (fold[rows] == number)
            expected[rows[held_out]] = critic.fit(batch).expect_rewards(state[rows], actions)[held_out]
    return expected


def fit_without_folds(method: Method, logs: Trajectories, fold: Codes) -> Iterator[tuple[int, Policies]]:
    """For every fold the policies that the method learns from the other folds: the rewards of the fold are hidden."""
    for number in np.unique(fold[logs.usable]):
        hidden = logs.with_values(outcome=np.where(fold == number, np.nan, logs.outcome))
        with warnings.catch_warnings():
            # Too little data is reported once, about the fit to all folds.
            warnings.simplefilter("ignore", FitWarning)
            yield int(number), type(method)(**method.get_params(deep=False)).fit_some(hidden).policies_


PEOPLE_DIFFER = 0.05
"""People are said to differ when chance would let their halves agree as much in fewer than this share of studies."""
SHORT_SERIES = 30
"""With fewer consecutive decision points of the median participant the jackknife does not remove all of the bias."""
SHORT_FOR_DIFFERENCES = 60
"""Where people differ, intervals from fewer than this are too short: 95 % intervals cover in 88 to 95 % of studies."""
LOW_SHARE = 0.1  # Overlap is poor when the effective sample size is below this share of the decision points …
LOW_COUNT = 100  # … or this number, or …
HIGH_WEIGHT = 0.05  # … when one decision point holds more than this share of the weight.
NOT_KNOWN = Interval(np.nan, np.nan, np.nan, np.nan)


def evaluate(
    logs: Trajectories,
    policies: Mapping[str, Evaluated],
    *,
    cross_fit: str | None = None,
    folds: int = 5,
    critic: str | Critic = "ridge",
    clip_probabilities: Callable[[Floats], Floats] | None = None,
    collection: CollectionSection | None = None,
    long_run: bool = False,
    max_gap: int = 1,
    day_boundary: DayBoundary = None,
    unit: OutcomeUnit | None = None,
    checks: Sequence[Check] | None = None,
    seed: int = 0,
) -> OffPolicy:
    """Estimate the value of policies from logs.

    The baselines (`never`, `always`, or `always walk` …) and the logging policy are evaluated with them.

    Parameters
    ----------
    logs
        With the probabilities of the actions taken.
    policies
        By name. A `Method` is learned anew without the fold that judges it; `Policies` are refused where they were learned
        from these logs; a function takes states (n, variables) and gives probabilities (n, actions), and an array holds
        them for every row.
    cross_fit, folds
        How methods and the outcome model are learned without the rows they judge: by `person` or by `time`, and the number
        of folds.
    critic, clip_probabilities
        Of the outcome model; the study's limits.
    collection
        How the actions in the logs were chosen: `[collection]` of a study. Unknown where it is not given.
    long_run, max_gap, day_boundary
        Whether to add the values after a long time in force, and which decision points then follow each other.
    unit, seed
        How the outcome was transformed, for the words; with which people are dealt into folds.
    checks
        Of the logs, from `check_logs`; by default the logs are checked without their study.

    Returns
    -------
    OffPolicy

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
    fold = assign_folds(logs, dealing, folds, seed)

    def learn_rewards(weights: Floats) -> Floats:
        counts = np.zeros(len(logs))
        counts[rows] = weights
        return expect_rewards(logs, fold, critic=model, pooling=CROSS_FITS[dealing], weights=counts)[rows]

    expected = learn_rewards(np.ones(len(rows)))
    ahead = LongRunLogs.of_logs(logs, model, max_gap=max_gap, day_boundary=day_boundary) if long_run else None
    decided = rows if ahead is None else np.union1d(rows, ahead.following)
    present, person = np.unique(logs.participant_index[rows], return_inverse=True)

    def sum_scores(scores: Scores) -> Scores:
        numerator, denominator = (sum_by_participant(person, len(present), part) for part in scores)
        return numerator, denominator

    logged = sum_scores((logs.outcome[rows], np.ones(len(rows))))
    values: list[Value] = []
    overlap: list[Overlap] = []
    preferred: dict[str, Scores] = {}
    following: dict[str, Floats] = {}
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
            reward=logs.outcome[rows],
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
    never, *senders = [candidate.name for candidate in candidates if candidate.is_baseline]
    known = {row.policy for row in overlap if row.effective_sample_size > 0}
    contrasts = []
    for name in senders:
        both_known = {name, never} <= known
        difference = difference_interval(*preferred[name], *preferred[never]) if both_known else NOT_KNOWN
        contrasts.append(Contrast(name, never, difference))
    return OffPolicy(
        people=len(present),
        decision_points=len(rows),
        action_names=logs.action_names,
        unit=unit or OutcomeUnit(logs.names.outcome),
        cross_fit=dealing,
        critic=model.name,
        estimators=tuple(ESTIMATORS),
        values=tuple(values),
        overlap=tuple(overlap),
        contrasts=tuple(contrasts),
        long_run=later,
        checks=check_logs(logs) if checks is None else tuple(checks),
        notes=(*(collection or CollectionSection()).describe(logs), *notes, *cautions),
        backend=logs.backend,
    )


def _find_rows(logs: Trajectories) -> Codes:
    """The usable rows, all with a possible probability of the action taken."""
    if not isinstance(logs, Trajectories):
        raise InputError(
            f"evaluate takes Trajectories first, not {type(logs).__name__}; write evaluate(logs, {{name: policy}})"
        )
    Learnable.of_logs(logs).require(logs.names.outcome)
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
    logs.check_probabilities()
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


def value_long_run(
    data: LongRunLogs, decisions: Mapping[str, Floats], immediate: Mapping[str, float]
) -> tuple[tuple[LongRunValue, ...], tuple[str, ...]]:
    """Long-run values of policies by name, `never` among them, and cautions; `immediate` are their values by the next
    outcome alone."""
    from surefoot.reports.render import write_sentences

    solutions = {name: data.solve(probabilities) for name, probabilities in decisions.items()}
    baseline = solutions["never"]
    # The same correction for all policies, so that differences compare like with like.
    people_differ = baseline.p_value < PEOPLE_DIFFER
    never, never_influence = baseline.correct(people_differ)
    people = len(never_influence)

    def make_interval(value: float, influence: Floats) -> Interval:
        error = float(np.sqrt((influence**2).sum() * people / (people - 1)))
        return t_interval(value, error, people - 1)

    values = []
    for name, solution in solutions.items():
        value, influence = solution.correct(people_differ)
        difference = make_interval(value - never, influence - never_influence)
        immediate_difference = immediate[name] - immediate["never"]
        values.append(LongRunValue(name, make_interval(value, influence), difference, immediate_difference))
    cautions = write_sentences(
        "long_run.txt",
        people_differ=people_differ,
        p_value=baseline.p_value,
        jackknifed=baseline.jackknifed,
        length=int(np.median(np.bincount(data.position))),
        short=SHORT_SERIES,
        short_for_differences=SHORT_FOR_DIFFERENCES,
    )
    return tuple(values), tuple(cautions)


def score_method(method: Method, logs: Trajectories, y: None = None) -> float:
    """Estimate the value of a method per decision point from logs, by the doubly robust estimator.

    No decision point judges what was learned from it. One policy for anybody that was learned from other people is judged as
    it is. In every other case the method is learned anew from these logs without the fold that judges it: by participant
    where one policy serves anybody, else by time. So `GridSearchCV(method, grid, scoring=score_method)` works with folds of
    people, also for policies per participant.

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
