"""S5: how far every critic's coefficients are from the truth when a part of the data is wrong, and when none is.

The simulator is HeartSteps. A critic's error is the mean over people and seeds of ‖ŵ − w*‖, shown relative to that of least
squares on the clean data (`relative`) and to that of least squares on the untouched decision points only (`to_oracle`).
All critics see the
same logs. The paper's nine methods have three critics between them: `least squares` (plain), `hampel` (filter-) and
`capped` (ro-); `high-breakdown` is that of the hb- methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.learning import filters
from surefoot.learning.critics import CriticBatch, CriticFit, make_critic
from surefoot.learning.critics.ridge import ridge
from surefoot.policies import coin
from surefoot.policies.features import critic_features
from surefoot.simulators import HeartSteps, contaminate
from surefoot.simulators.heartsteps import BETA, REWARD_NOISE

DECISION_POINTS = 210
PENALTY = 1e-3


class Scenario(NamedTuple):
    """What is put into the logs."""

    mechanism: str
    ratio: float = 0.0
    strength: float = 5.0

    def __str__(self) -> str:
        share = f" {100 * self.ratio:g} %" if self.ratio else ""
        return self.mechanism + share + (f", ν = {self.strength:g}" if self.strength != 5 else "")


SCENARIOS = (
    Scenario("clean"),
    *(Scenario("sensor", ratio) for ratio in (0.04, 0.1, 0.2, 0.3)),
    Scenario("sensor", 0.3, 10.0),
    *(Scenario("prompted", ratio) for ratio in (0.1, 0.2)),
    *(Scenario("careless", ratio) for ratio in (0.1, 0.2, 0.3)),
)


@dataclass(frozen=True, eq=False)
class Problem:
    """One seed's logs under one scenario, and the same as arrays (people, decision points, …)."""

    logs: Trajectories
    state: NDArray[np.float64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    features: NDArray[np.float64]
    touched: NDArray[np.bool_]

    @classmethod
    def of(cls, logs: Trajectories, touched: NDArray[np.bool_]) -> Problem:
        """Everybody must have equally many decision points; `touched` has a value per row of the logs."""
        rows = logs.order.reshape(len(logs.participants), -1)
        state, action = logs.state[rows], logs.action[rows]
        return cls(logs, state, action, logs.reward[rows], critic_features(state, action, 2), touched[rows])

    def with_logs(self, logs: Trajectories) -> Problem:
        """The same decision points with other values."""
        touched = np.empty(len(logs), dtype=bool)
        touched[logs.order] = self.touched.ravel()
        return Problem.of(logs, touched)


def least_squares(problem: Problem, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Ridge with the methods' default penalty, (people, features)."""
    used = np.ones_like(problem.reward) if weights is None else weights
    coef: NDArray[np.float64] = ridge(problem.features, problem.reward, used, np.full(8, PENALTY))
    return coef


def _fit_after_filter(name: str) -> Callable[[Problem], NDArray[np.float64]]:
    return lambda problem: least_squares(problem.with_logs(filters.clean(problem.logs, name)))


def robust_fit(problem: Problem, critic: str, tau: float = 1.0) -> CriticFit:
    """A critic that leaves decision points out."""
    data = (problem.features, problem.reward, np.ones_like(problem.reward), problem.state, problem.action)
    return make_critic(critic, {"tau": tau}).fit(CriticBatch(*data, penalty=np.full(8, PENALTY), arms=1))


FITTERS: dict[str, Callable[[Problem], NDArray[np.float64]]] = {
    "oracle": lambda problem: least_squares(problem, (~problem.touched).astype(np.float64)),
    "least squares": least_squares,
    "hampel": _fit_after_filter("hampel"),
    "kalman": _fit_after_filter("kalman"),
    "capped": lambda problem: robust_fit(problem, "capped").coef,
    "high-breakdown": lambda problem: robust_fit(problem, "high-breakdown").coef,
}
PEERS = ("huber", "ransac")


def _peer(name: str, people: int) -> Callable[[Problem], NDArray[np.float64]]:
    """scikit-learn's HuberRegressor or RANSACRegressor, participant by participant, for the first so many people."""
    from sklearn.linear_model import HuberRegressor, LinearRegression, RANSACRegressor

    def one(x: NDArray[np.float64], r: NDArray[np.float64]) -> NDArray[np.float64]:
        # Their solvers expect features and rewards of about unit size.
        unit = float(np.median(np.abs(r))) or 1.0
        if name == "huber":
            found = HuberRegressor(alpha=0.0, fit_intercept=False, max_iter=1000).fit(x, r / unit).coef_
        else:
            plain = LinearRegression(fit_intercept=False)
            found = RANSACRegressor(plain, random_state=0).fit(x, r / unit).estimator_.coef_
        return np.asarray(unit * found)

    def fit(problem: Problem) -> NDArray[np.float64]:
        return np.stack([one(x, r) for x, r in zip(problem.features[:people], problem.reward[:people], strict=True)])

    return fit


def make_problems(
    scenarios: Sequence[Scenario], *, participants: int, seeds: int | range, seed: int
) -> Iterator[tuple[int, Problem, Problem]]:
    """For every seed and scenario: the scenario's position, the clean problem and the contaminated one."""
    for replicate in range(seeds) if isinstance(seeds, int) else seeds:
        dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(replicate, part)) for part in range(2))
        logs = HeartSteps(participants=participants).collect(coin(2), decision_points=DECISION_POINTS, seed=dynamics)
        clean = Problem.of(logs, np.zeros(len(logs), dtype=bool))
        for place, (mechanism, ratio, strength) in enumerate(scenarios):
            if mechanism == "clean":
                yield place, clean, clean
            else:
                dirty = contaminate(logs, mechanism=mechanism, ratio=ratio, strength=strength, seed=outliers)
                yield place, clean, Problem.of(dirty.logs, dirty.touched)


