"""The analysis that a study writes down in `[effects]`: on its logs, and on logs in memory such as simulated ones."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.data.log_columns import Problems
from surefoot.data.log_table import name_file
from surefoot.effects.analysis import OUTCOME_MISSING, Analysis, Floats
from surefoot.effects.contrasts import EffectRow
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.formulas import list_variables, read_formula
from surefoot.effects.groups import GroupSummary, summarise_groups
from surefoot.effects.missing_outcomes import MISSING_METHODS
from surefoot.effects.moderator_selection import select_moderators
from surefoot.effects.report import EffectsReport, ScreenedEffect, Words, adjust_rows, analyse, list_rows
from surefoot.effects.result import EffectResult, Options, fit_analysis
from surefoot.effects.standard_errors import ErrorChoice, choose_errors
from surefoot.errors import InputError
from surefoot.log_checks import check_logs
from surefoot.log_checks.outcomes_by_action import describe_flags
from surefoot.log_checks.probabilities import require_stated_probabilities
from surefoot.study.log_reader import read_further_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surefoot.data.trajectories import Trajectories
    from surefoot.effects.moderator_selection import ModeratorSelection
    from surefoot.study import Study, StudyLogs
    from surefoot.study.trial_section import EffectsSection

TAKEN = "probability of the action taken"


def analyse_study(study: Study, path: str | Path, *, section: EffectsSection | None = None) -> EffectsReport:
    """Run the analysis in `[effects]` of a study on a file or folder of logs, such as the service exports.

    Parameters
    ----------
    study
        Describes the columns and the analysis.
    path
        The logs.
    section
        Another analysis than the study's own.

    Returns
    -------
    EffectsReport

    Examples
    --------
    >>> import tempfile, pathlib, pyarrow.csv, surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> text = '[columns]\\nparticipant = "participant"\\ntime = "time"\\nprobability = "probability"\\n[state.weather]\\n'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "logs.csv"
    ...     pyarrow.csv.write_csv(logs.to_frame("pyarrow"), path)
    ...     report = sf.effects.analyse_study(sf.Study.parse(text), path)
    >>> list(report.results)
    ['average']
    """
    settings = read_section(study, section)
    read = study.read(path)
    require_stated_probabilities(read, study)
    frame = _make_frame(study, settings, read, path)
    options = _list_options(study, settings, read.logs.names.available)
    outcome = options["outcome"]
    options["moderators"] = expand_terms(study, settings.moderators)
    checked = read
    if outcome != read.logs.names.outcome:
        values = frame[outcome].to_numpy(zero_copy_only=False).astype(np.float64)
        names = replace(read.logs.names, outcome=outcome)
        checked = replace(read, logs=replace(read.logs.with_values(outcome=values), names=names), raw_outcome=values)
    choice = choose_errors(study, path, read, settings.errors)
    report = analyse(
        frame,
        estimator=settings.estimator,
        lags=settings.lags,
        at=settings.at,
        words=Words(settings.treatment_words or study.treatment_words, settings.outcome_words or outcome),
        history=choice.history,
        errors=choice.used,
        checks=check_logs(checked, study),
        knots=settings.day_knots,
        over=settings.day or ("day" if "day" in frame.column_names else None),
        name_row=lambda row: f"row {read.row[row]}",
        **options,
    )
    return replace(
        report,
        quality=replace(report.quality, reasons=_split_missing(report, read)),
        screened=_compare_screens(study, settings, read, path, report, choice),
        error_sentences=choice.sentences,
        error_warning=choice.warning,
        groups=_analyse_groups(study, settings, checked, path, frame, options, choice, report.table[0].outcome_sd),
        distal=_estimate_distal(settings, frame, options, choice),
        selection=_select_moderators(study, settings, frame, options, read),
    )


def _estimate_distal(settings: EffectsSection, frame: Any, options: Options, choice: ErrorChoice) -> tuple[EffectRow, ...]:
    """The average effect on the distal outcome of the study, with the controls of the primary analysis."""
    if settings.distal is None:
        return ()
    distal = Options(**{**options, "outcome": settings.distal, "moderators": (), "numerator": None, "transform": "none"})
    distal |= {"future": "observed", "missing": "complete", "missing_as": None, "learner": settings.learner}
    try:
        result = fit_analysis(frame, Analysis(**distal), estimator="dcee")
    except InputError as error:
        raise InputError(f"effects.distal: {error}") from error
    if choice.history is not None:
        result = result.adapt(choice.history).with_errors(choice.used)
    return tuple(list_rows(f"distal outcome {settings.distal}", result))


def _select_moderators(
    study: Study, settings: EffectsSection, frame: Any, options: Options, read: StudyLogs
) -> ModeratorSelection | None:
    """The choice among the candidates of the study at the first lag; None where it names none."""
    if not settings.select:
        return None
    numerator = None if isinstance(settings.numerator, str) else settings.numerator
    average = Options(**{**options, "moderators": (), "numerator": numerator, "lag": settings.lags[0]})
    average["missing"] = "complete"
    try:
        return select_moderators(
            frame,
            expand_terms(study, settings.select),
            estimator=settings.estimator,
            division_seed=settings.select_seed,
            name_row=lambda row: f"row {read.row[row]}",
            **average,
        )
    except InputError as error:
        raise InputError(f"effects.select: {error}") from error


def _analyse_groups(
    study: Study,
    settings: EffectsSection,
    read: StudyLogs,
    path: str | Path,
    frame: Any,
    options: Options,
    choice: ErrorChoice,
    outcome_sd: float,
) -> tuple[GroupSummary, ...]:
    """The groups that the study names, with the average effect at the first lag, in the trial's standard deviations."""
    lag = settings.lags[0]
    numerator = None if isinstance(settings.numerator, str) else settings.numerator

    def estimate(name: str, rows: NDArray[np.bool_]) -> tuple[EffectRow, ...]:
        part = frame.filter(rows)
        # What a group has in common controls for nothing within it.
        alike = {column for column in part.column_names if len(part[column].unique()) < 2}
        controls = [term for term in options["controls"] if alike.isdisjoint(list_variables([term], frame.column_names))]
        average = Options(**{**options, "controls": controls, "moderators": (), "numerator": numerator, "lag": lag})
        # Other rows stay, because updates learned from them, but count as not available.
        columns = {column: frame[column].to_numpy(zero_copy_only=False) for column in frame.column_names}
        columns[str(options["available"])] = columns[str(options["available"])] & rows
        result = fit_analysis(
            make_frame(columns, "pyarrow"), Analysis(**average), estimator=settings.estimator, check_draws=False
        )
        if choice.history is not None:
            result = result.adapt(choice.history).with_errors(choice.used)
        return tuple(replace(row, outcome_sd=outcome_sd) for row in list_rows(name, result))

    whole_people = lag > 0 or ESTIMATORS[settings.estimator].distal
    return summarise_groups(study, read, path, estimate, whole_people=whole_people)


