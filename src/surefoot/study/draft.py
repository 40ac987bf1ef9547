"""A first `study.toml` from a look at the logs: guesses about the columns, with comments on what to check."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import jinja2

from surefoot.data.column_kinds import ColumnSummary, VariableKind, YesNo, quote
from surefoot.data.file_detection import detect_settings, detect_time_format
from surefoot.data.log_columns import MISSING_ANSWERS, PLAIN, FileSettings
from surefoot.data.log_table import LogFile, LogTable, list_files, name_file
from surefoot.data.mean_weights import MeanWeights
from surefoot.errors import InputError
from surefoot.study.action_guesses import ActionGuess, choose_order
from surefoot.study.column_guesses import ColumnGuesses, list_codes
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
        text = _write_text(path, guesses, file_lines, actions, [])
        # Whatever was guessed, the text must be a study.
        study = Study.parse(text)
        rows = file.read(log_layout(study))
        if "probability" in guesses.roles:
            actions, convention = choose_order(study, rows, actions)
            text = _write_text(path, guesses, file_lines, actions, convention.lines)
            study = Study.parse(text)
    doubts = [f"column '{guesses.roles['action']}': {actions.reason}; see [actions]"] if actions.reason else []
    return StudyDraft(text, (*warnings, *guesses.warnings, *doubts, *_find_refusals(study, rows)))


def _find_refusals(study: Study, rows: LogTable) -> Iterator[str]:
    """Reasons why the logs cannot be read or analysed with the study."""
    try:
        logs = parse_logs(study.model_copy(update={"screen": None}), rows).logs
    except InputError as error:
        yield f"the logs cannot be read yet:\n{error}"
        return
    weights = MeanWeights.of(logs)
    problem = None if weights is None else weights.problem()
    if problem is not None:
        yield problem


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
        optional=lambda role: f"{role} = {quote(roles[role])}" if role in roles else f'# {role} = "…"',
        convention=convention,
        missing=guesses.missing,
        left_out=_group_reasons(guesses.left_out),
        states=[_describe_state(guesses.summaries[name], kind) for name, kind in guesses.state.items()],
        actions=actions,
        reward=_describe_reward(outcome),
        methods=METHODS,
        binary=binary,
        treatment=next((match[1].lower() for match in treatments if match), "treatment"),
        outcome_words=words if is_plural or binary else f"units of {words}",
    )


def _group_reasons(left_out: dict[str, str]) -> list[tuple[str, str]]:
    """(columns, reason) for every column, or for many columns with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(quote(name))
    return [
        (columns, reason)
        for reason, names in by_reason.items()
        for columns in ([", ".join(names)] if len(names) > MANY_COLUMNS else names)
    ]


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
