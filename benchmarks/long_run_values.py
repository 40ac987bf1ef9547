"""How right long-run values from logs are: bias and coverage over simulated studies whose people are alike or differ.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.long_run_values

Takes 20 minutes of one processor, and uses all there are; writes benchmarks/long_run_values.json. In every study new people
are drawn: the truth is the average over all people who could have been.
"""

import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.off_policy import assign_folds, fit_without_folds, value_long_run
from surefoot.inference.intervals import t_quantile
from surefoot.learning.horizon.long_run_value import LongRunLogs
from surefoot.simulators import HeartSteps

STUDIES, PEOPLE, POINTS = 100, 50, 210
"""Of the table of policies, with people who are alike."""
SEED = 70_000
REPEATS = 200
"""Studies of every cell of the table of people who differ."""
SIZES = tuple(product((20, 40, 150), (42, 70, 210)))
"""People and decision points."""
POLICIES = ("never", "always", "oracle-myopic")
SENDING = {"never": 0.0, "always": 1.0, "coin": 0.5}


class DifferentLevels(HeartSteps):
    """People who differ in level only: a usual outcome and usual states of their own, which go together.

    At spread 1 the outcome's intercept has standard deviation 300 and is correlated 0.7 with that of the weather, whose
    standard deviation is 0.5; those of engagement and fatigue are 0.45 and 0.22.
    """

    def __init__(self, participants=50, *, spread=0.0, seed=0):
        super().__init__(participants)
        rng = np.random.default_rng([seed, participants])
        usual, *others = rng.standard_normal((4, participants))
        self.level = spread * 300 * (0.7 * usual + 0.714 * others[0])
        self.shift = spread * np.array([0.5 * usual, 0.2 * usual + 0.4 * others[1], 0.2 * others[2] - 0.1 * usual])

    def of(self, people, engine):
        part = copy(self)
        part.level, part.shift = self.level[people], self.shift[:, people]
        return part

    def advance(self, state, action, numbers):
        following, reward = super().advance(state, action, numbers)
        for variable, shift in enumerate(self.shift):
            following[variable] += shift
        return following, reward + self.level

    def settle(self, send):
        """What everybody earns in the long run when the same share of decision points is sent to, (people,)."""
        coef = np.tile(self.transition_coef, (len(self.level), 1, 1))
        coef[:, 0] += self.shift.T
        return settle(coef, np.tile(self.critic_coef, (len(self.level), 1)), send) + self.level


class DifferentReactions(HeartSteps):
    """People who differ in all coefficients of outcome and transitions, as `HeartSteps(spread=…)` draws them."""

    def settle(self, send):
        shape = (len(self.participants), 1)
        return settle(
            np.broadcast_to(self.transition_coef, (*shape[:1], 8, 3)), np.broadcast_to(self.critic_coef, (shape[0], 8)), send
        )


def settle(transition, worth, send):
    """The average outcome in closed form: states settle at s = (I − F)⁻¹ c."""
    mean = transition[:, :4] + send * transition[:, 4:]
    state = np.linalg.solve(np.eye(3) - np.swapaxes(mean[:, 1:], 1, 2), mean[:, 0, :, None])[..., 0]
    z = np.column_stack([np.ones(len(state)), state])
    return (z * (worth[:, :4] + send * worth[:, 4:])).sum(axis=1)


@cache
def find_truth(kind, spread):
    """The policies' averages over people; of the one that looks at states by its simulated difference from a coin."""
    many = kind(60_000, spread=spread, seed=1)
    truth = {name: float(many.settle(send).mean()) for name, send in SENDING.items()}
    policies = {"coin": sf.policies.coin(2), "oracle-myopic": HeartSteps().oracle_myopic()}
    runs = kind(20_000, spread=spread, seed=2).run(policies, steps=260, keep=200, seed=3)
    more = float((runs["oracle-myopic"].reward - runs["coin"].reward).mean())
    return truth | {"oracle-myopic": truth["coin"] + more}


