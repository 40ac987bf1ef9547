"""The rows of a trial as an excursion analysis needs them: in order, checked, with a reason for every row left out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_roles import ColumnNames, UnnamedAvailability, read_actions, read_times
from surefoot.data.frames import arrow_table
from surefoot.data.log_columns import NO, LogColumn
from surefoot.data.log_files import LogLayout, LogRows
from surefoot.data.mean_weights import require_reading, spread_probabilities
from surefoot.data.problems import Place, Problems, frame_row
from surefoot.data.row_identities import AVAILABLE_OR_NOT, find_unnamed_availability
from surefoot.data.trajectories import Trajectories
from surefoot.effects.analysis import Analysis
from surefoot.effects.outcome_scale import parse_transform
from surefoot.effects.terms import INTERCEPT, columns_of, parse_terms, read_variable, term_matrix
from surefoot.errors import InputError

Columns = dict[str, LogColumn]
OUTCOME_MISSING = "outcome missing"
"""Why a row without an outcome does not count."""


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Rows sorted by participant and time, and where each stands in the input."""

    participants: NDArray[Any]
    person: NDArray[np.int64]
    """Position among `participants`, ascending."""
    row: NDArray[np.int64]
    """Number of the row in the input."""
    problems: Problems
    unnamed: tuple[UnnamedAvailability, ...] = ()
    """Columns of the input that look like availability, where none was named."""

    def refuse(self, where: NDArray[np.bool_], column: str, what: str, remedy: str, values: Any = None) -> None:
        """An error about such rows, if there are any; `{:g}` in `what` is the first one's value."""
        found = np.flatnonzero(where)
        if found.size:
            found = found[np.argsort(self.row[found])]
            text = what if values is None else what.format(values[found[0]])
            self.problems.report(column, self.row[found], text, remedy)
            self.problems.stop()


