"""Published algorithms of the field, written from their papers, as learners of a trial with two actions.

All are Bayesian linear regressions of the outcome. With x = [1, s], the effect of a prompt for participant i at decision
point t is xᵀ(θ + u_i + γ_t), with whichever of the three an algorithm has.

- RoME (Huch and others 2024): all three, graph penalties between neighbours, and outcomes made doubly robust by a machine
  learning model of the outcome.
- IntelligentPooling (Tomkins, Liao, Klasnja and Murphy 2021): all three, actions centred, a linear baseline.
- MiWaves (Ghosh and others 2024): θ + u_i, actions centred, smooth posterior sampling.
- Oralytics (Trella and others 2022, 2025): θ, actions centred, smooth posterior sampling.

They are told the standard deviation of the noise. RoME, IntelligentPooling and MiWaves are told the true covariances of u
and γ, and RoME the true neighbours, as in the comparison that its authors published. Surefoot's methods are told nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve
from scipy.special import expit, ndtr, roots_hermitenorm

import surefoot as sf
from benchmarks.rome import Rome
from benchmarks.trials import Observations
from surefoot.simulators.simulator import Simulation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED_PRECISION = 25.0
"""Prior precision of shared coefficients in the published comparison of RoME, where the noise has standard deviation 1."""
LEAST_VARIANCE = 1e-6
NEIGHBOURS = 5
REFIT = 10
"""RoME's model of the outcome is fitted again after this many stages."""
MIWAVES = (5.0, 21.053)
ORALYTICS = (3.0, 0.515 * 4058**0.5)
"""c and b of smooth posterior sampling, for effects in standard deviations of the noise; Oralytics has 0.515 a second."""
LIMITS = (0.2, 0.8)
"""L_min and L_max of smooth posterior sampling."""


@dataclass(frozen=True)
class Truth:
    """What the published algorithms are told about a simulator."""

    people: Floats
    """u_i, (people, features)."""
    times: Floats
    """γ_t, (decision points, features)."""
    noise: float
    """The standard deviation of the outcomes' noise."""


def reveal(simulator: Any, points: int, noise: float) -> Truth | None:
    """The truth about RoME's simulator or about HeartSteps; in other simulators effects are not linear."""
    if isinstance(simulator, Rome):
        return Truth(simulator.person_effects, simulator.time_effects, noise)
    if isinstance(simulator, sf.simulators.HeartSteps):
        effects = np.split(simulator.critic_coef, 2, axis=1)[1]
        return Truth(effects - effects.mean(axis=0), np.zeros((points, effects.shape[1])), noise)
    return None


@dataclass(frozen=True)
class Prior:
    """A normal prior of a learner's coefficients, in standard deviations of the noise."""

    mean: Floats
    """Of the coefficients for everybody: one to three blocks as long as x; see `Mixed`."""
    precision: Floats
    """Of the same."""
    noise: float
    people: Floats | None = None
    """The precision of all u_i together."""
    times: Floats | None = None
    """The precision of all γ_t together."""


def believe(truth: Truth, *, blocks: int, people: bool = False, times: bool = False, linked: bool = False) -> Prior:
    """The prior of the published comparison of RoME, with the true covariances."""
    shared = blocks * truth.people.shape[1]
    return Prior(
        mean=np.zeros(shared),
        precision=np.full(shared, SHARED_PRECISION),
        noise=truth.noise,
        people=expect_effects(truth.people / truth.noise, linked=linked) if people else None,
        times=expect_effects(truth.times / truth.noise, linked=linked) if times else None,
    )


