"""Writing files whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surefoot.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path`; it takes the place of `path` when the block ends without an error."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp lets only the owner read; a result should have the permissions of any new file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
