"""Published algorithms of the field, written from their papers, as learners of a staged trial.

All are Bayesian linear regressions of the outcome. With x = [1, s], the effect of a prompt for participant i at decision
point t is xᵀ(θ + u_i + γ_t), with whichever of the three an algorithm has.

- RoME (Huch and others 2024): all three, graph penalties between neighbours, and outcomes made doubly robust by a machine
  learning model of the outcome.
- IntelligentPooling (Tomkins, Liao, Klasnja and Murphy 2021): all three, actions centred, a linear baseline.
- MiWaves (Ghosh and others 2024): θ + u_i, actions centred, smooth posterior sampling.
- Oralytics (Trella and others 2022, 2025): θ, actions centred, smooth posterior sampling.

RoME, IntelligentPooling and MiWaves are told the true covariances of u and γ, and RoME the true neighbours, as in the
comparison that its authors published. Surefoot's methods are told nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr, roots_hermitenorm

from benchmarks.rome import Observations, Rome
from surefoot.simulators.simulator import Simulation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED_PRECISION = 25.0
"""Prior precision of shared coefficients in the published comparison of RoME."""
LEAST_VARIANCE = 1e-6
NEIGHBOURS = 5
REFIT = 10
"""RoME's model of the outcome is fitted again after this many stages."""
SMOOTH = (0.2, 0.8, 5.0, 21.053)
"""L_min, L_max, c and b of smooth posterior sampling, for effects in standard deviations of the noise."""


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


def invert_covariance(effects: Floats) -> Floats:
    """The precision of these effects; where they are all alike, one that forbids differences."""
    return np.asarray(np.linalg.inv(np.cov(effects.T) + LEAST_VARIANCE * np.eye(effects.shape[1])))


class Mixed:
    """Bayesian regression with coefficients for everybody, for each participant and for each decision point.

    The first columns are the baseline's, where there is one; then θ, all u_i and all γ_t, three numbers each.
    """

    def __init__(self, simulator: Rome, *, baseline: bool, people: bool, times: bool, linked: bool) -> None:
        count = len(simulator.participants)
        self.first = 3 if baseline else 0
        self.people_at = self.first + 3
        self.times_at = self.people_at + (3 * count if people else 0)
        size = self.times_at + (3 * simulator.points if times else 0)
        self.has_people = people
        self.has_times = times
        self.precision = np.zeros((size, size))
        shared = slice(0, self.people_at)
        self.precision[shared, shared] = SHARED_PRECISION * np.eye(self.people_at)
        for present, start, effects in (
            (people, self.people_at, simulator.person_effects),
            (times, self.times_at, simulator.time_effects),
        ):
            if present:
                block = np.kron(np.eye(len(effects)), invert_covariance(effects))
                if linked:
                    block = block + np.kron(link_neighbours(effects), np.eye(3))
                stop = start + len(block)
                self.precision[start:stop, start:stop] = block
        self.target = np.zeros(size)
        self.sent = np.zeros(0)

    def place(self, base: Floats, people: Ints, time: Ints, factor: Floats) -> Floats:
        """The features of an effect, (rows, coefficients): `factor` times x in each of its places."""
        features = np.zeros((len(base), len(self.target)))
        rows = np.arange(len(base))
        starts = [np.full(len(base), self.first)]
        starts += [self.people_at + 3 * people] if self.has_people else []
        starts += [self.times_at + 3 * time] if self.has_times else []
        for start in starts:
            for column in range(3):
                features[rows, start + column] = factor * base[:, column]
        return features

    def judge(self, people: Ints, time: Ints, state: Floats) -> tuple[Floats, Floats]:
        """The posterior mean and standard deviation of the effect at these decision points."""
        base = np.column_stack([np.ones(len(state)), state])
        features = self.place(base, people, time, np.ones(len(base)))
        factor = cho_factor(self.precision, lower=True)
        mean = features @ cho_solve(factor, self.target)
        variance = np.einsum("rk,kr->r", features, cho_solve(factor, features.T))
        return mean, np.sqrt(variance)

    def decide(self, people: Ints, time: Ints, state: Floats) -> Floats:
        mean, deviation = self.judge(people, time, state)
        self.sent = self.allocate(mean, deviation)
        return np.column_stack([1 - self.sent, self.sent])

    def allocate(self, mean: Floats, deviation: Floats) -> Floats:
        """The probability of a prompt: that its effect is positive."""
        return np.asarray(ndtr(mean / deviation))

    def add(self, features: Floats, outcome: Floats, weights: Floats) -> None:
        self.precision += features.T @ (weights[:, None] * features)
        self.target += features.T @ (weights * outcome)


