"""Files in TOML that people write: the types of their values, and messages that name file, line, key and remedy."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from surefoot.errors import InputError, did_you_mean

KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
DOTTED = rf"{KEY}(?:\s*\.\s*{KEY})*"
LINE = re.compile(rf"\s*(?:\[\[?\s*(?P<table>{DOTTED})\s*\]\]?\s*(?:#.*)?$|(?P<key>{DOTTED})\s*=)")
PLAIN_WORDS = {
    r"^Input should be a valid string$": "must be text in quotes",
    r"^Input should be a valid (tuple|list|set)$": "must be a list in brackets",
    r"^Input should be a (valid )?(dictionary.*|mapping)$": "must be a section of its own",
    r"^Input should be a valid number.*$": "must be a number",
    r"^Input should be a valid integer.*$": "must be a whole number",
    r"^Input should be a valid boolean.*$": "must be true or false",
    r"^(Input|String|Tuple|List|Dictionary) should ": "must ",
}
"""Messages of pydantic, and how they read here."""


class Section(BaseModel):
    """A section of the file: unknown keys are errors, and nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
    _noun: ClassVar[str] = "study"
    """What messages call the file."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, without what was cached for the old ones."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


SectionType = TypeVar("SectionType", bound=Section)


class KeyedError(ValueError):
    """A mistake that a check of several keys finds in one of them."""

    def __init__(self, key: tuple[str, ...], words: str) -> None:
        super().__init__(f"{'.'.join(key)}: {words}")
        self.key = key
        self.words = words


def _check_range(value: Any) -> Any:
    numbers = isinstance(value, list | tuple) and all(type(limit) in (int, float) for limit in value)
    if not numbers or len(value) != 2 or not value[0] < value[1]:
        raise ValueError(f"{value!r} is not a range; write [lowest, highest]")
    return tuple(value)


Count = Annotated[int, Field(ge=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[Finite, Field(ge=0)]
Positive = Annotated[Finite, Field(gt=0)]
Range = Annotated[tuple[Finite, Finite], BeforeValidator(_check_range)]
Probability = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]
Words = tuple[Text, ...]


def read_text(path: Path, *, remedy: str) -> str:
    """The text of a UTF-8 file; `remedy` says what to do where there is none."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file; {remedy}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error


def parse_toml(model: type[SectionType], text: str, name: str) -> SectionType:
    """The model of a file's text; `name` is what messages call the file."""
    try:
        return model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _explain_syntax(error, text, name) from error
    except ValidationError as error:
        raise explain_error(error, text, name, model) from error


def _explain_syntax(error: tomllib.TOMLDecodeError, text: str, name: str) -> InputError:
    """Text that is not TOML, with the likely remedy: missing quotes are the usual reason."""
    position = re.search(r"\(at line (\d+)", str(error))
    line = int(position[1]) if position else text.count("\n") + 1
    content = (text.splitlines() or [""])[min(line, len(text.splitlines())) - 1]
    unquoted = re.match(r"""\s*([\w."-]+)\s*=\s*([A-Za-z][^"'#\[{]*?)\s*(?:#.*)?$""", content)
    if unquoted and unquoted[2] not in ("true", "false", "inf", "nan"):
        return InputError(f'{name}: line {line}: text needs quotes; write {unquoted[1]} = "{unquoted[2]}"')
    words = re.sub(r" \(at .*\)$", "", str(error))
    if words.startswith(("Cannot overwrite", "Cannot declare")):
        return InputError(f"{name}: line {line}: {content.strip()} stands above already; keep one of them")
    return InputError(f"{name}: line {line}: not TOML ({words[0].lower()}{words[1:]}): {content.strip()}")


def explain_error(error: ValidationError, text: str, name: str, model: type[Section]) -> InputError:
    """The first error in the order of the file, and the number of further ones."""
    lines = key_lines(text)
    mistakes = []
    for key, words, kind in list_mistakes(error, model):
        # The line of the key, or of the nearest table around it.
        line = next((lines[key[:depth]] for depth in range(len(key), 0, -1) if key[:depth] in lines), 1)
        # A misspelt key is also a missing one: the misspelling is the better message.
        mistakes.append((kind == "missing", line, ".".join(key), words))
    _, line, column, words = min(mistakes)
    others = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    subject = f"key '{column}'" if column else f"the {model._noun}"
    return InputError(f"{name}: line {line}, {subject}: {words}{others}", column=column or None)


def list_mistakes(error: ValidationError, model: type[Section]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Key, message and pydantic's type of every error."""
    for details in error.errors():
        key = tuple(name for name in details["loc"] if isinstance(name, str))
        kind = details["type"]
        cause = details.get("ctx", {}).get("error")
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            valid = _list_valid_keys(model, key[:-1])
            words = f"unknown key{did_you_mean(key[-1], valid)}; valid here are {', '.join(valid)}"
        elif kind == "missing":
            words = f"is missing; every {model._noun} needs it"
        elif key == ("state",):
            words = "write a section [state.NAME] for every state variable, at least one"
        elif isinstance(cause, KeyedError):
            key = cause.key
            words = cause.words
        elif isinstance(cause, ValueError):
            words = str(cause)
        else:
            words = details["msg"]
            for pattern, plain in PLAIN_WORDS.items():
                words = re.sub(pattern, plain, words)
            words = f"{words[0].lower()}{words[1:]}; got {details['input']!r}"
        yield key, words, kind


def _list_valid_keys(model: type[Section], path: tuple[str, ...]) -> list[str]:
    """The keys of the section at `path`, as they are written in the file."""
    section: Any = model
    names = iter(path)
    for name in names:
        field = next(field for key, field in section.model_fields.items() if (field.alias or key) == name)
        types = _list_types(field.annotation)
        section = next(
            kind for kind in types if is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, Section))
        )
        if any(get_origin(kind) is dict for kind in types):
            next(names, None)  # The name in [state.NAME].
    if is_dataclass(section):
        return ["on", *(field.name for field in fields(section))]
    return [field.alias or key for key, field in section.model_fields.items()]


def _list_types(annotation: Any) -> list[Any]:
    """An annotation and the types that it is made of."""
    return [annotation, *(kind for part in get_args(annotation) for kind in _list_types(part))]


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of every table and of every key that begins a line; keys of inline tables count as their table's.

    >>> key_lines('[outcome]\\ncolumn = "steps"')
    {('outcome',): 1, ('outcome', 'column'): 2}
    """
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        match = LINE.match(line)
        if match is None:
            continue
        try:
            # The TOML reader itself splits `a."b.c"`.
            value: Any = tomllib.loads(f"{match['table'] or match['key']} = 0")
        except tomllib.TOMLDecodeError:
            continue
        names: tuple[str, ...] = () if match["table"] else table
        while isinstance(value, dict):
            name, value = next(iter(value.items()))
            names = (*names, name)
            if match["table"]:
                lines.setdefault(names, number)
        lines.setdefault(names, number)
        table = names if match["table"] else table
    return lines
