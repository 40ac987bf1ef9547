"""Oralytics' simulator: seconds of tooth brushing, twice a day for ten weeks, and people who tire of prompts.

    python -m benchmarks.oralytics

prints the mean seconds of a session under fixed policies.
"""

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import poisson

from benchmarks.published import ORALYTICS, Prior, Smooth
from benchmarks.trials import Observations
from surefoot.numerics.arrays import Engine
from surefoot.simulators.simulator import Simulation, Simulator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PEOPLE = 70
POINTS = 140
WEEK = 14
"""Decision points of a week, and those that b̄ and ā remember."""
MOST_SECONDS = 180.0
DECAY = 13 / 14
OPENS_APP = 0.7
GOOD_BRUSHING = 111.0
OFTEN = 0.5
TOO_OFTEN = 0.8
COST = 100.0
NOISE = 4058.0**0.5
"""The standard deviation of a session's seconds in the pilot of the trial."""

STAYING_AWAY = np.array([(0.203, 1.032), (-0.763, 0.705), (0.157, 0.568), (-0.110, 0.650), (0.099, 0.367), (-0.336, 0.773)])
"""Mean and standard deviation between people of each coefficient of no brushing at all, on the six features."""
SECONDS = np.array([(0.062, 0.150), (0.006, 0.080), (-0.078, 0.300), (-0.005, 0.182), (-0.022, 0.171), (4.870, 0.258)])
"""… and of the logarithm of the mean seconds, where people brush."""
MORE_SESSIONS = np.array([(0.187, 0.180), (-0.201, 0.163), (-0.104, 0.102), (0.076, 0.054), (0.402, 0.125)])
"""… of a prompt's effect against staying away, on the features without the share of sessions."""
MORE_SECONDS = np.array([(0.032, 0.024), (-0.015, 0.012), (-0.045, 0.062), (0.033, 0.027), (0.090, 0.031)])
"""… of a prompt's effect on the logarithm of the mean seconds."""
NO_SHARE = [0, 1, 2, 4, 5]
"""The features that a prompt's effect depends on."""


class Oralytics(Simulator):
    """People of a simulation for Oralytics; one step is one session, in the morning or in the evening.

    With x = [evening, seconds of the day before (standardised), day (standardised), share of the last 14 sessions with
    brushing, weekend, 1], z = x without the share, A the action (0 nothing, 1 send) and k the number of weeks for which a
    participant has tired of prompts:

        P(no brushing) = σ(xᵀw − A · 2⁻ᵏ max(0, zᵀδ))
        R              = min(180, Poisson(exp(xᵀv + A · 2⁻ᵏ max(0, zᵀη)))) seconds, or 0

    Everybody has w, v, δ and η. b̄ and ā are the mean seconds and prompts of the last 14 sessions, with weights that decay by
    13/14; k grows at the end of a week in which ā > 0.8, or ā > 0.5 and b̄ > 111, and falls otherwise. Policies see evening,
    b̄ and ā (both scaled to about [−1, 1]), and whether the app was opened the day before, which is a coin with 0.7.

    Source: Trella and others 2022 (Algorithms 15, 255) and 2025 (arXiv 2406.13127). The authors fitted a model to each of
    their 31 participants. The 19 whose model is a zero-inflated Poisson one gave the means and standard deviations above;
    our people are drawn from normal distributions with them, coefficients apart, and are not those participants. Effects
    have the authors' sizes: a quarter of the mean absolute coefficients, and for the constant twice the largest of these.
    Left out: other kinds of fitted models, and states that are out of date because the app was not opened.
    """

    state_names = ("evening", "brushing", "dose", "app")
    initial_numbers = 1
    step_numbers = 3
    critic_coef = np.zeros(10)

    def __init__(self, participants: int = PEOPLE, *, seed: int = 3) -> None:
        super().__init__(participants)
        rng = np.random.default_rng(seed)

        def draw(moments: Floats) -> Floats:
            return rng.normal(moments[:, :1], moments[:, 1:], (len(moments), participants))

        self.staying_away = draw(STAYING_AWAY)
        self.seconds = draw(SECONDS)
        # Effects keep their signs: a prompt helps less after much brushing, and as the study goes on.
        self.more_sessions = np.sign(MORE_SESSIONS[:, :1]) * np.abs(draw(MORE_SESSIONS))
        self.more_seconds = np.sign(MORE_SECONDS[:, :1]) * np.abs(draw(MORE_SECONDS))

    def of(self, people: slice, engine: Engine) -> Self:
        selected = copy(self)
        for name in ("staying_away", "seconds", "more_sessions", "more_seconds"):
            setattr(selected, name, getattr(self, name)[:, people])
        return selected

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.random(shape)

    def begin(self, numbers: Floats) -> Floats:
        """Sessions so far, app opened the day before, k, then the last 14 outcomes and 14 actions, newest first."""
        return np.zeros((3 + 2 * WEEK, *numbers.shape[1:]))

    def advance(self, state: Floats, action: Ints, numbers: Floats) -> tuple[Floats, Floats]:
        away, mean = self.expect(state, action)
        seconds = np.minimum(MOST_SECONDS, poisson.ppf(numbers[1], mean))
        reward = np.where(numbers[0] < away, 0.0, seconds)
        passed = state[0] + 1
        # Everybody opens the app on the first day.
        opened = np.where(passed == 2, 1.0, np.where(passed % 2 == 0, numbers[2] < OPENS_APP, state[1]))
        outcomes = np.concatenate([reward[None], state[3 : 2 + WEEK]])
        actions = np.concatenate([action[None], state[3 + WEEK : 2 + 2 * WEEK]])
        following = np.concatenate([np.stack([passed, opened, state[2]]), outcomes, actions])
        brushing, dose = average_week(following)
        tired = (dose > TOO_OFTEN) | ((dose > OFTEN) & (brushing > GOOD_BRUSHING))
        weeks = np.where(tired, state[2] + 1, np.maximum(0.0, state[2] - 1))
        following[2] = np.where(passed % WEEK == 0, weeks, state[2])
        return following, reward

    def expect(self, state: Floats, action: Ints) -> tuple[Floats, Floats]:
        """P(no brushing), and the mean seconds of those who brush before they are cut at 180."""
        features = list_features(state)
        lasting = action * 0.5 ** state[2]
        sessions = lasting * np.maximum(0.0, add_up(self.more_sessions, features[NO_SHARE]))
        seconds = lasting * np.maximum(0.0, add_up(self.more_seconds, features[NO_SHARE]))
        return (
            expit(add_up(self.staying_away, features) - sessions),
            np.exp(add_up(self.seconds, features) + seconds),
        )

    def visible(self, state: Floats) -> Floats:
        brushing, dose = average_week(state)
        return np.stack([state[0] % 2, (brushing - 90.5) / 89.5, 2 * dose - 1, state[1]])


