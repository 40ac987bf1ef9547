"""Writing files whole or not at all."""

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
    """Give a temporary file; what the block wrote to it becomes the content of `path` when the block ends without an error.

    A regular file is replaced in one step. A link is followed: what it points to is replaced, and the link stays. What is
    neither (a pipe, a device) is written into. With `private` only the owner may read the file.
    """
    with refuse_unwritable(path):
        target, stream = _find_target(path)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=None if stream else target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            if stream:
                with temporary.open("rb") as written, target.open("wb") as out:
                    shutil.copyfileobj(written, out)
                return
            if not private:
                # mkstemp lets only the owner read; a result should have the permissions of any new file.
                mask = os.umask(0)
                os.umask(mask)
                temporary.chmod(0o666 & ~mask)
            else:
                # Backups and records cannot be made again: the name must not outlive a power cut that the content does not.
                with temporary.open("rb+") as written:
                    os.fsync(written)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    with refuse_unwritable(path):
        _find_target(path)


def _find_target(path: Path) -> tuple[Path, bool]:
    """The file behind links, and whether it is a pipe or a device."""
    target = path.resolve()
    if target.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    if not target.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")
    stream = target.exists() and not target.is_file()
    if not os.access(target if stream else target.parent, os.W_OK):
        raise InputError(f"{path}: cannot be written (no permission); name another file")
    return target, stream


@contextmanager
def refuse_unwritable(path: Path) -> Iterator[None]:
    """What the system refuses (a full disk, a name too long, a loop of links) is one line about the output."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "Symlink loop" not in str(error):
            raise
        reason = getattr(error, "strerror", None) or "its links go in a circle"
        raise InputError(f"{path}: cannot be written ({reason}); name another file") from error


def write_texts(texts: Mapping[Path, str], *, private: bool = False) -> None:
    """Write several files: none is touched when one of them cannot be written."""
    for path in texts:
        check_output(path)
    for path, text in texts.items():
        with atomic_write(path, private=private) as temporary:
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
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `path`, which must not exist yet; it becomes `path` when the block ends well.

    With `replace` a folder that is there already goes when the new one is whole.
    """
    with refuse_unwritable(path):
        exists = path.exists() or path.is_symlink()
        if exists and not replace:
            raise InputError(f"{path}: is already there; choose another folder or remove it")
        target = path.resolve() if exists else _find_target(path)[0]
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        made = temporary / "new"
        made.mkdir()
        try:
            yield made
            if exists:
                target.rename(temporary / "old")
            made.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
