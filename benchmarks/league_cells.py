"""The league's cells and contestants: simulators with a design and a measure, and who learns in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import surefoot as sf
from benchmarks.oralytics import NOISE, WEEK, Oralytics, OralyticsLearner
from benchmarks.published import (
    MIWAVES,
    ORALYTICS,
    ActionCentred,
    ContextualBandits,
    MabWiser,
    RomeLearner,
    Smooth,
    Truth,
    believe,
    reveal,
)
from benchmarks.rome import DESIGNS, SETTINGS, Rome, run_trial
from benchmarks.step_count import OUTCOME_NOISE, POINTS, StepCount
from benchmarks.trials import UNWORN, Dirty, Learner, Observations, Recommended, Refitted, act, join, learn_or_wait
from surefoot.simulators.heartsteps import BETA, REWARD_NOISE
from surefoot.simulators.simulator import Simulation, Simulator

EPISODES = 50
"""Episodes of StepCountJITAI that a contestant learns from."""
JUDGING = 200
"""Episodes after them that its policy is judged by."""


@dataclass(frozen=True)
class Cell:
    """A simulator with a design, and how a contestant is measured in it."""

    name: str
    simulator: Callable[[], Any]
    measure: Callable[[Any, Simulation, Learner, int], float]
    smaller_is_better: bool = False
    points: int = 100
    """Decision points of a participant."""
    noise: float = 1.0
    """The standard deviation of the outcomes' noise, in which published algorithms and packages get the outcomes."""
    unworn: float | None = None
    """The share of outcomes that are reported as 0 where there are also artefacts after prompts; None without artefacts."""

    @property
    def sign(self) -> float:
        """1 where more is better, −1 where less is."""
        return -1.0 if self.smaller_is_better else 1.0

    def play(self, simulator: Any, learner: Learner, seed: int) -> float:
        """The value of a contestant in one trial."""
        reported = simulator if self.unworn is None else Dirty(simulator, unworn=self.unworn, seed=seed)
        return self.measure(simulator, reported.start(seed=seed), learner, seed)


def measure_regret(design: str, simulator: Rome, simulation: Simulation, learner: Learner, seed: int) -> float:
    """The mean regret per participant in a staged trial of RoME's simulator."""
    return float(run_trial(simulator, design, learner, seed, simulation).sum())


def measure_steps(simulator: Simulator, simulation: Simulation, learner: Learner, seed: int) -> float:
    """The mean steps of 200 episodes after 50, one after the other, from which the learner learned five at a time."""
    people = np.arange(len(simulator.participants))
    uniform = np.random.default_rng([seed, 1]).random((POINTS, len(people)))
    played: list[Observations] = []
    for episode in range(EPISODES):
        played += [act(simulator, simulation, learner, people == episode, numbers) for numbers in uniform]
        if episode % 5 == 4:
            learn_or_wait(learner, join(played), simulation)
            played = []
    for numbers in uniform:
        act(simulator, simulation, learner, people >= EPISODES, numbers)
    return float(simulation.rewards[0, EPISODES:].sum(axis=1).mean())


def measure_outcome(
    updates: int, points: int, simulator: Simulator, simulation: Simulation, learner: Learner, seed: int
) -> float:
    """The mean outcome where everybody begins together, with an update after every so many decision points."""
    everybody = np.ones(len(simulator.participants), dtype=bool)
    uniform = np.random.default_rng([seed, 1]).random((updates, points, len(everybody)))
    for period in uniform:
        observations = [act(simulator, simulation, learner, everybody, numbers) for numbers in period]
        learn_or_wait(learner, join(observations), simulation)
    return float(simulation.rewards[0].mean())