@dataclass(frozen=True, eq=False)
class TrialRows:
    """All rows, also those that do not count; arrays have one entry per row, sorted by participant and time."""

    analysis: Analysis
    order: RowOrder
    available: NDArray[np.bool_]
    action: NDArray[np.int64]
    """0 is nothing, also at unavailable rows."""
    probabilities: NDArray[np.float64]
    """(actions, rows): of every action, NaN where the log does not say it; of nothing 1 at unavailable rows."""
    numerator: NDArray[np.float64]
    """(actions, rows): p̃."""
    outcome: NDArray[np.float64]
    """`lag` decision points later, transformed; NaN where missing."""
    observed: NDArray[np.bool_]
    """Whether the outcome was measured (and not defined by `missing_as`)."""
    later: NDArray[np.bool_]
    """Whether the participant has a decision point `lag` later."""
    future: NDArray[np.float64]
    """Π 1{A = 0}/P(A = 0) over the decision points in between; 1 when they are taken as observed."""
    moderators: NDArray[np.float64]
    """f, (p, rows), with its intercept first."""
    controls: NDArray[np.float64]
    """g, (q, rows), with its intercept first."""
    moderator_names: tuple[str, ...]
    control_names: tuple[str, ...]
    action_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.available)

    def to_trajectories(self) -> Trajectories:
        """The same decision points with controls and moderators as their state, for the checks of logs."""
        state = dict(zip((*self.control_names, *self.moderator_names), (*self.controls, *self.moderators), strict=True))
        del state[INTERCEPT]
        roles = (self.analysis.participant, self.analysis.time, self.analysis.treatment, self.analysis.outcome)
        names = ColumnNames(*roles, unnamed=self.order.unnamed)
        return Trajectories(
            participants=self.order.participants,
            participant_index=self.person,
            time=np.arange(len(self)),
            state=np.column_stack(list(state.values())) if state else np.empty((len(self), 0)),
            available=self.available & self.later & (self.future > 0),
            action=self.action,
            # What is left of the rows after later actions are ruled out was not drawn with these probabilities.
            probability=self.taken if self.analysis.future == "observed" else np.full(len(self), np.nan),
            reward=np.where(self.observed, self.outcome, np.nan),
            state_names=tuple(state),
            action_names=self.action_names,
            names=names,
        )

    @property
    def person(self) -> NDArray[np.int64]:
        return self.order.person

    @cached_property
    def taken(self) -> NDArray[np.float64]:
        """Probability of the action that was taken; 1 at unavailable rows."""
        return np.asarray(np.take_along_axis(self.probabilities, self.action[None], axis=0)[0])

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """I · p̃(A)/p(A) · the weight of the future."""
        chosen = np.take_along_axis(self.numerator, self.action[None], axis=0)[0]
        return np.asarray(self.available * chosen / self.taken * self.future)

    @cached_property
    def reasons(self) -> dict[str, NDArray[np.bool_]]:
        """Why rows do not count: every row under the first reason that applies."""
        found = {"not available": ~self.available, f"no decision point {self.analysis.lag} later": ~self.later}
        found["treated between decision and outcome"] = self.future == 0
        found[OUTCOME_MISSING] = np.isnan(self.outcome)
        for names, values in ((self.moderator_names, self.moderators), (self.control_names, self.controls)):
            found |= {f"'{name}' missing": np.isnan(values[j]) for j, name in enumerate(names)}
        settled = np.zeros(len(self), dtype=bool)
        for name, applies in found.items():
            found[name] = applies & ~settled
            settled |= applies
        return {name: applies for name, applies in found.items() if applies.any()}

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Rows that no reason leaves out."""
        left_out = np.zeros(len(self), dtype=bool)
        for applies in self.reasons.values():
            left_out |= applies
        return ~left_out

    @cached_property
    def counted_only(self) -> TrialRows:
        """The rows that count, all the same participants."""
        rows = np.flatnonzero(self.counted)
        if len(rows) == len(self):
            return self
        order = replace(self.order, person=self.order.person[rows], row=self.order.row[rows])
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays: dict[str, Any] = {
            name: np.take(array, rows, axis=-1) for name, array in values.items() if isinstance(array, np.ndarray)
        }
        return replace(self, order=order, **arrays)


def read_trial_rows(frame: Any, analysis: Analysis, *, place: Place = frame_row) -> TrialRows:
    """The named columns of a pandas, polars or Arrow frame, sorted and checked."""
    moderators, controls = parse_terms(analysis.moderators), parse_terms(analysis.controls)
    present = list(getattr(frame, "column_names", getattr(frame, "columns", ())))
    variables = columns_of((*moderators, *controls), present)
    defined = analysis.defined_missing
    for name in defined:
        if name not in (analysis.outcome, *variables):
            raise InputError(f"missing_as names '{name}', which is neither the outcome nor a moderator or control")
    columns, order = _read_columns(frame, analysis, variables, place)

    def fill(name: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        names, values = read_variable(columns[name])
        return names, np.where(np.isnan(values), defined.get(name, np.nan), values)[:, order.row]

    read = {name: fill(name) for name in variables}
    (moderator_names, f), (control_names, g) = (term_matrix(terms, read, len(order.row)) for terms in (moderators, controls))
    available = _read_available(columns, analysis, order)
    action, names = _read_actions(columns, analysis, order, available)
    probabilities = _read_probabilities(columns, analysis, order, available, action, names)
    taken = np.take_along_axis(probabilities, action[None], axis=0)[0]
    measured = columns[analysis.outcome].numbers()[order.row]
    order.problems.raise_any()
    order.refuse(np.isinf(measured), analysis.outcome, "the outcome is not finite", "correct it or leave it empty (missing)")
    outcome = _transform(np.where(np.isnan(measured), defined.get(analysis.outcome, np.nan), measured), analysis, order)
    later, moved = _rows_later(order.person, analysis.lag)
    return TrialRows(
        analysis=analysis,
        order=order,
        available=available,
        action=action,
        probabilities=probabilities,
        numerator=_read_numerator(columns, analysis, order, available, len(names)),
        outcome=np.where(later, outcome[moved], np.nan),
        observed=later & ~np.isnan(measured[moved]),
        later=later,
        future=_future_weight(action, taken, order.person, analysis),
        moderators=f,
        controls=g,
        moderator_names=moderator_names,
        control_names=control_names,
        action_names=names,
    )


def _read_columns(frame: Any, analysis: Analysis, variables: list[str], place: Place) -> tuple[Columns, RowOrder]:
    """The columns as they are, and the order of their rows."""
    names = list(dict.fromkeys([*analysis.role_columns, *variables]))
    layout = LogLayout(analysis.participant, analysis.time, tuple(names))
    also = AVAILABLE_OR_NOT if analysis.available is None else None
    rows = LogRows.of(layout.settle_missing(arrow_table(frame, names, also)[0]), analysis.participant, place)
    problems = Problems(place, lambda row: rows.participants[rows.participant_index[row]].item())
    columns = {name: rows.column(name, problems) for name in names}
    time, person = read_times(columns[analysis.time]), rows.participant_index
    row = np.lexsort((time, person))
    treatments, codes = columns[analysis.treatment].distinct()
    sent = np.array([text.lower() not in (*NO, "nothing") for text in treatments] + [False])[codes]
    unnamed = find_unnamed_availability(rows.table, names, sent.astype(np.float64))
    order = RowOrder(rows.participants, person[row], row, problems, unnamed)
    again = np.zeros(len(row), dtype=bool)
    again[1:] = (np.diff(order.person) == 0) & (time[row[1:]] == time[row[:-1]])
    order.refuse(again, analysis.time, "a second decision point at the same time", "drop the duplicate or correct its time")
    return columns, order


def _read_available(columns: Columns, analysis: Analysis, order: RowOrder) -> NDArray[np.bool_]:
    name = analysis.available
    if name is None:
        return np.ones(len(order.row), dtype=bool)
    values = columns[name].yes_no()[order.row]
    order.problems.raise_any(name)
    order.refuse(np.isnan(values), name, "availability is missing", "write 1 (available) or 0 (not available)")
    return np.asarray(values == 1)


def _read_actions(
    columns: Columns, analysis: Analysis, order: RowOrder, available: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    name, given = analysis.treatment, tuple(analysis.actions or ())
    column = columns[name]
    values = (read_actions(column, given or ("nothing", "treatment")) if column.is_text else column.numbers())[order.row]
    order.problems.raise_any(name)
    missing = available & np.isnan(values)
    order.refuse(missing, name, "the treatment is missing at an available row", "fill it in, or mark the row not available")
    values = np.where(available, values, 0.0)
    # Only the probability of the action taken leaves open how many treatments there are.
    open_ended = analysis.probability_of == "action taken"
    known = len(given) or max(len(analysis.probability_columns) + 1, int(values.max()) + 1 if open_ended else 2)
    wrong = (values != np.floor(values)) | (values < 0) | (values >= known)
    order.refuse(
        wrong, name, "treatment {:g} is not one of " + f"0 to {known - 1}", "correct it, or declare actions", values
    )
    present = np.unique(values[available])
    if len(present) < 2:
        only = f"treatment is {present[0]:g} at every available row" if len(present) else "no row is available"
        raise InputError(f"column '{name}': {only}, so there is nothing to compare; include rows of both arms", column=name)
    return values.astype(np.int64), given or ("nothing", *(["treatment"] if known == 2 else map(str, range(1, known))))


def _read_probabilities(
    columns: Columns,
    analysis: Analysis,
    order: RowOrder,
    available: NDArray[np.bool_],
    action: NDArray[np.int64],
    names: tuple[str, ...],
) -> NDArray[np.float64]:
    """(actions, rows): of every action, NaN where the log does not say it."""
    remedy = "log the randomisation probability; where somebody could not be treated, the row is not available"
    given = [(name, columns[name].numbers()[order.row]) for name in analysis.probability_columns]
    if isinstance(analysis.probability, int | float):
        given = [("probability", np.full(len(available), float(analysis.probability)))]
    what = "the probability is {:g} at an available row, where both must be possible"
    for name, column in given:
        order.refuse(available & np.isnan(column), name, "the probability is missing at an available row", remedy)
        order.refuse(available & ((column <= 0) | (column >= 1)), name, what, remedy, column)
    values = [column for _, column in given]
    if analysis.probability_of is None and isinstance(analysis.probability, str):
        rows = (action[available], values[0][available], order.person[available])
        require_reading(*rows, actions=names, column=analysis.probability)
    if analysis.probability_of == "action taken":
        each = np.ones((len(names), len(available)))
        each[:, available] = spread_probabilities(action[available], values[0][available], len(names)).T
    elif len(given) != len(names) - 1:
        raise InputError(
            f"{len(names) - 1} treatments need as many columns of probabilities, in their order; got "
            f"{analysis.probability_columns or analysis.probability}"
        )
    else:
        each = np.stack([1 - np.sum(values, axis=0), *values])
    order.refuse(available & (each[0] <= 0), given[0][0], "the probabilities leave nothing for no treatment", remedy)
    # Where nobody can be treated, nothing is certain.
    return np.where(available, each, (np.arange(len(names)) == 0).astype(np.float64)[:, None])


def _read_numerator(
    columns: Columns, analysis: Analysis, order: RowOrder, available: NDArray[np.bool_], actions: int
) -> NDArray[np.float64]:
    """(actions, rows): p̃ of every action."""
    given, remedy = analysis.numerator, "a numerator is a probability of treatment strictly between 0 and 1"
    if isinstance(given, str):
        if actions > 2:
            raise InputError("with several treatments the numerator is a number for each, not a column")
        column = columns[given].numbers()[order.row]
        wrong = available & ~((column > 0) & (column < 1))
        order.refuse(wrong, given, "the numerator is {:g}", remedy, column)
        column = np.where(available, column, 0.5)
        return np.stack([1 - column, column])
    shares = np.full(actions - 1, 1 / actions) if given is None else np.atleast_1d(np.asarray(given, dtype=np.float64))
    if shares.shape != (actions - 1,) or not ((shares > 0).all() and shares.sum() < 1):
        raise InputError(f"numerator is {given!r} for {actions - 1} treatment(s); {remedy}, one for each, below 1 in sum")
    return np.repeat(np.concatenate([[1 - shares.sum()], shares])[:, None], len(available), axis=1)


def _rows_later(person: NDArray[np.int64], lag: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether the same participant has a row `lag` later, and which it is."""
    moved = np.minimum(np.arange(len(person)) + lag, len(person) - 1)
    return (np.arange(len(person)) + lag < len(person)) & (person[moved] == person), moved


def _future_weight(
    action: NDArray[np.int64], taken: NDArray[np.float64], person: NDArray[np.int64], analysis: Analysis
) -> NDArray[np.float64]:
    weight = np.ones(len(action))
    if analysis.future == "none":
        for step in range(1, analysis.lag + 1):
            later, moved = _rows_later(person, step)
            weight *= np.where(later, (action[moved] == 0) / taken[moved], 1.0)
    return weight


def _transform(values: NDArray[np.float64], analysis: Analysis, order: RowOrder) -> NDArray[np.float64]:
    """log(x + c) or √x of the outcome, where it is asked for."""
    scale = parse_transform(analysis.transform)
    outside = ~np.isnan(values) & ~scale.is_defined(values)
    remedy = "correct the value, or choose another transform"
    order.refuse(outside, analysis.outcome, f"{{:g}} has no {analysis.transform}", remedy, values)
    return np.asarray(scale.apply(values))
