"""Policy checks: what a new policy must satisfy before it may decide about people.

One check asks how much of the policy hangs on one decision point, or on one participant: it is refitted without those that
matter most. Where one policy serves everybody, first-order influences in closed form say what matters, and refits are made
only of what may come near the limit.
"""

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.inference.sandwich import Influences
from surefoot.learning.methods import Method
from surefoot.log_checks.outcomes_by_action import PILE_UNSAFE, PILES_NAME, check_pile_values
from surefoot.policies.features import policy_features
from surefoot.policies.policies import Policies
from surefoot.study import Study, StudyLogs, TrialSection
from surefoot.study.trial_section import GuardRails
from surefoot.trial_rules.choices import fixed_probabilities

Floats = NDArray[np.float64]
CANDIDATES = 3
"""Decision points, and participants, that are left out in turn."""
NEAR = 0.25
"""A change that is estimated above this share of what is allowed is refitted."""
FEW_ROWS = 500
"""With fewer rows first-order estimates are too rough to rely on: twice as many candidates, by two orders, are refitted."""


@dataclass(frozen=True)
class Influence:
    """What leaving something out would change."""

    subject: str
    """Which decision point, or which participant."""
    change: float
    """Mean change of the probabilities; with a policy for each participant, of the one who changes most."""
    refitted: bool = True
    """False: estimated to first order, and far below the limit."""


def cook_distances(data: Trajectories, weights: Floats, *, pooled: bool) -> Floats:
    """Cook's distance rᵢ² hᵢ / (1 − hᵢ)² of every row in a least-squares fit of the outcome on [1, s] × [1, actions].

    NaN where a row was not used, or was removed as an outlier. Only an order of candidates: what is reported is refitted.
    """
    distances = np.full(len(data), np.nan)
    group = np.where(weights > 0, 0 if pooled else data.participant_index, -1)
    for number in range(1 if pooled else len(data.participants)):
        rows = np.flatnonzero(group == number)
        if not rows.size:
            continue
        state = np.column_stack([np.ones(rows.size), data.state[rows]])
        treated = [state * (data.action[rows] == code)[:, None] for code in range(1, len(data.action_names))]
        counts = np.sqrt(weights[rows])  # What is forgotten has less influence.
        left, values, _ = np.linalg.svd(np.hstack([state, *treated]) * counts[:, None], full_matrices=False)
        left = left[:, values > 1e-10 * values[0]]
        outcome = data.outcome[rows] * counts
        residual = outcome - left @ (left.T @ outcome)
        leverage = np.minimum((left**2).sum(axis=1), 1 - 1e-9)
        distances[rows] = residual**2 * leverage / (1 - leverage) ** 2 + leverage
    return distances


def find_influences(
    study: Study,
    logs: StudyLogs,
    method: Method,
    policies: Policies,
    shared: Influences | None,
    allowed: float,
    label: Callable[[int], str],
) -> list[Influence]:
    """The influence of the most influential rows and, where participants share a policy, participants.

    `shared` are the influences of participants and rows on a shared policy, `label` names a row of the input. A change that
    is estimated far below `allowed` is not refitted.
    """
    if not policies.serves_anybody:
        return _find_personal_influences(study, logs, method, policies, label)
    data = logs.logs
    closed = _estimate_changes(method, shared)
    few = int(method.used_.sum()) < FEW_ROWS
    orders = [] if closed is None else [closed]
    if few or closed is None:
        distances = cook_distances(data, np.nan_to_num(method.weights_), pooled=method.policies_.participants is None)
        totals = np.bincount(data.participant_index, np.nan_to_num(distances), len(data.participants))
        orders.append((distances, totals.astype(np.float64)))
    near = NEAR * allowed if len(orders) == 1 and closed is not None else -np.inf
    count = 2 * CANDIDATES if few else CANDIDATES
    candidates = [
        (label(int(logs.row[row])), orders[0][0][row], np.arange(len(data)) != row)
        for row in _list_largest([rows for rows, _ in orders], count)
    ]
    if len(data.participants) > CANDIDATES:
        candidates += [
            (f"participant {data.participants[number]}", orders[0][1][number], data.participant_index != number)
            for number in _list_largest([people for _, people in orders], count)
        ]
    return [
        Influence(name, float(estimate), refitted=False)
        if estimate <= near
        else Influence(name, compare_policies(study, data, policies, _refit(study, data[others], method)))
        for name, estimate, others in candidates
    ]