def add_up(coefficients: Floats, features: Floats) -> Floats:
    """Everybody's linear predictor: (features, people) and (features, *lanes) give (*lanes)."""
    return np.asarray(np.einsum("fp,f...p->...p", coefficients, features))


def list_features(state: Floats) -> Floats:
    """x, (6, *lanes)."""
    passed = state[0]
    evening = passed % 2
    before = np.where(evening == 0, state[3] + state[4], state[4] + state[5])
    day = passed // 2 + 1
    share = np.where(passed >= WEEK, (state[3 : 3 + WEEK] > 0).mean(axis=0), 0.0)
    weekend = (passed % WEEK >= 10).astype(np.float64)
    return np.stack([evening, (before - 154) / 163, (day - 35.5) / 34.5, share, weekend, np.ones_like(passed)])


def average_week(state: Floats) -> tuple[Floats, Floats]:
    """b̄ and ā: plain means in the first week, weighted ones of the last 14 sessions afterwards."""
    passed = state[0]
    weights = DECAY ** np.arange(WEEK)
    weights = weights / weights.sum()
    pasts = (state[3 : 3 + WEEK], state[3 + WEEK :])
    early = [past.sum(axis=0) / np.maximum(1.0, passed) for past in pasts]
    later = [np.tensordot(weights, past, axes=1) for past in pasts]
    brushing, dose = (np.where(passed < WEEK, *pair) for pair in zip(early, later, strict=True))
    return brushing, dose


class OralyticsLearner(Smooth):
    """Oralytics' algorithm with the prior of its trial; it learns from seconds less a cost of prompts that tire people.

    The prior is on [1, evening, b̄, ā, app], first without a prompt, then twice for its effect.
    """

    def __init__(self) -> None:
        mean = np.array([77, 0, 0, 17, 0] + 2 * [0, 0, 0, 0, 27])
        deviation = np.array([44, 23, 12, 15, 8] + 2 * [13, 12, 32, 29, 20])
        super().__init__(Prior(mean / NOISE, (NOISE / deviation) ** 2, NOISE), 5, ORALYTICS)

    def learn(self, observations: Observations, simulation: Simulation) -> None:
        columns: dict[str, Any] = dict(vars(observations))
        _, brushing, dose, _ = observations.state.T
        good = 89.5 * brushing + 90.5 > GOOD_BRUSHING
        often = (dose + 1) / 2
        cost = COST * (good & (often > OFTEN)) + COST * (often > TOO_OFTEN)
        columns["outcome"] = observations.outcome - observations.action * cost
        super().learn(Observations(**columns), simulation)


SHARES = {"never": 0.0, "a quarter of the time": 0.25, "half the time": 0.5, "always": 1.0}
"""Fixed policies: the probability of a prompt."""


def run_fixed(share: float, *, replicates: int = 20) -> Simulation:
    """Trials under a fixed policy."""
    simulation = Oralytics().start(seed=list(range(replicates)))
    uniform = np.random.default_rng(1).random((POINTS, replicates, PEOPLE))
    for numbers in uniform:
        sent = numbers < share
        simulation.step(sent.astype(np.int64), np.where(sent, share, 1 - share))
    return simulation


def main() -> None:
    for name, share in SHARES.items():
        seconds = run_fixed(share).rewards.mean(axis=(1, 2))
        print(f"{name:<24}{seconds.mean():8.2f} ± {seconds.std() / np.sqrt(len(seconds)):.2f}")


if __name__ == "__main__":
    main()
