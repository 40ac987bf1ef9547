"""A model of a study's participants, which simulates a trial before there is one.

Nothing is modelled that can be taken from the pilot as it was: a simulated person repeats the decision points of a person in
the pilot, with their state variables, outcomes, availability, gaps and artefacts. The effects of the pilot's own prompts are
taken out of them, and those of the simulated prompts are put in.
"""

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.derived_states import DerivedState
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.numerics.arrays import Array, Engine
from surefoot.numerics.random_streams import streams
from surefoot.rehearsal import pilot_effects
from surefoot.rehearsal.pilot_data import NO_PILOT, PilotArrays, add_doses
from surefoot.rehearsal.plan import NO_EFFECT, Environment
from surefoot.simulators.simulator import Seed, Simulator
from surefoot.study import Study, StudyLogs

Floats = NDArray[np.float64]
FEW_PEOPLE = 5
MANY_ZEROS = 0.05
"""Outcomes with at least this share of zeros have a part of their own for the chance of a positive one."""
COARSE = 1e-3
"""Outcomes recorded in steps of more than this share of their spread stay on these steps."""
TIME = 0


@dataclass(frozen=True)
class StateColumn:
    """A column of the state that is read. The score of a number is (value − mean) / spread; 0 and 1, whose `spread` is None,
    are 1 where the score is above 0. No value lies outside the `limits` of the pilot."""

    mean: float
    spread: float | None
    limits: tuple[float, float]

    @classmethod
    def of_values(cls, values: Floats) -> "StateColumn":
        known = values[~np.isnan(values)]
        is_number = not np.isin(known, (0.0, 1.0)).all()
        limits = (float(known.min()), float(known.max()))
        return cls(float(known.mean()), (float(known.std()) or 1.0) if is_number else None, limits)

    def to_score(self, values: Floats) -> Floats:
        """What regressions use."""
        return (values - self.mean) / (self.spread or 1.0)

    def to_value(self, scores: Floats) -> Floats:
        if self.spread is None:
            return (scores > 0).astype(np.float64)
        return np.clip(self.mean + self.spread * scores, *self.limits)

    def to_predictor(self, scores: Floats) -> Floats:
        """The column in the model of the outcome."""
        return scores if self.spread is not None else self.to_score((scores > 0).astype(np.float64))


@dataclass(frozen=True)
class OutcomeShape:
    """The kind of outcome: its family, limits and steps, after its transform."""

    family: str
    """`continuous`, `binary`, or `zeros`: a chance of a positive outcome, and its amount."""
    limits: tuple[float, float]
    step: float
    """0 where outcomes may take any value."""
    zero: float
    """A raw outcome of 0, after the transform."""

    @classmethod
    def of_values(cls, data: PilotArrays) -> "OutcomeShape":
        known = data.outcome[~np.isnan(data.outcome)]
        distinct = np.unique(known)
        if len(distinct) == 2:
            if distinct.tolist() != [0.0, 1.0]:
                values = " and ".join(f"{value:g}" for value in distinct)
                raise InputError(
                    f"the pilot's outcome has only the values {values}, and no family suits it; code it as 0 and 1"
                )
            return cls("binary", (0.0, 1.0), 0.0, 0.0)
        settings = data.study.outcome
        gaps = np.diff(distinct)
        least = float(gaps.min())
        even = settings.transform == "none" and np.abs(gaps / least - np.round(gaps / least)).max() < 1e-6
        step = least if even and least > COARSE * float(known.std()) else 0.0
        zero = float(distinct[0])
        share = float((known == zero).mean())
        many = share >= MANY_ZEROS and share > 2 * float((known == distinct[1]).mean()) and (step == 0 or zero == 0)
        half = float(np.ptp(known)) / 2
        low = zero if zero >= 0 or many else zero - half
        limits = (low, float(distinct[-1]) + half)
        if settings.range is not None and settings.transform == "none":
            limits = settings.range
        return cls("zeros" if many else "continuous", limits, step, zero)