def _list_largest(orders: Sequence[Floats], count: int) -> list[int]:
    """Positions of the largest by any of the orders, without those that are not known."""
    positions: dict[int, None] = {}
    for changes in orders:
        known = np.where(np.isnan(changes), -1.0, changes)
        # Only the largest need an order.
        candidates = np.argpartition(known, -min(count, len(known)))[-count:]
        largest = candidates[np.argsort(known[candidates], kind="stable")[::-1]]
        positions |= {int(row): None for row in largest if not np.isnan(changes[row])}
    return list(positions)


def _refit(study: Study, logs: Trajectories, method: Method | None = None) -> Policies | None:
    """The policy without what is left out; None where nothing is left to learn from.

    With a fitted `method` its chosen parts are kept; otherwise a method that chooses its parts chooses them again.
    """
    if not logs.usable.any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # That too little is left is what the comparison shows.
        unfitted = study.method() if method is None else replace(method.settled)
        refitted: Policies = unfitted.fit_some(logs).policies_
        return refitted


def _decide_in_warm_up(study: Study) -> Floats:
    """The probabilities before there is a policy."""
    return np.array(fixed_probabilities(study, (study.trial or TrialSection()).warm_up_probability))


def _estimate_changes(method: Method, shared: Influences | None) -> tuple[Floats, Floats] | None:
    """About the largest mean change of a probability without each row, and without each participant.

    A logit that moves by δ moves a probability by at most |δ| / 4 (two actions) or |δ| / 2; the mean of |δ| is at most its
    root mean square, √(Δθᵀ Σ Δθ), summed over actions. None where there is no closed form.
    """
    logs = method.logs_
    if shared is None or shared.policy is None or shared.rows is None:
        return None
    used, row_moves = shared.rows
    seen = policy_features(logs.state[used] * method.policy_sees_)
    metric = seen.T @ seen / len(used)
    people = np.unique(logs.participant_index[used])
    changes = []
    for size, places, moves in ((len(logs), used, row_moves), (len(logs.participants), people, shared.policy)):
        steps = moves.reshape(len(moves), -1, len(metric))
        change = np.full(size, np.nan)
        # A change that cannot be judged counts as beyond any limit.
        change[places] = np.nan_to_num(np.sqrt(((steps @ metric) * steps).sum(axis=(1, 2))), nan=np.inf)
        changes.append(change / (4 if logs.actions == 2 else 2))
    return changes[0], changes[1]


def _find_personal_influences(
    study: Study, logs: StudyLogs, method: Method, policies: Policies, label: Callable[[int], str]
) -> list[Influence]:
    """The influence of rows where everybody has a policy of their own: each of the candidates refitted, all at once."""
    data = logs.logs
    distances = cook_distances(data, np.nan_to_num(method.weights_), pooled=False)
    distances[~policies.covers(data.participant)] = np.nan
    candidates = _list_largest([distances], CANDIDATES)
    if not candidates:
        return []
    of_participant = [np.flatnonzero(data.participant_index == data.participant_index[row]) for row in candidates]
    left = [rows[rows != row] for rows, row in zip(of_participant, candidates, strict=True)]
    chosen = np.concatenate(left)
    index = np.repeat(np.arange(len(left)), [len(rows) for rows in left])
    columns = ("time", "state", "available", "action", "probability", "outcome")
    values = {name: getattr(data, name)[chosen] for name in columns}
    without = _refit(study, replace(data, participants=np.arange(len(left)), participant_index=index, **values), method)
    influences = []
    for number, (row, rows) in enumerate(zip(candidates, of_participant, strict=True)):
        states = data.state[rows[data.available[rows] & ~np.isnan(data.state[rows]).any(axis=1)]]
        before = study.clip_probabilities(policies[data.participant[row]].rule.probabilities(states))
        after = _decide_in_warm_up(study)
        if without is not None:
            after = study.clip_probabilities(without.rule[number].probabilities(states))
        influences.append(Influence(label(int(logs.row[row])), float(np.abs(before - after).max(axis=1).mean())))
    return influences


def compare_policies(study: Study, data: Trajectories, policies: Policies, without: Policies | None) -> float:
    """The mean change of the probabilities; with a policy for each participant, of the one who changes most."""
    moved, index = _measure_moves(study, data, policies, without)
    if policies.participants is None or not len(moved):
        return float(moved.mean()) if len(moved) else 0.0
    return float((np.bincount(index, moved) / np.maximum(np.bincount(index), 1)).max())


