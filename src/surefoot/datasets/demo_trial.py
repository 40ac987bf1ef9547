"""The small dirty trial of `surefoot demo`: simulated people, with artefacts of phones, watches and careless answers."""

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.simulators import HeartSteps, contaminate

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]
PEOPLE = 30
DAYS = 28
HOURS = (8, 11, 14, 17, 20)
"""Of the five decision points of a day."""
FIRST_DAY = np.datetime64("2026-03-02")
SEND = 0.5
AVAILABLE = 0.9
UNWORN = 0.12
DEAD = 0.08
CARELESS = 0.06
BUMPS = 0.01
LOST = 0.03
"""Shares of the decision points: watch not worn, temperature sensor dead, answers careless, a bumpy ride counted as steps,
outcome lost."""


def study_text() -> str:
    """The commented `study.toml` of the trial."""
    return files("surefoot.datasets").joinpath("demo_trial.toml").read_text(encoding="utf-8")


def plan_text() -> str:
    """The commented `rehearsal.toml` of a following trial."""
    return files("surefoot.datasets").joinpath("demo_rehearsal.toml").read_text(encoding="utf-8")


def simulate_logs(seed: int = 0) -> "pa.Table":
    """The logs of the trial, with artefacts.

    People are those of `HeartSteps`, each with coefficients of their own. On the scale of log(steps + 50) a suggestion adds
    125 / 1,500 at once and more for motivated people; it also tires them, which costs steps later.

    Parameters
    ----------
    seed
        Of all random numbers.

    Returns
    -------
    pyarrow.Table
        A row per decision point: 30 people, 28 days, 5 a day.

    Examples
    --------
    >>> simulate_logs().num_rows
    4200
    """
    people, course, outliers, logging = np.random.SeedSequence(seed).spawn(4)
    rng = np.random.default_rng(logging)
    shape = (PEOPLE, DAYS * len(HOURS))
    available = rng.random(shape) < AVAILABLE
    sent = available & (rng.random(shape) < SEND)
    simulation = HeartSteps(PEOPLE, spread=0.5, seed=people).start(seed=course)
    for action in sent.T.astype(np.int64):
        simulation.step(action[None], np.full((1, PEOPLE), SEND))
    states = simulation.states[0]
    steps = np.maximum(np.round(np.exp(6.5 + (simulation.rewards[0] - 1500) / 1500) - 50), 0)
    temperature, steps = _spoil(np.round(14 + 7 * states[..., 0], 1), steps, outliers)
    # Half past the hours of all days.
    times = FIRST_DAY + np.arange(DAYS)[:, None] + np.array(HOURS, dtype="timedelta64[h]") + np.timedelta64(30, "m")
    columns: dict[str, Any] = {
        "participant": np.repeat([f"p{number:02d}" for number in range(1, PEOPLE + 1)], shape[1]),
        "time": np.tile(np.datetime_as_string(times.ravel()), PEOPLE),
        "available": available,
        "sent": sent.astype(np.int64),
        "probability": np.where(available, SEND, 1.0),
        "temperature": temperature,
        **_answer(states, rng),
        "steps": np.where(rng.random(shape) < LOST, np.nan, steps),
    }
    table: pa.Table = make_frame({name: np.ravel(values) for name, values in columns.items()}, "pyarrow")
    return table


def _spoil(temperature: Floats, steps: Floats, seed: np.random.SeedSequence) -> tuple[Floats, Floats]:
    """Dead sensors, unworn watches and bumpy rides."""
    dead, unworn, bumps = seed.spawn(3)
    logs = Trajectories.from_arrays(temperature[..., None], np.zeros(steps.shape, dtype=np.int64), steps, actions=2)
    logs = contaminate(logs, mechanism="stuck", values="state", ratio=DEAD, run_length=15, seed=dead).logs
    logs = contaminate(logs, mechanism="unit", ratio=BUMPS, strength=15, seed=bumps).logs
    logs = contaminate(logs, mechanism="nonwear", values="outcome", ratio=UNWORN, run_length=12, seed=unworn).logs
    return logs.state[:, 0], logs.outcome.reshape(steps.shape)


def _answer(states: Floats, rng: np.random.Generator) -> dict[str, Floats]:
    """Three sliders from 0 to 100; careless answers leave them all at the same position."""
    shape = states.shape[:-1]
    sliders = {
        "motivated": 50 + 16 * states[..., 1],
        "tired": 40 + 14 * states[..., 2],
        "stressed": 45 + 18 * rng.standard_normal(shape),
    }
    careless = rng.random(shape) < CARELESS
    position = rng.integers(0, 101, shape)
    return {name: np.where(careless, position, np.clip(np.round(value), 0, 100)) for name, value in sliders.items()}
