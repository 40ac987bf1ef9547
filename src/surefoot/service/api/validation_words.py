"""What is wrong with a request, in words that name the field and the remedy, without repeating what was sent."""

from __future__ import annotations

from typing import Any

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
