"""A first `study.toml` from a look at the logs: what the columns seem to be, with comments on what to check."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

from surefoot.data.column_kinds import MOST_LEVELS, Category, VariableKind, YesNo
from surefoot.data.column_summaries import ColumnSummary, quote
from surefoot.data.file_detection import detect_settings, detect_time_format
from surefoot.data.file_settings import PLAIN, FileSettings
from surefoot.data.log_columns import whole_array
from surefoot.data.log_files import LogFile, list_files, name_file
from surefoot.data.suspect_columns import find_codes
from surefoot.errors import InputError
from surefoot.study.column_guesses import ColumnGuesses, choose_convention, guess_columns
from surefoot.study.log_reader import log_layout
from surefoot.study.model import Study


def draft_study(path: Path, **roles: str | None) -> str:
    """The text of a study for these logs; `roles` say what cannot be guessed (participant, time, action, reward, …)."""
    file = LogFile(list_files(path)[0])
    with name_file(path):
        settings = detect_settings(file)
        table, _ = file.table(settings=settings)
        guesses = guess_columns(table, roles, settings)
        formats = detect_time_format(whole_array(table[guesses.roles["time"]]))
        guesses = replace(guesses, file=_file_section(settings, formats))
        if not guesses.state:
            raise InputError("no column is left that could be a state variable; a policy needs at least one")
        text = _study_text(path, guesses, [])
        # Whatever was guessed, what is written must be a study.
        study = Study.parse(text)
        if "probability" in guesses.roles:
            text = _study_text(path, guesses, choose_convention(study, file.rows(log_layout(study))))
            Study.parse(text)
    return text


def _study_text(path: Path, guesses: ColumnGuesses, convention: list[str]) -> str:
    roles, by_name = guesses.roles, guesses.summaries
    lines = [
        f"# A first version for {quote(path.name)[1:-1]}, guessed from its columns. Check every line that says so.",
        *guesses.file,
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
        '# missing = ["unknown"]',
        "",
        *_collection(),
        "",
        "# State: what was known BEFORE the decision. Check: remove every column that became known afterwards.",
        "# Rows with a missing state variable are left out of fits. What lies outside a variable's range counts as missing.",
        "# scaling gives (x - centre) / scale, so that penalties treat the variables alike.",
        '# use = "critic" or use = "policy" shows a variable to that part only.',
    ]
    lines += [f"# Left out: {quote(name)}, which {reason}." for name, reason in guesses.left_out.items()]
    for name, kind in guesses.state.items():
        lines += ["", *_state(by_name[name], kind)]
    lines += [
        "",
        *_actions(by_name[roles["action"]], "probability" in roles),
        "",
        *_reward(by_name[roles["reward"]]),
        *_method(),
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


def _file_section(settings: FileSettings, formats: list[str]) -> list[str]:
    """The lines of `[file]`, if the file is not a plain one."""
    lines = [
        f"{one.name} = {_toml_value(getattr(settings, one.name))}"
        for one in fields(settings)
        if getattr(settings, one.name) != getattr(PLAIN, one.name)
    ]
    if len(formats) > 1:
        lines.append(f"# Check: the times also fit {', '.join(map(quote, formats[1:]))}.")
    lines += [f"time_format = {quote(formats[0])}"] if formats else []
    return ["", "# How the file writes things, as found in it.", "[file]", *lines] if lines else []


def _toml_value(value: str | tuple[str, ...]) -> str:
    return quote(value) if isinstance(value, str) else f"[{', '.join(map(quote, value))}]"


def _optional(role: str, roles: dict[str, str]) -> str:
    return f"{role} = {quote(roles[role])}" if role in roles else f'# {role} = "…"'


def _state(column: ColumnSummary, kind: VariableKind) -> list[str]:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column.name)
    lines = [f"[state.{column.name if bare else quote(column.name)}]", f"kind = {quote(kind.name)}"]
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


def _actions(column: ColumnSummary, probability: bool) -> list[str]:
    lines = ["[actions]", f"column = {quote(column.name)}", '# The first means "nothing".']
    codes = [] if column.numbers is None else sorted(set(column.numbers.tolist()))
    if 2 < len(codes) <= MOST_LEVELS and codes == list(range(len(codes))):
        names = ["nothing", *(f"send {code}" for code in range(1, len(codes)))]
        lines.append(f"names = [{', '.join(map(quote, names))}]")
    elif Category.recognize(column) and not YesNo.recognize(column):
        nothing = [level for level in column.levels if re.match(r"(no|none|nothing|control|0|off)\b", level, re.IGNORECASE)]
        first = nothing[:1] or column.levels[:1]
        names = [*first, *(level for level in column.levels if level not in first)]
        lines += [
            '# Check: is the first of these the one that means "nothing"?',
            f"names = [{', '.join(map(quote, names))}]",
        ]
    else:
        lines.append('names = ["nothing", "send"]')
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