def link_neighbours(effects: Floats) -> Floats:
    """The Laplacian of the graph in which each row is linked with its nearest rows, (rows, rows)."""
    distances = np.linalg.norm(effects[:, None] - effects[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    laplacian = np.zeros(distances.shape)
    for row, nearest in enumerate(np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]):
        laplacian[nearest, nearest] += 1.0
        laplacian[row, row] += len(nearest)
        laplacian[row, nearest] -= 1.0
        laplacian[nearest, row] -= 1.0
    return laplacian


def expect_effects(effects: Floats, *, linked: bool) -> Floats:
    """The prior precision of all these effects together; where all are alike it forbids differences."""
    width = effects.shape[1]
    covariance = np.cov(effects.T) + LEAST_VARIANCE * np.eye(width)
    precision = np.kron(np.eye(len(effects)), np.linalg.inv(covariance))
    return precision + np.kron(link_neighbours(effects), np.eye(width)) if linked else precision


class Mixed:
    """Bayesian regression with coefficients for everybody, for each participant and for each decision point.

    The coefficients for everybody are those of x and of π x, where an algorithm has them, and θ. All u_i and all γ_t follow.
    """

    def __init__(self, prior: Prior, width: int) -> None:
        self.noise = prior.noise
        self.width = width
        self.first = len(prior.mean) - width
        self.people_at = len(prior.mean)
        self.times_at = self.people_at + (0 if prior.people is None else len(prior.people))
        self.has_people = prior.people is not None
        self.has_times = prior.times is not None
        blocks = [np.diag(prior.precision), prior.people, prior.times]
        self.precision = block_diag(*(block for block in blocks if block is not None))
        self.target = np.zeros(len(self.precision))
        self.target[: self.people_at] = prior.precision * prior.mean

    def place(self, base: Floats, people: Ints, time: Ints, factor: Floats) -> Floats:
        """The features of an effect, (rows, coefficients): `factor` times x in each of its places."""
        features = np.zeros((len(base), len(self.target)))
        rows = np.arange(len(base))
        starts = [np.full(len(base), self.first)]
        starts += [self.people_at + self.width * people] if self.has_people else []
        starts += [self.times_at + self.width * time] if self.has_times else []
        for start in starts:
            for column in range(self.width):
                features[rows, start + column] = factor * base[:, column]
        return features

    def judge(self, people: Ints, time: Ints, state: Floats) -> tuple[Floats, Floats]:
        """The posterior mean and standard deviation of the effect at these decision points, in those of the noise."""
        base = np.column_stack([np.ones(len(state)), state])
        features = self.place(base, people, time, np.ones(len(base)))
        factor = cho_factor(self.precision, lower=True)
        mean = features @ cho_solve(factor, self.target)
        variance = np.einsum("rk,kr->r", features, cho_solve(factor, features.T))
        return mean, np.sqrt(variance)

    def decide(self, people: Ints, time: Ints, state: Floats) -> Floats:
        sent = self.allocate(*self.judge(people, time, state))
        return np.column_stack([1 - sent, sent])

    def allocate(self, mean: Floats, deviation: Floats) -> Floats:
        """The probability of a prompt: that its effect is positive."""
        return np.asarray(ndtr(mean / deviation))

    def add(self, features: Floats, outcome: Floats, weights: Floats) -> None:
        self.precision += features.T @ (weights[:, None] * features)
        self.target += features.T @ (weights * outcome / self.noise)


class ActionCentred(Mixed):
    """r = xᵀα₀ + π xᵀα₁ + (a − π) xᵀ(θ + u_i + γ_t) + e; with two blocks for everybody there is no α₁."""

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        seen = observations.known
        base = np.column_stack([np.ones(len(seen.people)), seen.state])
        features = self.place(base, seen.people, seen.time, seen.action - seen.sent)
        features[:, : self.first] = np.hstack([base, seen.sent[:, None] * base])[:, : self.first]
        self.add(features, seen.outcome, np.ones(len(base)))


class Smooth(ActionCentred):
    """Smooth posterior sampling: E ρ(effect), ρ(x) = L_min + (L_max − L_min) / (1 + c exp(−b x))."""

    def __init__(self, prior: Prior, width: int, shape: tuple[float, float]) -> None:
        super().__init__(prior, width)
        self.shape = shape

    def allocate(self, mean: Floats, deviation: Floats) -> Floats:
        c, b = self.shape
        low, high = LIMITS
        nodes, weights = roots_hermitenorm(31)
        effects = mean[:, None] + deviation[:, None] * nodes
        shares = low + (high - low) * expit(b * effects - np.log(c))
        return np.asarray(shares @ weights / weights.sum())


class RomeLearner(Mixed):
    """RoME: the outcome is replaced by (r − f(s, a)) / (a − π₀) + f(s, 1) − f(s, 0), with weight π₀ (1 − π₀).

    π₀ is the probability of no prompt, and f bagged regression trees, fitted to earlier stages. The published algorithm
    grows its trees one decision point at a time. Its factor β_k / β_1 of the posterior's width is next to 1 and is left out.
    """

    def __init__(self, prior: Prior, width: int, seed: int) -> None:
        super().__init__(prior, width)
        self.seed = seed
        self.seen: list[Floats] = []
        self.outcomes: list[Floats] = []
        self.model: Any = None

    def predict(self, state: Floats, action: Floats) -> Floats:
        if self.model is None:
            return np.zeros(len(state))
        return np.asarray(self.model.predict(np.column_stack([state, action])))

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415

        seen = observations.known
        action = seen.action.astype(np.float64)
        nothing = np.clip(1 - seen.sent, 1e-6, 1 - 1e-6)
        residual = seen.outcome - self.predict(seen.state, action)
        ones = np.ones(len(action))
        adjusted = residual / (action - nothing) + self.predict(seen.state, ones) - self.predict(seen.state, 0 * ones)
        base = np.column_stack([ones, seen.state])
        self.add(self.place(base, seen.people, seen.time, ones), adjusted, nothing * (1 - nothing))
        self.seen.append(np.column_stack([seen.state, action]))
        self.outcomes.append(seen.outcome)
        stage = len(self.outcomes)
        if stage % REFIT == 0 or stage == 5:
            model = RandomForestRegressor(20, min_samples_leaf=5, max_samples=0.8, random_state=self.seed + stage)
            self.model = model.fit(np.concatenate(self.seen), np.concatenate(self.outcomes))


class MabWiser:
    """MABWiser's linear Thompson sampling on [s, 1], for everybody together; it takes the noise to have variance 1."""

    def __init__(self, actions: int, seed: int, noise: float) -> None:
        from mabwiser.mab import MAB, LearningPolicy  # noqa: PLC0415

        self.actions = actions
        self.noise = noise
        self.model: Any = MAB(list(range(actions)), LearningPolicy.LinTS(alpha=1.0, l2_lambda=1.0), seed=seed)
        self.fitted = False

    def decide(self, people: Ints, time: Ints, state: Floats) -> Floats:
        if not self.fitted:
            return np.full((len(people), self.actions), 1 / self.actions)
        chosen = np.atleast_1d(self.model.predict(with_intercept(state)))
        return np.eye(self.actions)[chosen.astype(np.int64)]

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        seen = observations.known
        if not len(seen.people):
            return
        self.update(seen, self.model.partial_fit if self.fitted else self.model.fit)
        self.fitted = True

    def update(self, seen: Observations, fit: Any) -> None:
        fit(seen.action, seen.outcome / self.noise, with_intercept(seen.state))


class ContextualBandits(MabWiser):
    """LinUCB of contextualbandits on [s, 1], for everybody together, as `MabWiser`."""

    def __init__(self, actions: int, seed: int, noise: float) -> None:
        from contextualbandits.online import LinUCB  # noqa: PLC0415

        self.actions = actions
        self.noise = noise
        self.model = LinUCB(actions, alpha=1.0, fit_intercept=False, use_float=False, random_state=seed)
        self.fitted = False

    def update(self, seen: Observations, fit: Any) -> None:
        fit(with_intercept(seen.state), seen.action, seen.outcome / self.noise)


def with_intercept(state: Floats) -> Floats:
    return np.column_stack([state, np.ones(len(state))])