@dataclass(frozen=True, eq=False)
class CoefficientErrors:
    """Mean errors of every critic under every scenario, (scenarios, critics), and what was left out."""

    scenarios: tuple[Scenario, ...]
    critics: tuple[str, ...]
    error: NDArray[np.float64]
    relative: NDArray[np.float64]
    """To least squares on the same people's clean data."""
    standard_error: NDArray[np.float64]
    """Of `relative`, from the spread over people and seeds of error / mean clean error."""
    to_oracle: NDArray[np.float64]
    people: tuple[int, ...]
    """People × seeds behind each critic's means."""
    notes: tuple[str, ...]

    def to_frame(self, backend: str = "pyarrow") -> Any:
        """A tidy frame with a row per scenario and critic."""
        pairs = [(s, c) for s in range(len(self.scenarios)) for c in range(len(self.critics))]
        data: dict[str, Any] = {
            "data": [str(self.scenarios[s]) for s, _ in pairs],
            "mechanism": [self.scenarios[s].mechanism for s, _ in pairs],
            "ratio": [self.scenarios[s].ratio for s, _ in pairs],
            "strength": [self.scenarios[s].strength for s, _ in pairs],
            "critic": [self.critics[c] for _, c in pairs],
            "people": [self.people[c] for _, c in pairs],
        }
        for name in ("error", "relative", "standard_error", "to_oracle"):
            data[name] = getattr(self, name).ravel()
        return make_frame(data, backend)

    def to_markdown(self) -> str:
        """The table of relative errors, with the standard error of ours and its ratio to the oracle."""
        lines = [
            "| data | " + " | ".join(self.critics) + " | high-breakdown / oracle |",
            "|---" * (len(self.critics) + 2) + "|",
        ]
        ours = self.critics.index("high-breakdown")
        for s, scenario in enumerate(self.scenarios):
            cells = [f"{value:.2f}" for value in self.relative[s]]
            cells[ours] = f"**{self.relative[s, ours]:.3f}** ± {self.standard_error[s, ours]:.3f}"
            lines.append(f"| {scenario} | " + " | ".join(cells) + f" | {self.to_oracle[s, ours]:.3f} |")
        return "\n".join(lines)


def coefficient_errors(
    scenarios: Sequence[Scenario] = SCENARIOS,
    *,
    participants: int = 200,
    seeds: int = 5,
    seed: int = 2025,
    peer_participants: int = 40,
) -> CoefficientErrors:
    """The S5 table. scikit-learn's critics fit one participant at a time, so they get the first `peer_participants` of every
    seed."""
    if participants < 1 or seeds < 1 or not scenarios:
        raise InputError("S5 needs at least one participant, one seed and one scenario")
    found = [
        errors_of_seed(scenarios, participants=participants, replicate=r, seed=seed, peer_participants=peer_participants)
        for r in range(seeds)
    ]
    return summarise_errors(found, scenarios, peer_participants=min(peer_participants, participants))


SeedErrors = dict[str, list[list[float]]]
"""One seed's ‖ŵ − w*‖ of everybody by critic, a list per scenario; `clean` is least squares on the clean data."""


def errors_of_seed(
    scenarios: Sequence[Scenario], *, participants: int, replicate: int, seed: int, peer_participants: int
) -> SeedErrors:
    """The errors of every critic under every scenario for one replicate's people."""
    fitters = dict(FITTERS)
    with suppress(ImportError):
        fitters |= {name: _peer(name, min(peer_participants, participants)) for name in PEERS if peer_participants}
    errors: SeedErrors = {name: [] for name in ("clean", *fitters)}
    for _, clean, problem in make_problems(
        scenarios, participants=participants, seeds=range(replicate, replicate + 1), seed=seed
    ):
        errors["clean"].append(np.linalg.norm(least_squares(clean) - HeartSteps.critic_coef, axis=1).tolist())
        for name, fit in fitters.items():
            errors[name].append(np.linalg.norm(fit(problem) - HeartSteps.critic_coef, axis=1).tolist())
    return errors


