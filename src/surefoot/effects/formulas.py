"""Moderators and controls as lists of columns, or as formulas that formulaic reads."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from formulaic import ModelSpec
    from formulaic.parser.types import Factor, Term

Terms = str | Sequence[str]
"""A list of columns, or a formula such as `~ home + C(location)`."""
INTERCEPT = "Intercept"
FUNCTIONS = ("C", "I", "bs", "cc", "center", "cr", "cs", "exp", "exp2", "exp10", "log", "log2", "log10", "poly", "scale")
"""Functions of formulaic that a formula may call. Formulas are evaluated: study files must not run other code."""
ALLOWED = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple),
    *(ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop),
)
QUOTED = re.compile("`([^`]*)`")


class Design(NamedTuple):
    """The columns of a regression, with an intercept first."""

    names: tuple[str, ...]
    values: NDArray[np.float64]  # (columns, rows)
    spec: "ModelSpec | None" = None  # How a formula turns variables into the columns; None for a list of columns.


class Formula(NamedTuple):
    """The analysis that `outcome ~ treatment * (moderators) + controls` describes."""

    outcome: str
    moderators: tuple[str, ...]
    controls: tuple[str, ...]


def read_formula(formula: str, treatments: Sequence[str]) -> Formula:
    """Terms with the treatment are moderators, the others controls.

    >>> read_formula("steps ~ prompt * (weekend + C(location))", ["prompt"])
    Formula(outcome='steps', moderators=('weekend', 'C(location)'), controls=('weekend', 'C(location)'))
    """
    left, terms = _parse(formula)
    example = f"'steps ~ {treatments[0]} * (weekend + C(location))'"
    if len(left) != 1 or len(left[0].factors) != 1:
        raise InputError(f"the formula '{formula}' needs one outcome on its left; write for example {example}")
    moderators = []
    controls = []
    treated = False
    for term in terms:
        factors = [factor for factor in term.factors if factor.expr not in treatments]
        text = ":".join(map(_write_factor, factors))
        if len(factors) == len(term.factors):
            controls.append(text)
        elif factors:
            moderators.append(text)
        else:
            treated = True
    if not treated:
        raise InputError(
            f"the formula '{formula}' has no term '{treatments[0]}', the treatment; write for example {example}"
        )
    return Formula(left[0].factors[0].expr, tuple(moderators), tuple(controls))


def parse_terms(given: Terms | None) -> tuple[str, ...]:
    """The terms of a list or of a formula, without the intercept.

    >>> parse_terms("~ 1 + home * day"), parse_terms(["home"]), parse_terms("~ 1")
    (('home', 'day', 'home:day'), ('home',), ())
    """
    if isinstance(given, str):
        if not given.strip().startswith("~"):
            raise InputError(f"{given!r} is neither a list nor a formula; write ['{given}'] or '~ {given}'")
        return tuple(":".join(map(_write_factor, term.factors)) for term in _parse(given)[1])
    terms = tuple(str(term) for term in given or ())
    twice = [term for term in terms if terms.count(term) > 1]
    if twice:
        raise InputError(f"'{twice[0]}' is given twice; name every column once", column=twice[0])
    return terms


def list_variables(terms: Iterable[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that the terms need, each once, in their order; one that is not among `columns` is refused.

    >>> list_variables(["day", "C(location):day"], ["day", "location"])
    ('day', 'location')
    """
    variables: dict[str, None] = {}
    for term in terms:
        if term in columns:
            variables[term] = None
            continue
        for parsed in _parse(f"~ {term}")[1]:
            for factor in parsed.factors:
                variables |= dict.fromkeys(_list_names(factor, term, columns))
    return tuple(variables)


def make_design(terms: Sequence[str], variables: Mapping[str, NDArray[Any]], rows: int) -> Design:
    """The columns of a formula; a category gives one column for each level but the first.

    A row where a variable of a term is missing is NaN in the term's columns: formulaic would take a missing category for
    the first level.
    """
    import pandas as pd
    from formulaic import model_matrix

    text = " + ".join(["1", *(quote_name(term) if term in variables else term for term in terms)])
    try:
        matrix = model_matrix(text, pd.DataFrame(dict(variables), index=range(rows)), na_action="ignore", context={})
    except Exception as error:  # formulaic passes on whatever a function raises.
        reason = str(error).strip().splitlines()[-1]
        raise InputError(f"the formula '~ {text}' cannot be computed: {reason}; check its terms") from error
    spec = matrix.model_spec
    values = matrix.to_numpy(dtype=np.float64).T.copy()
    for term, columns in spec.term_slices.items():
        for name in spec.term_variables[term] & set(variables):
            values[columns, np.asarray(pd.isna(variables[str(name)]))] = np.nan
    return Design(tuple(map(_write_level, matrix.columns)), values, spec)


def evaluate_design(spec: "ModelSpec", values: Mapping[str, Any]) -> NDArray[np.float64]:
    """The columns of the same formula at other values of its variables, (rows, columns)."""
    import pandas as pd

    return np.asarray(spec.get_model_matrix(pd.DataFrame(values), context={}), dtype=np.float64)


def _parse(formula: str) -> tuple[list["Term"], list["Term"]]:
    """Terms to the left and to the right of the tilde, without the intercept."""
    from formulaic import Formula as ParsedFormula
    from formulaic.errors import FormulaicError

    try:
        parsed = ParsedFormula(formula)
        left = list(getattr(parsed, "lhs", ()))
        right = list(getattr(parsed, "rhs", parsed))
    except (FormulaicError, SyntaxError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(
            f"the formula '{formula}' cannot be read: {reason}; write for example '~ home + C(location)'"
        ) from error
    if not all(hasattr(term, "factors") for term in right) or "1" not in map(str, right):
        raise InputError(f"the formula '{formula}' has no intercept, or several parts; leave out 0, -1 and |")
    return left, [term for term in right if str(term) != "1"]


def _list_names(factor: "Factor", term: str, columns: Sequence[str]) -> list[str]:
    """The columns that a factor needs."""
    if factor.eval_method.value == "lookup":
        names = [factor.expr]
    else:
        names = QUOTED.findall(factor.expr)
        nodes = list(ast.walk(ast.parse(QUOTED.sub("0", factor.expr), mode="eval")))
        functions = [node.func for node in nodes if isinstance(node, ast.Call)]
        for function in functions:
            name = ast.unparse(function)
            if name not in FUNCTIONS:
                raise InputError(
                    f"term '{term}' calls '{name}'{did_you_mean(name, FUNCTIONS)}; a formula may call {', '.join(FUNCTIONS)}"
                )
        if not all(isinstance(node, ALLOWED) for node in nodes):
            raise InputError(f"term '{term}' is not a function of columns; a formula may call {', '.join(FUNCTIONS)}")
        names += [node.id for node in nodes if isinstance(node, ast.Name) and node not in functions]
    for name in names:
        if name not in columns:
            raise InputError(f"term '{term}': there is no column '{name}'{did_you_mean(name, columns)}", column=name)
    return names


def _write_factor(factor: "Factor") -> str:
    return quote_name(factor.expr) if factor.eval_method.value == "lookup" else factor.expr


def quote_name(name: str) -> str:
    """A column's name in a formula."""
    return name if name.isidentifier() else f"`{name}`"


def _write_level(column: str) -> str:
    """`home[T.yes]` as `home=yes`, as columns of lists are named."""
    return re.sub(r"\[T\.([^\]]*)\]", r"=\1", column)
