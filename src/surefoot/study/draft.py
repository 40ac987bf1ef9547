"""A first `study.toml` from a look at the logs: what the columns seem to be, with comments on what to check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from surefoot.data.column_kinds import ColumnSummary, VariableKind, YesNo, quote
from surefoot.data.file_detection import detect_settings, detect_time_format
from surefoot.data.log_columns import MISSING_ANSWERS, PLAIN, FileSettings
from surefoot.data.log_table import LogFile, LogTable, list_files, name_file
from surefoot.data.mean_weights import MeanWeights
from surefoot.data.suspect_columns import find_codes
from surefoot.errors import InputError
from surefoot.study.action_guesses import ActionGuess, choose_order
from surefoot.study.column_guesses import ColumnGuesses, guess_columns
from surefoot.study.log_reader import log_layout, parse_logs
from surefoot.study.model import Study

MANY_COLUMNS = 2
TREATMENTS = r"(?i)(message|prompt|notification|suggestion|reminder|nudge|intervention|text message|e-?mail|tip)"
"""Words for a treatment that sentences can use."""


@dataclass(frozen=True)
class StudyDraft:
    """A first study for some logs.

    Attributes
    ----------
    text
        Of its file.
    warnings
        Guesses that change results, and what the logs lack.
    """

    text: str
    warnings: tuple[str, ...]


def draft_study(path: Path, **roles: str | None) -> StudyDraft:
    """A study for these logs; `roles` say what cannot be guessed (participant, time, action, reward, …)."""
    file = LogFile(list_files(path)[0])
    with name_file(path):
        settings, warnings = detect_settings(file)
        table, _ = file.read_cells(settings)
        guesses = guess_columns(table, roles, settings)
        if not guesses.state:
            raise InputError("no column is left that could be a state variable; a policy needs at least one")
        section = _file_section(settings, detect_time_format(guesses.times))
        text = _study_text(path, guesses, section, guesses.actions, [])
        # Whatever was guessed, what is written must be a study.
        study = Study.parse(text)
        rows = file.read(log_layout(study))
        actions = guesses.actions
        if "probability" in guesses.roles:
            actions, convention = choose_order(study, rows, actions)
            text = _study_text(path, guesses, section, actions, convention.lines)
            study = Study.parse(text)
    doubts = [f"column '{guesses.roles['action']}': {actions.reason}; see [actions]"] if actions.reason else []
    return StudyDraft(text, (*warnings, *guesses.warnings, *doubts, *_find_refusals(study, rows)))


def _find_refusals(study: Study, rows: LogTable) -> Iterator[str]:
    """What stands in the way of reading and analysing the logs with the study."""
    try:
        logs = parse_logs(study.model_copy(update={"screen": None}), rows).logs
    except InputError as error:
        yield f"the logs cannot be read yet:\n{error}"
        return
    weights = MeanWeights.of(logs)
    problem = None if weights is None else weights.problem()
    if problem is not None:
        yield problem


def _study_text(path: Path, guesses: ColumnGuesses, file: list[str], actions: ActionGuess, convention: list[str]) -> str:
    roles, by_name = guesses.roles, guesses.summaries
    lines = [
        f"# A first version for {quote(path.name)[1:-1]}, guessed from its columns. Check every line that says so.",
        *file,
        "",
        "[columns]",
        f"participant = {quote(roles['participant'])}",
        "# Orders a participant's decision points: a number or a time.",
        f"time = {quote(roles['time'])}",
        "# Whether the participant could be treated; without it everybody always could.",
        _optional("available", roles),
        "# The probability with which the action was drawn; `surefoot evaluate` needs it.",
        _optional("probability", roles),
        *convention,
        '# Spellings of "missing" in addition to an empty cell, NA, NaN and null.',
        _toml_line("missing", tuple(guesses.missing)) if guesses.missing else '# missing = ["unknown"]',
        "",
        *_collection(),
        "",
        "# State: what was known BEFORE the decision. Check: remove every column that became known afterwards.",
        "# Rows with a missing state variable are left out of fits. What lies outside a variable's range counts as missing.",
        "# scaling gives (x - centre) / scale, so that penalties treat the variables alike.",
        '# use = "critic" or use = "policy" shows a variable to that part only.',
    ]
    lines += _list_left_out(guesses.left_out)
    for name, kind in guesses.state.items():
        lines += ["", *_state(by_name[name], kind)]
    lines += [
        "",
        *_actions(roles["action"], actions, "probability" in roles),
        "",
        *_reward(by_name[roles["reward"]]),
        *_method(),
        "",
        *_effects(by_name[roles["reward"]], roles["action"], actions),
    ]
    return "\n".join(lines) + "\n"


def _collection() -> list[str]:
    return [
        "# How actions were chosen: standard errors depend on it, and the logs do not say it. Check, and write",
        '# "fixed" where the rule for the probabilities stayed the same (they may depend on the state),',
        "# \"own\" where each participant's policy learned from that participant's data alone,",
        '# "pooled" where policies learned from several participants during the study.',
        "[collection]",
        'policy = "unknown"',
    ]


def _list_left_out(left_out: dict[str, str]) -> list[str]:
    """A line for every column; one for many with the same reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(quote(name))
    lines = []
    for reason, names in by_reason.items():
        groups = [", ".join(names)] if len(names) > MANY_COLUMNS else names
        lines += [f"# Left out: {columns}, which {reason}." for columns in groups]
    return lines


