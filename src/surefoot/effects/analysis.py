"""The question that an analysis asks of a trial: roles of columns, moderators and controls, outcome and lag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_columns import LogColumn
from surefoot.data.trajectories import READINGS
from surefoot.errors import InputError
from surefoot.study.log_description import Reward

Floats = NDArray[np.float64]
Terms = str | Sequence[str]
"""A list of column names, or a formula such as `~ home + day`."""
Variable = tuple[tuple[str, ...], Floats]
"""Names and values (names, rows) of the numbers that a column or a product of columns stands for."""
INTERCEPT = "Intercept"
FUTURES = ("observed", "none")


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Names are those of the frame's columns; `excursion_effect` describes the fields."""

    participant: str
    time: str
    outcome: str
    treatment: str
    probability: float | str | Sequence[str] | None = None
    probability_of: str | None = None
    available: str | None = None
    moderators: Terms = ()
    controls: Terms = ()
    numerator: float | str | Sequence[float] | None = None
    lag: int = 0
    future: str = "observed"
    missing_as: float | Mapping[str, float] | None = None
    transform: str = "none"
    actions: Sequence[str] | None = None

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
        for term in list_term_columns((*parse_terms(self.moderators), *parse_terms(self.controls))):
            if term in (self.outcome, self.treatment):
                role = "outcome" if term == self.outcome else "treatment"
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
        names = [self.participant, self.time, self.outcome, self.treatment, *self.probability_columns]
        if self.available is not None:
            names.append(self.available)
        return [*names, self.numerator] if isinstance(self.numerator, str) else names

    @property
    def defined_missing(self) -> dict[str, float]:
        """The value that a missing cell stands for, by column."""
        if self.missing_as is None:
            return {}
        return dict(self.missing_as) if isinstance(self.missing_as, Mapping) else {self.outcome: float(self.missing_as)}

    @property
    def offset(self) -> float | None:
        """c of log(x + c); None for another transform of the outcome."""
        try:
            return Reward(transform=self.transform).offset
        except ValueError as error:
            raise InputError(f"transform '{self.transform}' is unknown; write 'none', 'sqrt' or 'log(x + 0.5)'") from error

    def transform_outcome(self, values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The outcome on the scale of the analysis, NaN where it has no value there, and where that is."""
        offset = self.offset
        if self.transform == "none":
            return values, np.zeros(len(values), dtype=bool)
        argument = values if offset is None else values + offset
        outside = argument < 0 if offset is None else argument <= 0
        argument = np.where(outside, np.nan, argument)
        return np.sqrt(argument) if offset is None else np.log(argument), outside


def parse_terms(given: Terms | None) -> tuple[str, ...]:
    """The terms of a list or a formula; `a:b` is a product, and the intercept is always included.

    >>> parse_terms("~ 1 + home + day:home"), parse_terms(["home"]), parse_terms("~ 1")
    (('home', 'day:home'), ('home',), ())
    """
    if given is None:
        return ()
    if isinstance(given, str):
        if not given.strip().startswith("~"):
            raise InputError(f"{given!r} is neither a list nor a formula; write ['{given}'] or '~ {given}'")
        given = [part.strip() for part in given.strip()[1:].split("+")]
        if any(part == "0" or "-" in part or "*" in part or not part for part in given):
            raise InputError(f"a formula is '~ a + b + a:b', with + and : only and always with its intercept; got {given}")
        given = [part for part in given if part != "1"]
    terms = tuple(str(term) for term in given)
    twice = [term for term in terms if terms.count(term) > 1]
    if twice:
        raise InputError(f"'{twice[0]}' is given twice; name every column once", column=twice[0])
    return terms


def list_term_columns(terms: Sequence[str], columns: Sequence[str] = ()) -> list[str]:
    """The columns that terms are made of; a column whose name contains `:` is not a product."""
    return list(dict.fromkeys(name for term in terms for name in _split_product(term, columns)))


def _split_product(term: str, columns: Sequence[str]) -> list[str]:
    return [term] if term in columns else [factor.strip() for factor in term.split(":")]


def make_design(terms: Sequence[str], variables: Mapping[str, Variable], rows: int) -> Variable:
    """The intercept and every term; a category gives one line for each level but the first."""
    names = [INTERCEPT]
    values = [np.ones((1, rows))]
    for term in terms:
        first, *others = _split_product(term, list(variables))
        labels, product = variables[first]
        for factor in others:
            factor_labels, matrix = variables[factor]
            labels = tuple(f"{left}:{right}" for left in labels for right in factor_labels)
            product = (product[:, None] * matrix).reshape(-1, rows)
        names += labels
        values.append(product)
    return tuple(names), np.concatenate(values)


def read_variable(column: LogColumn) -> Variable:
    """Numbers as they are; text as one 0/1 line for every level but the first in the alphabet."""
    if not column.is_text:
        return (column.name,), column.numbers()[None]
    texts, indices = column.distinct()
    levels = sorted(texts)
    if len(levels) < 2:
        raise InputError(
            f"column '{column.name}' holds one value only ({levels}); a category needs two levels", column=column.name
        )
    coded = np.stack([indices == texts.index(level) for level in levels[1:]]).astype(np.float64)
    return tuple(f"{column.name}={level}" for level in levels[1:]), np.where(indices < 0, np.nan, coded)
