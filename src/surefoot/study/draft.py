"""A first `study.toml` from a look at the logs: guesses about the columns, with comments on what to check."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from surefoot.data.column_kinds import ColumnSummary, VariableKind, YesNo, quote
from surefoot.data.file_detection import detect_settings, detect_time_format
from surefoot.data.log_columns import MISSING_ANSWERS, PLAIN, FileSettings, spell
from surefoot.data.log_table import LogFile, LogTable, list_files, name_file
from surefoot.data.mean_weights import FITS, SURE, MeanWeights
from surefoot.data.trajectories import READINGS
from surefoot.errors import InputError
from surefoot.study.column_guesses import ActionGuess, ColumnGuesses, list_codes
from surefoot.study.log_reader import log_layout, parse_logs
from surefoot.study.model import Study

MANY_COLUMNS = 2
TREATMENTS = r"(?i)(message|prompt|notification|suggestion|reminder|nudge|intervention|text message|e-?mail|tip)"
"""Words for a treatment that sentences can use."""


@dataclass(frozen=True)
class StudyDraft:
    """The text of a first study, and warnings about doubtful guesses and about gaps of the logs."""

    text: str
    warnings: tuple[str, ...]


def draft_study(path: Path, **roles: str | None) -> StudyDraft:
    """A study for these logs; `roles` name columns that cannot be guessed (participant, time, action, reward, …)."""
    file = LogFile(list_files(path)[0])
    with name_file(path):
        settings, warnings = detect_settings(file)
        table, _ = file.read_cells(settings)
        guesses = ColumnGuesses(table, roles, settings)
        if not guesses.state:
            raise InputError("no column is left that could be a state variable; a policy needs at least one")
        file_lines = _list_settings(settings, detect_time_format(guesses.cells[guesses.roles["time"]]))
        actions = guesses.actions
        # Whatever was guessed, the text must be a study.
        text = _write_text(path, guesses, file_lines, actions, [])
        study = Study.parse(text)
        rows = file.read(log_layout(study))
        if "probability" in guesses.roles:
            actions, convention = _choose_order(study, rows, actions)
            text = _write_text(path, guesses, file_lines, actions, convention)
            study = Study.parse(text)
    warnings += guesses.warnings
    if actions.reason:
        warnings.append(f"column '{guesses.roles['action']}': {actions.reason}; see [actions]")
    try:
        weights = _weigh(study, rows)
        problem = None if weights is None else weights.problem()
    except InputError as error:
        problem = f"the logs cannot be read yet:\n{error}"
    return StudyDraft(text, (*warnings, *([] if problem is None else [problem])))


def _weigh(study: Study, rows: LogTable, **changes: Any) -> MeanWeights | None:
    """The mean weights of the logs, which need no screened values."""
    return MeanWeights.of(parse_logs(study.model_copy(update={**changes, "screen": None}), rows).logs)


def _choose_order(study: Study, rows: LogTable, guess: ActionGuess) -> tuple[ActionGuess, list[str]]:
    """The guess, or the other action as "nothing" where only that fits the logged probabilities; and the lines that say the
    event of these."""
    if len(guess.names) > 2:
        return guess, ["# With several actions it must be that of the action taken."]
    lines, distance = _choose_reading(study, rows)
    if not guess.reason or distance <= SURE:
        return guess, lines
    names = guess.names[::-1] if guess.values is None else guess.names
    values = None if guess.values is None else guess.values[::-1]
    spellings = None if values is None else tuple(map(spell, values))
    actions = study.actions.model_copy(update={"names": names, "values": spellings})
    swapped_lines, distance = _choose_reading(study.model_copy(update={"actions": actions}), rows)
    if distance >= FITS:
        return guess, lines
    first = names[0] if spellings is None else spellings[0]
    reason = f"{first} is taken for nothing, because only so do the probabilities fit how often each action was taken"
    return ActionGuess(names, values, reason), swapped_lines


def _choose_reading(study: Study, rows: LogTable) -> tuple[list[str], float]:
    """The reading of the probabilities with which every action's mean weight is 1, and their distance from 1."""
    means: dict[str, str] = {}
    distances = dict.fromkeys(READINGS, np.inf)
    for reading in READINGS:
        try:
            weights = _weigh(study, rows, columns=study.columns.model_copy(update={"probability_of": reading}))
        except InputError:
            continue  # The fit reports what is wrong with the cells.
        if weights is not None:
            means[reading] = weights.describe(reading)
            distances[reading] = weights.worst(reading)
    usual, _ = READINGS
    best, other = sorted(READINGS, key=lambda reading: distances[reading])
    distance = distances[best]
    if not means:
        evidence = "Check: the logs could not be read (surefoot fit says why), so this is a guess."
        best = usual
    elif distance > SURE:
        evidence = f"Check: neither fits. Mean weights must be 1; with {quote(best)} they are {means[best]}."
    elif distances[other] < FITS:
        best = usual
        evidence = f"Check: the logs fit either way (mean weights {means[best]}, where 1 is expected)."
    else:
        instead = f"with {quote(other)} {means[other]}" if other in means else f"{quote(other)} is impossible"
        evidence = f"Decided by the mean weights, which must be 1: with {quote(best)} {means[best]}; {instead}."
    event = '# The event of that probability: "action taken" or "sending".'
    return [event, f"# {evidence}", f"probability_of = {quote(best)}"], distance