def _measure_moves(
    study: Study, data: Trajectories, policies: Policies, without: Policies | None
) -> tuple[Floats, NDArray[np.int64]]:
    """The largest change of a probability at every logged state that both policies cover, and whose state it is.

    Without any policy (None) the warm-up decides.
    """
    chosen = data.available & ~np.isnan(data.state).any(axis=1) & policies.covers(data.participant)
    if without is not None:
        chosen &= without.covers(data.participant)  # Somebody new may not have a policy yet.
    people = data.participant[chosen]
    states = data.state[chosen]
    before = study.clip_probabilities(policies.probabilities(people, states))
    after = _decide_in_warm_up(study)
    if without is not None:
        after = study.clip_probabilities(without.probabilities(people, states))
    return np.abs(before - after).max(axis=1), data.participant_index[chosen]


ROUNDING = 1e-9


@dataclass(frozen=True)
class PolicyFinding:
    """The result of one check: what was measured, what is allowed."""

    check: str
    passed: bool
    measured: float | None
    allowed: float | None
    message: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_policy(study: Study, logs: StudyLogs, weights: Floats, new: Policies, old: Policies | None) -> list[PolicyFinding]:
    """All checks, whether or not an earlier one failed; `old` decided until now, the warm-up where there is none.

    `weights` (rows) are 0 where the critic removed a row, NaN where it was not used.
    """
    settings = study.trial or TrialSection()
    rails = settings.guard_rails
    finite = all(bool(np.isfinite(values).all()) for values in new.rule.arrays().values())
    used = int((~np.isnan(weights)).sum())
    removed = int((weights == 0).sum())
    share = removed / used if used else 0.0
    message = f"{removed} of {used} rows removed as outliers"
    findings = [
        PolicyFinding("finite", finite, None, None, "every number of the policy is finite"),
        PolicyFinding("removed", share <= rails.max_removed, share, rails.max_removed, message),
    ]
    if logs.screen is not None:
        # A screen that depends on the action would let the policy learn who was prompted.
        message = "; ".join(logs.screen.warnings()) or f"{int(logs.screen.marks.sum())} values marked missing by the screen"
        findings.append(PolicyFinding("screen", logs.screen.blind, None, None, message))
    # Nor may a value that many outcomes share depend on the action, unless the study says that it is real: the policy would
    # learn when a device was worn.
    piles = check_pile_values(logs, study)
    differences = [abs(pile["difference"]["value"]) for pile in piles.numbers["piles"] if not pile["real"]]
    passed = piles.verdict != "unsafe"
    message = piles.reason if passed else f"{piles.reason}; {piles.remedy}"
    findings.append(PolicyFinding(PILES_NAME, passed, max(differences, default=None), PILE_UNSAFE, message))
    if not finite:
        return findings
    data = logs.logs
    chosen = data.available & ~np.isnan(data.state).any(axis=1) & new.covers(data.participant)
    people = data.participant[chosen]
    states = data.state[chosen]
    earlier = np.tile(_decide_in_warm_up(study), (len(people), 1))
    known = np.zeros(len(people), dtype=bool) if old is None else old.covers(people)
    if old is not None and known.any():
        earlier[known] = study.clip_probabilities(old.probabilities(people[known], states[known]))
    probabilities = study.clip_probabilities(new.probabilities(people, states))
    before = float(1 - earlier[:, 0].mean()) if len(people) else settings.warm_up_probability
    after = float(1 - probabilities[:, 0].mean()) if len(people) else before
    change = abs(after - before)
    allowed = rails.max_send_rate_change
    message = f"mean probability of sending {before:.3f} before, {after:.3f} after"
    findings += [check_limits(study, probabilities), PolicyFinding("send rate", change <= allowed, change, allowed, message)]
    moved = np.abs(probabilities - earlier).max(axis=1)
    return [*findings, *check_changes(rails, moved[known], people[known], is_live=old is not None)]


def check_changes(rails: GuardRails, moved: Floats, people: NDArray[Any], *, is_live: bool) -> list[PolicyFinding]:
    """How far the policy moves, state by state and participant by participant; a mean would hide changes that cancel out.

    `moved` (states) is the largest change of a probability at each logged state that the live policy covers, of `people`.
    """
    if not len(moved):
        message = "the live policy covers nobody of whom there are data" if is_live else "no policy is live yet"
        return [PolicyFinding("change", True, None, rails.max_changed_states, message)]
    share = float((moved > rails.state_change).mean())
    message = f"the probabilities move by more than {rails.state_change:g} at {100 * share:.1f} % of the logged states"
    names, index = np.unique(people, return_inverse=True)
    means = np.bincount(index, moved) / np.bincount(index)
    most = float(means.max())
    allowed = rails.max_person_change
    by_person = f"participant {names[means.argmax()]} moves most, by {most:.3f} on average"
    return [
        PolicyFinding("change", share <= rails.max_changed_states, share, rails.max_changed_states, message),
        PolicyFinding("participants", most <= allowed, most, allowed, by_person),
    ]


