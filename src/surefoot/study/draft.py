"""A first `study.toml` from a look at the logs: guesses about the columns, with comments on what to check."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from surefoot.data.column_kinds import ColumnSummary, VariableKind, YesNo, quote
from surefoot.data.file_detection import detect_settings, detect_time_format
from surefoot.data.log_columns import MISSING_ANSWERS, PLAIN, FileSettings, spell
from surefoot.data.log_table import LogFile, LogTable, list_files, name_file
from surefoot.data.mean_weights import FITS, READINGS, SURE, MeanWeights
from surefoot.errors import InputError
from surefoot.study.column_guesses import TREATMENTS, ActionGuess, ColumnGuesses, list_codes
from surefoot.study.log_reader import log_layout, parse_logs
from surefoot.study.model import Study

MANY_COLUMNS = 2

QUESTIONS = {
    "treatment": "A noun for what is sent, as in “A suggestion raises steps by about 12 %”",
    "outcome": "Words for the outcome, with its unit, such as “steps in the next half hour”",
}
Ask = Callable[[str, str], str]
"""Gives the answer to a question, for which there is a guess."""


@dataclass(frozen=True)
class Draft:
    """The text of a first file, and warnings about doubtful guesses and about gaps of the logs."""

    text: str
    warnings: tuple[str, ...]


def draft_study(path: Path, *, ask: Ask | None = None, **roles: str | None) -> Draft:
    """A study for these logs; `roles` name columns that cannot be guessed (participant, time, action, outcome, …). `ask` is
    asked for the words of sentences, given the question and the guess; without it the guesses are taken."""
    file = LogFile(list_files(path)[0])
    with name_file(path):
        settings, warnings = detect_settings(file)
        table, _ = file.read_cells(settings)
        guesses = ColumnGuesses(table, roles, settings)
        if not guesses.state:
            raise InputError("no column is left that could be a state variable; a policy needs at least one")
        formats = detect_time_format(guesses.cells[guesses.roles["time"]])
        actions = guesses.actions
        words = _guess_words(guesses, actions)
        if ask is not None:
            words = {name: ask(QUESTIONS[name], guess) for name, guess in words.items()}
        # Whatever was guessed, the text must be a study.
        text = _write_text(path, guesses, settings, formats, actions, [], words)
        study = Study.parse(text)
        rows = file.read(log_layout(study))
        if "probability" in guesses.roles:
            actions, convention = _choose_order(study, rows, actions)
            text = _write_text(path, guesses, settings, formats, actions, convention, words)
            study = Study.parse(text)
    warnings += guesses.warnings
    if actions.reason:
        warnings.append(f"column '{guesses.roles['action']}': {actions.reason}; see [actions]")
    try:
        weights = _weigh(study, rows)
        problem = None if weights is None else weights.problem()
    except InputError as error:
        problem = f"the logs cannot be read yet:\n{error}"
    return Draft(text, (*warnings, *([] if problem is None else [problem])))


def _weigh(study: Study, rows: LogTable, **changes: Any) -> MeanWeights | None:
    """The mean weights of the logs, which need no screened values."""
    return parse_logs(study.model_copy(update={**changes, "screen": None}), rows).logs.mean_weights()


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


def _guess_words(guesses: ColumnGuesses, actions: ActionGuess) -> dict[str, str]:
    """Nouns for what is sent, where there is one such action, and for the outcome."""
    names = (guesses.roles["action"], *actions.names[1:2])
    treatments = [re.search(TREATMENTS, name, re.IGNORECASE) for name in names]
    treatment = next((match[1].lower() for match in treatments if match), "prompt")
    outcome = re.sub(r"[._-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", guesses.roles["outcome"])).strip()
    return {**({"treatment": treatment} if len(actions.names) == 2 else {}), "outcome": outcome}


def _write_text(
    path: Path,
    guesses: ColumnGuesses,
    settings: FileSettings,
    formats: list[str],
    actions: ActionGuess,
    convention: list[str],
    words: dict[str, str],
) -> str:
    from surefoot.learning.methods import METHODS

    roles = guesses.roles
    outcome = guesses.summaries[roles["outcome"]]
    binary = YesNo.recognize(outcome) is not None
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
    environment.filters["toml"] = _write_value
    return environment.get_template("draft.toml").render(
        file_name=quote(path.name)[1:-1],
        file={name: value for name, value in vars(settings).items() if value != getattr(PLAIN, name)},
        formats=formats,
        roles=roles,
        convention=convention,
        missing=guesses.missing,
        # Many columns with the same reason stand together.
        left_out=[
            (columns, reason)
            for reason, names in by_reason.items()
            for columns in ([", ".join(names)] if len(names) > MANY_COLUMNS else names)
        ],
        states=[_describe_column(guesses.summaries[name], kind) for name, kind in guesses.state.items()],
        actions=actions,
        outcome=_describe_column(outcome),
        methods=METHODS,
        binary=binary,
        words=words,
    )


def _describe_column(column: ColumnSummary, kind: VariableKind | None = None) -> dict[str, Any]:
    """What the study says about a state variable, or about the outcome, which has no kind."""
    codes = list_codes(column)
    cleaned = column.without(codes)
    is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", column.name) is not None
    levels = () if kind is None else kind.levels
    return {
        "name": column.name if is_bare else quote(column.name),
        "kind": kind,
        "doubtful": [level for level in levels if level.lower() in MISSING_ANSWERS],
        "missing": column.missing,
        "codes": ", ".join(map(spell, codes)),
        "code_rows": cleaned.missing - column.missing,
        "cleaned": cleaned,
    }


def _write_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_write_value, value))}]"
    return quote(value) if isinstance(value, str) else spell(value)
