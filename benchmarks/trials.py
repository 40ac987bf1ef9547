"""What all trials of the league share: learners, decision points, and outcomes as dirty devices report them."""

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.numerics.arrays import Engine
from surefoot.simulators.simulator import Simulation, Simulator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ARTEFACTS = 0.1
UNWORN = 0.12
STRENGTH = 5.0


@dataclass(frozen=True)
class Observations:
    """Decision points of one stage, one of each active participant."""

    people: Ints
    time: Ints
    state: Floats
    action: Ints
    probability: Floats
    """Of the action taken."""
    outcome: Floats
    """As the logs hold it, NaN where it is missing."""

    @property
    def known(self) -> "Observations":
        """The decision points whose state and outcome are present."""
        rows = ~np.isnan(self.outcome) & ~np.isnan(self.state).any(axis=1)
        return Observations(*(column[rows] for column in vars(self).values()))

    @property
    def sent(self) -> Floats:
        """The probability of a prompt, where there are two actions."""
        return np.where(self.action > 0, self.probability, 1 - self.probability)


def join(observations: list[Observations]) -> Observations:
    """The decision points of several stages."""
    columns = zip(*(vars(stage).values() for stage in observations), strict=True)
    return Observations(*(np.concatenate(column) for column in columns))


class Learner(Protocol):
    """What takes part in a trial."""

    def decide(self, people: Ints, time: Ints, state: Floats) -> Floats:
        """The probability of every action, (people, actions), at these decision points."""

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        """Learn from the last stage, or from the logs of the whole simulation so far."""


class Refitted:
    """A method of this package that is fitted to all logs after each stage, as `Method.update` does it."""

    def __init__(self, method: Any, actions: int = 2) -> None:
        self.method = method
        self.actions = actions
        self.policies: Any = None

    def decide(self, people: Ints, time: Ints, state: Floats) -> Floats:
        if self.policies is None:
            return np.full((len(people), self.actions), 1 / self.actions)
        return np.asarray(self.policies.probabilities(people, state))

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            self.policies = fit_again(self.method, simulation.logs()).policies_


class Recommended(Refitted):
    """`recommended`, which chooses its parts when the logs have doubled, and keeps them in the updates between."""

    def __init__(self, actions: int = 2) -> None:
        super().__init__(sf.method("recommended"), actions)
        self.next_choice = 0
        self.settled = sf.method("hb-ts", pooling="partial")

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        logs = simulation.logs()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            if len(logs) >= self.next_choice:
                self.settled = self.method.fit(logs).settled
                self.next_choice = 2 * len(logs)
            self.policies = fit_again(self.settled, logs).policies_


def fit_again(method: Any, logs: Trajectories) -> Any:
    """Fit to logs that have grown since the last fit: the search for variances begins at those of that fit."""
    joint = method.joint_ if method.is_fitted else None
    return method.fit_some(logs, ratios=None if joint is None else joint.ratios)


def learn_or_wait(learner: Learner, observations: Observations, simulation: Simulation) -> None:
    """Methods that look ahead refuse logs that are too small; they learn from the next ones."""
    try:
        learner.learn(observations, simulation)
    except InputError:
        return


def act(
    simulator: Simulator, simulation: Simulation, learner: Learner, active: NDArray[np.bool_], uniform: Floats
) -> Observations:
    """One decision point of the active people; `uniform` holds a random number of everybody, (people,)."""
    people = np.flatnonzero(active)
    state = simulation.look().state[0, people]
    seen = ~np.isnan(state).any(axis=1)
    time = simulation.time[0, people]
    actions = len(simulator.action_names)
    probabilities = np.full((len(people), actions), 1 / actions)
    if seen.any():
        probabilities[seen] = learner.decide(people[seen], time[seen], state[seen])
    drawn = (uniform[people][:, None] >= probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    action = np.zeros(len(active), dtype=np.int64)
    action[people] = drawn
    probability = np.ones(len(active))
    probability[people] = np.take_along_axis(probabilities, drawn[:, None], axis=1)[:, 0]
    simulation.step(action[None], probability[None], active=active[None])
    taken = simulation.actions[0, people, time]
    outcome = np.where(seen, simulation.reported[0, people, time], np.nan)
    return Observations(people, time, state, taken, probability[people], outcome)


class Dirty(Simulator):
    """A simulator whose reported outcomes have artefacts after prompts and, where asked for, are 0 from unworn devices.

    After a prompt the outcome rises with probability 0.1 by 5 times the mean absolute outcome under a coin; at a share
    `unworn` of all decision points the device is not worn. True outcomes, and the people, are those of the simulator.
    """

    def __init__(self, simulator: Simulator, *, unworn: float, seed: int) -> None:
        clean = simulator.collect(sf.policies.coin(len(simulator.action_names)), decision_points=20, seed=0)
        self.size = STRENGTH * float(np.abs(clean.outcome).mean())
        self.simulator = simulator
        self.unworn = unworn
        self.seed = seed
        for name in ("participants", "state_names", "action_names", "initial_numbers", "step_numbers", "critic_coef"):
            setattr(self, name, getattr(simulator, name))

    def of(self, people: slice, engine: Engine) -> Self:
        selected = copy(self)
        selected.simulator = self.simulator.of(people, engine)
        return selected

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.simulator.draw(rng, shape)

    def begin(self, numbers: Floats) -> Floats:
        self.rng = np.random.default_rng([self.seed, 7])
        self.shift = np.zeros(numbers.shape[1:])
        self.lost = np.zeros(numbers.shape[1:], dtype=bool)
        return self.simulator.begin(numbers)

    def advance(self, state: Floats, action: Ints, numbers: Floats) -> tuple[Floats, Floats]:
        # Two numbers for everybody at each stage, so that all contestants meet the same artefacts.
        drawn = self.rng.random((2, *np.shape(action)))
        self.shift = self.size * ((action > 0) & (drawn[0] < ARTEFACTS))
        self.lost = drawn[1] < self.unworn
        return self.simulator.advance(state, action, numbers)

    def visible(self, state: Floats) -> Floats:
        return np.asarray(self.simulator.visible(state))

    def available(self, state: Floats) -> Any:
        return self.simulator.available(state)

    def report(self, state: Floats, reward: Floats) -> Floats:
        return np.where(self.lost, 0.0, self.simulator.report(state, reward) + self.shift)
