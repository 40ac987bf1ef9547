"""From pydantic's list of errors to one message that names the file, the line, the key and the remedy."""

from __future__ import annotations

import re
import tomllib
from typing import Any, get_args

from pydantic import ValidationError

from surefoot.errors import InputError, did_you_mean
from surefoot.study.log_sections import Scaling, StateVariable
from surefoot.study.screen_section import QuestionnaireSection
from surefoot.study.toml_lines import line_of
from surefoot.study.toml_types import Section

PLAIN_WORDS = {
    r"^Input should be a valid string$": "must be text in quotes",
    r"^Input should be a valid (tuple|list|set)$": "must be a list in brackets",
    r"^Input should be a valid (dictionary.*|mapping)$": "must be a section of its own",
    r"^Input should be a valid number.*$": "must be a number",
    r"^Input should be a valid integer.*$": "must be a whole number",
    r"^Input should be a valid boolean.*$": "must be true or false",
    r"^(Input|String|Tuple|List|Dictionary) should ": "must ",
}
"""What pydantic says, and how it reads here."""


def explain_error(error: ValidationError, text: str, name: str, study: type[Section]) -> InputError:
    """The first error in the order of the file, and how many more there are."""
    # A misspelt key is also a missing one: the misspelling is the better message.
    found = sorted((one["type"] == "missing", *_place_and_words(one, text, study)) for one in error.errors())
    _, line, key, words = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    where = f"key '{key}'" if key else "the study"
    return InputError(f"{name}: line {line}, {where}: {words}{more}", column=key or None)


def explain_syntax(error: tomllib.TOMLDecodeError, text: str, name: str) -> InputError:
    """What is not TOML, with the likely remedy: text without quotes is the usual reason."""
    found = re.search(r"\(at line (\d+)", str(error))
    line = int(found[1]) if found else text.count("\n") + 1
    content = (text.splitlines() or [""])[min(line, len(text.splitlines())) - 1]
    unquoted = re.match(r"""\s*([\w."-]+)\s*=\s*([A-Za-z][^"'#\[{]*?)\s*(?:#.*)?$""", content)
    if unquoted and unquoted[2] not in ("true", "false", "inf", "nan"):
        return InputError(f'{name}: line {line}: text needs quotes; write {unquoted[1]} = "{unquoted[2]}"')
    what = re.sub(r" \(at .*\)$", "", str(error))
    if what.startswith(("Cannot overwrite", "Cannot declare")):
        return InputError(f"{name}: line {line}: {content.strip()} stands above already; keep one of them")
    return InputError(f"{name}: line {line}: not TOML ({what[0].lower()}{what[1:]}): {content.strip()}")


def _place_and_words(details: Any, text: str, study: type[Section]) -> tuple[int, str, str]:
    path = tuple(part for part in details["loc"] if isinstance(part, str))
    words = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        valid = _valid_keys(study, path[:-1])
        words = f"unknown key{did_you_mean(path[-1], valid)}; valid here are {', '.join(valid)}"
    elif details["type"] == "missing":
        words = "is missing; every study needs it"
    elif path == ("state",):
        words = "write a section [state.NAME] for every state variable, at least one"
    elif details["type"] != "value_error":
        for pattern, plain in PLAIN_WORDS.items():
            words = re.sub(pattern, plain, words)
        words = f"{words[0].lower()}{words[1:]}; got {details['input']!r}"
    # What a validator of the whole study found begins with the key it is about.
    elif not path and (named := re.match(r"([a-z_]+(?:\.[^\s:]+)+): ", words)):
        path, words = tuple(named[1].split(".", 2)), words[named.end() :]
    return line_of(text, path), ".".join(path), words


def _valid_keys(study: type[Section], path: tuple[str, ...]) -> list[str]:
    """The keys that the section at `path` knows, as they are written in the file."""
    section = study
    if path[:1] == ("state",) and len(path) > 1:
        section = Scaling if path[2:] == ("scaling",) else StateVariable
    elif path[:1] == ("questionnaire",) and len(path) > 1:
        section = QuestionnaireSection
    else:
        for key in path:
            field = next(field for name, field in section.model_fields.items() if (field.alias or name) == key)
            section = next(kind for kind in _list_types(field.annotation) if _is_section(kind))
    return [field.alias or name for name, field in section.model_fields.items()]


def _list_types(annotation: Any) -> list[Any]:
    """An annotation and the types that it is made of."""
    return [annotation, *(kind for part in get_args(annotation) for kind in _list_types(part))]


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)
