"""The analysis that a study writes down in `[effects]`, on its logs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.effects.report import EffectRow, EffectsReport, ScreenedEffect, analyse
from surefoot.effects.sensitivity import ROBUST_LOSSES
from surefoot.effects.sentences import Words
from surefoot.effects.trial_rows import OUTCOME_MISSING
from surefoot.errors import InputError
from surefoot.log_checks import check_logs
from surefoot.log_checks.probabilities import require_stated_probabilities
from surefoot.log_checks.screened_values import describe_flags

if TYPE_CHECKING:
    from surefoot.data.trajectories import Trajectories
    from surefoot.study import Study, StudyLogs
    from surefoot.study.effects_section import EffectsSection

TAKEN = "probability of the action taken"


def analyse_study(study: Study, path: str | Path, *, section: EffectsSection | None = None) -> EffectsReport:
    """The analysis in `[effects]` of a study on a file or folder of logs, such as the service exports.

    Parameters
    ----------
    study
        Says what the columns mean and what is analysed.
    path
        The logs.
    section
        Another analysis than the study's own.

    Returns
    -------
    EffectsReport
        Tables, sentences, and a page.

    Examples
    --------
    >>> import tempfile, pathlib, pyarrow.csv, surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> text = '[columns]\\nparticipant = "participant"\\ntime = "time"\\nprobability = "probability"\\n[state.weather]\\n'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "logs.csv"
    ...     pyarrow.csv.write_csv(logs.to_frame("pyarrow"), path)
    ...     found = sf.effects.analyse_study(sf.Study.parse(text), path)
    >>> list(found.results)
    ['average']
    """
    settings = study.effects if section is None else section
    read = study.read(path)
    require_stated_probabilities(read, study)
    report = _analyse(study, settings, read, path)
    quality = replace(report.quality, reasons=_split_missing(report, read))
    return replace(report, quality=quality, screened=_compare_screens(study, settings, read, path, report))


def _analyse(
    study: Study, settings: EffectsSection, read: StudyLogs, path: str | Path, *, average: bool = False
) -> EffectsReport:
    """The analysis of logs that were read; with `average` only the average effect at the first lag, without checks."""
    frame = _frame(study, settings, read, path)
    outcome, transform = _outcome(study, settings)
    actions = study.actions.names
    words = Words(settings.treatment_words or actions[1], settings.outcome_words or outcome)
    numerator = settings.numerator
    if average and settings.moderators and isinstance(numerator, str):
        numerator = None
    return analyse(
        frame,
        estimator=settings.estimator,
        lags=settings.lags[:1] if average else settings.lags,
        at=() if average else settings.at,
        words=words,
        notes=study.collection.describe(read.logs),
        checks=() if average else check_logs(_with_outcome(read, frame, outcome), study),
        sensitivity=() if average else tuple(ROBUST_LOSSES),
        place=lambda row: f"row {read.row[row]}",
        over=None if average else settings.day or ("day" if "day" in frame.column_names else None),
        participant=study.columns.participant,
        time=study.columns.time,
        outcome=outcome,
        treatment=study.actions.column,
        probability=study.columns.probability or TAKEN,
        probability_of="action taken",
        available=read.logs.names.available,
        moderators=() if average else expand_terms(study, settings.moderators),
        controls=expand_terms(study, settings.controls),
        numerator=numerator,
        future=settings.future,
        missing_as=settings.missing_as,
        transform=transform,
        actions=actions,
    )


def _compare_screens(
    study: Study, settings: EffectsSection, read: StudyLogs, path: str | Path, report: EffectsReport
) -> ScreenedEffect | None:
    """The average effect next to that without the screen; None where the logs are not screened."""
    screen = read.screen
    if screen is None or study.screen is None:
        return None
    first = next(iter(report.results))
    reported = tuple(row for row in report.table if row.analysis == first)
    if not describe_flags(screen):
        return ScreenedEffect(screen, reported, reported)

    def estimate(**changes: bool) -> tuple[EffectRow, ...]:
        other = study.model_copy(update={"screen": study.screen.model_copy(update=changes)})  # type: ignore[union-attr]
        rows = _analyse(other, settings, other.read(path), path, average=True).table
        return tuple(replace(row, analysis=first) for row in rows)

    without = None
    removed = None
    refusal = ""
    try:
        without = estimate(on=False)
    except InputError as error:  # A code such as -99 has no logarithm.
        refusal = str(error)
    columns = screen.screener.column_names(screen.flags)
    if not screen.screener.outcome and (columns == study.reward.column).any():
        with suppress(InputError):  # Too few participants have a row without those outcomes.
            removed = estimate(outcome=True)
    return ScreenedEffect(screen, reported, without, removed, refusal)


def _split_missing(report: EffectsReport, read: StudyLogs) -> dict[str, int]:
    """The reasons why rows do not count, with outcomes that were measured apart from those that are missing."""
    points = report.main.points
    missing = points.reasons.get(OUTCOME_MISSING)
    if missing is None or points.analysis.outcome != read.logs.names.reward:
        return report.quality.reasons
    rows = points.order.row[np.flatnonzero(missing) + points.analysis.lag]
    flagged = np.isnan(read.raw_reward) & ~np.isnan(read.measured_reward)
    outside = read.outside.get(read.logs.names.reward, np.zeros(len(read.logs), dtype=bool))
    reasons = dict(report.quality.reasons)
    reasons["outcome implausible (outside its range)"] = int(outside[rows].sum())
    reasons["outcome flagged by the screen"] = int(flagged[rows].sum())
    reasons[OUTCOME_MISSING] = int((~outside & ~flagged)[rows].sum())
    return {reason: count for reason, count in reasons.items() if count}


def _with_outcome(read: StudyLogs, frame: Any, outcome: str) -> StudyLogs:
    """The logs with the outcome that is analysed as their reward."""
    if outcome == read.logs.names.reward:
        return read
    values = frame[outcome].to_numpy(zero_copy_only=False).astype(np.float64)
    names = replace(read.logs.names, reward=outcome)
    return replace(read, logs=replace(read.logs.with_values(reward=values), names=names), raw_reward=values)


def _outcome(study: Study, settings: EffectsSection) -> tuple[str, str]:
    """The outcome's column and transform: the reward's own unless another is named."""
    if settings.outcome in (None, study.reward.column):
        return study.reward.column, settings.transform or study.reward.transform
    return str(settings.outcome), settings.transform or "none"


def _frame(study: Study, settings: EffectsSection, read: StudyLogs, path: str | Path) -> Any:
    """The logs with state variables and reward in their own units, and what else the analysis names."""
    logs = read.logs
    raw = read.raw_reward if study.reward.winsorise is None else np.clip(read.raw_reward, *study.reward.winsorise)
    columns = list_columns(study, logs, raw)
    if "day" not in columns and logs.time.dtype.kind == "M":
        columns["day"] = _days_in_study(logs)
    named = [settings.outcome, settings.numerator if isinstance(settings.numerator, str) else None]
    more = [name for name in named if name is not None and name not in columns]
    return make_frame(columns | _read_more(study, path, more, read), "pyarrow")


def list_columns(study: Study, logs: Trajectories, outcome: NDArray[np.float64]) -> dict[str, Any]:
    """Of logs, by the names that the study gives them, with state variables in their own units."""
    columns: dict[str, Any] = {
        study.columns.participant: logs.participant,
        study.columns.time: logs.time,
        logs.names.available: logs.available,
        study.actions.column: logs.action,
        study.columns.probability or TAKEN: np.where(logs.available, logs.probability, np.nan),
        study.reward.column: outcome,
    }
    for name, variable in study.state.items():
        for column in study.columns_of(name):
            values = logs.state[:, study.state_names.index(column)]
            scaling = variable.scaling
            columns[column] = values if scaling is None else values * scaling.scale + scaling.centre
    return columns


def expand_terms(study: Study, terms: tuple[str, ...]) -> tuple[str, ...]:
    """State variables as columns: a category becomes its levels."""
    found: list[str] = []
    for term in terms:
        found += study.columns_of(term) if term in study.state else [term]
    return tuple(found)


def _days_in_study(logs: Trajectories) -> NDArray[np.float64]:
    """Whole days since the day of a participant's first decision point."""
    dates = logs.time.astype("datetime64[D]")
    first = dates[logs.order[logs.starts[:-1]]]
    return np.asarray((dates - first[logs.participant_index]).astype(np.float64))


def _read_more(study: Study, path: str | Path, names: list[str], read: StudyLogs) -> dict[str, Any]:
    """Columns of the logs that play no other part in the study, as numbers."""
    if not names:
        return {}
    from surefoot.data.log_files import LogFile, LogRows, concatenate, name_file
    from surefoot.data.problems import Problems
    from surefoot.study.log_reader import log_layout, study_files

    layout = replace(log_layout(study), columns=(study.columns.participant, *names))
    parts: list[LogRows] = []
    for file in study_files(study, path):
        parts.append(LogFile(file).rows(layout, sum(map(len, parts))))
    rows = concatenate(parts)
    problems = Problems(rows.place)
    with name_file(path):
        found = {name: rows.column(name, problems).numbers()[read.row] for name in names}
        problems.raise_any()
    return found