def solve_with_one_intercept(data, probabilities):
    """η and influences when everybody shares one intercept, as it was before: (η, w) of Σ x Dᵀ (η, w) = Σ x r."""
    logs = data.logs
    x = data._features(data.rows, np.eye(2)[logs.action[data.rows]])
    difference = x - data._features(data.following, probabilities)
    ones = np.ones((len(x), 1))
    x, difference = np.hstack([ones, x]), np.hstack([ones, difference])
    system = x.T @ difference
    reward = logs.outcome[data.rows]
    solution = np.linalg.solve(system, x.T @ reward)
    pull = x @ np.linalg.solve(system.T, np.eye(len(system))[0])
    return solution[0], np.bincount(data.position, weights=pull * (reward - difference @ solution))


def cover(value, influence, truth):
    people = len(influence)
    half = t_quantile(people - 1) * np.sqrt((influence**2).sum() * people / (people - 1))
    return abs(value - truth) < half


def measure_cell(kind, spread, people, points):
    """Bias, spread and coverage of every policy's value and difference from never, by both kinds of intercepts."""
    truth = find_truth(kind, spread)
    policies = {
        "never": sf.policies.never(2),
        "always": sf.policies.always(2),
        "oracle-myopic": HeartSteps().oracle_myopic(),
    }
    estimates, before, noted = [], [], 0
    for logs in list_studies(kind, spread, people, points):
        data = LongRunLogs.of_logs(logs, sf.critics.Ridge())
        decisions = {name: policies[name].probabilities(logs.state[data.following]) for name in POLICIES}
        values, notes = value_long_run(data, decisions, dict.fromkeys(POLICIES, 0.0))
        noted += any("people differ" in note for note in notes)
        estimates.append([judge_interval(found, truth) for found in values])
        old = {name: solve_with_one_intercept(data, decisions[name]) for name in POLICIES}
        before.append([judge_pair(old[name], old["never"], truth[name], truth["never"]) for name in POLICIES])
    cell = {"people_differ_in": kind.__name__, "spread": spread, "people": people, "decision_points": points}
    cell |= {"said_to_differ": noted / REPEATS, "policies": summarise_cell(estimates, truth)}
    cell["with_one_intercept"] = summarise_cell(before, truth)
    print(json.dumps(cell), flush=True)
    return cell


def list_studies(kind, spread, people, points, at_once=10):
    """The logs of every study, simulated several at once, for speed."""
    for number in range(0, REPEATS, at_once):
        seed = SEED + number + 1000 * people + points
        logs = kind(people * at_once, spread=spread, seed=seed).collect(
            sf.policies.coin(2), decision_points=points, seed=seed
        )
        rows = logs.order.reshape(at_once, people, points)
        for study in rows:
            yield sf.Trajectories.from_arrays(
                logs.state[study], logs.action[study], logs.outcome[study], probability=0.5 + 0 * study
            )


def judge_interval(found, truth):
    """(error, standard error, whether the interval covers, error of the difference, whether its interval covers)."""
    right, apart = truth[found.policy], truth[found.policy] - truth["never"]
    value, change = found.value, found.difference
    inside = (value.low <= right <= value.high, change.low <= apart <= change.high)
    return value.value - right, value.standard_error, inside[0], change.value - apart, inside[1]


def judge_pair(solved, nothing, right, right_nothing):
    (value, influence), (value_0, influence_0) = solved, nothing
    error = np.sqrt((influence**2).sum())
    apart = right - right_nothing
    covers = cover(value - value_0, influence - influence_0, apart) if solved is not nothing else True
    return value - right, error, cover(value, influence, right), value - value_0 - apart, covers


def summarise_cell(errors, truth):
    table = np.array(errors, dtype=float)
    names = ("bias", "standard_error", "coverage", "bias_of_difference", "coverage_of_difference")
    means = table.mean(axis=0)
    deviations = table[..., 0].std(axis=0, ddof=1)
    return [
        {
            "policy": policy,
            "truth": truth[policy],
            **dict(zip(names, row.tolist(), strict=True)),
            "standard_deviation": float(deviation),
        }
        for policy, row, deviation in zip(POLICIES, means, deviations, strict=True)
    ]


