"""RoME's simulator: people who enter one after the other, differ, and react less to prompts as time goes on.

    python -m benchmarks.rome --seeds 0-2

runs `ts` with partial pooling through every setting and design, and prints the mean regret per participant.
"""

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import surefoot as sf
from benchmarks.trials import Learner, Refitted, act
from surefoot.simulators.simulator import Simulation, Simulator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EFFECT = np.array([1.0, 0.5, -4.0])
"""θ_shared: the effect of a prompt on [1, s₁, s₂]."""
FADING = np.array([-2.0, -4.0, 6.0])
"""The part of the effect that fades: at decision point t of T it is this / (1 + 6 t / T)."""
BASELINE = np.array([2.0, -2.0, 3.0])
"""The linear outcome without a prompt, on [1, s₁, s₂]."""
SETTINGS = {"alike": 1, "differ": 1, "fade": 3}
"""The settings, and the published seed of the parameters of each: these are the same in all replicates."""
DESIGNS = {"rectangular": (100, 100), "triangular": (200, 200)}
"""People, and decision points of everybody; triangular trials end when the last person enters."""
LEAST_SIDE = 0.4
"""A rectangle with a shorter side is not split further."""


class Rome(Simulator):
    """People of the simulation in RoME; one step is one decision point.

    Contexts s₁ and s₂ are uniform on [−1, 1], whatever was sent. With x = [1, s₁, s₂], participant i, decision point
    t = 0, 1, …, T − 1, action A (0 nothing, 1 send) and ε ~ N(0, 1):

        R   = g(s) + A · xᵀ(θ + u_i + γ_t) + ε
        θ   = [1, 0.5, −4]
        u_i ~ N(0, I) where people differ, otherwise 0
        γ_t = [−2, −4, 6] / (1 + 6 t / T) + N(0, 0.2² I) where effects fade, otherwise 0
        g   = xᵀ[2, −2, 3], or where effects fade a sum of steps over nested rectangles and 20 bumps

    θ, u, γ and g are drawn once from the published seeds, and are the same in all replicates: figures can be compared with
    those of the paper. Source: Huch, Shi, Abbott, Golbus, Moreno, Dempsey, NeurIPS 2024 (arXiv 2312.06403), section 5
    and appendix, and the parameters of the authors' public simulation.

    Parameters
    ----------
    setting
        `alike`, `differ`, or `fade` (people differ, effects fade for everybody, and g is not linear).
    people, points
        Number of people, and of decision points T.
    """

    state_names = ("s1", "s2")
    initial_numbers = 2
    step_numbers = 3
    critic_coef = np.concatenate([BASELINE, EFFECT])

    def __init__(self, setting: str = "fade", *, people: int = 100, points: int = 100) -> None:
        super().__init__(people)
        self.setting = setting
        self.points = points
        seed = SETTINGS[setting]
        self.person_effects = np.zeros((people, 3))
        if setting != "alike":
            self.person_effects = np.random.RandomState(seed).normal(size=(people, 3))
        self.time_effects = np.zeros((points, 3))
        self._bumps: Floats | None = None
        if setting == "fade":
            noise = np.random.RandomState(seed).normal(scale=0.2, size=(points, 3))
            self.time_effects = FADING / (1 + 6 * np.arange(points)[:, None] / points) + noise
            rng = np.random.RandomState(seed)
            self._bumps = rng.normal(size=(20, 100))[:, :7]
            self._cuts = rng.uniform(size=1000)

    def __repr__(self) -> str:
        return f"Rome({self.setting!r}, people={len(self.participants)}, points={self.points})"

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.standard_normal(shape)

    def begin(self, numbers: Floats) -> Floats:
        return np.concatenate([2 * ndtr(numbers) - 1, np.zeros((1, *numbers.shape[1:]))])

    def advance(self, state: Floats, action: Ints, numbers: Floats) -> tuple[Floats, Floats]:
        contexts = np.moveaxis(state[:2], 0, -1)
        passed = state[2].astype(np.int64)
        effect = self.effects(contexts, np.arange(state.shape[-1]), np.minimum(passed, self.points - 1))
        reward = self.baseline(contexts) + action * effect + numbers[2]
        return np.concatenate([2 * ndtr(numbers[:2]) - 1, state[2:] + 1]), reward

    def visible(self, state: Floats) -> Floats:
        return state[:2]

    def effects(self, contexts: Floats, people: Ints, time: Ints) -> Floats:
        """xᵀ(θ + u_i + γ_t), the true effect of a prompt at contexts (…, 2) of these people at these decision points."""
        effect = EFFECT + self.person_effects[people] + self.time_effects[time]
        return effect[..., 0] + (contexts * effect[..., 1:]).sum(axis=-1)

    def baseline(self, contexts: Floats) -> Floats:
        """g, the expected outcome without a prompt at contexts (…, 2)."""
        first = contexts[..., 0]
        second = contexts[..., 1]
        if self._bumps is None:
            return BASELINE[0] + BASELINE[1] * first + BASELINE[2] * second
        values = self._steps(first, second, np.ones(first.shape, dtype=bool), ((-1.0, 1.0), (-1.0, 1.0)), 0)
        for a, b, c, d, height, centre, other in self._bumps:
            values = values + 2 * height * np.exp(
                -((a * first + b * second - centre) ** 2) - (c * first + d * second - other) ** 2
            )
        return values

    def _steps(self, first: Floats, second: Floats, inside: NDArray[np.bool_], sides: Any, number: int) -> Floats:
        """Steps over a rectangle and the two into which it is cut, with numbers of the list from this one on.

        Where the cut is across s₁, both parts' steps lie on the lower part. That is so in the published simulation.
        """
        if min(high - low for low, high in sides) < LEAST_SIDE:
            return np.zeros(first.shape)
        axis, share, height = self._cuts[number : number + 3]
        across = 0 if axis < 0.5 else 1
        low, high = sides[across]
        cut = share * low + (1 - share) * high
        below = (first, second)[across] < cut
        lower = inside & below
        upper = inside & below if across == 0 else inside & ~below
        parts = [tuple((low, cut) if side == across else sides[side] for side in (0, 1))]
        parts += [tuple((cut, high) if side == across else sides[side] for side in (0, 1))]
        values = 12 * (height - 0.5) * inside
        values = values + self._steps(first, second, lower, parts[0], number + 3)
        return values + self._steps(first, second, upper, parts[1], number + 4)


