"""What is asked of a trial: which columns play which role, for which outcome and which effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """Of treatment: a column, or a number where it never changed; with several treatments one column for each."""
    probability_taken: str | None = None
    """Of the action that was taken, as logs hold it; instead of `probability`."""
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
        if (self.probability is None) == (self.probability_taken is None):
            raise InputError("give either probability (of treatment) or probability_taken (of the action that was taken)")
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
        given = self.probability_taken if self.probability is None else self.probability
        if given is None or isinstance(given, int | float):
            return []
        return [given] if isinstance(given, str) else list(given)

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
