"""Rows of a trial as arrays for the excursion estimators: sorted, checked, with reasons why rows do not count."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import arrow_table
from surefoot.data.log_columns import NO, LogColumn, Place, Problems, frame_row
from surefoot.data.log_table import ColumnNames, LogLayout, LogTable, UnnamedAvailability
from surefoot.data.mean_weights import MeanWeights, spread_probabilities
from surefoot.data.suspect_columns import AVAILABLE_OR_NOT, find_unnamed_availability
from surefoot.data.trajectories import Trajectories, require_reading
from surefoot.effects.analysis import (
    INTERCEPT,
    Analysis,
    Floats,
    Variable,
    list_term_columns,
    make_design,
    parse_terms,
    read_variable,
)
from surefoot.errors import InputError
from surefoot.inference.balance import FALSE_ALARMS, find_imbalances

Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]
OUTCOME_MISSING = "outcome missing"
"""The reason why a row without an outcome does not count."""
CERTAIN = 1e-10
"""In standard deviations of the outcome: a standard error below this is rounding."""


@dataclass(frozen=True, eq=False)
class RowOrder:
    """Rows sorted by participant and time, with their numbers in the input."""

    participants: NDArray[Any]
    person: Codes
    """Position among `participants`, ascending."""
    row: Codes
    """Number of the row in the input."""
    problems: Problems
    unnamed: tuple[UnnamedAvailability, ...] = ()
    """Columns of the input that look like availability, where none was named."""

    def take(self, rows: Any) -> RowOrder:
        return replace(self, person=self.person[rows], row=self.row[rows])

    def refuse(self, wrong: Mask, column: str, problem: str, remedy: str, values: Any = None) -> None:
        """Raise an error about wrong rows, if there are any; `{:g}` in `problem` is the first one's value."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            rows = rows[np.argsort(self.row[rows])]
            text = problem if values is None else problem.format(values[rows[0]])
            self.problems.report(column, self.row[rows], text, remedy)
            self.problems.stop()


@dataclass(frozen=True, eq=False)
class ExcursionBatch:
    """All rows, also those that do not count; arrays have one entry per row, sorted by participant and time."""

    analysis: Analysis
    order: RowOrder
    available: Mask
    action: Codes
    """0 is nothing, also at unavailable rows."""
    probabilities: Floats
    """(actions, rows): of every action, NaN where the log does not say it; of nothing 1 at unavailable rows."""
    numerator: Floats
    """(actions, rows): p̃."""
    outcome: Floats
    """`lag` decision points later, transformed; NaN where missing."""
    observed: Mask
    """Whether the outcome was measured (and not defined by `missing_as`)."""
    later: Mask
    """Whether the participant has a decision point `lag` later."""
    future: Floats
    """Π 1{A = 0}/P(A = 0) over the decision points in between; 1 when they are taken as observed."""
    moderators: Floats
    """f, (p, rows), with its intercept first."""
    controls: Floats
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
        analysis = self.analysis
        return Trajectories(
            participants=self.order.participants,
            participant_index=self.person,
            time=np.arange(len(self)),
            state=np.column_stack(list(state.values())) if state else np.empty((len(self), 0)),
            available=self.available & self.later & (self.future > 0),
            action=self.action,
            # Rows that remain after later actions are ruled out were not drawn with these probabilities.
            probability=self.taken if analysis.future == "observed" else np.full(len(self), np.nan),
            reward=np.where(self.observed, self.outcome, np.nan),
            state_names=tuple(state),
            action_names=self.action_names,
            names=ColumnNames(
                analysis.participant, analysis.time, analysis.treatment, analysis.outcome, unnamed=self.order.unnamed
            ),
        )

    @property
    def person(self) -> Codes:
        return self.order.person

    @cached_property
    def taken(self) -> Floats:
        """Probability of the action that was taken; 1 at unavailable rows."""
        return np.asarray(np.take_along_axis(self.probabilities, self.action[None], axis=0)[0])

    @cached_property
    def weight(self) -> Floats:
        """I · p̃(A)/p(A) · the weight of the future."""
        chosen = np.take_along_axis(self.numerator, self.action[None], axis=0)[0]
        return np.asarray(self.available * chosen / self.taken * self.future)

    @property
    def effect_names(self) -> tuple[str, ...]:
        """Of the effect's coefficients: the moderators', for each action when there are several."""
        if len(self.action_names) == 2:
            return self.moderator_names
        return tuple(f"{action}: {name}" for action in self.action_names[1:] for name in self.moderator_names)

    @cached_property
    def reasons(self) -> dict[str, Mask]:
        """Why rows do not count: every row under the first reason that applies."""
        reasons = {
            "not available": ~self.available,
            f"no decision point {self.analysis.lag} later": ~self.later,
            "treated between decision and outcome": self.future == 0,
            OUTCOME_MISSING: np.isnan(self.outcome),
        }
        for names, values in ((self.moderator_names, self.moderators), (self.control_names, self.controls)):
            reasons |= {f"'{name}' missing": np.isnan(values[j]) for j, name in enumerate(names)}
        settled = np.zeros(len(self), dtype=bool)
        for name, applies in reasons.items():
            reasons[name] = applies & ~settled
            settled |= applies
        return {name: applies for name, applies in reasons.items() if applies.any()}

    @cached_property
    def counted(self) -> Mask:
        """Rows that no reason leaves out."""
        return np.asarray(~np.any([np.zeros(len(self), dtype=bool), *self.reasons.values()], axis=0))

    @cached_property
    def counted_only(self) -> ExcursionBatch:
        """The rows that count, of the same participants."""
        rows = np.flatnonzero(self.counted)
        if len(rows) == len(self):
            return self
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays: dict[str, Any] = {
            name: np.take(array, rows, axis=-1) for name, array in values.items() if isinstance(array, np.ndarray)
        }
        return replace(self, order=self.order.take(rows), **arrays)


