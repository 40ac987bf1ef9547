"""A model of a study's participants: what simulates a trial before there is one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from surefoot.data.log_columns import Problems
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array
from surefoot.numerics.engines import Engine
from surefoot.numerics.random_streams import streams
from surefoot.policies.constant_policies import coin
from surefoot.policies.policies import Policies, Policy
from surefoot.policies.rules import UpperConfidence
from surefoot.rehearsal.anatomy import Anatomy, redraw_people
from surefoot.rehearsal.artefacts import ArtefactPart
from surefoot.rehearsal.environments import NO_EFFECT, Environment
from surefoot.rehearsal.family_choice import FamilyChoice
from surefoot.rehearsal.pilot_data import DOSE_DISCOUNT, usual_dose
from surefoot.rehearsal.state_parts import Moment, YesNoPart
from surefoot.rehearsal.varying import map_varying
from surefoot.simulators.simulator import Seed, Simulator
from surefoot.study.log_reader import transform_reward

Floats = NDArray[np.float64]
TIME, DOSE, SCORE, FIRST_ROW = 0, 1, 2, 3
"""Rows of the inner state before those of the parts."""
NEAREST = 1e-16
"""Uniform numbers keep so far from 0 and 1."""
QUADRATURE = ndtri((np.arange(32) + 0.5) / 32)
"""Scores over which an expected reward is averaged."""


class PilotModel(Simulator):
    """People like those of a pilot, or new ones drawn from the distribution they came from.

    Made by `fit_pilot` or `from_study`. A participant's inner state holds the time, what was sent, the last reward, marks
    (available, missing), artefacts and the state variables; policies and logs see the state variables, missing where they
    were missing, wrong where a device was. The reward is the outcome after the study's transform.

    Attributes
    ----------
    participants
        Ids: those of the pilot, or 0, 1, … for new people.
    environment
        What sending does to the outcome; nothing, unless `in_environment` said otherwise.
    choice
        The family of outcomes, and how well the others would have done.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.mood]
    ... range = [0, 10]
    ... [reward]
    ... range = [0, 100]'''
    >>> model = sf.rehearsal.from_study(sf.Study.parse(text), participants=4, seed=1)
    >>> model.collect(sf.policies.coin(2), decision_points=5, seed=2)
    Trajectories(4 people, 20 decision points, state ['mood'], actions ['nothing', 'send'])
    """

    def __init__(
        self,
        anatomy: Anatomy,
        participants: NDArray[Any],
        *,
        choice: FamilyChoice,
        environment: Environment = NO_EFFECT,
        show_marks: bool = False,
    ) -> None:
        self.participants = participants
        self.anatomy, self.choice, self.environment, self._marks_shown = anatomy, choice, environment, show_marks
        self.state_names = anatomy.study.state_names
        if show_marks:
            self.state_names += tuple(f"{part.device}: {part.reason}" for part in anatomy.artefacts)
        self.action_names = anatomy.study.actions.names
        inner = anatomy.parts[:-1]
        rows = np.cumsum([FIRST_ROW, *(part.rows for part in inner)])
        numbers = np.cumsum([0, *(part.numbers for part in inner)])
        self._rows = [slice(start, end) for start, end in pairwise(rows.tolist())]
        self._numbers = [slice(start, end) for start, end in pairwise(numbers.tolist())]
        self.initial_numbers = int(numbers[-1])
        self.step_numbers = self.initial_numbers + 1

    def __repr__(self) -> str:
        return (
            f"PilotModel(participants={len(self.participants)}, outcome={self.choice.name!r}, {self.environment.describe()})"
        )

    def in_environment(self, environment: Environment) -> PilotModel:
        """The same people where sending has other effects.

        Parameters
        ----------
        environment
            Such as `standardised_effect(0.2)`, or what `pilot_effect` found; κ is found here.
        """
        scaled = replace(environment, scale=find_scale(self, environment.probe)) if environment.effects else environment
        return self._like(self.anatomy, self.participants, scaled, self._marks_shown)

    def showing_marks(self) -> PilotModel:
        """The same people with values missing, not wrong, where there are artefacts, and those as further state columns."""
        return self._like(self.anatomy, self.participants, self.environment, True)

    def _like(self, anatomy: Anatomy, participants: NDArray[Any], environment: Environment, show_marks: bool) -> PilotModel:
        made = PilotModel(anatomy, participants, choice=self.choice, environment=environment, show_marks=show_marks)
        made.people_differ_by_replicate = self.people_differ_by_replicate
        return made

    def draw_people(self, participants: int, *, seed: Seed | Sequence[Seed]) -> PilotModel:
        """New people from the distribution between people; the same seed gives the same people.

        Parameters
        ----------
        participants
            How many; not necessarily as many as the pilot had.
        seed
            One seed, or one for each replicate of a study: then every replicate has people of its own.

        Returns
        -------
        PilotModel
            To be started with as many seeds as there are replicates.
        """
        if participants < 1:
            raise InputError(f"participants is {participants}; a trial needs at least 1")
        several = isinstance(seed, Sequence)
        seeds: list[Seed] = list(seed) if isinstance(seed, Sequence) else [seed]
        lanes = (len(seeds), participants) if several else (participants,)
        new = redraw_people((*self.anatomy.parts, *self.environment.effects), participants, seeds, lanes)
        own = len(self.anatomy.parts)
        trial = np.array(
            [rng.standard_normal(len(new) - own) for one in seeds for rng in streams(one, "participants", ["trial"])]
        )
        environment = self.environment.with_effects(new[own:]).draw_trial(trial.T)
        made = self._like(self.anatomy.with_parts(new[:own]), np.arange(participants), environment, self._marks_shown)
        made.people_differ_by_replicate = len(seeds) if several else None
        return made

    def of(self, people: slice, engine: Engine) -> Self:
        if people.indices(len(self.participants)) == (0, len(self.participants), 1):
            return self
        part = copy(self)
        parts = [map_varying(one, lambda old: old.select(people)) for one in self.anatomy.parts]
        effects = [map_varying(one, lambda old: old.select(people)) for one in self.environment.effects]
        part.anatomy, part.environment = self.anatomy.with_parts(parts), self.environment.with_effects(effects)
        return part

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.random(shape).clip(NEAREST, 1 - NEAREST)

    def begin(self, numbers: Floats) -> Floats:
        lanes = numbers.shape[1:]
        zero = np.zeros(lanes)
        marks = [] if self.anatomy.lost is None else [zero]
        moment = self._moment(
            zero, score=zero, dose=self._feel(zero, zero), sent=zero, reward=zero, known=zero, seen={}, marks=marks
        )
        rows: list[Floats] = [zero[None], zero[None], zero[None]]
        for place, part in enumerate(self.anatomy.parts[:-1]):
            rows.append(part.begin(moment, numbers[self._numbers[place]]))
            if place < len(self.anatomy.marks):
                moment.marks.append(rows[-1][0])
        return np.concatenate([*rows, self.environment.begin(lanes)])

    def _moment(self, time: Floats, **more: Any) -> Moment:
        clock = self.anatomy.clock
        return Moment(time=time, clock=self._clock(time), day=clock.day(time), **more)

    def _clock(self, time: Floats) -> list[Floats]:
        """The clock's features, one number each where all lanes are at one time."""
        first = time.reshape(-1)[:1]
        return [np.asarray(one) for one in self.anatomy.clock.features(first[0] if (time == first).all() else time)]

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        anatomy, sent = self.anatomy, (np.asarray(action) > 0).astype(np.float64)
        outcome = self.draw_outcome(state, sent, numbers[-1])
        reward = self.to_reward(outcome)
        dose, score = DOSE_DISCOUNT * state[DOSE] + sent, anatomy.scores.to_scores(reward)
        moment = self._moment(
            state[TIME] + 1,
            score=score,
            dose=self._feel(dose, state[TIME] + 1),
            sent=sent,
            reward=reward,
            known=(~np.isnan(self.report(state, reward))).astype(np.float64),
            seen={**self._measure(state), anatomy.study.reward.column: outcome} if anatomy.artefacts else {},
            marks=[] if anatomy.lost is None else [self._is_marked(state, anatomy.lost).astype(np.float64)],
        )
        rows: list[Floats] = [moment.time[None], dose[None], score[None]]
        for place, part in enumerate(anatomy.parts[:-1]):
            rows.append(part.advance(state[self._rows[place]], moment, numbers[self._numbers[place]]))
            if place < len(anatomy.marks):
                moment.marks.append(rows[-1][0])
        return np.concatenate([*rows, self.environment.advance(self._memory(state), sent)]), reward

    def _feel(self, dose: Floats, time: Floats) -> Floats:
        """The dose as far as it matters: less what was usual in the pilot at that time."""
        usual = usual_dose(time, self.anatomy.send_rate)
        return dose - usual if self.environment.feels_dose else np.zeros(dose.shape)

    def _memory(self, state: Floats) -> Floats:
        """The rows of the environment."""
        return state[len(state) - self.environment.rows :]

    def features(self, state: Floats) -> list[Floats]:
        """What the outcome depends on: 1, the state variables, clock, availability, last score, dose, and a place for the
        pilot's own effect."""
        anatomy = self.anatomy
        found: list[Floats] = [np.ones(())]
        for name in anatomy.predictors:
            found += anatomy.states[name].predictors(state[self._rows[anatomy.places[name]]])
        free = self.available(state)
        found += [*self._clock(state[TIME]), np.ones(()) if free is None else free.astype(np.float64)]
        return [*found, state[SCORE], self._feel(state[DOSE], state[TIME]), np.zeros(())]

    def draw_outcome(self, state: Floats, sent: Floats, uniform: Floats) -> Floats:
        """The outcome of a decision point, as measured, from uniform numbers."""
        shift = self.environment.shift(self._memory(state), sent, self.anatomy.clock.day(state[TIME]))
        moved = ndtr(ndtri(uniform) + shift).clip(NEAREST, 1 - NEAREST) if self.environment.effects else uniform
        return self.finish_outcome(self.anatomy.family.invert(moved, self.features(state)))

    def finish_outcome(self, outcome: Floats) -> Floats:
        """Recorded to its step and kept within its limits."""
        step = self.anatomy.step
        kept = np.clip(outcome, *self.anatomy.limits)
        return np.where(kept > 0, np.maximum(np.round(kept / step), 1), np.round(kept / step)) * step if step else kept

    def to_reward(self, outcome: Floats) -> Floats:
        """Outcomes after the study's transform."""
        section = self.anatomy.reward
        return outcome if section is None else transform_reward(outcome, section, Problems())

    def available(self, state: Array) -> Array | None:
        return None if self.anatomy.availability is None else state[FIRST_ROW] > 0

    def _is_marked(self, state: Floats, part: YesNoPart) -> NDArray[np.bool_]:
        return np.asarray(state[self._rows[self.anatomy.marks.index(part)]][0] > 0)

    def report(self, state: Array, reward: Array) -> Array:
        anatomy = self.anatomy
        for part, own in self._list_artefacts(state):
            if anatomy.study.reward.column in part.shown:
                wrong = self.to_reward(part.overlay(own, anatomy.study.reward.column, np.zeros(reward.shape)))
                reward = np.where(own[0] > 0, np.nan if self._marks_shown else wrong, reward)
        return reward if anatomy.lost is None else np.where(self._is_marked(state, anatomy.lost), np.nan, reward)

    def _list_artefacts(self, state: Floats) -> list[tuple[ArtefactPart, Floats]]:
        first = len(self.anatomy.marks)
        return [(part, state[self._rows[first + place]]) for place, part in enumerate(self.anatomy.artefacts)]

    def _measure(self, state: Floats) -> dict[str, Floats]:
        """What every number column measures, without artefacts."""
        anatomy, found = self.anatomy, {}
        for name, part in anatomy.states.items():
            values = part.values(state[self._rows[anatomy.places[name]]], state[TIME], anatomy.clock.day(state[TIME]))
            if len(values) == 1:
                found[anatomy.study.state[name].column or name] = values[0]
        return found

    def visible(self, state: Array) -> Array:
        anatomy, artefacts = self.anatomy, self._list_artefacts(state)
        day = anatomy.clock.day(state[TIME])
        columns: list[Floats] = []
        for name, part in anatomy.states.items():
            values = part.values(state[self._rows[anatomy.places[name]]], state[TIME], day)
            column = anatomy.study.state[name].column or name
            for artefact, own in artefacts:
                if column in artefact.shown:
                    wrong = (
                        np.where(own[0] > 0, np.nan, values[0])
                        if self._marks_shown
                        else artefact.overlay(own, column, values[0])
                    )
                    values = [wrong]
            if name in anatomy.missing:
                hidden = self._is_marked(state, anatomy.missing[name])
                values = [np.where(hidden, np.nan, value) for value in values]
            columns += values
        if self._marks_shown:
            columns += [own[0] for _, own in artefacts]
        return np.stack([np.broadcast_to(column, state.shape[1:]) for column in columns])

    def expected_reward(self, states: Floats) -> Floats:
        """At a middle day of the pilot, available, after a middling reward, with nothing sent before."""
        by_variable = np.moveaxis(states, (-1, 0), (0, -1))
        zero = np.zeros(by_variable.shape[1:])
        features: list[Floats] = [np.ones(())]
        names = list(self.anatomy.study.state_names)
        for name in self.anatomy.predictors:
            columns = [by_variable[names.index(column)] for column in self.anatomy.study.columns_of(name)]
            features += self.anatomy.states[name].scores(columns)
        middle = np.full(zero.shape, self.anatomy.clock.middle * self.anatomy.clock.per_day)
        features += [*self.anatomy.clock.features(middle), zero + 1, zero, zero, zero]
        found = []
        for sent in (0.0, *[1.0] * (len(self.action_names) - 1)):
            shift = self.environment.shift(self.environment.begin(zero.shape), zero + sent, self.anatomy.clock.day(middle))
            drawn = [self.anatomy.family.invert(ndtr(z + shift + zero), features) for z in QUADRATURE]
            found.append(np.mean([self.to_reward(self.finish_outcome(one)) for one in drawn], axis=0))
        return np.moveaxis(np.stack(found, axis=-1), -2, 0) if zero.ndim > 1 else np.stack(found, axis=-1)

    @cached_property
    def critic_coef(self) -> Floats:  # type: ignore[override]
        """w*, (people, features): least squares of the expected reward at what a coin visits."""
        logs = self.collect(coin(len(self.action_names)), decision_points=60, seed=0)
        states = np.nan_to_num(logs.state[logs.order]).reshape(len(self.participants), 60, -1)
        expected = self.expected_reward(states)
        ones = np.ones((*states.shape[:2], 1))
        blocks = np.linalg.pinv(np.concatenate([ones, states], axis=-1)) @ expected
        blocks[..., 1:] -= blocks[..., :1]
        return np.asarray(np.swapaxes(blocks, 1, 2).reshape(len(self.participants), -1))

    def oracle_myopic(self) -> Policy | Policies:
        """Send to whom it helps in their middle state: effects do not depend on the state."""
        middle = np.zeros((len(self.participants), 1, len(self.state_names)))
        gain = np.diff(self.expected_reward(middle)[:, 0, :2], axis=-1)
        mean = np.zeros((len(self.participants), len(self.action_names), len(self.state_names) + 1))
        mean[:, 1:, -1] = gain
        rule = UpperConfidence(mean, np.zeros((*mean.shape, mean.shape[-1])))
        return Policies(self.participants, rule, self.action_names, self.state_names)


def find_scale(model: PilotModel, d: float, *, points: int = 60, seed: int = 0) -> float:
    """κ: the shift of the score that moves the mean reward by d standard deviations, divided by d.

    Found by bisection over simulated decision points at which people are available, each with a random number of its own.
    """
    plain = model.in_environment(NO_EFFECT)
    states, rewards = _visit(plain, points, seed)
    uniform = np.random.default_rng(seed).random(rewards.shape).clip(NEAREST, 1 - NEAREST)
    features = plain.features(states)
    free = plain.available(states)
    counted = np.ones(rewards.shape, dtype=bool) if free is None else np.asarray(free)
    spread = float(rewards[counted].std())

    def mean(shift: float) -> float:
        drawn = plain.anatomy.family.invert(ndtr(ndtri(uniform) + shift), features)
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
    replicates, people = model.people_differ_by_replicate, len(model.participants)
    lanes = (people,) if replicates is None else (replicates, people)
    state = model.begin(model.draw(rng, (model.initial_numbers, *lanes)))
    states, rewards = [], []
    for _ in range(points):
        following, reward = model.advance(
            state, rng.random(lanes) < model.anatomy.sends, model.draw(rng, (model.step_numbers, *lanes))
        )
        states.append(state)
        rewards.append(reward)
        state = following
    return np.stack(states, axis=1), np.stack(rewards)
