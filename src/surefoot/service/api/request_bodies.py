"""Request bodies: strict JSON, and validation errors in words that name the field and the remedy, not the value sent."""

import json
import math
from typing import Any

from surefoot.service.trial.api_models import ApiError

MAXIMUM_DEPTH = 20
"""How deeply a request may be nested; ours need four."""
TIME = "write the time in ISO 8601 with a zone, like 2026-03-01T09:30:00+01:00"
FIELDS = {
    ("participant_id", "string_pattern_mismatch"): "participant_id may hold letters, digits, . _ - (1 to 64 of them)",
    ("decision_id", "string_pattern_mismatch"): "decision_id is 32 hexadecimal digits, as POST /decisions answered it",
    ("decision_idx", "greater_than_equal"): "decision_idx counts a participant's decision points from 0",
    ("decision_idx", "less_than"): "decision_idx counts a participant's decision points from 0; it is below 2,147,483,648",
    ("outcomes", "too_long"): "send at most 1,000 outcomes at once; split the batch",
    ("outcomes", "too_short"): "outcomes is empty; send at least one",
    ("reasons", "too_long"): "give at most 20 reasons",
    ("context", "too_long"): "a context has at most 200 variables",
    ("format", "literal_error"): "the format is csv or parquet",
}
"""By the field's name and the kind of error."""
KINDS = {
    "missing": "{field} is missing",
    "bool_type": "{field} is true or false, without quotes",
    "int_type": "{field} is a whole number, without quotes",
    "int_parsing": "{field} is a whole number",
    "float_type": "{field} is a number, without quotes",
    "finite_number": "{field} is a finite number",
    "string_type": "{field} is text, in quotes",
    "list_type": "{field} is a list",
    "dict_type": "{field} is an object of names and values",
    "model_attributes_type": "the body is a JSON object",
    "json_invalid": "the body is not JSON",
    "timezone_aware": TIME,
    "datetime_parsing": TIME,
    "datetime_from_date_parsing": TIME,
    "datetime_type": TIME,
}
UNIONS = {
    "context": "{field} is a number, true or false, text of at most 200 characters, or null",
    "proximal_outcome": "proximal_outcome is a finite number, or null where it is known to be missing",
    "action_prob": "action_prob is a number from 0 to 1",
}
"""Fields that may hold values of several types: the error of one type alone would mislead."""
HIDDEN = ("body", "query", "path", "Outcome", "Outcomes")


def describe_validation_error(error: dict[str, Any]) -> tuple[str, str | None]:
    """A message, and the field that it is about (None for the whole body).

    >>> describe_validation_error({"loc": ("body", "availability"), "type": "bool_type", "msg": ""})
    ('availability is true or false, without quotes', 'availability')
    """
    location = [str(part) for part in error["loc"] if part not in HIDDEN]
    if error["type"] == "unknown_field":
        location.append(error["ctx"]["field"])
        return str(error["msg"]), ".".join(location)
    for name, words in UNIONS.items():
        if name in location and error["type"] not in ("missing", "dict_type", "too_long"):
            inside = location[: location.index(name) + (2 if name == "context" else 1)]
            return words.format(field=".".join(inside)), ".".join(inside)
    field = ".".join(location) or None
    named = next((part for part in reversed(location) if not part.isdigit()), "the body")
    known = FIELDS.get((named, error["type"])) or KINDS.get(error["type"])
    message = str(error["msg"]).removeprefix("Value error, ") if known is None else known.format(field=field or "the body")
    return message, field


def parse_strict_json(body: bytes) -> Any:
    """The value of a JSON text."""
    try:
        text = body.decode("utf-8")
        _check_nesting(text)
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_parse_finite, object_pairs_hook=_refuse_duplicates
        )
        if "\\u" in text:
            plain = json.dumps(value, ensure_ascii=False)
            plain.encode("utf-8")
            if "\\u0000" in plain:
                raise ValueError("a zero byte")
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "not_json", "the body is not plain JSON in UTF-8 (no NaN, no Infinity)") from error
    return value


def _check_nesting(text: str) -> None:
    """Refuse deep nesting before the parser sees it; brackets inside strings do not count."""
    if text.count("[") + text.count("{") <= MAXIMUM_DEPTH:
        return
    depth = deepest = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            deepest = max(depth, deepest)
        elif character in "]}":
            depth -= 1
    if deepest > MAXIMUM_DEPTH:
        raise ApiError(400, "too_deep", f"the body is nested more than {MAXIMUM_DEPTH} deep")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ApiError(400, "number_too_large", f"{text[:20]} is too large for a number; numbers are below 1.8e308")
    return number


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python would keep the last value of a name, other readers the first."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)[:100]
        raise ApiError(400, "duplicate_field", f"the field '{twice}' occurs twice; send it once", twice)
    return fields