def read_batch(frame: Any, analysis: Analysis, *, name_row: Place = frame_row) -> ExcursionBatch:
    """The named columns of a pandas, polars or Arrow frame, sorted and checked."""
    moderators = parse_terms(analysis.moderators)
    controls = parse_terms(analysis.controls)
    variables = list_term_columns(
        (*moderators, *controls), list(getattr(frame, "column_names", getattr(frame, "columns", ())))
    )
    defined = analysis.defined_missing
    for name in defined:
        if name not in (analysis.outcome, *variables):
            raise InputError(f"missing_as names '{name}', which is neither the outcome nor a moderator or control")
    reader = _Reader.of_frame(frame, analysis, variables, name_row)
    order = reader.order
    read = {name: reader.read_variable(name, defined.get(name, np.nan)) for name in variables}
    moderator_names, f = make_design(moderators, read, len(order.row))
    control_names, g = make_design(controls, read, len(order.row))
    available = reader.read_available()
    action, names = reader.read_actions(available)
    probabilities = reader.read_probabilities(available, action, names)
    taken = np.take_along_axis(probabilities, action[None], axis=0)[0]
    measured = reader.read_numbers(analysis.outcome)
    order.problems.raise_any()
    order.refuse(np.isinf(measured), analysis.outcome, "the outcome is not finite", "correct it or leave it empty (missing)")
    filled = np.where(np.isnan(measured), defined.get(analysis.outcome, np.nan), measured)
    outcome, outside = analysis.transform_outcome(filled)
    remedy = "correct the value, or choose another transform"
    order.refuse(outside, analysis.outcome, f"{{:g}} has no {analysis.transform}", remedy, filled)
    later, moved = _find_later(order.person, analysis.lag)
    future = np.ones(len(action))
    if analysis.future == "none":
        for step in range(1, analysis.lag + 1):
            exists, between = _find_later(order.person, step)
            future *= np.where(exists, (action[between] == 0) / taken[between], 1.0)
    return ExcursionBatch(
        analysis=analysis,
        order=order,
        available=available,
        action=action,
        probabilities=probabilities,
        numerator=reader.read_numerator(available, len(names)),
        outcome=np.where(later, outcome[moved], np.nan),
        observed=later & ~np.isnan(measured[moved]),
        later=later,
        future=future,
        moderators=f,
        controls=g,
        moderator_names=moderator_names,
        control_names=control_names,
        action_names=names,
    )