def check_newcomers(
    study: Study, logs: StudyLogs, policies: Policies, known: Collection[str] | None, allowed: float
) -> PolicyFinding:
    """The policy without newcomers (`known`: everybody else) must do about the same to the others: whoever can register
    people must not make the policy in a few nights."""
    data = logs.logs
    newcomers = list_newcomers(logs, known)
    is_new = np.isin(data.participant, newcomers)
    if not policies.serves_anybody:
        return PolicyFinding("newcomers", True, None, allowed, "everybody has a policy of their own")
    if known is None or not newcomers or not (data.usable & ~is_new).any():
        message = "no policy is live that has learned in this trial" if known is None else "nobody is new"
        return PolicyFinding("newcomers", True, None, allowed, message)
    others = data[~is_new]
    moved, _ = _measure_moves(study, others, policies, _refit(study, others))
    change = float(moved.mean()) if len(moved) else 0.0
    points = int((data.usable & is_new).sum())
    message = (
        f"without the {len(newcomers)} newcomers of the last days ({points:,} decision points) "
        f"the probabilities of the others would move by {change:.3f} on average"
    )
    return PolicyFinding("newcomers", change <= allowed, change, allowed, message)


def list_newcomers(logs: StudyLogs, known: Collection[str] | None) -> list[str]:
    """The participants with usable decision points who are not known, those with the most of them first."""
    data = logs.logs
    is_new = data.usable & ~np.isin(data.participant, sorted(known or ()))
    names, counts = np.unique(data.participant[is_new], return_counts=True)
    return [str(name) for name in names[np.argsort(-counts, kind="stable")]]


def check_coefficients(
    new: list[dict[str, Any]], old: list[dict[str, Any]], allowed: float, *, is_live: bool
) -> PolicyFinding:
    """The largest change of a coefficient, in the larger of its two standard errors; rows of `estimate_errors`."""
    before = {(row["action"], row["feature"]): row for row in old}
    changes = []
    for row in new:
        earlier = before.get((row["action"], row["feature"]))
        errors = [estimate["standard_error"] or 0.0 for estimate in (row, earlier) if estimate is not None]
        if earlier is not None and max(errors) > 0:
            moved = f"{row['action']}: {row['feature']} from {earlier['value']:.3g} to {row['value']:.3g}"
            changes.append((abs(row["value"] - earlier["value"]) / max(errors), moved))
    if not changes:
        message = "no coefficients with standard errors to compare; what the policy does is compared"
        message = message if is_live else "no policy is live yet"
        return PolicyFinding("coefficients", True, None, allowed, message)
    largest, moved = max(changes)
    return PolicyFinding("coefficients", largest <= allowed, largest, allowed, f"moved most, in standard errors: {moved}")


def check_influence(influences: list[Influence], allowed: float) -> PolicyFinding:
    """No decision point and no participant alone may make the policy."""
    if not influences:
        return PolicyFinding("influence", True, None, allowed, "nothing was used")
    largest = max(influences, key=lambda influence: influence.change)
    # Decision points come first: the smallest thing that explains a refusal is named.
    most = next((influence for influence in influences if influence.change > allowed), largest)
    about = "" if most.refitted else "about "
    message = f"without {most.subject} the probabilities would move by {about}{most.change:.3f} on average"
    return PolicyFinding("influence", most.change <= allowed, most.change, allowed, message)


def check_limits(study: Study, probabilities: NDArray[np.float64]) -> PolicyFinding:
    """After the study's limits nothing may lie outside them."""
    send = 1 - probabilities[:, 0]
    limits = study.probability_limits
    sums = np.abs(probabilities.sum(axis=1) - 1) <= ROUNDING
    inside = (send >= limits.minimum - ROUNDING) & (send <= limits.maximum + ROUNDING)
    good = np.isfinite(probabilities).all(axis=1) & sums & inside & (probabilities >= 0).all(axis=1)
    return PolicyFinding("limits", bool(good.all()), float((~good).sum()), 0.0, "probabilities within the study's limits")
