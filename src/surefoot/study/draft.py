"""A first `study.toml` from a look at the logs: what the columns seem to be, with comments on what to check."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data import column_kinds, log_files
from surefoot.data.columns import first_failure, is_text
from surefoot.errors import InputError, did_you_mean

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
MOST_LEVELS = 12


@dataclass(frozen=True)
class Column:
    """What one column looks like."""

    name: str
    kind: str
    """`number`, `yes/no`, `category` or `other` (text with many values, times)."""
    values: NDArray[np.float64] | None
    """The numbers that are there, for `number`."""
    levels: list[str]
    """The values that occur, for `category` and `yes/no`, the most frequent first."""
    missing: int


def first_version(path: Path, **roles: str | None) -> str:
    """The text of a study for these logs; `roles` say what cannot be guessed (person, time, action, reward, …)."""
    from surefoot.study.model import Study

    file = log_files.files_of(path)[0]
    rows = log_files.read_rows(file, log_files.header_of(file))
    with log_files.naming(path):
        columns = [_look(name, rows.table[name].combine_chunks()) for name in rows.table.column_names]
        text = _written(path, columns, _roles(columns, roles, path))
        # Whatever was guessed, what is written must be a study.
        Study.parse(text)
    return text


def _look(name: str, raw: Any) -> Column:
    import pyarrow as pa

    column = column_kinds.blanked(raw, column_kinds.MISSING)
    kind = column.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if is_text(column) and column.null_count < len(column) and first_failure(column, pa.float64()) is None:
        number, column = True, column.cast(pa.float64())
    if not (number or is_text(column) or pa.types.is_boolean(kind)):
        return Column(name, "other", None, [], column.null_count)
    values = None
    if number:
        values = column.cast(pa.float64(), safe=False).drop_null().to_numpy(zero_copy_only=False)
        values = values[np.isfinite(values)]
    counts = column_kinds.as_text(column, name).drop_null().value_counts().to_pylist() if not number else []
    levels = [entry["values"] for entry in sorted(counts, key=lambda entry: -entry["counts"])]
    yes_no = bool(levels) and all(level.lower() in (*column_kinds.YES, *column_kinds.NO) for level in levels)
    if yes_no or (values is not None and len(values) and np.isin(values, (0, 1)).all()):
        return Column(name, "yes/no", values, levels, column.null_count)
    if number:
        return Column(name, "number", values, [], column.null_count)
    # Text that hardly repeats is a remark, not a category.
    category = 2 <= len(levels) <= min(MOST_LEVELS, len(column) // 2)
    return Column(name, "category" if category else "other", None, levels, column.null_count)


def _roles(columns: list[Column], said: dict[str, str | None], path: Path) -> dict[str, str]:
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


def _written(path: Path, columns: list[Column], roles: dict[str, str]) -> str:
    by_name = {column.name: column for column in columns}
    rest = [column for column in columns if column.name not in roles.values()]
    usable = [c for c in rest if c.kind != "other" and not _constant(c)]
    if not usable:
        raise InputError(f"{path}: no column is left that could be a state variable; a policy needs at least one")
    left_out = [column.name for column in rest if column not in usable]
    lines = [
        f"# A first version for {_quoted(path.name)[1:-1]}, guessed from its columns. Check every line that says so.",
        "",
        "[columns]",
        f"participant = {_quoted(roles['participant'])}",
        "# Orders a participant's decision points: a number or an ISO 8601 time.",
        f"time = {_quoted(roles['time'])}",
        "# Whether the participant could be treated; without it everybody always could.",
        _optional("available", roles),
        "# The probability with which the action taken was drawn; `surefoot evaluate` needs it.",
        _optional("probability", roles),
        '# Spellings of "missing" beside an empty cell, NA, NaN and null.',
        '# missing = ["unknown"]',
        "",
        "# State: what was known BEFORE the decision. Check: remove every column that became known afterwards.",
        "# Rows with a missing state variable are left out of fits. What lies outside a variable's range counts as missing.",
        "# scaling gives (x - centre) / scale, so that penalties treat the variables alike.",
        '# use = "critic" or use = "policy" shows a variable to that part only.',
    ]
    if left_out:
        lines.append(
            f"# Left out (constant, times, or text with many values): {', '.join(_quoted(name)[1:-1] for name in left_out)}."
        )
    for column in usable:
        lines += ["", *_state(column)]
    lines += [
        "",
        *_actions(by_name[roles["action"]], "probability" in roles),
        "",
        *_reward(by_name[roles["reward"]]),
        *_method(),
    ]
    return "\n".join(lines) + "\n"


def _constant(column: Column) -> bool:
    return len(column.levels) < 2 if column.values is None else column.values.size == 0 or bool(np.ptp(column.values) == 0)


def _shape(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean, standard deviation and skewness; not finite when the values are too large or all the same."""
    with np.errstate(all="ignore"):
        mean, deviation = values.mean(), values.std()
        return float(mean), float(deviation), float(np.mean(((values - mean) / deviation) ** 3))