def _list_options(study: Study, settings: EffectsSection, available: str) -> Options:
    """Of the average effect; it has the transform of `[outcome]` unless another column is named."""
    outcome = settings.outcome or study.outcome.column
    chosen = ESTIMATORS[settings.estimator]
    transform = study.outcome.transform if outcome == study.outcome.column else "none"
    return Options(
        participant=study.columns.participant,
        time=study.columns.time,
        outcome=outcome,
        treatment=study.actions.column,
        probability=study.columns.probability or TAKEN,
        probability_of="action taken",
        available=available,
        controls=expand_terms(study, settings.controls),
        numerator=settings.numerator,
        future=settings.future,
        missing_as=settings.missing_as,
        transform=settings.transform or transform,
        actions=study.actions.names,
        # A distal outcome may have a learner where the primary one needs none.
        learner=settings.learner if chosen.learns or chosen.distal or settings.distal is None else None,
        missing=settings.missing,
        imputations=settings.imputations,
        auxiliary=tuple(name for name in study.state_names if name != outcome),
        mediator=settings.mediator,
    )


def _compare_screens(
    study: Study, settings: EffectsSection, read: StudyLogs, path: str | Path, report: EffectsReport, choice: ErrorChoice
) -> ScreenedEffect | None:
    """The average effect next to that without the screen; None where the logs are not screened."""
    screen = read.screen
    section = study.screen
    if screen is None or section is None:
        return None
    first = next(iter(report.results))
    reported = tuple(row for row in report.table if row.analysis == first)
    if not describe_flags(screen):
        return ScreenedEffect(screen, reported, reported)

    def estimate(**changes: bool) -> tuple[EffectRow, ...]:
        other = study.model_copy(update={"screen": section.model_copy(update=changes)})
        logs = other.read(path)
        options = _list_options(other, settings, logs.logs.names.available)
        if settings.moderators and isinstance(settings.numerator, str):
            options["numerator"] = None  # It depends on the moderators.
        options["lag"] = settings.lags[0]
        frame = _make_frame(other, settings, logs, path)
        result = fit_analysis(
            frame, Analysis(**options), estimator=settings.estimator, name_row=lambda row: f"row {logs.row[row]}"
        )
        if choice.history is not None:
            result = result.adapt(choice.history).with_errors(choice.used)
        return adjust_rows(list_rows(first, result))

    without = None
    removed = None
    refusal = ""
    try:
        without = estimate(on=False)
    except InputError as error:  # A code such as -99 has no logarithm.
        refusal = str(error)
    columns = screen.flags.column
    if not screen.screener.outcome and (columns == study.outcome.column).any():
        with suppress(InputError):  # Too few participants have a row without those outcomes.
            removed = estimate(outcome=True)
    return ScreenedEffect(screen, reported, without, removed, refusal)