def _find_later(person: Codes, lag: int) -> tuple[Mask, Codes]:
    """Whether the same participant has a row `lag` later, and which it is."""
    moved = np.minimum(np.arange(len(person)) + lag, len(person) - 1)
    return (np.arange(len(person)) + lag < len(person)) & (person[moved] == person), moved


@dataclass(frozen=True, eq=False)
class _Reader:
    """The columns of a frame by their roles, each read in the order of the rows."""

    analysis: Analysis
    columns: dict[str, LogColumn]
    order: RowOrder

    @classmethod
    def of_frame(cls, frame: Any, analysis: Analysis, variables: list[str], name_row: Place) -> _Reader:
        names = list(dict.fromkeys([*analysis.role_columns, *variables]))
        layout = LogLayout(analysis.participant, analysis.time, tuple(names))
        also = AVAILABLE_OR_NOT if analysis.available is None else None
        rows = LogTable.of(layout.settle_missing(arrow_table(frame, names, also)[0]), analysis.participant, name_row)
        problems = Problems(name_row, lambda row: rows.participants[rows.participant_index[row]].item())
        columns = {name: rows.column(name, problems) for name in names}
        time = columns[analysis.time].times()
        row = np.lexsort((time, rows.participant_index))
        treatments, codes = columns[analysis.treatment].distinct()
        sent = np.array([text.lower() not in (*NO, "nothing") for text in treatments] + [False])[codes]
        unnamed = find_unnamed_availability(rows.table, names, sent.astype(np.float64))
        order = RowOrder(rows.participants, rows.participant_index[row], row, problems, unnamed)
        again = np.zeros(len(row), dtype=bool)
        again[1:] = (np.diff(order.person) == 0) & (time[row[1:]] == time[row[:-1]])
        problem = "a second decision point at the same time"
        order.refuse(again, analysis.time, problem, "drop the duplicate or correct its time")
        return cls(analysis, columns, order)

    def read_numbers(self, name: str) -> Floats:
        return np.asarray(self.columns[name].numbers()[self.order.row])

    def read_variable(self, name: str, missing_as: float) -> Variable:
        names, values = read_variable(self.columns[name])
        return names, np.where(np.isnan(values), missing_as, values)[:, self.order.row]

    def read_available(self) -> Mask:
        name = self.analysis.available
        if name is None:
            return np.ones(len(self.order.row), dtype=bool)
        values = self.columns[name].yes_no()[self.order.row]
        self.order.problems.raise_any(name)
        self.order.refuse(np.isnan(values), name, "availability is missing", "write 1 (available) or 0 (not available)")
        return np.asarray(values == 1)

    def read_actions(self, available: Mask) -> tuple[Codes, tuple[str, ...]]:
        """Codes, 0 where nobody was available, and the names of the actions."""
        analysis = self.analysis
        name = analysis.treatment
        given = tuple(analysis.actions or ())
        column = self.columns[name]
        values = column.actions(given or ("nothing", "treatment")) if column.is_text else column.numbers()
        values = values[self.order.row]
        self.order.problems.raise_any(name)
        problem = "the treatment is missing at an available row"
        self.order.refuse(available & np.isnan(values), name, problem, "fill it in, or mark the row not available")
        values = np.where(available, values, 0.0)
        # Only the probability of the action taken leaves open how many treatments there are.
        open_ended = analysis.probability_of == "action taken"
        known = len(given) or max(len(analysis.probability_columns) + 1, int(values.max()) + 1 if open_ended else 2)
        wrong = (values != np.floor(values)) | (values < 0) | (values >= known)
        problem = "treatment {:g} is not one of " + f"0 to {known - 1}"
        self.order.refuse(wrong, name, problem, "correct it, or declare actions", values)
        present = np.unique(values[available])
        if len(present) < 2:
            only = f"treatment is {present[0]:g} at every available row" if len(present) else "no row is available"
            raise InputError(
                f"column '{name}': {only}, so there is nothing to compare; include rows of both arms", column=name
            )
        names = given or ("nothing", *(["treatment"] if known == 2 else map(str, range(1, known))))
        return values.astype(np.int64), names

    def read_probabilities(self, available: Mask, action: Codes, names: tuple[str, ...]) -> Floats:
        """(actions, rows): of every action, NaN where the log does not say it."""
        analysis = self.analysis
        remedy = "log the randomisation probability; where somebody could not be treated, the row is not available"
        sources = analysis.probability_columns or ["probability"]
        values = [self.read_numbers(name) for name in analysis.probability_columns]
        if isinstance(analysis.probability, int | float):
            values = [np.full(len(available), float(analysis.probability))]
        outside = "the probability is {:g} at an available row, where both must be possible"
        for name, column in zip(sources, values, strict=True):
            missing = available & np.isnan(column)
            self.order.refuse(missing, name, "the probability is missing at an available row", remedy)
            self.order.refuse(available & ((column <= 0) | (column >= 1)), name, outside, remedy, column)
        if analysis.probability_of is None and isinstance(analysis.probability, str):
            require_reading(action[available], values[0][available], actions=names, column=analysis.probability)
        if analysis.probability_of == "action taken":
            probabilities = np.ones((len(names), len(available)))
            spread = spread_probabilities(action[available], values[0][available], len(names))
            probabilities[:, available] = spread.T
        elif len(values) != len(names) - 1:
            raise InputError(
                f"{len(names) - 1} treatments need as many columns of probabilities, in their order; got "
                f"{analysis.probability_columns or analysis.probability}"
            )
        else:
            probabilities = np.stack([1 - np.sum(values, axis=0), *values])
        nothing_left = available & (probabilities[0] <= 0)
        self.order.refuse(nothing_left, sources[0], "the probabilities leave nothing for no treatment", remedy)
        # Where nobody can be treated, nothing is certain.
        return np.where(available, probabilities, (np.arange(len(names)) == 0).astype(np.float64)[:, None])

    def read_numerator(self, available: Mask, actions: int) -> Floats:
        """(actions, rows): p̃ of every action."""
        given = self.analysis.numerator
        remedy = "a numerator is a probability of treatment strictly between 0 and 1"
        if isinstance(given, str):
            if actions > 2:
                raise InputError("with several treatments the numerator is a number for each, not a column")
            column = self.read_numbers(given)
            wrong = available & ~((column > 0) & (column < 1))
            self.order.refuse(wrong, given, "the numerator is {:g}", remedy, column)
            column = np.where(available, column, 0.5)
            return np.stack([1 - column, column])
        shares = np.full(actions - 1, 1 / actions) if given is None else np.atleast_1d(np.asarray(given, dtype=np.float64))
        if shares.shape != (actions - 1,) or not ((shares > 0).all() and shares.sum() < 1):
            raise InputError(
                f"numerator is {given!r} for {actions - 1} treatment(s); {remedy}, one for each, below 1 in sum"
            )
        return np.repeat(np.concatenate([[1 - shares.sum()], shares])[:, None], len(available), axis=1)