def summarise_errors(
    found: Sequence[SeedErrors], scenarios: Sequence[Scenario], *, peer_participants: int
) -> CoefficientErrors:
    """Means over people and seeds."""
    names = tuple(name for name in found[0] if name != "clean")
    notes = []
    if "huber" in names:
        notes.append(f"huber and ransac are means over the first {peer_participants} people of every seed")
    elif peer_participants:
        notes.append("scikit-learn is not installed, so huber and ransac were left out")
    places = range(len(scenarios))
    errors = [[[np.array(one[name][s]) for one in found] for name in names] for s in places]
    base = [[np.array(one["clean"][s]) for one in found] for s in places]
    return _summary(tuple(scenarios), names, errors, base, tuple(notes))


def _summary(
    scenarios: tuple[Scenario, ...],
    names: tuple[str, ...],
    errors: list[list[list[NDArray[np.float64]]]],
    base: list[list[NDArray[np.float64]]],
    notes: tuple[str, ...],
) -> CoefficientErrors:
    shape = (len(scenarios), len(names))
    mean, relative, spread, to_oracle = (np.zeros(shape) for _ in range(4))
    for s, c in np.ndindex(shape):
        found = np.concatenate(errors[s][c])
        # A critic that saw fewer people is compared on those.
        count = len(errors[s][c][0])
        clean = np.concatenate([values[:count] for values in base[s]]).mean()
        oracle = np.concatenate([values[:count] for values in errors[s][names.index("oracle")]]).mean()
        mean[s, c], relative[s, c], to_oracle[s, c] = found.mean(), found.mean() / clean, found.mean() / oracle
        spread[s, c] = found.std(ddof=1) / np.sqrt(len(found)) / clean if len(found) > 1 else np.inf
    people = tuple(sum(len(part) for part in errors[0][c]) for c in range(len(names)))
    return CoefficientErrors(scenarios, names, mean, relative, spread, to_oracle, people, notes)


def log_normal_logs(logs: Trajectories, seed: int | np.random.SeedSequence) -> Trajectories:
    """The same decision points with rewards whose noise β7 + ϱ is log-normal, of the same mean and variance (skewness 4)."""
    state, action = logs.state, logs.action
    middle, deviation = BETA[6], REWARD_NOISE
    width = np.sqrt(np.log(1 + (deviation / middle) ** 2))
    normal = np.random.default_rng(seed).standard_normal(len(logs))
    noise = middle * np.exp(width * normal - width**2 / 2) - middle
    return logs.with_values(reward=critic_features(state, action, 2) @ HeartSteps.critic_coef + BETA[12] * noise)


class SkewedRow(NamedTuple):
    """What a critic makes of skewed but clean rewards."""

    critic: str
    bias: float
    """Mean error of the mean treatment effect, in steps."""
    standard_error: float
    """Of that mean over people and seeds."""
    deviation: float
    """Standard error of one participant's estimate: its standard deviation over people and seeds."""
    decision_points_removed: float
    reward_removed: float
    """Share of the total reward."""


def skewed_rewards(*, participants: int = 200, seeds: int = 5, seed: int = 2025) -> list[SkewedRow]:
    """Bias of the mean treatment effect, and what is thrown away, when rewards are log-normal and nothing is wrong."""
    names = ("least squares", "capped", "high-breakdown")
    off: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    points: dict[str, list[float]] = {name: [] for name in names}
    rewards: dict[str, list[float]] = {name: [] for name in names}
    for replicate, (_, clean, _) in enumerate(
        make_problems(SCENARIOS[:1], participants=participants, seeds=seeds, seed=seed)
    ):
        noise = np.random.SeedSequence(seed, spawn_key=(replicate, 2))
        problem = clean.with_logs(log_normal_logs(clean.logs, noise))
        average = np.concatenate([np.ones((participants, 1)), problem.state.mean(axis=1)], axis=1)
        for name in names:
            if name == "least squares":
                coef, kept = least_squares(problem), np.ones_like(problem.reward)
            else:
                fit = robust_fit(problem, name)
                coef, kept = fit.coef, fit.weights
            off[name].append(((coef - HeartSteps.critic_coef)[:, 4:] * average).sum(axis=1))
            points[name].append(float(1 - kept.mean()))
            rewards[name].append(float(1 - (kept * problem.reward).sum() / problem.reward.sum()))
    rows = []
    for name in names:
        error = np.concatenate(off[name])
        spread = float(error.std(ddof=1))
        means = (float(np.mean(points[name])), float(np.mean(rewards[name])))
        rows.append(SkewedRow(name, float(error.mean()), spread / len(error) ** 0.5, spread, *means))
    return rows
