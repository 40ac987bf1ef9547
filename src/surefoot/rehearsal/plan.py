"""What is rehearsed: the design of the trial, its candidates, the effects of sending, and `rehearsal.toml`, in which
everything has a default."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from surefoot.errors import InputError
from surefoot.study import Study
from surefoot.study.model import MethodChoice
from surefoot.study.toml_file import Count, Finite, NotNegative, Positive, Probability, Section, Text, parse_toml, read_text

Share = Annotated[float, Field(ge=0, lt=1)]

COIN = "coin"
NEVER = "never"
ALWAYS = "always"
REFERENCES = (COIN, NEVER, ALWAYS)
"""Candidates to compare with."""
FIRST_HOUR = 8
LAST_HOUR = 20
"""Decision points of a day lie evenly between these hours."""
UPDATE_HOUR = 27
"""An update runs at three the next morning."""
PILOT = "the pilot's effect"
CARRY_OVERS = {"estimate": "", "none": ", nothing later", "low": ", least later", "high": ", most later"}
"""How the pilot's carry-over is taken → what the environment's name says about it."""


class TrialDesign(Section):
    """`[design]` of a rehearsal; everything else about the trial comes from the study's `[trial]`."""

    participants: Count = 50
    """Number of people who enter."""
    days: Count = 42
    """Of each participant."""
    per_day: Count = 5
    """Decision points a day."""
    entry_days: Annotated[int, Field(ge=0)] = 0
    """People enter evenly over these days; 0: all on the first."""
    cohort: Count = 1
    """People who enter together."""
    update_every: Count = 7
    """Days between updates; 1 is nightly."""
    outcome_delay: Annotated[int, Field(ge=0)] = 0
    """Decision points by which outcomes come late."""
    drop_out: Annotated[Probability, Field(lt=1)] = 0.0
    """The share that would leave by the end without any prompts."""
    drop_out_burden: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Growth of the log daily hazard of leaving per unit of burden, the discounted count of prompts."""
    screen: bool = True
    """Whether updates screen, as the study says or, where it says nothing, by every detector."""

    @property
    def entries(self) -> list[int]:
        """Everybody's first day in the trial, from 0: cohort c of C enters on day c · entry_days / (C − 1)."""
        cohorts = -(-self.participants // self.cohort)
        step = self.entry_days / max(cohorts - 1, 1)
        return [round(step * (person // self.cohort)) for person in range(self.participants)]

    @property
    def calendar_days(self) -> int:
        """From the first entry to the last participant's last day."""
        return max(self.entries) + self.days

    @property
    def decision_points(self) -> int:
        """Of each participant who stays."""
        return self.days * self.per_day

    def clock_time(self, day: int, slot: int) -> timedelta:
        """When a decision point of a day comes, from the midnight before the trial."""
        share = slot / (self.per_day - 1) if self.per_day > 1 else 0.0
        return timedelta(days=day, hours=FIRST_HOUR, seconds=round(3600 * (LAST_HOUR - FIRST_HOUR) * share))

    def updates_after(self, day: int) -> bool:
        """Whether an update follows this day of the trial."""
        return (day + 1) % self.update_every == 0


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method that learns during the trial, or a fixed probability of sending."""

    name: str
    """Its name in tables."""
    study: Study
    """The study with this candidate's method in place."""
    send: float | None = None
    """The fixed probability of sending anything at available decision points; None where the study's method learns."""

    @classmethod
    def with_method(cls, study: Study, choice: MethodChoice | str, name: str | None = None) -> Candidate:
        """A method: a name, with the study's pooling (and parameters where it is the study's method), or a full choice."""
        from surefoot.learning.methods import METHODS

        if isinstance(choice, str):
            # A method that chooses its pooling takes none.
            chooses_pooling = "choice" in METHODS.get(choice, {})
            pooled = MethodChoice(name=choice, pooling=None if chooses_pooling else study.method_choice.pooling)
            choice = study.method_choice if choice == study.method_name else pooled
        return cls(name or choice.name, study if choice == study.method_choice else study.with_method(choice))

    @classmethod
    def fixed(cls, study: Study, send: float, name: str | None = None) -> Candidate:
        """The same probability of sending throughout."""
        if not 0 <= send <= 1:
            raise InputError(f"send is {send}; it is a probability, from 0 to 1")
        return cls(name or f"fixed {send:g}", study, float(send))

    @property
    def learns(self) -> bool:
        return self.send is None


class CandidatePlan(MethodChoice):
    """`[[candidate]]`: a method as `[method]` of a study names it, with a label."""

    label: Text | None = None


class PeoplePlan(Section):
    """`[people]`: numbers that replace a pilot where there is none."""

    mean: Finite | None = None
    sd: Positive | None = None
    between: Share = 0.3
    carried: Share = 0.2
    availability: Annotated[float, Field(gt=0, le=1)] = 1.0
    missing: Share = 0.0


class SafetyRule(Section):
    """`[rule]`: the conditions for recommending a candidate."""

    harm: NotNegative = 0.1
    """A participant is harmed by a mean outcome lower by this many standard deviations than under never."""
    harmed: Probability = 0.1
    """Largest share of people harmed, unless a coin harms more."""
    power_loss: Probability = 0.2
    """Largest loss of power against the coin."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Of the primary analysis' test."""


class Burden(Section):
    """Prompts that cost later: the burden of a participant grows with every prompt, b′ = recovery · b + sent.

    A burden of 1 lowers the response to a prompt by the share `response`, and the outcome itself, with or without a prompt,
    by `baseline` standard deviations.
    """

    response: Finite = 0.3
    """Share of the response that a burden of 1 takes."""
    baseline: Finite = 0.0
    """Standard deviations that a burden of 1 takes."""
    recovery: Share = 0.8
    """Share of the burden that is left at the next decision point."""


class Environment(Section):
    """`[[environment]]`: the effects of sending on the outcome.

    Examples
    --------
    >>> Environment(effect=0.3, half_life=7).title
    'effect 0.3, fading'
    """

    name: Text | None = None
    """In tables; by default made from the effects."""
    effect: Finite | None = None
    """Change of the mean outcome by a prompt, in its standard deviations at available decision points."""
    pilot: bool = False
    """The pilot's effects, now and later, with their uncertainty, instead of `effect`."""
    gymnasium: Text | None = None
    """Instead: the id of a Gymnasium environment, whose people and effects replace the pilot."""
    parameters: tuple[dict[str, Any], ...] = ()
    """Keyword arguments of the Gymnasium environment, which people take in turn."""
    restart: bool = False
    """Whether a new episode follows where one of the Gymnasium environment ends."""
    carry_over: Literal["estimate", "none", "low", "high"] = "estimate"
    """The pilot's effect of earlier prompts: as estimated, none, or either end of its interval."""
    people_differ: NotNegative = 0.0
    """Standard deviation of everybody's factor of the effect, which is 1 on average."""
    half_life: Positive | None = None
    """Days after which half of the effect is left."""
    burden: Burden | None = None
    """Costs of earlier prompts."""

    @model_validator(mode="after")
    def _has_one_size(self) -> Environment:
        if [self.pilot, self.effect is not None, self.gymnasium is not None].count(True) != 1:
            raise ValueError(
                'an environment has either effect = 0.2 (standard deviations), pilot = true or gymnasium = "package:Name-v0"'
            )
        imported = {"parameters", "restart"}
        described = self.model_fields_set - {"name", "gymnasium"}
        foreign = described & imported if self.gymnasium is None else described - imported
        if foreign:
            belongs = "with" if self.gymnasium is None else "without"
            raise ValueError(f"{min(foreign)} is for environments {belongs} gymnasium; leave it out")
        return self

    @property
    def title(self) -> str:
        """Its name."""
        if self.name is not None:
            return self.name
        if self.is_null:
            return "no effect"
        if self.gymnasium is not None:
            return self.gymnasium
        size = PILOT + CARRY_OVERS[self.carry_over] if self.pilot else f"effect {self.effect:g}"
        changes = {"people differ": self.people_differ, "fading": self.half_life, "burden": self.burden}
        return ", ".join([size, *(name for name, value in changes.items() if value)])

    @property
    def is_null(self) -> bool:
        """Whether sending does nothing."""
        return self.effect == 0 and self.burden is None

    @property
    def is_drawn(self) -> bool:
        """Whether its effects have the pilot's uncertainty."""
        return self.pilot and self.carry_over == "estimate"


NO_EFFECT = Environment(effect=0.0)
PILOT_EFFECT = Environment(pilot=True)
ASSUMED_ENVIRONMENTS = (
    Environment(effect=0.2),
    Environment(name="effect 0.2, costs later", effect=0.2, burden=Burden(response=0.3, baseline=0.02)),
)
"""Without a pilot and without others in the plan."""
RANGE = tuple(Environment(pilot=True, carry_over=carry_over) for carry_over in ("none", "low", "high"))
"""Rehearsed as well where the pilot cannot tell what earlier prompts do."""


class RehearsalPlan(Section):
    """The plan of a rehearsal."""

    trials: Annotated[int, Field(ge=2)] = 12
    """Number of trials in every environment, each with people of its own; with the pilot's effects as many again, each with
    effects drawn from their uncertainty."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Root of all random numbers."""
    block: Count = 4
    """Trials that are simulated and stored together."""
    methods: tuple[str, ...] = ()
    """Names of methods; the study's own unless given."""
    probabilities: tuple[Probability, ...] = ()
    """Further fixed probabilities of sending."""
    candidate: tuple[CandidatePlan, ...] = ()
    """`[[candidate]]`: methods with parameters of their own."""
    environment: tuple[Environment, ...] | None = None
    """`[[environment]]`: environments in addition to no effect."""
    design: TrialDesign = TrialDesign()
    """`[design]`: people, days, updates."""
    people: PeoplePlan = PeoplePlan()
    """`[people]`: assumptions about them."""
    rule: SafetyRule = SafetyRule()
    """`[rule]`: conditions of a recommendation."""

    @classmethod
    def load(cls, path: str | Path) -> RehearsalPlan:
        """Read a `rehearsal.toml`."""
        return cls.parse(read_text(Path(path), remedy="leave --plan out to rehearse with the defaults"), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "rehearsal.toml") -> RehearsalPlan:
        """A plan from the text of its file; messages call it by `name`."""
        return parse_toml(cls, text, name)

    def with_trials(self, trials: int) -> RehearsalPlan:
        """The same plan with another number of trials."""
        if trials < 2:
            raise InputError(f"trials is {trials}; at least 2 say how much trials differ")
        return self.model_copy(update={"trials": trials})

    def list_candidates(self, study: Study) -> list[Candidate]:
        """Coin, never, always, further fixed probabilities, and methods."""
        chances = {COIN: 1 - 1 / len(study.actions.names), NEVER: 0.0, ALWAYS: 1.0}
        candidates = [Candidate.fixed(study, send, name) for name, send in chances.items()]
        candidates += [Candidate.fixed(study, send) for send in self.probabilities]
        names = self.methods or (() if self.candidate else (study.method_name,))
        candidates += [Candidate.with_method(study, name) for name in names]
        for planned in self.candidate:
            choice = MethodChoice(**planned.model_dump(exclude={"label"}))
            candidates.append(Candidate.with_method(study, choice, planned.label))
        _refuse_same_names("candidates", [candidate.name for candidate in candidates])
        return candidates

    @property
    def is_imported(self) -> bool:
        """Whether people and effects are those of Gymnasium environments."""
        return any(environment.gymnasium is not None for environment in self.environment or ())

    def list_environments(self, *, has_pilot: bool, is_unclear: bool = False) -> list[Environment]:
        """No effect, then those of the plan; by default the pilot's effects, and the range of those of earlier prompts where
        the pilot cannot tell. Without a pilot: 0.2, and 0.2 that costs later."""
        planned = self.environment
        if planned is None:
            from_pilot = (PILOT_EFFECT, *(RANGE if is_unclear else ()))
            planned = from_pilot if has_pilot else ASSUMED_ENVIRONMENTS
        if not has_pilot and any(environment.pilot for environment in planned):
            raise InputError("an environment with pilot = true needs a pilot; write effect = 0.2 with your number instead")
        if self.is_imported and (has_pilot or "people" in self.model_fields_set):
            raise InputError(
                "people and effects are those of the plan's Gymnasium environments; leave out the pilot, and [people]"
            )
        if self.is_imported and any(environment.gymnasium is None for environment in planned):
            raise InputError("a plan has environments of Gymnasium or others, not both; rehearse twice, with two plans")
        environments = [NO_EFFECT, *planned]
        _refuse_same_names("environments", [environment.title for environment in environments])
        return environments


def _refuse_same_names(things: str, names: list[str]) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f"two {things} are called '{name}'; give one of them another name")
