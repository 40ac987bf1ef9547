"""A model of a study's participants, which simulates a trial before there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from surefoot.data.log_columns import Problems
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array, Engine
from surefoot.numerics.random_streams import streams
from surefoot.rehearsal.components import Artefact, Component, Moment
from surefoot.rehearsal.environments import NO_EFFECT, Environment
from surefoot.rehearsal.outcome_families import FamilyChoice, OutcomeFamily
from surefoot.rehearsal.pilot_data import DOSE_DISCOUNT, StudyClock, usual_dose
from surefoot.rehearsal.pooled_regression import ScoreTable, Varying, list_varying, map_varying
from surefoot.simulators.simulator import Seed, Simulator
from surefoot.study import Study
from surefoot.study.log_description import Reward
from surefoot.study.log_reader import transform_reward

Floats = NDArray[np.float64]
TIME, DOSE, SCORE, FIRST_ROW = range(4)
"""Rows of the inner state; those of the components begin at the last."""
AVAILABLE = ("mark", "available")
LOST = ("mark", "lost")
MARKS = ("mark", "gap")
"""Kinds of components that later marks depend on."""
NEAREST = 1e-16
"""Uniform numbers keep this distance from 0 and 1."""


@dataclass(eq=False, repr=False, kw_only=True)
class PilotModel(Simulator):
    """People like those in a pilot, or new ones drawn from the same distribution.

    Made by `fit_pilot` or `from_study`. The inner state holds the time, the dose, the score of the last reward, marks
    (available, missing, lost), artefacts, the state variables and the memory of the environment. Policies and logs see the
    state variables, with the pilot's gaps and artefacts. The reward is the outcome after the study's transform.
    """

    study: Study
    """What the columns mean."""
    participants: NDArray[Any]
    """Ids: those of the pilot, or 0, 1, … for new people."""
    clock: StudyClock
    """Time of day and day."""
    components: dict[tuple[str, str], Component]
    """By kind and name, in the order in which they are drawn: `("mark", "available")`, `("gap", state variable)`,
    `("mark", "lost")` for the outcome, `("artefact", device: reason)`, `("state", state variable)`."""
    predictors: tuple[str, ...]
    """State variables that the outcome depends on."""
    family: OutcomeFamily
    """Of the outcome."""
    choice: FamilyChoice
    """The choice of the family."""
    scores: ScoreTable
    """Of rewards."""
    reward: Reward | None
    """The transform of outcomes into rewards; None where they are the same."""
    limits: tuple[float, float]
    """Of outcomes."""
    step: float
    """To which outcomes are recorded; 0 for none."""
    send_rate: float
    """Prompts for each decision point of the pilot."""
    sends: float
    """The mean probability of sending in the pilot."""
    environment: Environment = NO_EFFECT
    """The effects of sending; none unless set by `in_environment`."""
    show_marks: bool = False
    """Whether values are missing, instead of wrong, where there are artefacts, which are further state columns."""
    people_differ_by_replicate: int | None = None
    """Number of replicates with people of their own."""

    def __post_init__(self) -> None:
        self.state_names = self.study.state_names
        if self.show_marks:
            self.state_names += tuple(artefact.name for artefact in self.artefacts)
        self.action_names = self.study.actions.names
        rows = np.cumsum([FIRST_ROW, *(component.rows for component in self.components.values())]).tolist()
        numbers = np.cumsum([0, *(component.numbers for component in self.components.values())]).tolist()
        self._rows = {key: slice(*ends) for key, ends in zip(self.components, pairwise(rows), strict=True)}
        self._numbers = {key: slice(*ends) for key, ends in zip(self.components, pairwise(numbers), strict=True)}
        self.initial_numbers = numbers[-1]
        self.step_numbers = self.initial_numbers + 1

    @property
    def artefacts(self) -> list[Artefact]:
        return [component for component in self.components.values() if isinstance(component, Artefact)]

    def __repr__(self) -> str:
        return (
            f"PilotModel(participants={len(self.participants)}, outcome={self.choice.name!r}, {self.environment.describe()})"
        )

    def in_environment(self, environment: Environment) -> PilotModel:
        """The same people with other effects of sending, such as `standardised_effect(0.2)`; κ is found here."""
        if environment.effects:
            environment = replace(environment, scale=find_scale(self, environment.probe))
        return replace(self, environment=environment)

    def draw_people(self, participants: int, *, seed: Seed | Sequence[Seed]) -> PilotModel:
        """New people from the distribution between people; the same seed gives the same people.

        With one seed for each replicate of a study every replicate has people of its own; `start` then needs as many seeds.
        """
        if participants < 1:
            raise InputError(f"participants is {participants}; a trial needs at least 1")
        several = isinstance(seed, Sequence)
        seeds: list[Seed] = list(seed) if isinstance(seed, Sequence) else [seed]
        lanes = (len(seeds), participants) if several else (participants,)
        varying = (*self.components.values(), self.family, *self.environment.effects)
        size = sum(len(value) for component in varying for value in list_varying(component).values())
        # One person of the pilot is the model for all components of a new one.
        models = []
        normals = []
        trials = []
        for number in seeds:
            for rng in streams(number, "participants", range(participants)):
                models.append(rng.random())
                normals.append(rng.standard_normal(size))
            (rng,) = streams(number, "participants", ["trial"])
            trials.append(rng.standard_normal(len(self.environment.effects)))
        model = np.array(models).reshape(lanes)
        normal = iter(np.stack(normals, axis=1).reshape(size, *lanes))

        def redraw(old: Varying) -> Varying:
            numbers = np.stack([next(normal) for _ in range(len(old))]) if len(old) else np.empty((0, *lanes))
            return old.redraw((model * len(old.roots)).astype(np.int64), numbers)

        drawn = self._map_varying(redraw)
        return replace(
            drawn,
            participants=np.arange(participants),
            environment=drawn.environment.draw_trial(np.array(trials).T),
            people_differ_by_replicate=len(seeds) if several else None,
        )

    def _map_varying(self, change: Callable[[Varying], Varying]) -> PilotModel:
        """With everything changed that differs between people, in its order."""
        return replace(
            self,
            components={key: map_varying(component, change) for key, component in self.components.items()},
            family=map_varying(self.family, change),
            environment=self.environment.with_effects([map_varying(effect, change) for effect in self.environment.effects]),
        )

    def of(self, people: slice, engine: Engine) -> Self:
        if people.indices(len(self.participants)) == (0, len(self.participants), 1):
            return self
        return self._map_varying(lambda old: old.select(people))  # type: ignore[return-value]

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.random(shape).clip(NEAREST, 1 - NEAREST)

    def begin(self, numbers: Floats) -> Floats:
        zero = np.zeros(numbers.shape[1:])
        moment = Moment(
            time=zero,
            day=self.clock.day(zero),
            clock=self._clock_features(zero),
            carried=[zero, self._feel_dose(zero, zero)],
            marks=[zero] if LOST in self._rows else [],
            sent=zero,
            reward=zero,
            known=zero,
            measured={},
        )
        rows: list[Floats] = [zero[None], zero[None], zero[None]]
        for key, component in self.components.items():
            rows.append(component.begin(moment, numbers[self._numbers[key]]))
            if key[0] in MARKS:
                moment.marks.append(rows[-1][0])
        return np.concatenate([*rows, self.environment.begin(zero.shape)])

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        sent = (np.asarray(action) > 0).astype(np.float64)
        outcome = self._draw_outcome(state, sent, numbers[-1])
        reward = self.to_reward(outcome)
        time = state[TIME] + 1
        dose = DOSE_DISCOUNT * state[DOSE] + sent
        score = self.scores.to_scores(reward)
        moment = Moment(
            time=time,
            day=self.clock.day(time),
            clock=self._clock_features(time),
            carried=[score, self._feel_dose(dose, time)],
            marks=[state[self._rows[LOST]][0]] if LOST in self._rows else [],
            sent=sent,
            reward=reward,
            known=(~np.isnan(self.report(state, reward))).astype(np.float64),
            measured={**self._measure(state), self.study.reward.column: outcome} if self.artefacts else {},
        )
        rows: list[Floats] = [time[None], dose[None], score[None]]
        for key, component in self.components.items():
            rows.append(component.advance(state[self._rows[key]], moment, numbers[self._numbers[key]]))
            if key[0] in MARKS:
                moment.marks.append(rows[-1][0])
        return np.concatenate([*rows, self.environment.advance(self._memory(state), sent)]), reward

    def _clock_features(self, time: Floats) -> list[Floats]:
        """One number each where all lanes are at one time."""
        first = time.reshape(-1)[:1]
        return [np.asarray(row) for row in self.clock.features(first[0] if (time == first).all() else time)]

    def _feel_dose(self, dose: Floats, time: Floats) -> Floats:
        """The dose less its mean in the pilot at that time, where the environment feels it."""
        return dose - usual_dose(time, self.send_rate) if self.environment.feels_dose else np.zeros(dose.shape)

    def _memory(self, state: Floats) -> Floats:
        """The rows of the environment."""
        return state[len(state) - self.environment.rows :]

    def _state_values(self, state: Floats) -> dict[str, list[Floats]]:
        """The columns of every state variable, without gaps and artefacts."""
        day = self.clock.day(state[TIME])
        return {
            name: self.components[kind, name].values(state[rows], state[TIME], day)
            for (kind, name), rows in self._rows.items()
            if kind == "state"
        }

    def _measure(self, state: Floats) -> dict[str, Floats]:
        """The value of every state variable with one column, by column of the logs."""
        values = self._state_values(state)
        return {self.study.state[name].column or name: columns[0] for name, columns in values.items() if len(columns) == 1}

    def features(self, state: Floats) -> list[Floats]:
        """Features of the outcome: 1, the state variables, clock, availability, carried, and 0 for the pilot's effect."""
        columns: list[Floats] = [np.ones(())]
        for name in self.predictors:
            columns += self.components["state", name].predictors(state[self._rows["state", name]])
        free = self.available(state)
        columns += [*self._clock_features(state[TIME]), np.ones(()) if free is None else free.astype(np.float64)]
        return [*columns, state[SCORE], self._feel_dose(state[DOSE], state[TIME]), np.zeros(())]

    def _draw_outcome(self, state: Floats, sent: Floats, uniform: Floats) -> Floats:
        """The outcome of a decision point, as measured, from uniform numbers."""
        if self.environment.effects:
            shift = self.environment.shift(self._memory(state), sent, self.clock.day(state[TIME]))
            uniform = ndtr(ndtri(uniform) + shift).clip(NEAREST, 1 - NEAREST)
        return self.finish_outcome(self.family.invert(uniform, self.features(state)))

    def finish_outcome(self, outcome: Floats) -> Floats:
        """Recorded to its step and within its limits; a positive outcome stays positive."""
        limited = np.clip(outcome, *self.limits)
        if not self.step:
            return limited
        steps = np.round(limited / self.step)
        return np.where(limited > 0, np.maximum(steps, 1), steps) * self.step

    def to_reward(self, outcome: Floats) -> Floats:
        """Outcomes after the study's transform."""
        return outcome if self.reward is None else transform_reward(outcome, self.reward, Problems())

    @property
    def unit(self) -> str:
        """Of the reward."""
        return str(self.study.reward_unit) if self.reward is not None else self.study.reward.column

    def available(self, state: Array) -> Array | None:
        return state[self._rows[AVAILABLE]][0] > 0 if AVAILABLE in self._rows else None

    def _list_artefacts(self, state: Floats, column: str) -> list[tuple[Artefact, Floats]]:
        """Artefacts of a column, with their rows."""
        artefacts = [artefact for artefact in self.artefacts if column in artefact.shown]
        return [(artefact, state[self._rows["artefact", artefact.name]]) for artefact in artefacts]

    def report(self, state: Array, reward: Array) -> Array:
        column = self.study.reward.column
        for artefact, rows in self._list_artefacts(state, column):
            wrong = self.to_reward(artefact.overlay(rows, column, np.zeros(reward.shape)))
            reward = np.where(rows[0] > 0, np.nan if self.show_marks else wrong, reward)
        return np.where(state[self._rows[LOST]][0] > 0, np.nan, reward) if LOST in self._rows else reward

    def visible(self, state: Array) -> Array:
        columns: list[Floats] = []
        for name, measured in self._state_values(state).items():
            values = measured
            column = self.study.state[name].column or name
            for artefact, rows in self._list_artefacts(state, column):
                wrong = artefact.overlay(rows, column, values[0])
                values = [np.where(rows[0] > 0, np.nan, values[0]) if self.show_marks else wrong]
            if ("gap", name) in self._rows:
                hidden = state[self._rows["gap", name]][0] > 0
                values = [np.where(hidden, np.nan, value) for value in values]
            columns += values
        if self.show_marks:
            columns += [state[self._rows["artefact", artefact.name]][0] for artefact in self.artefacts]
        return np.stack([np.broadcast_to(column, state.shape[1:]) for column in columns])