def _file_section(settings: FileSettings, formats: list[str]) -> list[str]:
    """The lines of `[file]`, if the file is not a plain one."""
    lines = [
        _toml_line(setting.name, getattr(settings, setting.name))
        for setting in fields(settings)
        if getattr(settings, setting.name) != getattr(PLAIN, setting.name)
    ]
    if len(formats) > 1:
        lines.append(f"# Check: the times also fit {', '.join(map(quote, formats[1:]))}.")
    lines += [f"time_format = {quote(formats[0])}"] if formats else []
    return ["", "# How the file writes things, as found in it.", "[file]", *lines] if lines else []


def _toml_line(key: str, value: str | bool | int | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return f"{key} = [{', '.join(map(quote, value))}]"
    return f"{key} = {quote(value) if isinstance(value, str) else str(value).lower()}"


def _optional(role: str, roles: dict[str, str]) -> str:
    return f"{role} = {quote(roles[role])}" if role in roles else f'# {role} = "…"'


def _state(column: ColumnSummary, kind: VariableKind) -> list[str]:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column.name)
    lines = [f"[state.{column.name if bare else quote(column.name)}]", f"kind = {quote(kind.name)}"]
    doubtful = [level for level in kind.levels if level.lower() in MISSING_ANSWERS]
    lines += [
        f"# Check: {quote(level)} counts as a level; write missing = [{quote(level)}] if it does not." for level in doubtful
    ]
    return lines + _describe_missing(column) + kind.draft(column.without(_codes(column)))


def _codes(column: ColumnSummary) -> list[float]:
    return [] if column.numbers is None else find_codes(column.numbers)


def _describe_missing(column: ColumnSummary) -> list[str]:
    """Lines on what is missing, and on numbers that seem to stand for it."""
    lines = [f"# missing in {column.missing:,} rows"] if column.missing else []
    codes = _codes(column)
    if codes:
        listed = ", ".join(f"{code:g}" for code in codes)
        rows = column.without(codes).missing - column.missing
        lines += [f"# Check: {listed} in {rows:,} rows, apart from everything else, seems to stand for missing."]
        lines += [f"missing = [{listed}]"]
    return lines


