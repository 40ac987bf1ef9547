"""An excursion analysis, by the roles of columns, and the rows of a trial that it reads: sorted, checked, with reasons why
rows do not count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import arrow_table
from surefoot.data.log_columns import NO, TEXT_TYPES, LogColumn, Place, Problems, frame_row
from surefoot.data.log_table import ColumnNames, LogLayout, LogTable, UnnamedAvailability
from surefoot.data.mean_weights import READINGS, MeanWeights, require_reading, spread_probabilities
from surefoot.data.suspect_columns import AVAILABLE_OR_NOT, find_unnamed_availability
from surefoot.data.trajectories import Trajectories
from surefoot.effects.formulas import INTERCEPT, Design, Terms, evaluate_design, list_variables, make_design, parse_terms
from surefoot.errors import InputError
from surefoot.inference.balance import FALSE_ALARMS, find_imbalances
from surefoot.study.log_description import OutcomeSection

if TYPE_CHECKING:
    from formulaic import ModelSpec

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]
FUTURES = ("observed", "none")
OUTCOME_MISSING = "outcome missing"  # The reason why a row without an outcome does not count.
CERTAIN = 1e-10  # In standard deviations of the outcome: a standard error below this is rounding.


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
    learner: Any = None
    missing: str = "complete"
    auxiliary: Terms = ()
    imputations: int = 20
    seed: int = 0
    folds: int | None = None
    mediator: str | None = None
    point_weight: str | None = None

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
        if self.imputations < 2:
            raise InputError(f"imputations is {self.imputations}; give at least 2, so that their spread can be estimated")

    @property
    def probability_columns(self) -> list[str]:
        if self.probability is None or isinstance(self.probability, int | float):
            return []
        return [self.probability] if isinstance(self.probability, str) else list(self.probability)

    @property
    def role_columns(self) -> list[str]:
        """The columns that are neither moderators nor controls."""
        names = [self.participant, self.time, self.outcome, self.treatment, *self.probability_columns]
        further = (self.available, self.numerator, self.point_weight)
        return names + [name for name in further if isinstance(name, str)]

    @property
    def defined_missing(self) -> dict[str, float]:
        """The value that a missing cell stands for, by column."""
        given = {} if self.missing_as is None else self.missing_as
        return dict(given) if isinstance(given, Mapping) else {self.outcome: float(given)}

    @property
    def offset(self) -> float | None:
        """c of log(x + c); None for another transform of the outcome."""
        try:
            return OutcomeSection(transform=self.transform).offset
        except ValueError as error:
            raise InputError(f"transform '{self.transform}' is unknown; write 'none', 'sqrt' or 'log(x + 0.5)'") from error


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Rows of a frame by participant and time; columns are read by their roles, in that order."""

    analysis: Analysis
    columns: dict[str, LogColumn]
    participants: NDArray[Any]
    person: Codes  # Position among `participants`, ascending.
    row: Codes  # Number of the row in the frame.
    problems: Problems
    unnamed: tuple[UnnamedAvailability, ...]  # Columns that look like availability, where none was named.
    backend: str | None = None  # The library of the frame; None where a file was read.

    @classmethod
    def of_frame(cls, frame: Any, analysis: Analysis, variables: list[str], name_row: Place) -> "SortedRows":
        names = list(dict.fromkeys([*analysis.role_columns, *variables]))
        layout = LogLayout(analysis.participant, analysis.time, tuple(names))
        also = AVAILABLE_OR_NOT if analysis.available is None else None
        table, library = arrow_table(frame, names, also)
        logs = LogTable.of(layout.settle_missing(table), analysis.participant, name_row)
        problems = Problems(name_row, lambda row: logs.participants[logs.participant_index[row]].item())
        columns = {name: logs.column(name, problems) for name in names}
        time = columns[analysis.time].times()
        row = np.lexsort((time, logs.participant_index))
        treatments, codes = columns[analysis.treatment].distinct()
        sent = np.array([text.lower() not in (*NO, "nothing") for text in treatments] + [False])[codes]
        unnamed = find_unnamed_availability(logs.table, names, sent.astype(np.float64))
        backend = None if library == "pyarrow" else library
        rows = cls(analysis, columns, logs.participants, logs.participant_index[row], row, problems, unnamed, backend)
        again = np.zeros(len(row), dtype=bool)
        again[1:] = (np.diff(rows.person) == 0) & (time[row[1:]] == time[row[:-1]])
        problem = "a second decision point at the same time"
        rows.refuse(again, analysis.time, problem, "drop the duplicate or correct its time")
        return rows

    def refuse(self, wrong: Mask, column: str, problem: str, remedy: str, values: Any = None) -> None:
        """Raise an error about wrong rows, if there are any; `{:g}` in `problem` is the first one's value."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            rows = rows[np.argsort(self.row[rows])]
            text = problem if values is None else problem.format(values[rows[0]])
            self.problems.report(column, self.row[rows], text, remedy)
            self.problems.stop()

    def find_in(self, order: "SortedRows") -> Codes:
        """Where these rows, some perhaps several times, stand among the rows of `order`."""
        position = np.empty(order.row.max() + 1, dtype=np.int64)
        position[order.row] = np.arange(len(order.row))
        return np.asarray(position[self.row])

    def read_numbers(self, name: str) -> Floats:
        return np.asarray(self.columns[name].numbers()[self.row])

    def read_variable(self, name: str, missing_as: float) -> NDArray[Any]:
        """Numbers, or text with None where it is missing."""
        column = self.columns[name]
        if column.cells.type not in TEXT_TYPES:
            values = column.numbers()[self.row]
            self.refuse(np.isinf(values), name, "the value is not finite", "correct it or leave it empty (missing)")
            return np.where(np.isnan(values), missing_as, values)
        texts, codes = column.distinct()
        if len(texts) < 2:
            raise InputError(f"column '{name}' holds one value only ({texts}); a category needs two levels", column=name)
        return np.array([*texts, None], dtype=object)[codes][self.row]

    def read_design(self, terms: Sequence[str], missing_as: Mapping[str, float]) -> Design:
        """The intercept and the columns of the terms; a category gives one column for each level but the first."""
        variables = {
            name: self.read_variable(name, missing_as.get(name, np.nan))
            for name in list_variables(terms, list(self.columns))
        }
        if not set(terms) <= set(variables):
            return make_design(terms, variables, len(self.row))
        # Simulated trials have lists of columns: these need no formula.
        names = [INTERCEPT]
        values = [np.ones(len(self.row))]
        for name in terms:
            variable = variables[name]
            if variable.dtype != object:
                names.append(name)
                values.append(variable)
                continue
            missing = variable == None  # noqa: E711 - of every element
            for level in sorted(set(variable[~missing]))[1:]:
                names.append(f"{name}={level}")
                values.append(np.where(missing, np.nan, variable == level))
        return Design(tuple(names), np.stack(values).astype(np.float64))

    def read_available(self) -> Mask:
        name = self.analysis.available
        if name is None:
            return np.ones(len(self.row), dtype=bool)
        values = self.columns[name].yes_no()[self.row]
        self.problems.raise_any(name)
        self.refuse(np.isnan(values), name, "availability is missing", "write 1 (available) or 0 (not available)")
        return np.asarray(values == 1)

    def read_actions(self, available: Mask) -> tuple[Codes, tuple[str, ...]]:
        """Codes, 0 where nobody was available, and the names of the actions."""
        analysis = self.analysis
        name = analysis.treatment
        given = tuple(analysis.actions or ())
        column = self.columns[name]
        values = column.actions(given or ("nothing", "treatment")) if column.cells.type in TEXT_TYPES else column.numbers()
        values = values[self.row]
        self.problems.raise_any(name)
        problem = "the treatment is missing at an available row"
        self.refuse(available & np.isnan(values), name, problem, "fill it in, or mark the row not available")
        values = np.where(available, values, 0.0)
        # Only the probability of the action taken leaves open how many treatments there are.
        open_ended = analysis.probability_of == "action taken"
        known = len(given) or max(len(analysis.probability_columns) + 1, int(values.max()) + 1 if open_ended else 2)
        wrong = (values != np.floor(values)) | (values < 0) | (values >= known)
        problem = "treatment {:g} is not one of " + f"0 to {known - 1}"
        self.refuse(wrong, name, problem, "correct it, or declare actions", values)
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
            self.refuse(missing, name, "the probability is missing at an available row", remedy)
            self.refuse(available & ((column <= 0) | (column >= 1)), name, outside, remedy, column)
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
        self.refuse(nothing_left, sources[0], "the probabilities leave nothing for no treatment", remedy)
        # Where nobody can be treated, nothing is certain.
        return np.where(available, probabilities, (np.arange(len(names)) == 0).astype(np.float64)[:, None])

    def read_point_weight(self) -> Floats:
        """ω of every row, 1 unless a column says otherwise."""
        name = self.analysis.point_weight
        if name is None:
            return np.ones(len(self.row))
        weight = self.read_numbers(name)
        remedy = "the weight of a decision point is a number, 0 or above; at least one is above"
        self.refuse(~(np.isfinite(weight) & (weight >= 0)), name, "the weight is {:g}", remedy, weight)
        self.refuse(np.full(len(weight), not weight.any()), name, "every weight is 0", remedy)
        return weight

    def read_numerator(self, available: Mask, actions: int) -> Floats:
        """(actions, rows): p̃ of every action."""
        given = self.analysis.numerator
        remedy = "a numerator is a probability of treatment strictly between 0 and 1"
        if isinstance(given, str):
            if actions > 2:
                raise InputError("with several treatments the numerator is a number for each, not a column")
            column = self.read_numbers(given)
            wrong = available & ~((column > 0) & (column < 1))
            self.refuse(wrong, given, "the numerator is {:g}", remedy, column)
            column = np.where(available, column, 0.5)
            return np.stack([1 - column, column])
        shares = np.full(actions - 1, 1 / actions) if given is None else np.atleast_1d(np.asarray(given, dtype=np.float64))
        if shares.shape != (actions - 1,) or not ((shares > 0).all() and shares.sum() < 1):
            raise InputError(
                f"numerator is {given!r} for {actions - 1} treatment(s); {remedy}, one for each, below 1 in sum"
            )
        return np.repeat(np.concatenate([[1 - shares.sum()], shares])[:, None], len(available), axis=1)


@dataclass(frozen=True, eq=False)
class ExcursionBatch:
    """All rows, also those that do not count; arrays have one entry per row, sorted by participant and time."""

    analysis: Analysis
    order: SortedRows
    available: Mask
    action: Codes  # 0 is nothing, also at unavailable rows.
    probabilities: Floats  # (actions, rows): NaN where the log does not say it; of nothing 1 at unavailable rows.
    numerator: Floats  # (actions, rows): p̃.
    outcome: Floats  # `lag` decision points later, transformed; NaN where missing.
    predicted: Floats  # The part of the outcome that a regressor predicts; 0 but for doubly robust WCLS.
    observed: Mask  # Whether the outcome was measured (and not defined by `missing_as`).
    later: Mask  # Whether the participant has a decision point `lag` later.
    future: Floats  # Π 1{A = 0}/P(A = 0) over the decision points in between; 1 when they are taken as observed.
    moderators: Floats  # f, (p, rows), with its intercept first.
    controls: Floats  # g, (q, rows), with its intercept first.
    auxiliary: Floats  # Further variables that predict missing outcomes, (k, rows), with an intercept first.
    observation_weight: Floats  # Proportional to 1/P(outcome observed); 1 but for the weighted analysis.
    moderator_names: tuple[str, ...]
    control_names: tuple[str, ...]
    auxiliary_names: tuple[str, ...]
    action_names: tuple[str, ...]
    mediators: Floats  # Columns of the mediator, (m, rows), without an intercept; none where there is no mediator.
    point_weight: Floats  # ω: the weight of a decision point in the average over them.
    moderator_spec: "ModelSpec | None" = None  # How a formula turns variables into f; None for a list of columns.

    def __len__(self) -> int:
        return len(self.available)

    def take(self, chosen: Mask) -> "ExcursionBatch":
        """The chosen rows, of the same participants."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays: dict[str, Any] = {
            name: np.take(array, rows, axis=-1) for name, array in values.items() if isinstance(array, np.ndarray)
        }
        return replace(self, order=replace(self.order, person=self.person[rows], row=self.order.row[rows]), **arrays)

    def repeat(self, times: int) -> "ExcursionBatch":
        """Every row so many times."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays: dict[str, Any] = {
            name: np.repeat(array, times, axis=-1) for name, array in values.items() if isinstance(array, np.ndarray)
        }
        order = replace(self.order, person=np.repeat(self.person, times), row=np.repeat(self.order.row, times))
        return replace(self, order=order, **arrays)

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
            available=self.possible,
            action=self.action,
            # Rows that remain after later actions are ruled out were not drawn with these probabilities.
            probability=self.taken if analysis.future == "observed" else np.full(len(self), np.nan),
            outcome=np.where(self.observed, self.outcome, np.nan),
            state_names=tuple(state),
            action_names=self.action_names,
            names=ColumnNames(
                analysis.participant, analysis.time, analysis.treatment, analysis.outcome, unnamed=self.order.unnamed
            ),
        )

    @property
    def person(self) -> Codes:
        return self.order.person

    @property
    def starts(self) -> Codes:
        """The first row of every participant."""
        return np.flatnonzero(np.diff(self.person, prepend=-1))

    @property
    def possible(self) -> Mask:
        """Rows whose outcome the analysis wants to know."""
        return self.available & self.later & (self.future > 0)

    @property
    def described(self) -> Mask:
        """Rows with all moderators and controls."""
        return np.asarray(~np.isnan(np.concatenate([self.moderators, self.controls])).any(axis=0))

    def replace_outcome(self, outcome: Floats) -> "ExcursionBatch":
        """The same rows for the average effect on another outcome, without weights or predictions for the present one."""
        ones = np.ones(len(self))
        return replace(
            self,
            outcome=outcome,
            predicted=np.zeros(len(self)),
            observation_weight=ones,
            moderators=ones[None],
            moderator_names=(INTERCEPT,),
            moderator_spec=None,
        )

    @cached_property
    def taken(self) -> Floats:
        """Probability of the action that was taken; 1 at unavailable rows."""
        return np.asarray(np.take_along_axis(self.probabilities, self.action[None], axis=0)[0])

    @property
    def send_probability(self) -> Floats:
        """Probability of the treatment, where there is one only."""
        return np.where(self.action == 1, self.taken, 1 - self.taken)

    @property
    def treated(self) -> Floats:
        """1{A = k} for every action but nothing, (actions − 1, rows)."""
        return np.asarray(self.action == np.arange(1, len(self.action_names))[:, None], dtype=np.float64)

    @cached_property
    def weight(self) -> Floats:
        """I · p̃(A)/p(A) · the weight of the future · that of being observed."""
        chosen = np.take_along_axis(self.numerator, self.action[None], axis=0)[0]
        return np.asarray(self.available * chosen / self.taken * self.future * self.observation_weight)

    @property
    def effect_names(self) -> tuple[str, ...]:
        """Of the effect's coefficients: the moderators', for each action when there are several."""
        if len(self.action_names) == 2:
            return self.moderator_names
        return tuple(f"{action}: {name}" for action in self.action_names[1:] for name in self.moderator_names)

    @property
    def moderator_variables(self) -> tuple[str, ...]:
        """What the moderators depend on: columns of the frame for a formula, else the moderators themselves."""
        if self.moderator_spec is None:
            return self.moderator_names[1:]
        return tuple(sorted(map(str, self.moderator_spec.required_variables)))

    def evaluate_moderators(self, values: Mapping[str, Any]) -> Floats:
        """f at values of the `moderator_variables`, (values, p)."""
        if self.moderator_spec is not None:
            return evaluate_design(self.moderator_spec, values)
        columns = [values[name] for name in self.moderator_variables]
        return np.column_stack([np.ones(len(columns[0]) if columns else 1), *columns])

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
        if len(self.mediators):
            reasons[f"'{self.analysis.mediator}' missing"] = np.isnan(self.mediators).any(axis=0)
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
    def counted_only(self) -> "ExcursionBatch":
        return self.take(self.counted)


def read_batch(frame: Any, analysis: Analysis, *, name_row: Place = frame_row) -> ExcursionBatch:
    """The named columns of a pandas, polars or Arrow frame, sorted and checked."""
    moderators = parse_terms(analysis.moderators)
    controls = parse_terms(analysis.controls)
    auxiliary = parse_terms(analysis.auxiliary)
    present = [str(name) for name in getattr(frame, "column_names", getattr(frame, "columns", ()))]
    mediator = [] if analysis.mediator is None else [analysis.mediator]
    variables = list_variables((*moderators, *controls, *auxiliary), present)
    for name, role in ((analysis.outcome, "outcome"), (analysis.treatment, "treatment"), (analysis.mediator, "mediator")):
        if name in variables:
            raise InputError(
                f"'{name}' is the {role}, which is known only after the decision; moderators and controls must be known "
                "before it: name a variable that is",
                column=name,
            )
    defined = analysis.defined_missing
    for name in defined:
        if name not in (analysis.outcome, *variables):
            raise InputError(f"missing_as names '{name}', which is neither the outcome nor a moderator or control")
    if analysis.mediator in (analysis.outcome, analysis.treatment):
        raise InputError(f"the mediator '{analysis.mediator}' is the outcome or the treatment; name another column")
    rows = SortedRows.of_frame(frame, analysis, [*variables, *list_variables(mediator, present)], name_row)
    f = rows.read_design(moderators, defined)
    g = rows.read_design(controls, defined)
    further = rows.read_design(auxiliary, defined)
    available = rows.read_available()
    action, names = rows.read_actions(available)
    probabilities = rows.read_probabilities(available, action, names)
    taken = np.take_along_axis(probabilities, action[None], axis=0)[0]
    measured = rows.read_numbers(analysis.outcome)
    rows.problems.raise_any()
    rows.refuse(np.isinf(measured), analysis.outcome, "the outcome is not finite", "correct it or leave it empty (missing)")
    outcome = np.where(np.isnan(measured), defined.get(analysis.outcome, np.nan), measured)
    offset = analysis.offset
    if analysis.transform != "none":
        outside = outcome < 0 if offset is None else outcome + offset <= 0
        remedy = "correct the value, or choose another transform"
        rows.refuse(outside, analysis.outcome, f"{{:g}} has no {analysis.transform}", remedy, outcome)
        outcome = np.sqrt(outcome) if offset is None else np.log(outcome + offset)
    later, moved = _find_later(rows.person, analysis.lag)
    future = np.ones(len(action))
    if analysis.future == "none":
        for step in range(1, analysis.lag + 1):
            exists, between = _find_later(rows.person, step)
            future *= np.where(exists, (action[between] == 0) / taken[between], 1.0)
    return ExcursionBatch(
        analysis=analysis,
        order=replace(rows, columns={}),
        available=available,
        action=action,
        probabilities=probabilities,
        numerator=rows.read_numerator(available, len(names)),
        outcome=np.where(later, outcome[moved], np.nan),
        predicted=np.zeros(len(action)),
        observed=later & ~np.isnan(measured[moved]),
        later=later,
        future=future,
        moderators=f.values,
        controls=g.values,
        auxiliary=further.values,
        observation_weight=np.ones(len(action)),
        moderator_names=f.names,
        control_names=g.names,
        auxiliary_names=further.names,
        action_names=names,
        mediators=rows.read_design(mediator, defined).values[1:],
        point_weight=rows.read_point_weight(),
        moderator_spec=f.spec,
    )


def _find_later(person: Codes, lag: int) -> tuple[Mask, Codes]:
    """Whether the same participant has a row `lag` later, and which it is."""
    moved = np.minimum(np.arange(len(person)) + lag, len(person) - 1)
    return (np.arange(len(person)) + lag < len(person)) & (person[moved] == person), moved


def check_validity(batch: ExcursionBatch, *, binary: bool, distal: bool) -> None:
    """Refuse rows about which the estimator cannot say anything."""
    counted = batch.counted_only
    if not len(counted):
        counts = ", ".join(f"{applies.sum()} {name}" for name, applies in batch.reasons.items())
        raise InputError(f"no row counts ({counts}); look at these columns first")
    absent = [name for code, name in enumerate(batch.action_names) if code not in counted.action]
    if absent:
        raise InputError(f"no row with {absent} counts, so there is nothing to compare; include rows of every action")
    column = batch.analysis.outcome
    if np.ptp(counted.outcome) == 0:
        raise InputError(
            f"the outcome '{column}' is {counted.outcome[0]:g} in every row that counts, so there is no effect to "
            "estimate; check the column, its range and its missing values",
            column=column,
        )
    mediator = batch.analysis.mediator
    if mediator is not None and not np.ptp(counted.mediators, axis=1).any():
        raise InputError(
            f"the mediator '{mediator}' is the same in every row that counts, so no effect can pass through it; name "
            "another column",
            column=mediator,
        )
    if binary:
        wrong = ~np.isin(counted.outcome, (0.0, 1.0))
        remedy = "a relative risk needs 0 or 1 (or choose the estimator 'wcls')"
        counted.order.refuse(wrong, column, "the outcome is {:g}", remedy, counted.outcome)
    if distal:
        if batch.analysis.lag:
            raise InputError("a distal outcome has no lag; leave lag at 0")
        outcome = batch.outcome
        expected = outcome[batch.starts][batch.person]
        differs = ~((outcome == expected) | (np.isnan(outcome) & np.isnan(expected)))
        remedy = "a distal outcome is one number for a participant, repeated on every row"
        batch.order.refuse(differs, column, "{:g} differs from the participant's first row", remedy, outcome)
    name = batch.analysis.numerator
    if isinstance(name, str):
        # Rows with the same moderators must have the same p̃: else the weights change the estimand.
        rows = np.lexsort(counted.moderators)
        same = (np.diff(counted.moderators[:, rows]) == 0).all(axis=0)
        wrong = np.zeros(len(counted), dtype=bool)
        wrong[rows[1:][same & (np.abs(np.diff(counted.numerator[1, rows])) > 1e-9)]] = True
        moderators = [term for term in counted.moderator_names if term != INTERCEPT]
        problem = f"the numerator is {{:g}} where another row with the same moderators {moderators} has another value"
        remedy = "a numerator may depend on the moderators only: add what it depends on to them, or give a number"
        counted.order.refuse(wrong, name, problem, remedy, counted.numerator[1])


def check_uncertainty(batch: ExcursionBatch, errors: Floats) -> None:
    """Refuse an effect without a standard error: participants with one and the same effect say nothing about its spread."""
    counted = batch.counted_only
    largest = np.resize(np.abs(counted.moderators).max(axis=1), len(errors))
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
    weights = MeanWeights.of(action, probabilities.T, person, actions=names, given=reading, column=column)
    problem = weights.problem()
    if problem is not None:
        raise InputError(problem, column=column)
    columns = zip((*batch.control_names, *batch.moderator_names), (*batch.controls, *batch.moderators), strict=True)
    variables = {name: values[rows] for name, values in columns}
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