@dataclass(eq=False, repr=False, kw_only=True)
class PilotModel(Simulator):
    """People like those in a pilot, or new ones drawn from them.

    Made by `fit_pilot` or `from_study`. The inner state holds the time, the effect of earlier prompts on every state column,
    the doses of earlier prompts, the burden, and the memory of derived states.
    """

    participants: NDArray[Any]
    """Ids: those of the pilot, or 0, 1, … for new people."""
    people: PilotArrays
    """Whom simulated people repeat."""
    columns: tuple[StateColumn, ...]
    """Of all state variables but the derived ones."""
    scores: Floats
    """Of the state columns in the pilot, (columns, people, decision points)."""
    outcome: OutcomeShape
    """The kind of outcome."""
    levels: tuple[Floats, ...]
    """Every part of the outcome in the pilot, (people, decision points)."""
    effects: pilot_effects.PilotEffects
    """Of the pilot's prompts."""
    environment: Environment = NO_EFFECT
    """The effects of sending; set by `in_environment`."""
    draws: tuple[int, ...] = (0,)
    """Models of the effects that are used, one for each replicate; 0 is the estimate."""

    def __post_init__(self) -> None:
        self.study = self.people.study
        self.per_day = self.people.per_day
        self.state_names = self.study.state_names
        self.action_names = self.study.actions.names
        self.initial_numbers = 0
        self.step_numbers = 1
        people = len(self.participants)
        self.person: NDArray[np.int64] = np.arange(people)
        self.model: NDArray[np.int64] = np.zeros(people, dtype=np.int64)
        self.deviation = np.stack([part.deviation for part in self.effects.parts])
        self.factor = np.ones(people)
        self._set_effects()

    def _set_effects(self) -> None:
        """Pick the models that are used, and take the effects of the pilot's prompts out of its states and outcomes."""
        rows = list(self.draws)
        self._carried = self.effects.carried[rows]
        self._response = self.effects.response[rows]
        self._moderation = [part.moderation[rows] for part in self.effects.parts]
        self._lasting = [part.lasting[rows] for part in self.effects.parts]
        first_dose = len(self.columns)
        carry_over = self.environment.carry_over
        if carry_over == "none":
            self._response = np.zeros_like(self._response)
            for coefficients in (*self._moderation, *self._lasting):
                coefficients[:, first_dose:] = 0.0
        elif carry_over != "estimate":
            later = self.effects.later
            missing = (later.low if carry_over == "low" else later.high) - later.value
            memory = int(np.argmax(np.abs(self._lasting[0][0, first_dose:] * self.effects.doses)))
            self._lasting[0][:, first_dose + memory] += missing / self.effects.scale[0] / self.effects.doses[memory]
        sent = self.people.sent
        moved = np.zeros((len(rows), *self.scores.shape))
        for t in range(1, sent.shape[1]):
            before = self._carried[..., None] * moved[..., t - 1]
            moved[..., t] = before + self._response[..., None] * sent[:, t - 1]
        self._scores = self.scores - moved
        doses = add_doses(sent, pilot_effects.MEMORIES)
        predictors = self._list_predictors(self.scores, doses)
        exposure = np.concatenate([moved, np.broadcast_to(doses, (len(rows), *doses.shape))], axis=1)
        self._levels = []
        for number, (part, level) in enumerate(zip(self.effects.parts, self.levels, strict=True)):
            now = part.now[rows][:, None, None] + part.deviation[:, None]
            now = now + np.einsum("rk,kpt->rpt", self._moderation[number], predictors)
            later = np.einsum("rk,rkpt->rpt", self._lasting[number], exposure)
            self._levels.append(level - sent * now - later)

    def __repr__(self) -> str:
        return (
            f"PilotModel(participants={len(self.participants)}, outcome={self.outcome.family!r}, {self.environment.title})"
        )

    def in_environment(self, environment: Environment) -> "PilotModel":
        """The same people with other effects of sending, such as `Environment(effect=0.2)`."""
        return replace(self, environment=environment)

    def draw_people(
        self, participants: int, *, seed: Seed | Sequence[Seed], draws: Sequence[int] | None = None
    ) -> "PilotModel":
        """New people, each after one of the pilot's; the same seed gives the same people.

        With one seed for each replicate of a study every replicate has people of its own; `start` then needs as many seeds.
        `draws` are the models of the effects, one for each replicate.
        """
        if participants < 1:
            raise InputError(f"participants is {participants}; a trial needs at least 1")
        several = isinstance(seed, Sequence)
        seeds: list[Seed] = list(seed) if isinstance(seed, Sequence) else [seed]
        lanes = (len(seeds), participants) if several else (participants,)
        parts = self.effects.parts
        drawn = replace(self, participants=np.arange(len(self.people.length)), draws=tuple(draws or (0,)))
        numbers = [rng for number in seeds for rng in streams(number, "participants", range(participants))]
        picks = np.array([rng.random() for rng in numbers]).reshape(lanes)
        normals = np.stack([rng.standard_normal(1 + len(parts)) for rng in numbers], axis=1).reshape(-1, *lanes)
        drawn.participants = np.arange(participants)
        drawn.person = (picks * len(self.people.length)).astype(np.int64)
        rows = np.arange(len(seeds))[:, None] if draws is not None else np.zeros((1, 1), dtype=np.int64)
        drawn.model = np.broadcast_to(rows, lanes) if several else np.zeros(lanes, dtype=np.int64)
        drawn.deviation = np.stack(
            [
                part.deviation[drawn.person] + part.deviation_error[drawn.person] * row
                for part, row in zip(parts, normals, strict=False)
            ]
        )
        drawn.factor = 1 + self.environment.people_differ * normals[-1]
        drawn.people_differ_by_replicate = len(seeds) if several else None
        return drawn

    def of(self, people: slice, engine: Engine) -> Self:
        selected = copy(self)
        for name in ("person", "model", "deviation", "factor"):
            setattr(selected, name, getattr(self, name)[..., people])
        return selected

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return rng.random(shape)

    def begin(self, numbers: Floats) -> Floats:
        zero = np.zeros(numbers.shape[1:])
        rows = [zero] * (2 + len(self.columns) + len(pilot_effects.MEMORIES))
        derived = self.study.derived_states.values()
        return np.stack([*rows, *(np.broadcast_to(number, zero.shape) for kind in derived for number in kind.begin(zero))])

    def _split(self, state: Floats) -> tuple[Floats, Floats, Floats]:
        """What earlier prompts moved in the state columns, doses, and burden."""
        ends = np.cumsum([1, len(self.columns), len(pilot_effects.MEMORIES)])
        return state[1 : ends[1]], state[ends[1] : ends[2]], state[ends[2]]

    def _list_derived(self, state: Floats) -> Iterator[tuple[str, DerivedState, tuple[Floats, ...]]]:
        """Derived states with what they remember."""
        start = 2 + len(self.columns) + len(pilot_effects.MEMORIES)
        for name, derived in self.study.derived_states.items():
            size = len(derived.begin(0.0))
            yield name, derived, tuple(state[start : start + size])
            start += size

    def _rows(self, state: Floats) -> NDArray[np.int64]:
        """The decision point of the pilot that everybody repeats; after the last one whole days begin again."""
        time = state[TIME].astype(np.int64)
        return np.asarray(np.where(time < self.people.points[self.person], time, time % self.people.length[self.person]))

    def _look_up_scores(self, state: Floats) -> Floats:
        """Scores of the state columns, (columns, *lanes)."""
        moved = self._split(state)[0]
        base = np.moveaxis(self._scores[self.model, :, self.person, self._rows(state)], -1, 0)
        return np.asarray(base + moved)

    def _of_lanes(self, coefficients: Floats, lanes: Floats) -> Floats:
        """Everybody's coefficients (k, *lanes), from those of the models that are used (models, k)."""
        return np.moveaxis(coefficients[np.broadcast_to(self.model, lanes.shape)], -1, 0)

    def _list_predictors(self, scores: Floats, doses: Floats) -> Floats:
        """What the effect of a prompt depends on: state columns, and doses less their means in the pilot."""
        columns = [column.to_predictor(values) for column, values in zip(self.columns, scores, strict=True)]
        return np.stack([*columns, *(dose - usual for dose, usual in zip(doses, self.effects.doses, strict=True))])

    def advance(self, state: Array, action: Array, numbers: Array) -> tuple[Array, Array]:
        sent = (np.asarray(action) > 0).astype(np.float64)
        moved, doses, burden = self._split(state)
        outcome = self._draw_outcome(state, sent, numbers[0])
        known = ~np.isnan(self.report(state, outcome))
        earned = np.where(known, outcome, 0.0)
        if self.environment.pilot:
            moved = self._of_lanes(self._carried, sent) * moved + self._of_lanes(self._response, sent) * sent
        doses = np.reshape(pilot_effects.MEMORIES, (-1, *[1] * sent.ndim)) * doses + sent
        recovery = self.environment.burden.recovery if self.environment.burden is not None else 0.0
        reported = known.astype(np.float64)
        memories = [
            number
            for _, derived, memory in self._list_derived(state)
            for number in derived.advance(memory, sent, earned, reported, state[TIME])
        ]
        return np.stack([state[TIME] + 1, *moved, *doses, recovery * burden + sent, *memories]), outcome

    def _draw_outcome(self, state: Floats, sent: Floats, uniform: Floats) -> Floats:
        """The outcome of a decision point."""
        environment = self.environment
        rows = self._rows(state)
        moved, doses, burden = self._split(state)
        factor = self.factor
        cost: Floats | float = 0.0
        if environment.half_life is not None:
            factor = factor * 0.5 ** (np.floor(state[TIME] / self.per_day) / environment.half_life)
        if environment.burden is not None:
            factor = factor * (1 - environment.burden.response * burden)
            cost = environment.burden.baseline * burden
        effects = self.effects
        if environment.pilot:
            # Nothing is known about doses above those of the pilot.
            felt = np.minimum(doses, effects.most.reshape(-1, *[1] * sent.ndim))
            predictors = self._list_predictors(self._look_up_scores(state), felt)
            exposure = np.concatenate([moved, felt])
        levels = []
        for number, part in enumerate(effects.parts):
            level = self._levels[number][self.model, self.person, rows]
            if environment.pilot:
                now = part.now[list(self.draws)][self.model] + self.deviation[number]
                now = now + (self._of_lanes(self._moderation[number], sent) * predictors).sum(axis=0)
                later = (self._of_lanes(self._lasting[number], sent) * exposure).sum(axis=0)
            else:
                now = (environment.effect or 0.0) * effects.spread / effects.scale[number] / len(effects.parts)
                later = 0.0
            burdened = cost * effects.spread / effects.scale[number] / len(effects.parts)
            levels.append(level + sent * now * factor + later - burdened)
        return self._finish(levels, uniform)

    def _finish(self, levels: list[Floats], uniform: Floats) -> Floats:
        """The outcome from its parts."""
        shape = self.outcome
        if shape.family == "binary":
            return (levels[0] > 0).astype(np.float64)
        outcome = np.clip(levels[-1], *shape.limits)
        if shape.step:
            # Rounded up or down by chance, so that small effects are not lost.
            outcome = np.floor((outcome - shape.zero) / shape.step + uniform) * shape.step + shape.zero
            outcome = np.clip(outcome, *shape.limits)
        if shape.family == "zeros":
            least = shape.zero + shape.step
            outcome = np.where(levels[0] > 0, np.maximum(outcome, least), shape.zero)
        return outcome

    def list_limits(self, days: int) -> list[str]:
        """What a rehearsal of this many days leaves out, as sentences."""
        limits = []
        unmoved = list_unmoved(self.study)
        if unmoved:
            names = ", ".join(f"'{name}'" for name in unmoved)
            limits.append(f"Prompts are taken not to change {names}: people have the levels that they had in the pilot.")
        nothing, *others = self.action_names
        if len(others) > 1:
            limits.append(
                f"All actions but '{nothing}' are taken to have the same effect: this rehearsal cannot say which of them to "
                "send."
            )
        observed = int(np.median(self.people.length)) // self.per_day
        if days > observed:
            limits.append(
                f"The trial lasts {days} days, and half of the people were observed for {observed} or fewer: after their "
                "last day they begin again with their first."
            )
        return limits

    @property
    def level_error(self) -> float:
        """Standard error of the pilot's mean outcome, between people."""
        means = pilot_effects.average_people(self.people.outcome)
        means = means[(~np.isnan(self.people.outcome)).any(axis=1)]
        return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0

    def available(self, state: Array) -> Array | None:
        return self.people.available[self.person, self._rows(state)]

    def report(self, state: Array, outcome: Array) -> Array:
        rows = self._rows(state)
        recorded = self.people.recorded_outcome[self.person, rows]
        flagged = np.isnan(self.people.outcome[self.person, rows])
        return np.where(flagged, recorded, outcome)

    def visible(self, state: Array) -> Array:
        rows = self._rows(state)
        scores = self._look_up_scores(state)
        recorded = self.people.recorded[self.person, rows]
        flagged = np.isnan(self.people.state[self.person, rows])
        values: dict[str, Floats] = {}
        for number, column, score in zip(self.people.read, self.columns, scores, strict=True):
            values[self.state_names[number]] = np.where(flagged[..., number], recorded[..., number], column.to_value(score))
        day = np.floor(state[TIME] / self.per_day)
        for name, derived, memory in self._list_derived(state):
            kind = self.study.state[name].variable_kind
            with np.errstate(invalid="ignore"):
                value = np.asarray(derived.value(memory, state[TIME], day))
            values[name] = np.broadcast_to((value - kind.centre) / kind.scale, state.shape[1:])
        return np.stack([values[name] for name in self.state_names]) if values else np.zeros((0, *state.shape[1:]))


def fit_pilot(
    logs: StudyLogs | Trajectories, study: Study, *, seed: int = 0, per_day: int | None = None, draws: int = 200
) -> PilotModel:
    """A model of the people in a pilot, and the effects of its prompts with their uncertainty.

    Parameters
    ----------
    logs
        The result of `study.read` (then artefacts are repeated as the screen found them), or trajectories.
    study
        What the columns mean.
    seed
        Seed of the resampled participants, and of values that stand for missing ones.
    per_day
        Decision points a day, where neither the study's `day_boundary` nor timestamps say it.
    draws
        Number of refits to resampled participants.

    Returns
    -------
    PilotModel
        A simulator of the pilot's own people; `draw_people` gives new ones.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.weather]\\n[state.engagement]\\n[state.fatigue]'
    >>> logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> fit_pilot(logs, sf.Study.parse(text), per_day=5)
    PilotModel(participants=10, outcome='continuous', no effect)
    """
    data = PilotArrays.of_logs(logs, study, per_day)
    people = len(data.participants)
    if people < FEW_PEOPLE:
        rough = f"{people} participants say little about how people differ: trials simulated from them are rough"
        warnings.warn(rough, FitWarning, stacklevel=2)
    return _make_model(data, np.random.default_rng(seed), draws)


def list_unmoved(study: Study) -> list[str]:
    """State variables with several columns, such as categories: people have them as they were in the pilot."""
    return [name for name, variable in study.state.items() if not variable.derived and len(study.state_columns[name]) > 1]