def check_validity(batch: ExcursionBatch, *, binary: bool, distal: bool) -> None:
    """Refuse rows about which the estimator cannot say anything."""
    if not batch.counted.any():
        counts = ", ".join(f"{applies.sum()} {name}" for name, applies in batch.reasons.items())
        raise InputError(f"no row counts ({counts}); look at these columns first")
    arms = np.unique(batch.action[batch.counted])
    if len(arms) < len(batch.action_names):
        absent = [name for code, name in enumerate(batch.action_names) if code not in arms]
        raise InputError(f"no row with {absent} counts, so there is nothing to compare; include rows of every action")
    outcome = batch.outcome
    column = batch.analysis.outcome
    if np.ptp(outcome[batch.counted]) == 0:
        raise InputError(
            f"the outcome '{column}' is {outcome[batch.counted][0]:g} in every row that counts, so there is no effect to "
            "estimate; check the column, its range and its missing values",
            column=column,
        )
    if binary:
        wrong = batch.counted & ~np.isin(outcome, (0.0, 1.0))
        remedy = "a relative risk needs 0 or 1 (or choose the estimator 'wcls')"
        batch.order.refuse(wrong, column, "the outcome is {:g}", remedy, outcome)
    if distal:
        if batch.analysis.lag:
            raise InputError("a distal outcome has no lag; leave lag at 0")
        expected = outcome[np.flatnonzero(np.diff(batch.person, prepend=-1))][batch.person]
        differs = ~((outcome == expected) | (np.isnan(outcome) & np.isnan(expected)))
        remedy = "a distal outcome is one number for a participant, repeated on every row"
        batch.order.refuse(differs, column, "{:g} differs from the participant's first row", remedy, outcome)
    _check_numerator(batch.counted_only)


