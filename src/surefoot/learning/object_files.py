"""Objects in one `.npz` file: every array as it is, and how they hang together as JSON.

Nothing in such a file is run: an object is made of its fields, and only of classes of this package, parts and rules.
"""

import json
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from surefoot.atomic_files import atomic_write
from surefoot.errors import InputError
from surefoot.learning.part import Part
from surefoot.policies.rules import DecisionRule
from surefoot.version import __version__

FORMAT = "surefoot-method-1"
MODULES = ("surefoot.data.", "surefoot.learning.", "surefoot.numerics.", "surefoot.policies.")
"""Of the classes that a file may name; parts and decision rules may be of any module that was imported."""


def save_objects(path: str | Path, objects: Mapping[str, Any]) -> None:
    """Write objects by name, for the owner's eyes only."""
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"{path}: a fitted method is saved as .npz; its policies alone by policies_.save, as .json")
    arrays: list[NDArray[Any]] = []
    encoded = {name: _encode(value, arrays) for name, value in objects.items()}
    content = json.dumps({"format": FORMAT, **encoded}).encode()
    named: dict[str, Any] = {f"array_{number}": array for number, array in enumerate(arrays)}
    with atomic_write(path, private=True) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, content=np.frombuffer(content, dtype=np.uint8), **named)


def load_objects(path: str | Path) -> dict[str, Any]:
    """Read what `save_objects` wrote."""
    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file; check the name and the folder")
    try:
        with np.load(path, allow_pickle=False) as file:
            content = json.loads(bytes(file["content"]).decode())
            if content.pop("format") != FORMAT:
                raise ValueError("it has another format")
            return {name: _decode(value, file) for name, value in content.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: not a file of a fitted method of Surefoot {__version__} ({error}); write one with fitted.save"
        ) from error


def _list_fields(kind: type) -> list[str]:
    """The attributes that make up an object of this class."""
    return [field.name for field in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "_fields", ()))


def _encode(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """A value for JSON; arrays are set apart and named by their position."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        arrays.append(np.asarray(value))
        return {"array": len(arrays) - 1}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return {type(value).__name__: [_encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key, arrays), _encode(item, arrays)] for key, item in value.items()]}
    kind = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not _is_known(kind):
        raise InputError(f"{kind.__name__} of {kind.__module__} cannot be saved; save the policies: fitted.policies_.save")
    attributes = _list_fields(kind) or list(vars(value))
    return {"class": name, "fields": {field: _encode(getattr(value, field), arrays) for field in attributes}}


def _decode(value: Any, arrays: Any) -> Any:
    """The inverse of `_encode`."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        array = arrays[f"array_{value['array']}"]
        array.flags.writeable = False
        return array if array.ndim else array[()]
    for collect in (list, tuple):
        if collect.__name__ in value:
            return collect(_decode(item, arrays) for item in value[collect.__name__])
    if "dict" in value:
        return {_decode(key, arrays): _decode(item, arrays) for key, item in value["dict"]}
    kind = _find_class(value["class"])
    attributes = {name: _decode(item, arrays) for name, item in value["fields"].items()}
    if _list_fields(kind) not in ([], list(attributes)):
        raise ValueError(f"{kind.__name__} has other fields in this version")
    if issubclass(kind, tuple):
        return kind(*attributes.values())
    made = object.__new__(kind)
    for name, item in attributes.items():
        object.__setattr__(made, name, item)
    return made


def _is_known(kind: Any) -> bool:
    return isinstance(kind, type) and (kind.__module__.startswith(MODULES) or issubclass(kind, Part | DecisionRule))


def _find_class(name: str) -> type:
    module, _, qualified = name.partition(":")
    kind = getattr(import_module(module) if module.startswith(MODULES) else sys.modules.get(module), qualified, None)
    if not _is_known(kind):
        raise ValueError(f"it names {name}, which is not known; import the module of the part first")
    return cast(type, kind)
