"""The text of a file that people write."""

from __future__ import annotations

from pathlib import Path

from surefoot.errors import InputError


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