def _make_model(data: PilotArrays, rng: np.random.Generator, draws: int) -> PilotModel:
    """Scores of the state, parts of the outcome, effects, and values in place of missing ones."""
    columns = []
    scores = []
    moving = []
    several = {column for name in list_unmoved(data.study) for column in data.study.state_columns[name]}
    for values, name in zip(data.states, (data.study.state_names[number] for number in data.read), strict=True):
        _check_known(data, name, values)
        columns.append(StateColumn.of_values(values))
        scores.append(columns[-1].to_score(values))
        # What is the same for everybody at every time, such as the day, does not respond to prompts.
        neighbour = np.roll(values, 1, axis=0)
        differs = (values != neighbour) & ~np.isnan(values) & ~np.isnan(neighbour)
        moving.append(bool(differs.any()) and name not in several)
    stacked = np.stack(scores) if scores else np.zeros((0, *data.present.shape))
    shape = OutcomeShape.of_values(data)
    outcome = data.outcome
    parts = [outcome]
    scale: tuple[float, ...] = (1.0,)
    if shape.family == "zeros":
        positive = np.where(np.isnan(outcome), np.nan, outcome != shape.zero)
        amount = np.where(positive == 1, outcome, np.nan)
        parts = [positive, amount]
        scale = (float(np.nanmean(amount)) - shape.zero, float(np.nanmean(positive)))
    effects = pilot_effects.fit_effects(data, stacked, np.array(moving, dtype=bool), parts, scale, rng, draws)
    levels: list[Floats] = []
    for part, values in zip(effects.parts, parts, strict=True):
        drawn = _complete(part, rng)
        is_chance = shape.family == "binary" or (shape.family == "zeros" and not levels)
        levels.append(_find_latent(part.fitted, values, rng) if is_chance else np.where(np.isnan(values), drawn, values))
    for number, (column, values) in enumerate(zip(columns, data.states, strict=True)):
        if column.spread is None:
            expected = np.broadcast_to(pilot_effects.fill_with_means(values).mean(axis=1, keepdims=True), values.shape)
            stacked[number] = _find_latent(expected, values, rng)
        else:
            stacked[number] = pilot_effects.fill_with_means(stacked[number])
    return PilotModel(
        participants=data.participants,
        people=data,
        columns=tuple(columns),
        scores=stacked,
        outcome=shape,
        levels=tuple(levels),
        effects=effects,
    )


