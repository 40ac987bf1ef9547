"""Moderators and controls: from names or a formula to columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_columns import LogColumn
from surefoot.errors import InputError

INTERCEPT = "Intercept"
Terms = str | Sequence[str]
"""A list of column names, or a formula such as `~ home + day`."""


def parse_terms(given: Terms | None) -> tuple[str, ...]:
    """The terms of a list or a formula; `a:b` is a product, and the intercept is always there.

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


def columns_of(terms: Sequence[str], available: Sequence[str] = ()) -> list[str]:
    """The columns that terms are made of, each once; a column whose own name holds `:` is taken as it is."""
    return list(dict.fromkeys(name for term in terms for name in _factors(term, available)))


def _factors(term: str, available: Sequence[str]) -> list[str]:
    return [term] if term in available else [part.strip() for part in term.split(":")]


def term_matrix(
    terms: Sequence[str], columns: Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]], rows: int
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Names and values (1 + terms, rows) of the intercept and every term; a category gives one line for each level."""
    names, values = [INTERCEPT], [np.ones((1, rows))]
    for term in terms:
        first, *others = _factors(term, list(columns))
        label, product = columns[first]
        for factor in others:
            parts, matrix = columns[factor]
            label = tuple(f"{left}:{right}" for left in label for right in parts)
            product = (product[:, None] * matrix).reshape(-1, rows)
        names += label
        values.append(product)
    return tuple(names), np.concatenate(values)


def read_variable(column: LogColumn) -> tuple[tuple[str, ...], NDArray[np.float64]]:
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