class ActionCentred(Mixed):
    """r = xᵀα + (a − π) xᵀ(θ + u_i + γ_t) + e."""

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        known = ~np.isnan(observations.outcome)
        base = np.column_stack([np.ones(known.sum()), observations.state[known]])
        centred = observations.action[known] - self.sent[known]
        features = self.place(base, observations.people[known], observations.time[known], centred)
        features[:, :3] = base
        self.add(features, observations.outcome[known], np.ones(len(base)))


class Smooth(ActionCentred):
    """Smooth posterior sampling: E ρ(effect), ρ(x) = L_min + (L_max − L_min) / (1 + c exp(−b x))."""

    def allocate(self, mean: Floats, deviation: Floats) -> Floats:
        low, high, c, b = SMOOTH
        nodes, weights = roots_hermitenorm(31)
        effects = mean[:, None] + deviation[:, None] * nodes
        shares = low + (high - low) / (1 + c * np.exp(-np.clip(b * effects, -500, 500)))
        return np.asarray(shares @ weights / weights.sum())


class RomeLearner(Mixed):
    """RoME: the outcome is replaced by (r − f(s, a)) / (a − π₀) + f(s, 1) − f(s, 0), with weight π₀ (1 − π₀).

    π₀ is the probability of no prompt, and f bagged regression trees, fitted to earlier stages. The published algorithm
    grows its trees one decision point at a time. Its factor β_k / β_1 of the posterior's width is next to 1 and is left out.
    """

    def __init__(self, simulator: Rome, seed: int) -> None:
        super().__init__(simulator, baseline=False, people=True, times=True, linked=True)
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

        known = ~np.isnan(observations.outcome)
        state = observations.state[known]
        action = observations.action[known].astype(np.float64)
        outcome = observations.outcome[known]
        nothing = np.clip(1 - self.sent[known], 1e-6, 1 - 1e-6)
        residual = outcome - self.predict(state, action)
        ones = np.ones(len(state))
        adjusted = residual / (action - nothing) + self.predict(state, ones) - self.predict(state, 0 * ones)
        base = np.column_stack([ones, state])
        features = self.place(base, observations.people[known], observations.time[known], ones)
        self.add(features, adjusted, nothing * (1 - nothing))
        self.seen.append(np.column_stack([state, action]))
        self.outcomes.append(outcome)
        stage = len(self.outcomes)
        if stage % REFIT == 0 or stage == 5:
            model = RandomForestRegressor(20, min_samples_leaf=5, max_samples=0.8, random_state=self.seed + stage)
            self.model = model.fit(np.concatenate(self.seen), np.concatenate(self.outcomes))


class MabWiser:
    """MABWiser's linear Thompson sampling on [s, 1], for everybody together."""

    def __init__(self, actions: int, seed: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy  # noqa: PLC0415

        self.actions = actions
        self.model = MAB(list(range(actions)), LearningPolicy.LinTS(alpha=1.0, l2_lambda=1.0), seed=seed)
        self.fitted = False

    def decide(self, people: Ints, time: Ints, state: Floats) -> Floats:
        if not self.fitted:
            return np.full((len(people), self.actions), 1 / self.actions)
        chosen = np.atleast_1d(self.model.predict(with_intercept(state)))
        return np.eye(self.actions)[chosen.astype(np.int64)]

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        known = ~np.isnan(observations.outcome) & ~np.isnan(observations.state).any(axis=1)
        if not known.any():
            return
        learn = self.model.partial_fit if self.fitted else self.model.fit
        learn(observations.action[known], observations.outcome[known], with_intercept(observations.state[known]))
        self.fitted = True


class ContextualBandits(MabWiser):
    """LinUCB of contextualbandits on [s, 1], for everybody together."""

    def __init__(self, actions: int, seed: int) -> None:
        from contextualbandits.online import LinUCB  # noqa: PLC0415

        self.actions = actions
        self.model = LinUCB(actions, alpha=1.0, fit_intercept=False, use_float=False, random_state=seed)
        self.fitted = False

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        known = ~np.isnan(observations.outcome) & ~np.isnan(observations.state).any(axis=1)
        if not known.any():
            return
        learn = self.model.partial_fit if self.fitted else self.model.fit
        learn(with_intercept(observations.state[known]), observations.action[known], observations.outcome[known])
        self.fitted = True


def with_intercept(state: Floats) -> Floats:
    return np.column_stack([state, np.ones(len(state))])