def list_stages(design: str, people: int, points: int) -> list[Floats]:
    """The active people of every stage, (people,) as booleans: one person enters at each."""
    stages = people + points - 1 if design == "rectangular" else people
    passed = np.arange(stages)[:, None] - np.arange(people)
    return list((passed >= 0) & (passed < points))


def run_trial(simulator: Rome, design: str, learner: Learner, seed: int, simulation: Simulation | None = None) -> Floats:
    """The regret of every stage: the mean over active people of the expected outcome lost to the best actions.

    A rectangular trial's regret is summed by decision point of the participant, and a triangular one's by stage, as
    published; a triangular trial ends when the last person enters.
    """
    simulation = simulation or simulator.start(seed=seed)
    people = np.arange(len(simulator.participants))
    uniform = np.random.default_rng([seed, 1]).random((len(people), simulator.points))
    lost = np.full((len(people), simulator.points), np.nan)
    stages = list_stages(design, len(people), simulator.points)
    for active in stages:
        # Those who have passed all their decision points are not active: any number will do for them.
        time = np.minimum(simulation.time[0], simulator.points - 1)
        observed = act(simulator, simulation, learner, active, uniform[people, time])
        effect = simulator.effects(observed.state, observed.people, observed.time)
        lost[observed.people, observed.time] = np.maximum(effect, 0) - observed.action * effect
        learner.learn(observed, simulation)
    if design == "rectangular":
        return lost.mean(axis=0)
    stage = np.add.outer(people, np.arange(simulator.points))
    return np.array([lost[stage == number].mean() for number in range(len(stages))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-2", help="first-last")
    parser.add_argument("--method", default="ts")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS))
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    for design in options.designs:
        people, points = DESIGNS[design]
        for setting in options.settings:
            simulator = Rome(setting, people=people, points=points)
            start = time.perf_counter()
            regrets = []
            for seed in range(first, last + 1):
                method = sf.method(options.method, pooling="partial")
                regrets.append(run_trial(simulator, design, Refitted(method), seed).sum())
                print(design, setting, seed, round(regrets[-1], 2), flush=True)
            seconds = (time.perf_counter() - start) / len(regrets)
            print(f"{design:<12}{setting:<8}{np.mean(regrets):6.1f} ± {np.std(regrets):.1f} (sd), {seconds:.0f} s a trial")


if __name__ == "__main__":
    main()
