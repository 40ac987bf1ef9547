"""What centred actions cost posterior sampling and what they gain, in trials that a new participant enters at every stage.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.centred_actions

Takes ten minutes of one processor, and uses all there are; writes benchmarks/centred_actions.json. The setting is that of
Huch et al. (2024, RoME): two state variables, uniform between −1 and 1; at stage t the first t people decide once each, by a
policy that is fitted to everything before. An action's effect is 0.1 + 0.5 s₁ − 0.5 s₂, the noise standard normal. Regret is
what always taking the better action would have earned more, per participant.
"""

import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

import surefoot as sf

STAGES = 100
EFFECT = np.array([0.1, 0.5, -0.5])
SEED = 90_000


@dataclass(frozen=True)
class Setting:
    """What people are like."""

    baseline: str
    """`linear`, `bent` (not linear in the state) or `wandering` (linear, and up and down by stage)."""
    differ: bool = False
    """Everybody's level and effects are drawn around the mean, with standard deviations 1 and 0.3."""
    fade: bool = False
    """Effects are multiplied by exp(−stage / 60)."""
    strength: float = 1.0
    """How many times as large effects are."""

    def expect(self, state, stage):
        """The outcome without an action."""
        first, second = state[..., 0], state[..., 1]
        if self.baseline == "bent":
            return 4 * np.abs(first) - 1.5 + np.sin(4 * second)
        return 1 + 0.5 * first - 0.5 * second + (3 * np.sin(stage / 12) if self.baseline == "wandering" else 0.0)


SETTINGS = {
    "all alike, linear baseline": Setting("linear"),
    "all alike, linear baseline, effects ten times as large": Setting("linear", strength=10.0),
    "people differ, linear baseline": Setting("linear", differ=True),
    "all alike, bent baseline": Setting("bent"),
    "all alike, wandering baseline": Setting("wandering"),
    "people differ, effects fade, bent baseline": Setting("bent", differ=True, fade=True),
}
LIMITS = {"none": (0.0, 1.0), "0.1 to 0.9": (0.1, 0.9), "0.2 to 0.8": (0.2, 0.8)}


class Trials:
    """Several trials side by side that face the same random numbers whatever the policy."""

    def __init__(self, setting, trials, limits, seed):
        self.setting, self.limits = setting, limits
        self.rng = np.random.default_rng(seed)
        level, slopes = np.split(self.rng.standard_normal((trials, STAGES, 4)), [1], axis=-1)
        self.level = setting.differ * level[..., 0]
        self.effect = setting.strength * (EFFECT + setting.differ * 0.3 * slopes)
        self.regret = np.zeros(trials)
        shape = (trials, STAGES, STAGES)
        self.state, self.action = np.zeros((*shape, 2)), np.zeros(shape, dtype=int)
        self.reward, self.probability = np.zeros(shape), np.ones(shape)

    def advance(self, stage, decide):
        """One decision of everybody who has entered; `decide` gives P(send) for states (trials, people, 2)."""
        present = slice(0, stage + 1)
        trials = len(self.regret)
        state = self.rng.uniform(-1, 1, (trials, stage + 1, 2))
        luck, noise = self.rng.random((trials, stage + 1)), self.rng.standard_normal((trials, stage + 1))
        send = np.clip(decide(state), *self.limits)
        action = (luck < send).astype(int)
        fading = np.exp(-stage / 60) if self.setting.fade else 1.0
        effect = fading * (self.effect[:, present, 0] + (self.effect[:, present, 1:] * state).sum(axis=-1))
        self.regret += (np.maximum(effect, 0) - send * effect).sum(axis=1) / STAGES
        self.state[:, stage, present], self.action[:, stage, present] = state, action
        baseline = self.setting.expect(state, stage) + self.level[:, present]
        self.reward[:, stage, present] = baseline + action * effect + noise
        self.probability[:, stage, present] = np.where(action == 1, send, 1 - send)


def run_pooled(setting, limits, centred, trials):
    """Regret of trials with one policy for all: `person` takes a trial for a participant, so that one fit serves all."""
    run = Trials(setting, trials, limits, SEED)
    method = sf.method("ts", pooling="person", centre_actions=centred)
    happened = np.tri(STAGES, dtype=bool)
    for stage in range(STAGES):
        past = happened[:stage]
        decide = flip_coin
        if past.sum() >= 10:
            columns = [values[:, :stage][:, past] for values in (run.state, run.action, run.reward, run.probability)]
            logs = sf.Trajectories.from_arrays(*columns[:3], probability=columns[3])
            decide = partial(decide_alike, method.fit(logs).policies_, logs.participants)
        run.advance(stage, decide)
    return run.regret


def flip_coin(state):
    return np.full(state.shape[:-1], 0.5)


def decide_alike(policies, fits, state):
    """Probabilities of sending, (trials, people), where everybody in a trial has its policy."""
    trials, people = state.shape[:2]
    return policies.probabilities(np.repeat(fits, people), state.reshape(-1, 2))[:, 1].reshape(trials, people)


def decide_each(policies, state):
    """Probabilities of sending, (1, people), by everybody's own policy."""
    return policies.probabilities(np.arange(state.shape[1]), state[0])[:, 1][None]


def run_partial(setting, limits, centred, trials):
    """Regret of trials with partially pooled policies."""
    return np.array([run_one_partial(setting, limits, centred, SEED + 1 + number) for number in range(trials)])


def run_one_partial(setting, limits, centred, seed):
    run = Trials(setting, 1, limits, seed)
    method = sf.method("ts", pooling="partial", centre_actions=centred)
    for stage in range(STAGES):
        decide = flip_coin
        if stage >= 5:
            # Who had not entered yet has nothing there.
            past = np.where(np.tri(stage, dtype=bool), 1.0, np.nan)
            inside = (0, slice(stage), slice(stage))
            columns = (run.state[inside] * past[..., None], run.action[inside], run.reward[inside] * past)
            columns = [np.swapaxes(values, 0, 1) for values in columns]
            logs = sf.Trajectories.from_arrays(*columns, probability=run.probability[inside].T)
            decide = partial(decide_each, method.fit(logs).policies_)
        run.advance(stage, decide)
    return float(run.regret[0])


RUNS = {"all": (run_pooled, 40), "partial": (run_partial, 20)}
"""How to run trials with a pooling, and how many."""
PARTIALLY_POOLED = (
    "all alike, linear baseline",
    "people differ, linear baseline",
    "people differ, effects fade, bent baseline",
)
"""Settings of trials with partial pooling, whose fits take longer."""


def measure(pooling, name, limits):
    """Regret with plain and with centred actions, and their paired difference."""
    run, trials = RUNS[pooling]
    setting = SETTINGS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.FitWarning)
        plain, centred = (run(setting, LIMITS[limits], centre, trials) for centre in (False, True))
    row = {
        "pooling": pooling,
        "setting": name,
        "limits": limits,
        "plain": float(plain.mean()),
        "centred": float(centred.mean()),
    }
    error = float((centred - plain).std(ddof=1) / trials**0.5)
    row |= {"standard_error_of_difference": error, "trials": trials, **asdict(setting)}
    print(json.dumps(row), flush=True)
    return row


def main():
    path = Path(__file__).with_suffix(".json") if len(sys.argv) < 2 else Path(sys.argv[1])
    cells = list(product(["all"], SETTINGS, LIMITS)) + list(product(["partial"], PARTIALLY_POOLED, ("none", "0.1 to 0.9")))
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(measure, *zip(*cells, strict=True)))
    path.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
