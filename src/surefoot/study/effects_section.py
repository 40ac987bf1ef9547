"""`[effects]`: the trial's primary analysis, written down before anybody looks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from surefoot.study.toml_types import Finite, Section, Words


class EffectsSection(Section):
    """Which causal excursion effect is estimated; moderators and controls are state variables."""

    estimator: Literal["wcls", "emee", "emee2", "dcee"] = "wcls"
    """Continuous outcome; binary outcome (with and without weights); one distal outcome for each participant."""
    outcome: str | None = None
    """A column of the logs; the reward, limited and transformed as it is there, unless given."""
    outcome_words: str | None = None
    """How sentences call it: "steps in the next half hour"."""
    treatment_words: str | None = None
    """How sentences call an action, where there are two: "suggestion"."""
    transform: str | None = None
    """Of an outcome that is not the reward."""
    moderators: Words = ()
    """State variables by which the effect may differ."""
    controls: Words = ()
    """State variables that explain the outcome, for smaller standard errors."""
    numerator: float | tuple[float, ...] | str | None = None
    """p̃: a number, a number for each action but nothing, or a column that depends on the moderators only."""
    lags: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    """The outcome so many decision points later."""
    future: Literal["observed", "none"] = "observed"
    """Treatment between the decision and an outcome at a lag."""
    missing_as: Finite | dict[str, Finite] | None = None
    """What a missing outcome stands for, or {outcome or state variable = value}, where the study defined that."""
    at: tuple[dict[str, Finite], ...] = ()
    """Values of the moderators at which the effect is wanted."""
    day: str | None = None
    """The state variable over which the effect is drawn; `day` where there is one."""