def _split_missing(report: EffectsReport, read: StudyLogs) -> dict[str, int]:
    """The reasons why rows do not count, with outcomes that were measured apart from those that are missing."""
    points = report.main.points
    missing = points.reasons.get(OUTCOME_MISSING)
    if missing is None or points.analysis.outcome != read.logs.names.outcome:
        return report.quality.reasons
    rows = points.order.row[np.flatnonzero(missing) + points.analysis.lag]
    flagged = (np.isnan(read.raw_outcome) & ~np.isnan(read.measured_outcome))[rows]
    outside = read.outside.get(read.logs.names.outcome, np.zeros(len(read.logs), dtype=bool))[rows]
    counts = {
        "outcome implausible (outside its range)": outside,
        "outcome flagged by the screen": flagged,
        OUTCOME_MISSING: ~outside & ~flagged,
    }
    reasons = report.quality.reasons | {reason: int(applies.sum()) for reason, applies in counts.items()}
    return {reason: count for reason, count in reasons.items() if count}


def _make_frame(study: Study, settings: EffectsSection, read: StudyLogs, path: str | Path) -> Any:
    """The logs with state variables and outcome in their own units, and further columns that the analysis names."""
    logs = read.logs
    raw = read.raw_outcome if study.outcome.winsorise is None else np.clip(read.raw_outcome, *study.outcome.winsorise)
    columns = _list_columns(study, logs, raw)
    if "day" not in columns and logs.time.dtype.kind == "M":
        dates = logs.time.astype("datetime64[D]")
        first = dates[logs.order[logs.starts[:-1]]]
        columns["day"] = (dates - first[logs.participant_index]).astype(np.float64)
    named = (settings.outcome, settings.numerator, settings.mediator, settings.distal)
    further = [name for name in named if isinstance(name, str) and name not in columns]
    if further:
        rows = read_further_columns(study, path, further)
        problems = Problems(rows.name_row)
        with name_file(path):
            columns |= {name: rows.column(name, problems).numbers()[read.row] for name in further}
            problems.raise_any()
    return make_frame(columns, "pyarrow")