def list_cells() -> Iterator[Cell]:
    """All cells, the most important first."""

    def rome(setting: str, design: str) -> Cell:
        people, points = DESIGNS[design]
        return Cell(
            f"RoME, {design}, {setting}",
            partial(Rome, setting, people=people, points=points),
            partial(measure_regret, design),
            smaller_is_better=True,
            points=points,
        )

    for setting in reversed(SETTINGS):
        for design in DESIGNS:
            yield rome(setting, design)
    fade = rome("fade", "rectangular")
    yield replace(fade, name=f"{fade.name}, artefacts", unworn=0.0)
    yield soil(fade)
    people = partial(sf.simulators.HeartSteps, 30, spread=1.0, seed=5)
    for cell in (
        Cell("StepCountJITAI", partial(StepCount, EPISODES + JUDGING), measure_steps, noise=OUTCOME_NOISE),
        Cell("HeartSteps, spread 1", people, partial(measure_outcome, 20, 5), noise=BETA[12] * REWARD_NOISE),
        Cell("Oralytics", Oralytics, partial(measure_outcome, 10, WEEK), noise=NOISE),
    ):
        yield cell
        yield soil(cell)


def soil(cell: Cell) -> Cell:
    """The same with artefacts after prompts, and with devices that are not worn."""
    return replace(cell, name=f"{cell.name}, artefacts and unworn", unworn=UNWORN)


CELLS = {cell.name: cell for cell in list_cells()}
Contestant = Callable[[Cell, Any, int], Learner | None]
"""The learner for a cell, its simulator and a seed; None where it cannot take part."""


def ours(name: str, **parameters: Any) -> Contestant:
    return lambda cell, simulator, seed: Refitted(sf.method(name, **parameters), len(simulator.action_names))


def told(make: Callable[[Truth, int, int], Learner]) -> Contestant:
    """An algorithm that is told the truth about the simulator: `make` gets it, the number of features and the seed."""

    def enter(cell: Cell, simulator: Any, seed: int) -> Learner | None:
        truth = reveal(simulator, cell.points, cell.noise)
        return None if truth is None else make(truth, truth.people.shape[1], seed)

    return enter


def enter_oralytics(cell: Cell, simulator: Any, seed: int) -> Learner | None:
    """Oralytics' algorithm: with its own prior in its own simulator, elsewhere with that of the comparison."""
    if isinstance(simulator, Oralytics):
        return OralyticsLearner()
    return told(lambda truth, width, seed: Smooth(believe(truth, blocks=3), width, ORALYTICS))(cell, simulator, seed)


SMOOTH: dict[str, Any] = {"pooling": {"name": "partial", "time": "smooth"}, "baseline": "smooth"}
"""Partial pooling, effects that change for everybody, and a baseline of any shape."""
OURS: dict[str, Contestant] = {
    "recommended": lambda cell, simulator, seed: Recommended(len(simulator.action_names)),
    "ts, all": ours("ts", pooling="all"),
    "ts, partial": ours("ts", pooling="partial"),
    "hb-ts, partial": ours("hb-ts", pooling="partial"),
    "ts, smooth": ours("ts", **SMOOTH),
    "hb-ts, smooth": ours("hb-ts", **SMOOTH),
    "ts, all, long run": lambda cell, simulator, seed: (
        None if isinstance(simulator, Rome) else ours("ts", pooling="all", horizon="long-run")(cell, simulator, seed)
    ),
}
CONTESTANTS: dict[str, Contestant] = {
    **OURS,
    "RoME": told(
        lambda truth, width, seed: RomeLearner(believe(truth, blocks=1, people=True, times=True, linked=True), width, seed)
    ),
    "IntelligentPooling": told(
        lambda truth, width, seed: ActionCentred(believe(truth, blocks=2, people=True, times=True), width)
    ),
    "MiWaves": told(lambda truth, width, seed: Smooth(believe(truth, blocks=3, people=True), width, MIWAVES)),
    "Oralytics": enter_oralytics,
    "MABWiser LinTS": lambda cell, simulator, seed: MabWiser(len(simulator.action_names), seed, cell.noise),
    "contextualbandits LinUCB": lambda cell, simulator, seed: ContextualBandits(
        len(simulator.action_names), seed, cell.noise
    ),
}
