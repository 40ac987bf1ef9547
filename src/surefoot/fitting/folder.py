"""A folder that grows part by part: it continues after an interruption, and is complete or not there."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from surefoot.atomic_files import refuse_unwritable
from surefoot.data.locations import Location, Url
from surefoot.errors import InputError
from surefoot.fitting.parts import PartFit, is_fit, write_description
from surefoot.policies import policies

TABLES = ("policies", "critic", "weights")
MERGED_PEOPLE = 2**15
"""The tables of at most this many people become one file, which one process writes while all others wait."""
UNFINISHED = "_unfinished-"
SUMMARIES = "_parts-"
"""Prefixes of the mark of a fit without manifest and of the folder of its parts' summaries; a key follows. Readers of
Parquet ignore names with an underscore."""


@dataclass(frozen=True)
class PartWriter:
    """Writes the parts of one fit, also from other processes; a part is complete once its summary exists."""

    folder: Location
    key: str

    @property
    def summaries(self) -> Location:
        return self.folder / f"{SUMMARIES}{self.key}"

    def write(self, number: int, part: PartFit) -> None:
        """Write a part's tables, its summary last."""
        # Within the folder of the fit a file appears whole, by renaming.
        with tempfile.TemporaryDirectory(dir=self.folder if isinstance(self.folder, Path) else None) as temporary:
            written = Path(temporary)
            part.save(written)
            (written / "summary.json").write_text(json.dumps(part.summary), encoding="utf-8")
            targets = {f"{table}.parquet": f"{table}.parquet/part-{number:06d}.parquet" for table in TABLES}
            for file, name in {**targets, "summary.json": f"{self.summaries.name}/{number:06d}.json"}.items():
                target = self.folder / name
                if isinstance(target, Url):
                    target.write_bytes((written / file).read_bytes())
                else:
                    target.parent.mkdir(exist_ok=True)
                    (written / file).replace(target)

    def read_summaries(self) -> dict[int, dict[str, Any]]:
        """The summaries of all complete parts, by number."""
        if isinstance(self.summaries, Url):
            files = self.summaries.read_files()
        else:
            files = {file.name: file.read_bytes() for file in sorted(self.summaries.glob("*.json"))}
        summaries = {}
        for name, content in files.items():
            with suppress(ValueError):  # Not every store writes whole files.
                summaries[int(name.removesuffix(".json"))] = json.loads(content)
        return summaries


def list_names(folder: Url) -> set[str]:
    """The names of files and folders directly in a folder."""
    return {file.relative_to(folder).parts[0] for file in folder.rglob("*")}


def open_folder(out: Location, key: str, force: bool) -> LocalFit | StoredFit:
    """The folder of a fit with this key, a hash of the inputs and the parameters."""
    return StoredFit(out, key, force) if isinstance(out, Url) else LocalFit(out, key)


class LocalFit:
    """A fit on this machine: it grows in `.fitted.partial-KEY` next to `fitted`, and appears under its name in one step.

    An error or Ctrl-C leaves the parts for the next run; wrong input removes them.
    """

    def __init__(self, out: Path, key: str) -> None:
        # A link stays a link: the result appears where it points to.
        self.out = out.resolve() if out.is_symlink() else out
        self._folder = self.out.parent / f".{self.out.name}.partial-{key}"
        self.writer = PartWriter(self._folder.resolve(), key)  # Workers may start in another folder.

    def __enter__(self) -> Self:
        with refuse_unwritable(self.out):
            self._folder.mkdir(exist_ok=True)
            self._lock = (self._folder / "lock").open("w")
        try:
            import fcntl

            # The file is ours alone until it is closed, or this process ends, however it ends.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise InputError(
                f"another run is fitting the same logs into {self.out}; wait for it, or choose another folder"
            ) from None
        except (ImportError, OSError):
            pass  # Neither every system nor every file system has locks.
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, InputError):
            shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()

    def publish(self, manifest: dict[str, Any], study: str) -> None:
        """Let all parts that were written appear.

        Up to `MERGED_PEOPLE` people are one file of each table, sorted by participant or part after part; more are a folder
        of the parts' files, which readers of Parquet take as one table, and which nobody has to copy.
        """
        import pyarrow as pa
        from pyarrow import parquet

        final = self._folder / "final"
        shutil.rmtree(final, ignore_errors=True)  # Of a run that was interrupted here.
        final.mkdir()
        if manifest["people"] > MERGED_PEOPLE:
            for name in TABLES:
                (self._folder / f"{name}.parquet").rename(final / f"{name}.parquet")
        else:
            merged = policies.load(self._folder / "policies.parquet")
            merged.save(final / "policies.parquet")
            merged.save(final / "policies.json")
            for name in ("critic.parquet", "weights.parquet"):
                tables = [parquet.read_table(file) for file in sorted((self._folder / name).iterdir())]
                table = pa.concat_tables(tables, promote_options="permissive")
                parquet.write_table(table.sort_by("participant") if name == "critic.parquet" else table, final / name)
        write_description(final, manifest, study)
        if self.out.exists():
            self.out.rename(self._folder / "replaced")
        final.rename(self.out)


class StoredFit:
    """A fit at a URL, where nothing can be renamed or locked: parts go to their final names, and the manifest comes last.

    Until then a mark holds its key. Everything else is removed before its mark, and summaries before their tables, so that
    after any interruption no summary is there without its tables.
    """

    def __init__(self, out: Url, key: str, force: bool) -> None:
        self.out = out
        self._force = force
        self._mark = f"{UNFINISHED}{key}"
        self.writer = PartWriter(out, key)

    def __enter__(self) -> Self:
        finished = is_fit(self.out)
        marks = {name for name in list_names(self.out) if name.startswith(UNFINISHED)}
        if not finished and marks - {self._mark} and not self._force:
            raise InputError(
                f"{self.out}: holds an unfinished fit of other logs or another study; run that one again to continue it, "
                "choose another folder, or replace it with --force"
            )
        if finished or marks != {self._mark}:
            (self.out / self._mark).write_bytes(b"This fit is not finished: run the same command again.\n")
            self._clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, InputError):
            self._clear()
            self.out.remove([self._mark])

    def _clear(self) -> None:
        """Remove all but the mark: first the manifest, then the summaries of parts."""
        names = list_names(self.out) - {self._mark}
        summaries = {name for name in names if name.startswith(SUMMARIES)}
        for batch in (names & {"manifest.json"}, summaries, names - summaries - {"manifest.json"}):
            self.out.remove(sorted(batch))

    def publish(self, manifest: dict[str, Any], study: str) -> None:
        """Let all parts that were written appear."""
        numbers = self.writer.read_summaries()
        written = {f"{table}.parquet/part-{number:06d}.parquet" for table in TABLES for number in numbers}
        present = {str(file.relative_to(self.out)) for file in self.out.rglob("*.parquet")}
        self.out.remove(sorted(present - written))  # Of an earlier fit whose removal was interrupted.
        write_description(self.out, manifest, study)
        self.out.remove([self.writer.summaries.name])
        self.out.remove([self._mark])