def _check_known(data: PilotArrays, name: str, column: Floats) -> None:
    """Refuse a variable that is never known twice in a row, since its transitions cannot be learned."""
    known = data.present & ~np.isnan(column)
    if not (known[:, 1:] & known[:, :-1]).any():
        known_at = "at two decision points in a row" if known.any() else "at any decision point"
        raise InputError(
            f"the pilot's '{name}' is not known {known_at}, so its changes over time cannot be learned; leave it out of "
            f"[state], give a longer pilot, or {NO_PILOT}"
        )


def _complete(part: pilot_effects.OutcomeEffects, rng: np.random.Generator) -> Floats:
    """Expected values with a residual of the same person each (of anybody, for people without any)."""
    known = part.residual[~np.isnan(part.residual)]
    drawn = np.empty(part.residual.shape)
    for person, row in enumerate(part.residual):
        pool = row[~np.isnan(row)]
        drawn[person] = rng.choice(pool if len(pool) > 1 else known, len(row))
    return part.fitted + drawn


def _find_latent(chance: Floats, values: Floats, rng: np.random.Generator) -> Floats:
    """Numbers that are above 0 where a value is 1: the chance less a uniform number given the value."""
    chance = chance.clip(0.02, 0.98)
    uniform = rng.random(chance.shape)
    values = np.where(np.isnan(values), uniform < chance, values)
    given = np.where(values > 0, rng.random(chance.shape) * chance, chance + rng.random(chance.shape) * (1 - chance))
    return np.asarray(chance - given)