def _quoted(text: str) -> str:
    """JSON's strings are TOML's basic strings."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _optional(role: str, roles: dict[str, str]) -> str:
    return f"{role} = {_quoted(roles[role])}" if role in roles else f'# {role} = "…"'


def _state(column: Column) -> list[str]:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", column.name)
    lines = [f"[state.{column.name if bare else _quoted(column.name)}]", f"kind = {_quoted(column.kind)}"]
    if column.missing:
        lines.append(f"# missing in {column.missing:,} rows")
    if column.kind == "category":
        lines += [f"levels = [{', '.join(map(_quoted, column.levels))}] # the first is the reference"]
    if column.kind == "number" and column.values is not None:
        mean, deviation, _ = _shape(column.values)
        lines.append(f"# range = [{column.values.min():g}, {column.values.max():g}] # as seen; check what is plausible")
        off = "" if not 0.1 <= deviation <= 10 or abs(mean) > 10 else "# "
        if 0 < float(f"{deviation:.3g}") < np.inf:
            lines.append(f"{off}scaling = {{ centre = {mean:.3g}, scale = {deviation:.3g} }} # mean and deviation as seen")
    return lines


def _actions(column: Column, probability: bool) -> list[str]:
    lines = ["[actions]", f"column = {_quoted(column.name)}", '# The first means "nothing".']
    codes = [] if column.values is None else sorted(set(column.values.tolist()))
    if column.kind == "number" and 2 < len(codes) <= MOST_LEVELS and codes == list(range(len(codes))):
        names = ["nothing", *(f"send {code}" for code in range(1, len(codes)))]
        lines.append(f"names = [{', '.join(map(_quoted, names))}]")
    elif column.kind == "category":
        nothing = [level for level in column.levels if re.match(r"(no|none|nothing|control|0|off)\b", level, re.IGNORECASE)]
        first = nothing[:1] or column.levels[:1]
        names = [*first, *(level for level in column.levels if level not in first)]
        lines += [
            '# Check: is the first of these the one that means "nothing"?',
            f"names = [{', '.join(map(_quoted, names))}]",
        ]
    else:
        lines.append('names = ["nothing", "send"]')
        lines += ["# What stands for them in the log, when it is neither 0 and 1 nor these names:", '# values = ["N", "Y"]']
    if not probability:
        lines += ["# The design's probability of each action, when the log holds none:", "# probabilities = [0.5, 0.5]"]
    return lines


def _reward(column: Column) -> list[str]:
    lines = ["[reward]", f"column = {_quoted(column.name)}"]
    if column.missing:
        lines.append(f"# missing in {column.missing:,} rows")
    values = column.values
    if values is not None and values.size > 2:
        skewness = _shape(values)[2]
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