def _check_numerator(batch: ExcursionBatch) -> None:
    """Rows with the same moderators must have the same p̃: else the weights change the estimand."""
    name = batch.analysis.numerator
    if not isinstance(name, str):
        return
    rows = np.lexsort(batch.moderators)
    same = (np.diff(batch.moderators[:, rows]) == 0).all(axis=0)
    wrong = np.zeros(len(batch), dtype=bool)
    wrong[rows[1:][same & (np.abs(np.diff(batch.numerator[1, rows])) > 1e-9)]] = True
    moderators = [term for term in batch.moderator_names if term != INTERCEPT]
    problem = f"the numerator is {{:g}} where another row with the same moderators {moderators} has another value"
    remedy = "a numerator may depend on the moderators only: add what it depends on to them, or give a number"
    batch.order.refuse(wrong, name, problem, remedy, batch.numerator[1])


def check_uncertainty(batch: ExcursionBatch, errors: Floats) -> None:
    """Refuse an effect without a standard error: participants with one and the same effect say nothing about its spread."""
    counted = batch.counted_only
    largest = np.tile(np.abs(counted.moderators).max(axis=1), len(counted.action_names) - 1)
    if not (errors * largest > CERTAIN * counted.outcome.std()).all():
        raise InputError(
            f"the {len(np.unique(counted.person))} participants that count show exactly the same effect, so its uncertainty "
            f"cannot be estimated; check the column '{counted.analysis.outcome}', or wait for more decision points"
        )


def check_randomisation(batch: ExcursionBatch) -> None:
    """Refuse probabilities that were not used, and moderators or controls that follow the action."""
    rows = np.flatnonzero(batch.available)
    action = batch.action[rows]
    person = batch.person[rows]
    probabilities = batch.probabilities[:, rows]
    column = "', '".join(batch.analysis.probability_columns) or "probability"
    reading = batch.analysis.probability_of or "sending"
    names = batch.action_names
    problem = MeanWeights.of_rows(action, probabilities.T, person, actions=names, given=reading, column=column).problem()
    if problem is not None:
        raise InputError(problem, column=column)
    variables = dict(zip(batch.control_names, batch.controls[:, rows], strict=True))
    variables |= dict(zip(batch.moderator_names, batch.moderators[:, rows], strict=True))
    for code in range(1, len(names)):
        # Where an action's probability is known only when it was taken, the other rows cannot be compared.
        if np.isnan(probabilities[code]).any():
            continue
        for imbalance in find_imbalances(action == code, probabilities[code], variables, person):
            if imbalance.is_unsafe:
                raise InputError(
                    f"'{imbalance.variable}' differs between rows with and without '{names[code]}' more than randomisation "
                    f"allows (p < {FALSE_ALARMS:g}): it is known only after the decision, or the probabilities are not "
                    "those that were used; name a variable that was known before, or give the probabilities that were used",
                    column=imbalance.variable,
                )
