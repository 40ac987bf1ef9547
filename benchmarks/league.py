"""The league: Surefoot's methods and published algorithms in simulators of the field.

    make league                                     # go on where it stopped, and write benchmarks/league.md
    python -m benchmarks.league --table             # write the table only
    python -m benchmarks.league --cells "RoME*fade" --contestants "RoME*" --replicates 10

Each trial appends a line to benchmarks/league.jsonl, and trials that have one are not run again. Seeds are 1000 and above:
nothing was tuned on them.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import surefoot as sf
from benchmarks.published import ActionCentred, ContextualBandits, MabWiser, RomeLearner, Smooth
from benchmarks.rome import DESIGNS, SETTINGS, Learner, Observations, Refitted, Rome, run_trial
from benchmarks.step_count import POINTS, StepCount
from surefoot.errors import FitWarning, InputError
from surefoot.numerics.arrays import Engine
from surefoot.simulators.simulator import Simulation, Simulator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_SEED = 1000
REPLICATES = 50
FEW = 3
"""With fewer replicates nothing is called the best, or a loss."""
RESULTS = Path(__file__).with_name("league.jsonl")
PAGE = Path(__file__).with_name("league.md")
ARTEFACTS = 0.1
UNWORN = 0.12
STRENGTH = 5.0
EPISODES = 50
JUDGING = 200


class Dirty(Simulator):
    """A simulator whose reported outcomes have artefacts after prompts and, where asked for, are 0 from unworn devices.

    After a prompt the outcome rises with probability 0.1 by 5 times the mean absolute outcome under a coin; at 12 % of all
    decision points the device is not worn. True outcomes, and the people, are those of the simulator.
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
            self.policies = self.settled.fit(logs).policies_


def fit_or_wait(learner: Learner, observations: Observations, simulation: Simulation) -> None:
    """Methods that look ahead refuse logs that are too small; they learn from the next ones."""
    try:
        learner.learn(observations, simulation)
    except InputError:
        return


@dataclass(frozen=True)
class Cell:
    """A simulator with a design, and how a contestant is measured in it."""

    name: str
    simulator: Callable[[], Any]
    measure: Callable[[Any, Learner, int], float]
    smaller_is_better: bool
    unit: str
    actions: int = 2


def measure_regret(design: str, *, dirty: bool = False, unworn: float = 0.0) -> Callable[[Any, Learner, int], float]:
    """The mean regret per participant in a staged trial of RoME's simulator."""

    def measure(simulator: Rome, learner: Learner, seed: int) -> float:
        simulation = Dirty(simulator, unworn=unworn, seed=seed).start(seed=seed) if dirty else None
        return float(run_trial(simulator, design, learner, seed, simulation).sum())

    return measure