def find_scale(model: PilotModel, d: float, *, points: int = 60, seed: int = 0) -> float:
    """κ: the shift of the score that moves the mean reward by d standard deviations, divided by d.

    By bisection over simulated decision points at which people are available, each with a random number of its own.
    """
    plain = model.in_environment(NO_EFFECT)
    states, rewards = _visit(plain, points, seed)
    uniform = np.random.default_rng(seed).random(rewards.shape).clip(NEAREST, 1 - NEAREST)
    features = plain.features(states)
    free = plain.available(states)
    counted = np.ones(rewards.shape, dtype=bool) if free is None else np.asarray(free)
    spread = float(rewards[counted].std())

    def mean(shift: float) -> float:
        drawn = plain.family.invert(ndtr(ndtri(uniform) + shift), features)
        return float(plain.to_reward(plain.finish_outcome(drawn))[counted].mean())

    base = mean(0.0)
    low, high = sorted((0.0, 8.0 * np.sign(d)))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) - base < d * spread else (low, middle)
    return float((low + high) / 2 / d)


def _visit(model: PilotModel, points: int, seed: int) -> tuple[Floats, Floats]:
    """Inner states and rewards of everybody under a coin, (rows, decision points, people)."""
    rng = np.random.default_rng(seed)
    replicates = model.people_differ_by_replicate
    people = len(model.participants)
    lanes = (people,) if replicates is None else (replicates, people)
    state = model.begin(model.draw(rng, (model.initial_numbers, *lanes)))
    states = []
    rewards = []
    for _ in range(points):
        states.append(state)
        sent = rng.random(lanes) < model.sends
        state, reward = model.advance(state, sent, model.draw(rng, (model.step_numbers, *lanes)))
        rewards.append(reward)
    return np.stack(states, axis=1), np.stack(rewards)