def _list_columns(study: Study, logs: Trajectories, outcome: Floats) -> dict[str, Any]:
    """Of logs, by the names that the study gives them, with state variables in their own units."""
    columns: dict[str, Any] = {
        study.columns.participant: logs.participant,
        study.columns.time: logs.time,
        logs.names.available: logs.available,
        study.actions.column: logs.action,
        study.columns.probability or TAKEN: np.where(logs.available, logs.probability, np.nan),
        study.outcome.column: outcome,
    }
    for name, variable in study.state.items():
        for column in study.state_columns[name]:
            values = logs.state[:, study.state_names.index(column)]
            scaling = variable.scaling
            columns[column] = values if scaling is None else values * scaling.scale + scaling.centre
        if name not in columns:  # A formula may name a category itself.
            positions = [study.state_names.index(column) for column in study.state_columns[name]]
            columns[name] = np.array(variable.variable_kind.write_cells(logs.state[:, positions]), dtype=object)
    return columns


def expand_terms(study: Study, terms: tuple[str, ...]) -> tuple[str, ...]:
    """State variables as columns: a category becomes its levels."""
    return tuple(column for term in terms for column in (study.state_columns[term] if term in study.state else [term]))


def read_section(study: Study, section: EffectsSection | None = None) -> EffectsSection:
    """The section, with its formula as outcome, moderators and controls.

    A formula names the treatment by the column of actions or, where there is one treatment, by its words or its action.
    """
    settings = study.effects if section is None else section
    if settings.formula is None:
        return settings
    actions = study.actions.names
    words = settings.treatment_words or study.treatment_words
    treatments = [*((words, actions[1]) if len(actions) == 2 else ()), study.actions.column]
    formula = read_formula(settings.formula, treatments)
    # Moderators and controls must be known before the decision: state variables are, and so is the day.
    list_variables(formula.moderators + formula.controls, [*study.state, *study.state_names, "day"])
    return settings.model_copy(update={"formula": None, **formula._asdict()})


def plan_primary_effect(study: Study) -> tuple[Analysis, str, str]:
    """The analysis of the average effect in `[effects]` at its first lag, the estimator, and a note.

    Logs in memory hold the state and the outcome. Where the study names another outcome, a distal one or a numerator that
    is not a state variable, weighted and centred least squares of the outcome stands in, and the note says so.
    """
    settings = read_section(study)
    column = study.outcome.column
    other = settings.outcome not in (None, column) or ESTIMATORS[settings.estimator].distal
    unknown = isinstance(settings.numerator, str) and settings.numerator not in study.state_names
    note = (
        f"The primary analysis ({settings.estimator} of {settings.outcome or column}) needs more than state and outcome: "
        f"weighted and centred least squares of {column} stands in for it."
    )
    analysis = replace(
        Analysis(**_list_options(study, settings, study.columns.available or "available")),
        outcome=column,
        transform="none",
        numerator=None if unknown else settings.numerator,
        lag=settings.lags[0],
        mediator=None,
        learner=None if other else settings.learner,
        missing_as=None if other else settings.missing_as,
        auxiliary=study.state_names if MISSING_METHODS[settings.missing].predicts else (),
    )
    return analysis, "wcls" if other else settings.estimator, note if other or unknown else ""


def estimate_primary_effect(study: Study, logs: Trajectories, analysis: Analysis, estimator: str) -> EffectResult:
    """The average effect on outcomes as they are optimised; analysis and estimator are those of `plan_primary_effect`.

    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "participant"\\ntime = "time"\\n'
    >>> study = sf.Study.parse(text + "[state.weather]\\n[state.engagement]\\n[state.fatigue]")
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> estimate_primary_effect(study, logs, *plan_primary_effect(study)[:2]).names
    ('Intercept',)
    """
    columns = _list_columns(study, logs, logs.outcome)
    terms = (*analysis.controls, *analysis.moderators, *analysis.auxiliary)
    used = {*analysis.role_columns, *list_variables(terms, list(columns))}
    columns = {name: values for name, values in columns.items() if name in used}
    columns[analysis.available or "available"] = logs.available
    # Numbers sort faster than other ids.
    columns[analysis.participant] = np.asarray(logs.participant_index)
    return fit_analysis(make_frame(columns, "pyarrow"), analysis, estimator=estimator, check_draws=False)