def _actions(column: str, actions: ActionGuess, probability: bool) -> list[str]:
    lines = ["[actions]", f"column = {quote(column)}", '# The first means "nothing".', *actions.lines]
    if actions.values is None and not actions.reason:
        lines += ["# What stands for them in the log, when it is neither 0 and 1 nor these names:", '# values = ["N", "Y"]']
    if not probability:
        lines += ["# The design's probability of each action, when the log holds none:", "# probabilities = [0.5, 0.5]"]
    return lines


def _reward(column: ColumnSummary) -> list[str]:
    lines = ["[reward]", f"column = {quote(column.name)}", *_describe_missing(column)]
    column = column.without(_codes(column))
    values = column.numbers
    if values is not None and values.size > 2:
        skewness = column.shape()[2]
        lines.append(f"# seen from {values.min():g} to {values.max():g}, skewness {skewness:.1f}")
        if skewness > 2 and values.min() >= 0:
            lines.append("# Check: so skewed a reward fits badly with a cap made for symmetric noise; try the logarithm.")
    lines += [
        "# range = [0, 30000]        # values outside count as missing",
        "# winsorise = [0, 5000]     # values outside move to the limit",
    ]
    return [*lines, '# transform = "log(x + 0.5)"   # or "sqrt"']


def _method() -> list[str]:
    from surefoot.learning.methods import METHODS

    return [
        "",
        "# Values that cannot be trusted become missing, each with its reason: unworn, stuck, wrong unit, a code, careless.",
        "# `surefoot screen` shows which. on = false switches it off; every detector has a section, for example",
        "# [screen.not_worn] with threshold = 0.95, or [screen.units] with on = false.",
        "[screen]",
        "on = true",
        "# Flagged outcomes are reported and stay, because the screen cannot know what they mean. Where a device measures",
        '# them, write device = "wrist" in [reward] and outcome = true here: then they become missing.',
        "outcome = false",
        '# Check: write device = "wrist" beside every column above that one device measures. A device that is not worn',
        "# says 0, and only for a device that is named can such zeros be told from honest ones.",
        "# [questionnaire.mood]        # items that are answered in one go",
        '# items = ["q1", "q2", "q3"]',
        "",
        "[method]",
        f"# one of {', '.join(METHODS)}",
        'name = "ro-accb"',
        '# "person": a policy for each; "all": one policy for everybody',
        'pooling = "person"',
        "",
        "[method.parameters]",
        "# Multiplies the threshold beyond which a decision point is removed.",
        "tau = 1.0",
        "",
        "# Limits for the probability of sending when a policy is put to use.",
        "[probability_limits]",
        "minimum = 0.1",
        "maximum = 0.9",
    ]


def _effects(outcome: ColumnSummary, action_column: str, actions: ActionGuess) -> list[str]:
    """How `surefoot effects` speaks of the treatment and of the outcome."""
    binary = YesNo.recognize(outcome) is not None
    named = [re.search(TREATMENTS, name) for name in (action_column, *actions.names[1:2])]
    treatment = next((match[1].lower() for match in named if match), "treatment")
    sentence = f"A {treatment} raises the chance of … by" if binary else f"A {treatment} adds about 12 …"
    lines = [
        "# How `surefoot effects` calls things.",
        "[effects]",
        *(["# The outcome is 0 or 1, so that effects are relative risks; wcls gives a difference."] if binary else []),
        *(['estimator = "emee"'] if binary else []),
    ]
    if len(actions.names) == 2:
        lines += [f"# Check: completes the sentence {quote(sentence)}.", f"treatment_words = {quote(treatment)}"]
    words = re.sub(r"[._-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", outcome.name)).strip()
    plural = re.search(r"(?i)[^siu]s$", words)
    lines += [
        "# Check: the outcome, as a sentence counts it: steps in the next half hour.",
        f"outcome_words = {quote(words if plural or binary else f'units of {words}')}",
        "# State variables by which the effect may differ, and those that explain the outcome:",
        '# moderators = ["…"]',
        '# controls = ["…"]',
    ]
    return lines