def from_study(
    study: Study,
    *,
    participants: int = 50,
    seed: int,
    mean: float | None = None,
    sd: float | None = None,
    between: float = 0.3,
    carried: float = 0.2,
    availability: float = 1.0,
    missing: float = 0.0,
    per_day: int | None = None,
    points: int = 210,
) -> PilotModel:
    """A model without a pilot: from the study's ranges and the given numbers.

    Parameters
    ----------
    study
        Its state variables move within their ranges (without one: within three scales of their centre).
    participants, seed
        The number of people, and the seed of their draw.
    mean, sd
        Of the outcome; by default the middle of its range and a sixth of its width.
    between
        The share of the outcome's variance that lies between people.
    carried
        The share of an outcome's deviation that carries over to the next.
    availability, missing
        Shares of decision points: available, and with the outcome lost.
    per_day
        Decision points a day; by default the study's `day_boundary`, or 1.
    points
        Decision points that are drawn for everybody; later ones repeat them.

    Returns
    -------
    PilotModel
        Without any effect; give it one with `in_environment`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.mood]\\nrange = [0, 10]\\n[outcome]\\nrange = [0, 100]'
    >>> from_study(sf.Study.parse(text), participants=4, seed=1).state_names
    ('mood',)
    """
    limits = study.outcome.range
    if limits is not None:
        mean = sum(limits) / 2 if mean is None else mean
        sd = (limits[1] - limits[0]) / 6 if sd is None else sd
    if mean is None or sd is None:
        raise InputError("the study does not say how the outcome varies; write [outcome] range = [0, 100], or give mean, sd")
    if not (sd > 0 and 0 <= between < 1 and 0 <= carried < 1 and 0 < availability <= 1 and 0 <= missing < 1):
        raise InputError("sd must be above 0; between, carried and missing are shares below 1, availability one above 0")
    rng = np.random.default_rng(seed)
    shape = (participants, points)

    def wander(share_between: float, share_carried: float) -> Floats:
        """Standard normal numbers, with this share of variance between people and of deviations carried over."""
        level = np.sqrt(share_between) * rng.standard_normal((participants, 1))
        noise = rng.standard_normal(shape)
        for t in range(1, points):
            noise[:, t] = share_carried * noise[:, t - 1] + np.sqrt(1 - share_carried**2) * noise[:, t]
        return np.asarray(level + np.sqrt(1 - share_between) * noise)

    state = np.full((*shape, len(study.state_names)), np.nan)
    for name, variable in study.state.items():
        if variable.derived:
            continue
        numbers = [study.state_names.index(column) for column in study.state_columns[name]]
        kind = variable.variable_kind
        if kind.is_measured:
            low, high = kind.range or (kind.centre - 3 * kind.scale, kind.centre + 3 * kind.scale)
            # Three standard deviations on either side fill the range.
            values = (low + high) / 2 + (high - low) / 6 * wander(0.25, 0.5)
            state[..., numbers[0]] = (values.clip(low, high) - kind.centre) / kind.scale
        else:
            # All levels equally often, in runs: thirds (halves, …) of a number that carries over.
            rank = np.argsort(np.argsort(wander(0.1, 0.7), axis=None), axis=None).reshape(shape) / (participants * points)
            level = np.floor(rank * (len(numbers) + 1))
            state[..., numbers] = level[..., None] == 1 + np.arange(len(numbers))
    outcome = mean + sd * wander(between, carried)
    outcome = outcome if limits is None else outcome.clip(*limits)
    marks = wander(0.1, 0.5)
    lost = wander(0.1, 0.5)
    count = per_day or (study.days if isinstance(study.days, int) else 1)
    data = PilotArrays(
        study=study,
        participants=np.arange(participants),
        present=np.ones(shape, dtype=bool),
        state=state,
        recorded=state,
        available=marks <= np.quantile(marks, availability),
        sent=np.zeros(shape),
        probability=np.zeros(shape),
        outcome=np.where(lost < np.quantile(lost, missing), np.nan, outcome),
        recorded_outcome=np.where(lost < np.quantile(lost, missing), np.nan, outcome),
        slot=np.broadcast_to(np.arange(points) % count, shape),
        per_day=count,
    )
    # Nothing was sent, so that all effects are 0.
    return _make_model(data, rng, draws=2)