def _write_text(
    path: Path, guesses: ColumnGuesses, file_lines: list[str], actions: ActionGuess, convention: list[str]
) -> str:
    from surefoot.learning.methods import METHODS

    roles = guesses.roles
    outcome = guesses.summaries[roles["reward"]]
    binary = YesNo.recognize(outcome) is not None
    treatments = [re.search(TREATMENTS, name) for name in (roles["action"], *actions.names[1:2])]
    words = re.sub(r"[._-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", outcome.name)).strip()
    is_plural = re.search(r"(?i)[^siu]s$", words) is not None
    by_reason: dict[str, list[str]] = {}
    for name, reason in guesses.left_out.items():
        by_reason.setdefault(reason, []).append(quote(name))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("surefoot.study"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - TOML, not HTML
    )
    environment.filters["quote"] = quote
    return environment.get_template("draft.toml").render(
        file_name=quote(path.name)[1:-1],
        file_lines=file_lines,
        roles=roles,
        convention=convention,
        missing=guesses.missing,
        # Many columns with the same reason stand together.
        left_out=[
            (columns, reason)
            for reason, names in by_reason.items()
            for columns in ([", ".join(names)] if len(names) > MANY_COLUMNS else names)
        ],
        states=[_describe_state(guesses.summaries[name], kind) for name, kind in guesses.state.items()],
        actions=actions,
        codes=[quote(value) if isinstance(value, str) else spell(value) for value in actions.values or ()],
        reward=_describe_reward(outcome),
        methods=METHODS,
        binary=binary,
        treatment=next((match[1].lower() for match in treatments if match), "treatment"),
        outcome_words=words if is_plural or binary else f"units of {words}",
    )


def _list_settings(settings: FileSettings, formats: list[str]) -> list[str]:
    """The lines of `[file]`; none for a plain file."""
    lines = []
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if isinstance(value, tuple) and value:
            lines.append(f"{setting.name} = [{', '.join(map(quote, value))}]")
        elif value != getattr(PLAIN, setting.name):
            lines.append(f"{setting.name} = {quote(value) if isinstance(value, str) else str(value).lower()}")
    if len(formats) > 1:
        lines.append(f"# Check: the times also fit {', '.join(map(quote, formats[1:]))}.")
    return [*lines, f"time_format = {quote(formats[0])}"] if formats else lines


def _describe_state(column: ColumnSummary, kind: VariableKind) -> list[str]:
    """The lines of a section `[state.NAME]`."""
    is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", column.name) is not None
    lines = [f"[state.{column.name if is_bare else quote(column.name)}]", f"kind = {quote(kind.name)}"]
    doubtful = [quote(level) for level in kind.levels if level.lower() in MISSING_ANSWERS]
    lines += [f"# Check: {level} counts as a level; write missing = [{level}] if it does not." for level in doubtful]
    return lines + _describe_missing(column) + kind.draft(column.without(list_codes(column)))


def _describe_missing(column: ColumnSummary) -> list[str]:
    """Lines on missing values, and on numbers that seem to stand for them."""
    lines = [f"# missing in {column.missing:,} rows"] if column.missing else []
    codes = list_codes(column)
    if codes:
        listed = ", ".join(f"{code:g}" for code in codes)
        rows = column.without(codes).missing - column.missing
        lines += [f"# Check: {listed} in {rows:,} rows, apart from everything else, seems to stand for missing."]
        lines += [f"missing = [{listed}]"]
    return lines


def _describe_reward(column: ColumnSummary) -> list[str]:
    lines = _describe_missing(column)
    column = column.without(list_codes(column))
    values = column.numbers
    if values is not None and values.size > 2:
        skewness = column.shape()[2]
        lines.append(f"# seen from {values.min():g} to {values.max():g}, skewness {skewness:.1f}")
        if skewness > 2 and values.min() >= 0:
            lines.append("# Check: so skewed a reward fits badly with a cap made for symmetric noise; try the logarithm.")
    return lines
