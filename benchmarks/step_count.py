"""StepCountJITAI: four actions, people who get used to messages, and people who leave after wrong ones.

    python -m benchmarks.step_count

prints the mean steps of an episode under four fixed policies, over 200 episodes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from surefoot.simulators.simulator import Simulation, Simulator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POINTS = 50
"""Decision points of an episode."""
EPISODES = 200
STEPS_ALONE = 0.1
GENERIC_STEPS = 50.0
TAILORED_STEPS = 200.0
HABIT_DECAY = 0.1
HABIT_GROWTH = 0.05
RISK_DECAY = 0.1
RISK_GROWTH = 0.4
LEAVING = 0.99
FIRST_LEVEL = 0.1
OUTCOME_NOISE = 20.0


class StepCount(Simulator):
    """Episodes of StepCountJITAI, each one participant; one step is one decision point.

    The state is the context C (0 or 1 with equal chances; 0 at first), habituation H and the risk of disengagement D, both
    0.1 at first. Action 0 sends nothing, 1 a generic message, 2 one for context 0 and 3 one for context 1. With the means

        H' = 0.9 H without a message, otherwise min(1, H + 0.05)
        D' = D without a message, 0.9 D after a generic or a fitting one, min(1, D + 0.4) after one for the other context
        R  = 0.1 + (1 − H') · (0, 50, 200 for a fitting one, 0 for one that does not fit)

    H' and D' are multiplied by uniform numbers on [1 − a/2, 1 + a/2] and cut at 1. R is drawn from a gamma distribution
    with this mean and standard deviation σ_s. The participant leaves when D' ≥ 0.99: that outcome and all later ones are 0,
    and nobody sees a state any more. Source: Karine and Marlin 2024 (arXiv 2411.00336).

    Parameters
    ----------
    participants
        Number of episodes.
    noise
        a, of H and D.
    outcome_noise
        σ_s.
    """

    state_names = ("context", "habituation", "risk")
    action_names = ("nothing", "generic", "for context 0", "for context 1")
    initial_numbers = 1
    step_numbers = 4
    critic_coef = np.zeros(16)

    def __init__(self, participants: int = EPISODES, *, noise: float = 0.2, outcome_noise: float = OUTCOME_NOISE) -> None:
        super().__init__(participants)
        self.noise = noise
        self.outcome_noise = outcome_noise

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.random(shape)

    def begin(self, numbers: Floats) -> Floats:
        state = np.full((4, *numbers.shape[1:]), FIRST_LEVEL)
        state[0] = 0.0
        state[3] = 0.0
        return state

    def advance(self, state: Floats, action: Ints, numbers: Floats) -> tuple[Floats, Floats]:
        context, habituation, risk, left = state
        habituation, risk, mean = expect(context, habituation, risk, action)
        habituation = np.minimum(1.0, habituation * (1 + self.noise * (numbers[0] - 0.5)))
        risk = np.minimum(1.0, risk * (1 + self.noise * (numbers[1] - 0.5)))
        steps = mean
        if self.outcome_noise:
            shape = (mean / self.outcome_noise) ** 2
            # Draws with a tiny shape lie next to 0; rounded, they do not underflow in squares.
            steps = np.round(gammaincinv(shape, numbers[2]) * self.outcome_noise**2 / mean, 6)
        left = np.maximum(left, risk >= LEAVING)
        following = np.stack([np.where(numbers[3] < 0.5, 0.0, 1.0), habituation, risk, left])
        return following, np.where(left > 0, 0.0, steps)

    def visible(self, state: Floats) -> Floats:
        return np.where(state[3] > 0, np.nan, state[:3])

    def available(self, state: Floats) -> NDArray[np.bool_]:
        return state[3] == 0


def expect(context: Floats, habituation: Floats, risk: Floats, action: Ints) -> tuple[Floats, Floats, Floats]:
    """The means of H', D' and R."""
    nothing = action == 0
    generic = action == 1
    fitting = action == 2 + context
    habituation = np.where(nothing, (1 - HABIT_DECAY) * habituation, np.minimum(1.0, habituation + HABIT_GROWTH))
    calmer = np.where(generic | fitting, (1 - RISK_DECAY) * risk, np.minimum(1.0, risk + RISK_GROWTH))
    steps = GENERIC_STEPS * generic + TAILORED_STEPS * fitting
    return habituation, np.where(nothing, risk, calmer), STEPS_ALONE + (1 - habituation) * steps


RULES: dict[str, Callable[[Floats], Floats]] = {
    "never": lambda context: np.tile([1.0, 0.0, 0.0, 0.0], (len(context), 1)),
    "random": lambda context: np.full((len(context), 4), 0.25),
    "always tailored": lambda context: np.eye(4)[2 + context.astype(np.int64)],
    "tailored half the time": lambda context: 0.5 * (np.eye(4)[0] + np.eye(4)[2 + context.astype(np.int64)]),
}
"""Fixed policies: the probability of every action in a context."""


def run_rule(rule: str, *, episodes: int = EPISODES, seed: int = 0) -> Simulation:
    """All episodes under a fixed policy."""
    simulation = StepCount(episodes).start(seed=seed)
    uniform = np.random.default_rng([seed, 1]).random((POINTS, episodes))
    for numbers in uniform:
        context = np.nan_to_num(simulation.look().state[0, :, 0])
        probabilities = RULES[rule](context)
        action = (numbers[:, None] >= probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
        simulation.step(action[None], np.take_along_axis(probabilities, action[:, None], axis=1).T)
    return simulation


def main() -> None:
    for rule in RULES:
        steps = run_rule(rule).rewards[0].sum(axis=1)
        print(f"{rule:<24}{steps.mean():8,.1f} ± {steps.std() / np.sqrt(len(steps)):.1f}")


if __name__ == "__main__":
    main()
