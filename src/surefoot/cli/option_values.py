"""Lists, numbers and assignments in the values of options."""

from __future__ import annotations

from surefoot.errors import InputError


def split_names(text: str) -> list[str]:
    """Names with commas between.

    >>> split_names("home, day")
    ['home', 'day']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_number(text: str) -> float:
    """A number, or an error that shows the text."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"'{text}' is not a number") from None


def number_or_text(text: str) -> float | str:
    """A number where it is one, else the text (a column's name)."""
    try:
        return float(text)
    except ValueError:
        return text


def parse_values(text: str) -> dict[str, float]:
    """Assignments with commas between; a name may hold `=` itself.

    >>> parse_values("location=home=1, day=0")
    {'location=home': 1.0, 'day': 0.0}
    """
    values: dict[str, float] = {}
    for part in split_names(text):
        name, sign, value = part.rpartition("=")
        if not sign or not name.strip():
            raise InputError(f"'{part}' is not an assignment; write for example \"home=1, day=0\"")
        values[name.strip()] = parse_number(value)
    return values
