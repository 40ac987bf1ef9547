"""A first `study.toml` from a look at the logs: what the columns seem to be, with comments on what to check."""

from __future__ import annotations

import re
from pathlib import Path

from surefoot.data.column_kinds import MOST_LEVELS, Category, VariableKind, YesNo, recognize_kind
from surefoot.data.column_summaries import ColumnSummary, quote
from surefoot.data.log_files import LogFile, list_files, name_file
from surefoot.errors import InputError, did_you_mean
from surefoot.study.model import Study

ROLES = {
    "participant": r"^(user|person|participant|subject|patient|pid|uid|id)([._ -]?(id|index|name|number|no))?$",
    "time": r"^(time|timestamp|decision|decision[._ -]?(index|point|time|no)|t|date|datetime|when)$",
    "available": r"^(avail|available|availability|is[._ -]?available|eligible)$",
    "probability": r"^(p|prob|probability|rand[._ -]?prob|propensity|action[._ -]?prob(ability)?|prob[._ -]?action)$",
    "action": r"^(a|action|send|sent|treat|treatment|treated|arm|intervention|message|prompt|notification)$",
    "reward": r"^(r|y|reward|outcome|proximal[._ -]?outcome|steps?|response)$",
}
"""How columns with these roles are usually called."""
NEEDED = ("participant", "time", "action", "reward")


def draft_study(path: Path, **roles: str | None) -> str:
    """The text of a study for these logs; `roles` say what cannot be guessed (participant, time, action, reward, …)."""
    table = LogFile(list_files(path)[0]).table()
    with name_file(path):
        columns = [ColumnSummary.of(name, table[name].combine_chunks()) for name in table.column_names]
        text = _study_text(path, columns, _roles(columns, roles, path))
        # Whatever was guessed, what is written must be a study.
        Study.parse(text)
    return text


def _roles(columns: list[ColumnSummary], said: dict[str, str | None], path: Path) -> dict[str, str]:
    names = [column.name for column in columns]
    chosen = {role: name for role, name in said.items() if name is not None}
    for role, name in chosen.items():
        if name not in names:
            raise InputError(
                f"{path}: there is no column '{name}'{did_you_mean(name, names)} for {role}; the table has {names}"
            )
    for role, pattern in ROLES.items():
        fits = [c.name for c in columns if re.match(pattern, c.name, re.IGNORECASE) and c.name not in chosen.values()]
        if role not in chosen and fits:
            chosen[role] = fits[0]
    for role in NEEDED:
        if role not in chosen:
            raise InputError(
                f"{path}: no column looks like the {role}; say which with --{role} NAME (the table has {names})"
            )
    return chosen


def _study_text(path: Path, columns: list[ColumnSummary], roles: dict[str, str]) -> str:
    by_name = {column.name: column for column in columns}
    rest = [column for column in columns if column.name not in roles.values()]
    kinds = {column.name: None if column.is_constant else recognize_kind(column) for column in rest}
    usable = [(column, kind) for column in rest if (kind := kinds[column.name]) is not None]
    if not usable:
        raise InputError(f"{path}: no column is left that could be a state variable; a policy needs at least one")
    left_out = [name for name, kind in kinds.items() if kind is None]
    lines = [
        f"# A first version for {quote(path.name)[1:-1]}, guessed from its columns. Check every line that says so.",
        "",
        "[columns]",
        f"participant = {quote(roles['participant'])}",
        "# Orders a participant's decision points: a number or an ISO 8601 time.",
        f"time = {quote(roles['time'])}",
        "# Whether the participant could be treated; without it everybody always could.",
        _optional("available", roles),
        "# The probability with which the action taken was drawn; `surefoot evaluate` needs it.",
        _optional("probability", roles),
        '# Spellings of "missing" in addition to an empty cell, NA, NaN and null.',
        '# missing = ["unknown"]',
        "",
        "# State: what was known BEFORE the decision. Check: remove every column that became known afterwards.",
        "# Rows with a missing state variable are left out of fits. What lies outside a variable's range counts as missing.",
        "# scaling gives (x - centre) / scale, so that penalties treat the variables alike.",
        '# use = "critic" or use = "policy" shows a variable to that part only.',
    ]
    if left_out:
        lines.append(
            f"# Left out (constant, times, or text with many values): {', '.join(quote(name)[1:-1] for name in left_out)}."
        )
    for column, kind in usable:
        lines += ["", *_state(column, kind)]
    lines += [
        "",
        *_actions(by_name[roles["action"]], "probability" in roles),
        "",
        *_reward(by_name[roles["reward"]]),
        *_method(),
    ]
    return "\n".join(lines) + "\n"


def _optional(role: str, roles: dict[str, str]) -> str:
    return f"{role} = {quote(roles[role])}" if role in roles else f'# {role} = "…"'


def _state(column: ColumnSummary, kind: VariableKind) -> list[str]:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column.name)
    lines = [f"[state.{column.name if bare else quote(column.name)}]", f"kind = {quote(kind.name)}"]
    if column.missing:
        lines.append(f"# missing in {column.missing:,} rows")
    return lines + kind.draft(column)


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
    lines = ["[reward]", f"column = {quote(column.name)}"]
    if column.missing:
        lines.append(f"# missing in {column.missing:,} rows")
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
