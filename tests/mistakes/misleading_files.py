"""Files that look right and would lead to a wrong conclusion: what each command says of them.

A trial of 30 people × 60 decision points, prompts at random, in which a prompt adds 20 steps. Each file spoils it in one way.
An entry of the table is what a reader sees first: the right answer, a refusal, or the name of the check that is not fine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

PEOPLE, POINTS, EFFECT = 30, 60, 20.0
COMMANDS = ("effects", "audit", "fit", "evaluate", "size --pilot", "Python")
STUDY = """\
[columns]
participant = "participant"
time = "time"
{columns}
[collection]
policy = "fixed"
{states}
[actions]
column = "sent"
names = ["nothing", "prompt"]
{actions}
[outcome]
column = "steps"
{outcome}
[method]
name = "ro-accb"
pooling = "all"

[effects]
controls = ["x"]
"""
Columns = dict[str, Any]


def make_trial(seed: int, *, effect: float = EFFECT, chance: Callable[[Any], Any] | None = None) -> Columns:
    """Prompts with probability 0.5, or with a probability that depends on being at home."""
    rng = np.random.default_rng(seed)
    rows = PEOPLE * POINTS
    participant = np.repeat(np.arange(PEOPLE), POINTS)
    home = rng.integers(0, 2, rows)
    x = np.round(rng.normal(size=rows), 3)
    probability = np.full(rows, 0.5) if chance is None else chance(home)
    sent = (rng.random(rows) < probability).astype(np.int64)
    level = rng.normal(0, 40, PEOPLE)[participant]
    steps = 300 + level + 150 * home + 20 * x + effect * sent + 60 * rng.normal(size=rows)
    return {
        "participant": [f"P{number:02d}" for number in participant],
        "time": np.tile(np.arange(POINTS), PEOPLE),
        "home": home,
        "x": x,
        "sent": sent,
        "p": probability,
        "steps": np.round(steps, 1),
    }


def by_home(home: Any) -> Any:
    return np.where(home == 1, 0.8, 0.3)


def draw(trial: Columns, seed: int = 7) -> Any:
    """A random number for every row."""
    return np.random.default_rng(seed).random(len(trial["sent"]))


def change_steps(where: Callable[[Columns], Any], value: Any) -> Callable[[int], Columns]:
    """The trial with other outcomes in some rows; the prompt adds 120 steps."""

    def make(seed: int) -> Columns:
        trial = make_trial(seed, effect=120.0)
        new = value(trial["steps"]) if callable(value) else value
        trial["steps"] = np.where(where(trial), new, trial["steps"])
        return trial

    return make


def add_leak(seed: int) -> Columns:
    trial = make_trial(seed)
    noise = np.random.default_rng(seed + 1).normal(size=len(trial["sent"]))
    trial["after"] = np.round(trial["steps"] + 0.078 * trial["steps"].std() * noise, 2)
    return trial


def give_taken(seed: int) -> Columns:
    """The column holds the probability of the action taken."""
    trial = make_trial(seed, chance=by_home)
    trial["p"] = np.where(trial["sent"] == 1, trial["p"], 1 - trial["p"])
    return trial


def change_ids(name: Callable[[int, str], str]) -> Callable[[int], Columns]:
    def make(seed: int) -> Columns:
        trial = make_trial(seed)
        trial["participant"] = [name(row, participant) for row, participant in enumerate(trial["participant"])]
        return trial

    return make


def add_availability(seed: int) -> Columns:
    trial = make_trial(seed)
    trial["available"] = (draw(trial) < 0.7).astype(np.int64)
    trial["sent"] = trial["sent"] * trial["available"]
    return trial


def add_code(seed: int) -> Columns:
    trial = change_steps(lambda trial: draw(trial) < 0.09, -99.0)(seed)
    trial["steps"][5] = -3.2
    return trial


def log_zeros(seed: int) -> Columns:
    """Logarithms of steps of which a quarter are 0: the floor is a real value."""
    trial = make_trial(seed)
    steps = np.maximum(np.round(trial["steps"] - 200), 0) * (draw(trial) > 0.25)
    trial["steps"] = np.round(np.log(steps + 0.5), 6)
    return trial


def make_binary(seed: int) -> Columns:
    trial = make_trial(seed)
    trial["steps"] = (draw(trial) < 0.35 + 0.2 * trial["home"] + 0.1 * trial["sent"]).astype(np.int64)
    return trial


@dataclass(frozen=True)
class MisleadingFile:
    """A file, the study that somebody would write for it, and what each command says."""

    what: str
    make: Callable[[int], Columns]
    says: dict[str, str]
    """Command → `right`, `refused`, or the name of the check that is not fine; those that are not named do not apply."""
    columns: str = 'probability = "p"'
    states: tuple[str, ...] = ("home", "x")
    actions: str = ""
    outcome: str = ""

    def write(self, seed: int) -> None:
        """Write logs.csv and study.toml into this folder."""
        trial = self.make(seed)
        table = pa.table({name: pa.array(values, from_pandas=True) for name, values in trial.items()})
        pa.csv.write_csv(table, "logs.csv")
        states = "".join(f"[state.{name}]\n" for name in self.states)
        text = STUDY.format(columns=self.columns, states=states, actions=self.actions, outcome=self.outcome)
        Path("study.toml").write_text(text, encoding="utf-8")


def everywhere(word: str, *commands: str) -> dict[str, str]:
    return dict.fromkeys(commands or COMMANDS, word)


SENDING = 'probability = "p"\nprobability_of = "sending"'
FILES = (
    MisleadingFile("nothing is wrong", make_trial, everywhere("right")),
    MisleadingFile(
        "the probability is that of sending, and the study says so",
        lambda seed: make_trial(seed, chance=by_home),
        everywhere("right"),
        columns=SENDING,
    ),
    MisleadingFile(
        "the probability is that of sending, and the study says it is that of the action taken",
        lambda seed: make_trial(seed, chance=by_home),
        everywhere("refused") | everywhere("probabilities", "audit", "fit"),
    ),
    MisleadingFile(
        "the probability is that of the action taken, and the study says it is that of sending",
        give_taken,
        everywhere("refused") | everywhere("probabilities", "audit", "fit"),
        columns=SENDING,
    ),
    MisleadingFile(
        "the design is stated as 0.5 and was 0.3 or 0.8 by 'home'",
        lambda seed: {name: values for name, values in make_trial(seed, chance=by_home).items() if name != "p"},
        everywhere("balance", *(command for command in COMMANDS if command != "fit")),
        columns="",
        actions="probabilities = [0.5, 0.5]",
    ),
    MisleadingFile(
        "a state has a correlation of 0.997 with the outcome",
        add_leak,
        everywhere("leaks"),
        states=("home", "x", "after"),
    ),
    MisleadingFile(
        "half of the outcomes are missing, only where nothing was sent",
        change_steps(lambda trial: (trial["sent"] == 0) & (draw(trial) < 0.49), np.nan),
        everywhere("missing outcomes by action"),
    ),
    MisleadingFile(
        "a fifth of the outcomes are 0, only where nothing was sent",
        change_steps(lambda trial: (trial["sent"] == 0) & (draw(trial) < 0.4), 0.0),
        everywhere("values by action"),
    ),
    MisleadingFile(
        "four participants have their outcomes in thousands",
        change_steps(
            lambda trial: np.isin(trial["participant"], ["P01", "P07", "P12", "P20"]),
            lambda steps: np.round(steps / 1000, 4),
        ),
        everywhere("units by participant"),
    ),
    MisleadingFile(
        "−99 stands for missing in 9 % of outcomes, and one outcome is negative", add_code, everywhere("suspect columns")
    ),
    MisleadingFile("the outcome is constant", change_steps(lambda trial: trial["sent"] >= 0, 7.0), everywhere("refused")),
    MisleadingFile(
        "two ids differ in case only",
        change_ids(lambda row, participant: "p03" if participant == "P03" and row % 2 else participant),
        everywhere("participants and availability"),
    ),
    MisleadingFile(
        "the row number is taken for the participant",
        change_ids(lambda row, _: str(row)),
        everywhere("participants and availability"),
    ),
    MisleadingFile(
        "the plausible range drops most outcomes", make_trial, everywhere("plausible ranges"), outcome="range = [0, 300]"
    ),
    MisleadingFile(
        "a column of availability is not named",
        add_availability,
        everywhere("refused") | everywhere("participants and availability", "audit", "fit"),
    ),
    MisleadingFile("a quarter of the outcomes are at the floor, log(0.5)", log_zeros, everywhere("right")),
    MisleadingFile("the outcome is 0 or 1", make_binary, everywhere("right", "effects", "fit", "evaluate", "Python")),
)


def tabulate() -> str:
    """The table of docs/mistakes.md."""
    lines = ["| file | " + " | ".join(COMMANDS) + " |", "|---" * (len(COMMANDS) + 1) + "|"]
    for file in FILES:
        lines.append(f"| {file.what} | " + " | ".join(file.says.get(command, "–") for command in COMMANDS) + " |")
    return "\n".join(lines) + "\n"
