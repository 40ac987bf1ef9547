"""Environments: the effects of sending in simulated trials, those of the pilot or effects that you choose."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from surefoot.study.toml_file import Finite, Section

Name = Annotated[str, Field(min_length=1)]
Positive = Annotated[Finite, Field(gt=0)]
NotNegative = Annotated[Finite, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
PILOT = "the pilot's effect"
CARRY_OVERS = {"estimate": "", "none": ", nothing later", "low": ", least later", "high": ", most later"}
"""How the pilot's carry-over is taken → what the environment's name says about it."""


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

    name: Name | None = None
    """In tables; by default made from the effects."""
    effect: Finite | None = None
    """Change of the mean outcome by a prompt, in its standard deviations at available decision points."""
    pilot: bool = False
    """The pilot's effects, now and later, with their uncertainty, instead of `effect`."""
    carry_over: Literal["estimate", "none", "low", "high"] = "estimate"
    """The pilot's effect of earlier prompts: as estimated, none, or either end of its interval."""
    people_differ: NotNegative = 0.0
    """Standard deviation of everybody's factor of the effect, which is 1 on average."""
    half_life: Positive | None = None
    """Days after which half of the effect is left."""
    burden: Burden | None = None
    """Costs of earlier prompts."""

    @model_validator(mode="after")
    def _has_one_size(self) -> "Environment":
        if self.pilot == (self.effect is not None):
            raise ValueError("an environment has either effect = 0.2 (standard deviations) or pilot = true")
        return self

    @property
    def title(self) -> str:
        """Its name."""
        if self.name is not None:
            return self.name
        if self.is_null:
            return "no effect"
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