def measure_people():
    """All cells of the table, over processes."""
    kinds = [(DifferentReactions, spread) for spread in (0.0, 0.5, 1.0, 2.0)]
    kinds += [(DifferentLevels, spread) for spread in (0.5, 1.0, 2.0)]
    cells = [(kind, spread, *size) for (kind, spread), size in product(kinds, SIZES)]
    # The longest first, so that no processor waits for the last.
    cells.sort(key=lambda cell: -cell[2] * cell[3])
    with ProcessPoolExecutor() as pool:
        measured = list(pool.map(measure_quietly, cells))
    return sorted(
        measured, key=lambda cell: [cell[key] for key in ("people_differ_in", "spread", "people", "decision_points")]
    )


def measure_quietly(cell):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        return measure_cell(*cell)


def measure_policies():
    """Bias and coverage over studies of people who are alike, and how far off the immediate value is."""
    with ProcessPoolExecutor() as pool:
        studies = list(pool.map(measure_study, range(STUDIES)))
    return [summarise_policy(name, np.array([study[name] for study in studies], dtype=float)) for name in studies[0]]


def measure_study(number):
    simulator = HeartSteps(participants=PEOPLE)
    references = sf.simulators.reference_policies(simulator)
    logs = simulator.collect(sf.policies.coin(2), decision_points=POINTS, seed=SEED + 1 + number)
    data = LongRunLogs.of_logs(logs, sf.critics.Ridge())
    decisions = {name: policy.probabilities(logs.state[data.following]) for name, policy in references.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        decisions["ahead, cross-fitted"], earned = cross_fit(logs, data, number)
    truth = long_run_truth()
    truth["ahead, cross-fitted"] = truth["never"] + earned
    immediate = evaluate(logs, {"coin": references["coin"], "oracle-myopic": references["oracle-myopic"]})
    now = {name: immediate.value(name).value.value for name in references} | {"ahead, cross-fitted": np.nan}
    rows = {}
    for found in value_long_run(data, decisions, now)[0]:
        error, _, covers, _, covers_difference = judge_interval(found, truth)
        rows[found.policy] = (truth[found.policy], error, covers, covers_difference, now[found.policy] - truth[found.policy])
    return rows


def long_run_truth():
    """What the reference policies earn, from a long simulation; in closed form but for the last."""
    simulator = DifferentReactions(1)
    runs = HeartSteps(1000).run({"it": simulator.oracle_myopic()}, steps=1000, keep=800, seed=SEED)
    return {name: float(simulator.settle(send)[0]) for name, send in SENDING.items()} | {
        "oracle-myopic": float(runs["it"].reward.mean())
    }


def cross_fit(logs, data, number):
    """Probabilities of policies that did not see the participant, and what these earn more than never."""
    fold = assign_folds(logs, "person", 5, number)
    decisions, policies = np.empty((len(data.rows), 2)), {"never": sf.policies.never(2)}
    for part, learned in fit_without_folds(sf.method("ahead"), logs, fold):
        held_out = fold[data.following] == part
        rows = data.following[held_out]
        decisions[held_out] = learned.probabilities(logs.participant[rows], logs.state[rows])
        policies[f"fold {part}"] = learned
    runs = HeartSteps(participants=100).run(policies, steps=1500, keep=1200, seed=SEED + number)
    rewards = {name: run.reward.mean() for name, run in runs.items()}
    nothing = rewards.pop("never")
    return decisions, float(np.mean(list(rewards.values())) - nothing)


def summarise_policy(name, values):
    error = values[:, 1].std(ddof=1) / len(values) ** 0.5
    names = ("truth", "bias", "coverage", "coverage_of_difference", "immediate_value_off_by")
    means = {key: float(value) for key, value in zip(names, values.mean(axis=0), strict=True) if np.isfinite(value)}
    return {"policy": name, **means, "standard_error_of_bias": float(error)}


def main():
    path = Path(__file__).with_suffix(".json") if len(sys.argv) < 2 else Path(sys.argv[1])
    results = {
        "studies": STUDIES,
        "long_run_value": measure_policies(),
        "repeats": REPEATS,
        "people_who_differ": measure_people(),
    }
    path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
