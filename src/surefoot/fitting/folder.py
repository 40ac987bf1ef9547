"""The folder of a fit: it grows part by part, continues after an interruption, and is complete or not there."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from surefoot.atomic_files import check_output, open_to_others, refuse_unwritable
from surefoot.data.locations import Location, Url
from surefoot.errors import InputError
from surefoot.fitting.parts import FORMAT, PartFit
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
        with tempfile.TemporaryDirectory(dir=self.folder if isinstance(self.folder, Path) else None) as name:
            written = Path(name)
            part.save(written)
            (written / "summary.json").write_text(json.dumps(part.summary), encoding="utf-8")
            for table in TABLES:
                _move(written / f"{table}.parquet", self.folder / f"{table}.parquet" / f"part-{number:06d}.parquet")
            _move(written / "summary.json", self.summaries / f"{number:06d}.json")

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


def _move(file: Path, target: Location) -> None:
    if isinstance(target, Url):
        target.write_bytes(file.read_bytes())
    else:
        target.parent.mkdir(exist_ok=True)
        file.replace(target)


def _is_fit(folder: Location) -> bool:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def check_folder(out: Location, force: bool) -> None:
    """Refuse to replace what is there, unless it is a fit and `force` is set."""
    taken = f"{out}: is already there; choose another folder or replace it with --force"
    if isinstance(out, Url):
        out.check_top()
        names = _list_names(out)
        if _is_fit(out):
            if not force:
                raise InputError(taken)
        elif names and not any(name.startswith(UNFINISHED) for name in names):
            raise InputError(f"{out}: is already there and is not a fit (no manifest of one); choose another folder")
    elif not out.exists():
        check_output(out)
    elif not force:
        raise InputError(taken)
    elif not _is_fit(out) and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{out}: is already there and is not a fit (no manifest of one), so --force leaves it alone")


def open_folder(out: Location, key: str, force: bool) -> LocalFit | StoredFit:
    """The folder of a fit with this key, a hash of the inputs and the parameters."""
    check_folder(out, force)
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
        if not _try_lock(self._lock):
            self._lock.close()
            raise InputError(f"another run is fitting the same logs into {self.out}; wait for it, or choose another folder")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, InputError):
            shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()

    def publish(self, manifest: dict[str, Any], study: str, part: PartFit | None = None) -> None:
        """Let the result appear: a single part, or all parts that were written.

        Up to `MERGED_PEOPLE` people are one file of each table; more are a folder of the parts' files, which readers of
        Parquet take as one table, and which nobody has to copy.
        """
        final = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self._folder))
        if part is not None:
            part.save(final)
            part.policies.save(final / "policies.json")
        elif manifest["people"] <= MERGED_PEOPLE:
            _merge_tables(self._folder, final)
        else:
            for table in TABLES:
                (self._folder / f"{table}.parquet").rename(final / f"{table}.parquet")
        (final / "study.toml").write_text(study, encoding="utf-8", newline="")
        (final / "manifest.json").write_text(_to_text(manifest), encoding="utf-8")
        open_to_others(final)
        if self.out.exists():
            self.out.rename(self._folder / "replaced")
        final.rename(self.out)


def _merge_tables(source: Path, target: Path) -> None:
    """One file of each table: sorted by participant, or part after part."""
    import pyarrow as pa
    from pyarrow import parquet

    merged = policies.load(source / "policies.parquet")
    merged.save(target / "policies.parquet")
    merged.save(target / "policies.json")
    for name in ("critic.parquet", "weights.parquet"):
        tables = [parquet.read_table(file) for file in sorted((source / name).iterdir())]
        table = pa.concat_tables(tables, promote_options="permissive")
        parquet.write_table(table.sort_by("participant") if name == "critic.parquet" else table, target / name)


def _to_text(manifest: dict[str, Any]) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def _try_lock(file: IO[str]) -> bool:
    """Whether the file is ours alone until it is closed, or this process ends, however it ends."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True  # Neither every system nor every file system has locks.
    return True


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
        is_fit = _is_fit(self.out)
        marks = {name for name in _list_names(self.out) if name.startswith(UNFINISHED)}
        if not is_fit and marks - {self._mark} and not self._force:
            raise InputError(
                f"{self.out}: holds an unfinished fit of other logs or another study; run that one again to continue it, "
                "choose another folder, or replace it with --force"
            )
        if is_fit or marks != {self._mark}:
            (self.out / self._mark).write_bytes(b"This fit is not finished: run the same command again.\n")
            self._clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, InputError):
            self._clear()
            self.out.remove([self._mark])

    def _clear(self) -> None:
        """Remove all but the mark: first the manifest, then the summaries of parts."""
        names = _list_names(self.out) - {self._mark}
        summaries = {name for name in names if name.startswith(SUMMARIES)}
        for batch in (names & {"manifest.json"}, summaries, names - summaries - {"manifest.json"}):
            self.out.remove(sorted(batch))

    def publish(self, manifest: dict[str, Any], study: str, part: PartFit | None = None) -> None:
        """Let the result appear: a single part, or all parts that were written."""
        if part is not None:
            self.writer.write(0, part)
        numbers = self.writer.read_summaries()
        written = {f"{table}.parquet/part-{number:06d}.parquet" for table in TABLES for number in numbers}
        present = {str(file.relative_to(self.out)) for file in self.out.rglob("*.parquet")}
        self.out.remove(sorted(present - written))  # Of an earlier fit whose removal was interrupted.
        (self.out / "study.toml").write_bytes(study.encode())
        (self.out / "manifest.json").write_bytes(_to_text(manifest).encode())
        self.out.remove([self.writer.summaries.name])
        self.out.remove([self._mark])


def _list_names(folder: Url) -> set[str]:
    """The names of files and folders directly in a folder."""
    return {file.relative_to(folder).parts[0] for file in folder.rglob("*")}