def act(simulation: Simulation, learner: Learner, active: NDArray[np.bool_], uniform: Floats) -> Observations:
    """One decision point of the active people."""
    now = simulation.look()
    people = np.flatnonzero(active)
    state = now.state[0, people]
    seen = ~np.isnan(state).any(axis=1)
    passed = simulation.time[0, people]
    actions = len(simulation._simulator.action_names)
    probabilities = np.full((len(people), actions), 1 / actions)
    if seen.any():
        probabilities[seen] = learner.decide(people[seen], passed[seen], state[seen])
    drawn = (uniform[people][:, None] >= probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    action = np.zeros(len(active), dtype=np.int64)
    action[people] = drawn
    probability = np.ones(len(active))
    probability[people] = np.take_along_axis(probabilities, drawn[:, None], axis=1)[:, 0]
    simulation.step(action[None], probability[None], active=active[None])
    taken = simulation.actions[0, people, passed]
    outcome = np.where(seen, simulation.reported[0, people, passed], np.nan)
    return Observations(people, passed, state, taken, probability[people], outcome)


def join(observations: list[Observations]) -> Observations:
    return Observations(
        *(np.concatenate(columns) for columns in zip(*(vars(o).values() for o in observations), strict=True))
    )


def measure_steps(simulator: StepCount, learner: Learner, seed: int) -> float:
    """The mean steps of 200 episodes after 50, one after the other, of which each taught the learner."""
    simulation = simulator.start(seed=seed)
    people = np.arange(len(simulator.participants))
    uniform = np.random.default_rng([seed, 1]).random((POINTS, len(people)))
    for episode in range(EPISODES):
        played = [act(simulation, learner, people == episode, numbers) for numbers in uniform]
        if episode % 5 == 4:
            fit_or_wait(learner, join(played), simulation)
        elif isinstance(learner, MabWiser):
            learner.learn(join(played), simulation)
    for numbers in uniform:
        act(simulation, learner, people >= EPISODES, numbers)
    return float(simulation.rewards[0, EPISODES:].sum(axis=1).mean())


def measure_outcome(simulator: Simulator, learner: Learner, seed: int) -> float:
    """The mean outcome over 20 days of 5 decision points, with an update every night; everybody begins together."""
    simulation = simulator.start(seed=seed)
    everybody = np.ones(len(simulator.participants), dtype=bool)
    uniform = np.random.default_rng([seed, 1]).random((20, 5, len(everybody)))
    for day in uniform:
        observations = [act(simulation, learner, everybody, numbers) for numbers in day]
        fit_or_wait(learner, join(observations), simulation)
    return float(simulation.rewards[0].mean())


def list_cells() -> Iterator[Cell]:
    """All cells, the most important first."""

    def rome(setting: str, design: str) -> Callable[[], Rome]:
        people, points = DESIGNS[design]
        return lambda: Rome(setting, people=people, points=points)

    for setting in reversed(SETTINGS):
        for design in DESIGNS:
            name = f"RoME, {design}, {setting}"
            yield Cell(name, rome(setting, design), measure_regret(design), True, "regret")
    fade = rome("fade", "rectangular")
    yield Cell("RoME, rectangular, fade, artefacts", fade, measure_regret("rectangular", dirty=True), True, "regret")
    both = measure_regret("rectangular", dirty=True, unworn=UNWORN)
    yield Cell("RoME, rectangular, fade, artefacts and unworn", fade, both, True, "regret")
    yield Cell("StepCountJITAI", lambda: StepCount(EPISODES + JUDGING), measure_steps, False, "steps", 4)
    people = partial(sf.simulators.HeartSteps, 30, spread=1.0, seed=5)
    yield Cell("HeartSteps, spread 1", people, measure_outcome, False, "steps")


CELLS = {cell.name: cell for cell in list_cells()}
Contestant = Callable[[Cell, Any, int], Learner | None]
"""The learner for a cell, its simulator and a seed; None where it cannot take part."""


def ours(name: str, **parameters: Any) -> Contestant:
    return lambda cell, simulator, seed: Refitted(sf.method(name, **parameters), cell.actions)


def told(make: Callable[[Rome, int], Learner]) -> Contestant:
    """An algorithm that needs RoME's true covariances."""
    return lambda cell, simulator, seed: make(simulator, seed) if isinstance(simulator, Rome) else None


SMOOTH: dict[str, Any] = {"pooling": {"name": "partial", "time": "smooth"}, "baseline": "smooth"}
"""Partial pooling, effects that change for everybody, and a baseline of any shape."""
CONTESTANTS: dict[str, Contestant] = {
    "recommended": lambda cell, simulator, seed: Recommended(cell.actions),
    "ts, partial": ours("ts", pooling="partial"),
    "hb-ts, partial": ours("hb-ts", pooling="partial"),
    "ts, smooth": ours("ts", **SMOOTH),
    "hb-ts, smooth": ours("hb-ts", **SMOOTH),
    "ts, all, long run": lambda cell, simulator, seed: (
        None if isinstance(simulator, Rome) else Refitted(sf.method("ts", pooling="all", horizon="long-run"), cell.actions)
    ),
    "RoME": told(RomeLearner),
    "IntelligentPooling": told(
        lambda simulator, seed: ActionCentred(simulator, baseline=True, people=True, times=True, linked=False)
    ),
    "MiWaves": told(lambda simulator, seed: Smooth(simulator, baseline=True, people=True, times=False, linked=False)),
    "Oralytics": told(lambda simulator, seed: Smooth(simulator, baseline=True, people=False, times=False, linked=False)),
    "MABWiser LinTS": lambda cell, simulator, seed: MabWiser(cell.actions, seed),
    "contextualbandits LinUCB": lambda cell, simulator, seed: ContextualBandits(cell.actions, seed),
}
OURS = ("recommended", "ts, partial", "hb-ts, partial", "ts, smooth", "hb-ts, smooth", "ts, all, long run")


def read_results(path: Path = RESULTS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run(cells: str, contestants: str, replicates: int, *, path: Path = RESULTS, share: tuple[int, int] = (0, 1)) -> None:
    """Run the trials that are missing, one seed after the other, and append each to the results."""
    finished = {(line["cell"], line["contestant"], line["seed"]) for line in read_results(path)}
    for seed in range(FIRST_SEED + share[0], FIRST_SEED + replicates, share[1]):
        for cell in CELLS.values():
            for name, make in CONTESTANTS.items():
                if not (fnmatch(cell.name, cells) and fnmatch(name, contestants)) or (cell.name, name, seed) in finished:
                    continue
                simulator = cell.simulator()
                learner = make(cell, simulator, seed)
                if learner is None:
                    continue
                start = time.perf_counter()
                value = cell.measure(simulator, learner, seed)
                seconds = round(time.perf_counter() - start, 1)
                line = {"cell": cell.name, "contestant": name, "seed": seed, "value": value, "seconds": seconds}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def summarise(results: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float, int]]:
    """Mean, standard error and number of replicates of every contestant in every cell."""
    summary = {}
    for key in dict.fromkeys((line["cell"], line["contestant"]) for line in results):
        values = np.array([line["value"] for line in results if (line["cell"], line["contestant"]) == key])
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
        summary[key] = (float(values.mean()), error, len(values))
    return summary


def write_rows(summary: dict[tuple[str, str], tuple[float, float, int]]) -> list[str]:
    """A row for every contestant; **bold** where it is the best, or where ours loses by more than two standard errors."""
    cells = [cell for cell in CELLS.values() if any(key[0] == cell.name for key in summary)]
    rows = [f"| contestant | {' | '.join(cell.name for cell in cells)} |", "|---|" + "---:|" * len(cells)]
    for name in CONTESTANTS:
        entries = []
        for cell in cells:
            entry = summary.get((cell.name, name))
            entries.append("–" if entry is None else write_entry(cell, name, entry, summary))
        rows.append(f"| {name} | {' | '.join(entries)} |")
    return rows


def write_entry(cell: Cell, name: str, entry: tuple[float, float, int], summary: dict[Any, Any]) -> str:
    mean, error, count = entry
    sign = -1.0 if cell.smaller_is_better else 1.0
    rivals = {key[1]: value for key, value in summary.items() if key[0] == cell.name and value[2] >= FEW}
    best = max(rivals, key=lambda rival: sign * rivals[rival][0], default=name)
    digits = 0 if abs(mean) >= 100 else 1
    text = f"{mean:,.{digits}f} ± {error:,.{digits}f} ({count})" if count > 1 else f"{mean:,.{digits}f} (1)"
    if count < FEW or len(rivals) < 2:
        return text
    if name == best:
        return f"**{text}**"
    behind = sign * (rivals[best][0] - mean) / np.hypot(error, rivals[best][1])
    return f"**{text}, loss**" if name in OURS and best not in OURS and behind > 2 else text


def write_page(path: Path = PAGE, results: Path = RESULTS) -> None:
    summary = summarise(read_results(results))
    text = path.read_text(encoding="utf-8")
    before, _, after = text.partition("<!-- table -->\n")
    _, _, after = after.partition("<!-- end of the table -->\n")
    table = "\n".join(write_rows(summary))
    path.write_text(f"{before}<!-- table -->\n{table}\n<!-- end of the table -->\n{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="*")
    parser.add_argument("--contestants", default="*")
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--share", default="0/1", help="which of how many processes this is, such as 0/2")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    first, processes = map(int, options.share.split("/"))
    if not options.table:
        run(options.cells, options.contestants, options.replicates, path=options.results, share=(first, processes))
    write_page(results=options.results)


if __name__ == "__main__":
    main()
