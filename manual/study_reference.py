"""The reference of the study file: every section and key of its model, with what each means, may be and is if left out."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args

import griffe
from pydantic import BaseModel, TypeAdapter

from surefoot import METHODS, Study, method
from surefoot.screening import DETECTORS
from surefoot.study.model import SET_BY_STUDY

PAGE = "reference/study-keys.md"
INTRODUCTION = """# Every key of the study file

Made from the model that reads `study.toml`, so it is whole; [the study file](../study-file.md) explains the same with
examples. A key that is not here is an error that names the nearest valid one.
"""
PARAMETERS = "Parameters of the method that `name` chooses and of its parts; a part's may also stand in its own section."
LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
TYPES = {"string": "text", "number": "a number", "integer": "a whole number", "boolean": "`true` or `false`"}


def write_page() -> str:
    """The page's Markdown."""
    sections = "\n".join(_describe(name, model) for name, model in list_sections(Study))
    return f"{INTRODUCTION}\n{sections}\n{_describe_parameters()}"


def list_sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[Any]]]:
    """Every section by its name in the file, outer ones first; that of a detector is the detector's class."""
    if path:
        yield path, model
    for name, field in model.model_fields.items():
        named = dict in _list_origins(field.annotation)
        for inner in _list_models(field.annotation):
            key = f"{path}.{field.alias or name}".lstrip(".") + ".NAME" * named
            yield from [(key, inner)] if is_dataclass(inner) else list_sections(inner, key)


def _list_models(annotation: Any) -> Iterator[type[Any]]:
    if inspect.isclass(annotation) and (issubclass(annotation, BaseModel) or annotation in DETECTORS.values()):
        yield annotation
    for part in get_args(annotation):
        yield from _list_models(part)


def _list_origins(annotation: Any) -> set[Any]:
    return {getattr(annotation, "__origin__", None)}.union(*map(_list_origins, get_args(annotation)))


def list_keys(model: type[Any]) -> dict[str, tuple[str, Any, bool, Any]]:
    """For every field of a section its key in the file, its type, whether it is required, and its default."""
    if is_dataclass(model):
        parameters = {field.name: (field.name, field.type, False, field.default) for field in fields(model)}
        return {"on": ("on", bool, False, True), **parameters}
    return {
        name: (
            field.alias or name,
            field.annotation,
            field.is_required(),
            None if field.is_required() else field.get_default(call_default_factory=True),
        )
        for name, field in model.model_fields.items()
    }


def _describe(name: str, model: type[Any]) -> str:
    schema, meanings = TypeAdapter(model).json_schema(), read_meanings(model)
    properties = {"on": {"type": "boolean"}, **schema["properties"]}
    rows = []
    for field, (key, annotation, required, default) in list_keys(model).items():
        if field == "scaling" or not list(_list_models(annotation)):
            value = _say_type(properties[key], schema)
            rows.append(f"| `{key}` | {meanings.get(field, '')} | {value} | {_say_default(required, default)} |")
    table = ["| key | meaning | value | if left out |", "|---|---|---|---|", *rows, ""] if rows else []
    return "\n".join([f"## `[{name}]`", "", _first_paragraph(model), "", *table])


def _first_paragraph(model: type[Any]) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].split())


def read_meanings(model: type[Any]) -> dict[str, str]:
    """The meaning of every key of a section, from docstrings."""
    meanings = {"on": "Whether it is used."}
    for kind in reversed(model.__mro__):
        if kind.__module__.startswith("surefoot"):
            meanings |= read_attributes(kind)
    return meanings


@cache
def _load_package() -> Any:
    return griffe.load("surefoot", docstring_parser="numpy")


def read_attributes(part: type) -> dict[str, str]:
    """Fields of a class with what is said about them: in its section Attributes or Parameters, or under the field."""
    try:
        found = _load_package()[f"{part.__module__}.{part.__qualname__}".removeprefix("surefoot.")]
    except KeyError:  # made while the program runs, from another class
        return {}
    sections = found.docstring.parsed if found.docstring else []
    listed = [entry for section in sections if section.kind.value in ("attributes", "parameters") for entry in section.value]
    said = {entry.name: entry.description for entry in listed}
    said |= {name: member.docstring.value for name, member in found.attributes.items() if member.docstring}
    return {name: " ".join(text.split()) for name, text in said.items()}


def _say_type(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    if "anyOf" in schema:
        types = {one.get("type") for one in schema["anyOf"]}
        left = {"null", "integer"} if "number" in types else {"null"}
        return " or ".join(_say_type(one, whole) for one in schema["anyOf"] if one.get("type") not in left)
    if "$ref" in schema:
        named = whole["$defs"][schema["$ref"].split("/")[-1]]
        return "{ " + ", ".join(f"{key} = …" for key in named["properties"]) + " }"
    if "enum" in schema:
        return " or ".join(f'`"{value}"`' for value in schema["enum"])
    if schema.get("type") == "array":
        inner = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
        return f"a list of {_say_type(inner, whole)}" if "prefixItems" not in schema else "`[lowest, highest]`"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"{{ NAME = {_say_type(values if isinstance(values, dict) else {}, whole)} }}"
    limits = [f"{words} {schema[key]:g}" for key, words in LIMITS.items() if key in schema]
    return ", ".join([TYPES.get(schema.get("type", ""), "anything"), *limits])


def _say_default(required: bool, value: Any) -> str:
    if required:
        return "required"
    return "–" if value in (None, (), {}, "") else f"`{json.dumps(value, ensure_ascii=False)}`"


def _describe_parameters() -> str:
    defaults: dict[str, dict[str, list[str]]] = {}
    meanings: dict[str, str] = {}
    for name in METHODS:
        made = method(name)
        for owner in (made, *made.parts.values()):
            for base in reversed(type(owner).__mro__):
                meanings |= read_attributes(base) if base.__module__.startswith("surefoot") else {}
        for key, value in made.list_settings().items():
            if key not in SET_BY_STUDY:
                defaults.setdefault(key, {}).setdefault(f"`{json.dumps(value)}`", []).append(name)
    rows = [f"| `{key}` | {meanings[key]} | {_say_defaults(found)} |" for key, found in sorted(defaults.items())]
    return "\n".join(
        ["## `[method.parameters]`", "", PARAMETERS, "", "| key | meaning | if left out |", "|---|---|---|", *rows, ""]
    )


def _say_defaults(found: dict[str, list[str]]) -> str:
    words = ", ".join(
        f"{value.replace('`null`', '–')}{f' ({_shorten(names)})' if len(found) > 1 else ''}"
        for value, names in found.items()
    )
    among = next(iter(found.values()))
    return words if len(found) > 1 or len(among) == len(METHODS) else f"{words}; only of {_shorten(among)}"


def _shorten(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) if len(names) < len(METHODS) / 2 else "the others"
