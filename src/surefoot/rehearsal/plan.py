"""`rehearsal.toml`: what is rehearsed. Everything has a default, so that a rehearsal needs no plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from surefoot.errors import InputError
from surefoot.rehearsal.candidates import Candidate, check_names, list_references
from surefoot.rehearsal.design import TrialDesign
from surefoot.rehearsal.environments import (
    NO_EFFECT,
    Burden,
    Effect,
    Environment,
    Fading,
    PeopleDiffer,
    standardised_effect,
)
from surefoot.rehearsal.pilot_effect import PilotEffect
from surefoot.study import Study
from surefoot.study.model import MethodChoice
from surefoot.study.toml_file import Finite, Probability, Section, parse_toml, read_text

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[Finite, Field(gt=0)]
NotNegative = Annotated[Finite, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class BurdenPlan(Section):
    """`burden` of an environment: prompts that cost later."""

    response: Finite = 0.0
    """Share of the response that a burden of 1 takes."""
    baseline: Finite = 0.0
    """Standard deviations of the reward that a burden of 1 takes."""
    recovery: Share = 0.8
    """Share of the burden that is left at the next decision point."""


class EnvironmentPlan(Section):
    """`[[environment]]`: what sending does to the outcome."""

    name: Annotated[str, Field(min_length=1)] | None = None
    effect: Finite | None = None
    """Standard deviations of the reward."""
    pilot: bool = False
    """The pilot's own effect, with its uncertainty, instead of `effect`."""
    people_differ: NotNegative | None = None
    """Standard deviation of people's own factor of the effect, which is 1 on average."""
    half_life: Positive | None = None
    """Days after which half of the effect is left."""
    burden: BurdenPlan | None = None

    @model_validator(mode="after")
    def _has_one_size(self) -> EnvironmentPlan:
        if self.pilot == (self.effect is not None):
            raise ValueError("an environment has either effect = 0.2 (standard deviations) or pilot = true")
        return self

    def _list_changes(self) -> list[Effect]:
        found: list[Effect] = []
        if self.people_differ is not None:
            found.append(PeopleDiffer.by(self.people_differ))
        if self.half_life is not None:
            found.append(Fading(self.half_life))
        if self.burden is not None:
            found.append(Burden(**self.burden.model_dump()))
        return found

    def make_environment(self, pilot: PilotEffect | None) -> Environment:
        """The environment; `pilot` is the effect that the pilot showed."""
        more = self._list_changes()
        if self.effect is not None:
            made = standardised_effect(self.effect, *more)
        elif pilot is None:
            raise InputError("an environment with pilot = true needs a pilot; write effect = 0.2 with your number instead")
        else:
            own = pilot.environment
            name = ", ".join([own.name, *(effect.name for effect in more)])
            made = Environment(name, (*own.effects, *more), feels_dose=own.feels_dose)
        return made if self.name is None else made.rename(self.name)


class CandidatePlan(MethodChoice):
    """`[[candidate]]`: a method as `[method]` of a study names it, with a label of its own."""

    label: Annotated[str, Field(min_length=1)] | None = None


class PeoplePlan(Section):
    """`[people]`: the family of outcomes; the other keys say what a pilot would, where there is none."""

    outcome: str | None = None
    mean: Finite | None = None
    sd: Positive | None = None
    between: Share = 0.3
    carried: Share = 0.2
    availability: Annotated[float, Field(gt=0, le=1)] = 1.0
    missing: Share = 0.0


class SafetyRule(Section):
    """`[rule]`: what a candidate must hold to be recommended."""

    harm: NotNegative = 0.1
    """A participant is harmed by a mean outcome of so many standard deviations (of the reward) less than under never."""
    harmed: Probability = 0.1
    """Largest share of people harmed, unless a coin harms more."""
    power_loss: Probability = 0.2
    """Largest loss of power against the coin."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Of the primary analysis' test."""


DEFAULT_ENVIRONMENTS = (
    EnvironmentPlan(effect=0.2),
    EnvironmentPlan(name="effect 0.2, costs later", effect=0.2, burden=BurdenPlan(response=0.3, baseline=0.02)),
)


class RehearsalPlan(Section):
    """What is rehearsed: design, candidates, environments, trials, seed.

    Attributes
    ----------
    trials
        How many of every environment, each with people of its own.
    seed
        Root of all random numbers.
    block
        So many trials are simulated, and kept, together.
    tuning_trials
        With which the best fixed probability is found; they are not those that are reported.
    methods
        Names of methods; the study's own unless given.
    probabilities
        Further fixed probabilities of sending.
    candidate
        `[[candidate]]`: methods with parameters of their own.
    environment
        `[[environment]]`: beside no effect, which is always there.
    design
        `[design]`: people, days, updates.
    people
        `[people]`: what is assumed of them.
    rule
        `[rule]`: what is recommended.

    Examples
    --------
    >>> RehearsalPlan.parse("trials = 20\\nmethods = ['hb-ahead', 'saccb']").methods
    ('hb-ahead', 'saccb')
    """

    trials: Annotated[int, Field(ge=2)] = 100
    seed: Annotated[int, Field(ge=0)] = 0
    block: Count = 20
    tuning_trials: Annotated[int, Field(ge=2)] = 20
    methods: tuple[str, ...] = ()
    probabilities: tuple[Probability, ...] = ()
    candidate: tuple[CandidatePlan, ...] = ()
    environment: tuple[EnvironmentPlan, ...] | None = None
    design: TrialDesign = TrialDesign()
    people: PeoplePlan = PeoplePlan()
    rule: SafetyRule = SafetyRule()

    @classmethod
    def load(cls, path: str | Path) -> RehearsalPlan:
        """Read a `rehearsal.toml`."""
        text = read_text(Path(path), remedy="leave --plan out to rehearse with the defaults")
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "rehearsal.toml") -> RehearsalPlan:
        """A plan from the text of its file; `name` is what messages call it."""
        return parse_toml(cls, text, name)

    def with_trials(self, trials: int) -> RehearsalPlan:
        """The same plan with another number of trials."""
        if trials < 2:
            raise InputError(f"trials is {trials}; at least 2 say how much trials differ")
        return self.model_copy(update={"trials": trials})

    def list_candidates(self, study: Study) -> list[Candidate]:
        """Coin, never, always, further fixed probabilities, and methods; the best fixed one is found later."""
        found = [*list_references(study), *(Candidate.fixed(study, send) for send in self.probabilities)]
        names = self.methods or (() if self.candidate else (study.method_name,))
        found += [Candidate.with_method(study, name) for name in names]
        for one in self.candidate:
            choice = MethodChoice(**one.model_dump(exclude={"label"}))
            found.append(Candidate.with_method(study, choice, one.label))
        check_names(found)
        return found

    def list_environments(self, pilot: PilotEffect | None) -> list[Environment]:
        """No effect, then those of the plan; by default the pilot's effect, 0.2, and 0.2 that costs later."""
        given = self.environment
        if given is None:
            given = (*((EnvironmentPlan(pilot=True),) if pilot is not None else ()), *DEFAULT_ENVIRONMENTS)
        found = [NO_EFFECT, *(one.make_environment(pilot) for one in given)]
        names = [one.name for one in found]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two environments are called '{name}'; give one of them another name")
        return found
