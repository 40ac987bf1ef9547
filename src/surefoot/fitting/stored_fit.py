"""A fit that grows at a URL, where nothing can be renamed or locked: its parts go straight to where they stay."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from surefoot.data.locations import Url
from surefoot.errors import InputError
from surefoot.fitting.manifest import FORMAT
from surefoot.fitting.part_fit import PartFit

TABLES = ("policies", "critic", "weights")
UNFINISHED = "_unfinished-"
SUMMARIES = "_parts-"
"""How names begin of the mark of a fit without manifest, and of its parts' summaries; a key follows. Readers of Parquet
pass over names with an underscore."""


@dataclass(frozen=True)
class StoredParts:
    """The URL to which the parts of one fit are written; a part is complete once its summary exists."""

    out: Url
    key: str

    @property
    def summaries(self) -> Url:
        return self.out / f"{SUMMARIES}{self.key}"

    def write(self, number: int, part: PartFit) -> None:
        """Write a part, its summary last."""
        with tempfile.TemporaryDirectory() as folder:
            part.save(Path(folder))
            for name in TABLES:
                (self.out / name_table(name, number)).write_bytes((Path(folder) / f"{name}.parquet").read_bytes())
            (self.summaries / f"{number:06d}.json").write_bytes((Path(folder) / "summary.json").read_bytes())

    def read_summaries(self) -> dict[int, dict[str, Any]]:
        """The summaries of all complete parts, by number."""
        summaries = {}
        for name, content in self.summaries.read_files().items():
            with suppress(ValueError):  # Not every store writes whole files.
                summaries[int(name.removesuffix(".json"))] = json.loads(content)
        return summaries


def name_table(name: str, number: int) -> str:
    """The name of a part's table within a fit."""
    return f"{name}.parquet/part-{number:06d}.parquet"


class StoredFit:
    """What `Checkpoint` is for a folder of this machine: a fit without `manifest.json` is not finished, and no fit.

    While it is not, a mark holds its key, a hash of the inputs and the parameters. Everything else goes before its mark
    does, and summaries go before their tables, so that whatever is interrupted, no summary is there without its tables.
    """

    def __init__(self, out: Url, key: str, force: bool) -> None:
        self.out = out
        self.force = force
        self.parts = StoredParts(out, key)
        self._mark = f"{UNFINISHED}{key}"

    @staticmethod
    def check(out: Url, force: bool) -> None:
        """Refuse to replace what is there, unless it is a fit and `force` is set."""
        out.check_top()
        names = _list_names(out)
        if _is_fit(out):
            if not force:
                raise InputError(f"{out}: is already there; choose another folder or replace it with --force")
        elif names and not any(name.startswith(UNFINISHED) for name in names):
            raise InputError(f"{out}: is already there and is not a fit (no manifest of one); choose another folder")

    def __enter__(self) -> Self:
        self.check(self.out, self.force)
        fit = _is_fit(self.out)
        marks = {name for name in _list_names(self.out) if name.startswith(UNFINISHED)}
        if not fit and marks - {self._mark} and not self.force:
            raise InputError(
                f"{self.out}: holds an unfinished fit of other logs or another study; run that one again to continue it, "
                "choose another folder, or replace it with --force"
            )
        if fit or marks != {self._mark}:
            (self.out / self._mark).write_bytes(b"This fit is not finished: run the same command again.\n")
            self._clear()
        self._done = self.parts.read_summaries()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, InputError):
            self._clear()
            self.out.remove([self._mark])

    def _clear(self) -> None:
        """Remove all but the mark: first what makes it a fit, then what makes parts whole."""
        names = _list_names(self.out) - {self._mark}
        summaries = {name for name in names if name.startswith(SUMMARIES)}
        for batch in (names & {"manifest.json"}, summaries, names - summaries - {"manifest.json"}):
            self.out.remove(sorted(batch))

    def has(self, number: int) -> bool:
        return number in self._done

    def summaries(self, count: int) -> list[dict[str, Any]]:
        summaries = self.parts.read_summaries()
        if set(range(count)) - summaries.keys():
            raise InputError(f"{self.out}: parts that were written are not there; name a store that all workers see")
        return [summaries[number] for number in range(count)]

    def publish(self, parts: int, manifest: dict[str, Any], study: str) -> None:
        """Write what belongs to all parts; the manifest last."""
        meant = {name_table(name, number) for name in TABLES for number in range(parts)}
        present = {str(file.relative_to(self.out)) for file in self.out.rglob("*.parquet")}
        self.out.remove(sorted(present - meant))  # An earlier fit that was not removed to its end.
        (self.out / "study.toml").write_bytes(study.encode())
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (self.out / "manifest.json").write_bytes(text.encode())
        self.out.remove([self.parts.summaries.name])
        self.out.remove([self._mark])


def _list_names(folder: Url) -> set[str]:
    """The names of files and folders directly in a folder."""
    return {file.relative_to(folder).parts[0] for file in folder.rglob("*")}


def _is_fit(folder: Url) -> bool:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT
