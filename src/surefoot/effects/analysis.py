"""What is asked of a trial: which columns play which role, for which outcome and which effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.data.mean_weights import READINGS
from surefoot.effects.terms import Terms, columns_of, parse_terms
from surefoot.errors import InputError

FUTURES = ("observed", "none")


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Names are those of the frame's columns."""

    participant: str
    time: str
    outcome: str
    treatment: str
    probability: float | str | Sequence[str] | None = None
    """A column, or the number with which treatment was sent throughout; of several treatments a column for each."""
    probability_of: str | None = None
    """Of what the column holds the probability: of the `action taken`, or of `sending`."""
    available: str | None = None
    """None when everybody always is."""
    moderators: Terms = ()
    controls: Terms = ()
    numerator: float | str | Sequence[float] | None = None
    """p̃ of treatment: a number, a column, or one number for each treatment; None shares 1 among all actions."""
    lag: int = 0
    future: str = "observed"
    """Treatment between the decision and an outcome at a lag: as `observed`, or `none`."""
    missing_as: float | Mapping[str, float] | None = None
    """The value of a missing outcome, or of each named column, where the study defined one."""
    transform: str = "none"
    """Of the outcome: `none`, `sqrt`, `log(x)` or `log(x + c)`."""
    actions: Sequence[str] | None = None
    """Names of the actions, the first of which is nothing."""

    def __post_init__(self) -> None:
        if self.probability is None:
            raise InputError("give the probability: a column, or the number with which treatment was sent throughout")
        if self.probability_of not in (None, *READINGS):
            raise InputError(f"probability_of is {self.probability_of!r}; write one of {list(READINGS)}")
        if self.probability_of == "action taken" and not isinstance(self.probability, str):
            raise InputError("a number, or a list of columns, is the probability of sending; write probability_of='sending'")
        if self.future not in FUTURES:
            raise InputError(f"future is '{self.future}'; choose from {list(FUTURES)}")
        if isinstance(self.lag, bool) or self.lag != int(self.lag) or self.lag < 0:
            raise InputError(f"lag is {self.lag!r}; give a whole number of decision points, 0 for the proximal outcome")
        for term in columns_of((*parse_terms(self.moderators), *parse_terms(self.controls))):
            for role, column in (("outcome", self.outcome), ("treatment", self.treatment)):
                if term == column:
                    raise InputError(
                        f"'{term}' is the {role}, which is known only after the decision; moderators and controls must be "
                        "known before it: name a variable that is",
                        column=term,
                    )

    @property
    def probability_columns(self) -> list[str]:
        if self.probability is None or isinstance(self.probability, int | float):
            return []
        return [self.probability] if isinstance(self.probability, str) else list(self.probability)

    @property
    def role_columns(self) -> list[str]:
        """The columns that are neither moderators nor controls."""
        more = [self.available, self.numerator if isinstance(self.numerator, str) else None]
        return [
            *(self.participant, self.time, self.outcome, self.treatment, *self.probability_columns),
            *(name for name in more if name is not None),
        ]

    @property
    def defined_missing(self) -> dict[str, float]:
        """Column → the value that a missing cell of it stands for."""
        if self.missing_as is None:
            return {}
        return dict(self.missing_as) if isinstance(self.missing_as, Mapping) else {self.outcome: float(self.missing_as)}
