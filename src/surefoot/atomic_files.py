"""Writing files whole or not at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefoot.errors import InputError


@contextmanager
def atomic_write(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Give a temporary file beside `path`; it takes the place of `path` when the block ends without an error.

    With `private` only the owner may read the file.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp lets only the owner read; a result should have the permissions of any new file.
        if not private:
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write several files: none is touched when one of them cannot be written."""
    for path in texts:
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise InputError(f"{path}: cannot be written there; name another file")
    for path, text in texts.items():
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def json_text(data: Any) -> str:
    """Strict JSON; numbers that are not finite become null.

    >>> json_text({"low": float("nan"), "high": (1.5, float("inf"))})
    '{"low": null, "high": [1.5, null]}'
    """
    return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`, which must not exist yet; it becomes `path` when the block ends well."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} is already there; choose another folder or remove it")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        open_to_others(temporary)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_to_others(folder: Path) -> None:
    """mkdtemp lets only the owner in; a result should have the permissions of any new folder."""
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
