"""The hidden folder in which a fit grows until it is complete, so that an interrupted run continues."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from surefoot.atomic_files import check_output, open_to_others, refuse_unwritable
from surefoot.errors import InputError
from surefoot.fitting.manifest import FORMAT
from surefoot.fitting.part_fit import PartFit
from surefoot.policies.policies import join_metadata, parquet_to_json

MERGED_PEOPLE = 2**15
"""The tables of at most this many people become one file, which one process writes while all others wait."""


class Checkpoint:
    """`.fitted.partial-KEY` beside `fitted`; the key is a hash of the inputs and the parameters.

    A part is written under another name and renamed when it is complete: what has its name is whole. Leaving the folder
    because of an error or Ctrl-C keeps the parts; wrong input removes them.
    """

    def __init__(self, out: Path, key: str, force: bool) -> None:
        self.check(out, force)
        # A link stays a link: the result appears where it points to.
        self.out = out.resolve() if out.is_symlink() else out
        self.folder = self.out.parent / f".{self.out.name}.partial-{key}"

    @staticmethod
    def check(out: Path, force: bool) -> None:
        """Refuse to replace what is there, unless it is a fit and `force` is set."""
        if not out.exists():
            check_output(out)
        elif not force:
            raise InputError(f"{out}: is already there; choose another folder or replace it with --force")
        elif not _is_fit(out):
            raise InputError(f"{out}: is already there and is not a fit (no manifest of one), so --force leaves it alone")

    def __enter__(self) -> Self:
        with refuse_unwritable(self.out):
            self.folder.mkdir(exist_ok=True)
            self._lock = (self.folder / "lock").open("w")
        if not _try_lock(self._lock):
            self._lock.close()
            raise InputError(f"another run is fitting the same logs into {self.out}; wait for it, or choose another folder")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, InputError):
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    @property
    def parts(self) -> PartFolder:
        return PartFolder(self.folder.resolve())  # Workers may start in another folder.

    def has(self, number: int) -> bool:
        return find_part(self.folder, number).is_dir()

    def summaries(self, count: int) -> list[dict[str, Any]]:
        files = [find_part(self.folder, number) / "summary.json" for number in range(count)]
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def publish(self, parts: int, manifest: dict[str, Any], study: str) -> None:
        """Put the parts together, and let the result appear under its name in one step.

        Up to `MERGED_PEOPLE` people are one file of each kind; more are a folder of the parts' files, which readers of
        Parquet take as one table, and which nobody has to copy.
        """
        folders = [find_part(self.folder, number) for number in range(parts)]
        final = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.folder))
        put_together = _merge_tables if manifest["people"] <= MERGED_PEOPLE else _move_tables
        for name, by_participant in (("policies", True), ("critic", True), ("weights", False)):
            put_together(folders, final / f"{name}.parquet", by_participant=by_participant)
        if (final / "policies.parquet").is_file():
            parquet_to_json(final / "policies.parquet", final / "policies.json")
        (final / "study.toml").write_text(study, encoding="utf-8", newline="")
        (final / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        open_to_others(final)
        if self.out.exists():
            self.out.rename(self.folder / "replaced")
        final.rename(self.out)


def find_part(folder: Path, number: int) -> Path:
    """The folder of one part of a fit."""
    return folder / f"part-{number:06d}"


@dataclass(frozen=True)
class PartFolder:
    """The folder to which the parts of one fit are written."""

    folder: Path

    def write(self, number: int, part: PartFit) -> None:
        """Write a part beside the others, whole or not at all."""
        folder = find_part(self.folder, number)
        if folder.is_dir():
            return
        temporary = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.folder))
        part.save(temporary)
        with suppress(FileExistsError):  # Another worker was taken for dead, and was not.
            temporary.rename(folder)


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


def _is_fit(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return folder.is_dir() and not any(folder.iterdir())
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def _merge_tables(folders: list[Path], out: Path, *, by_participant: bool) -> None:
    """One file: part after part, or sorted by participant."""
    import pyarrow as pa
    from pyarrow import parquet

    files = [folder / out.name for folder in folders]
    schemas = [parquet.read_schema(file) for file in files]
    described = all(b"surefoot" in (schema.metadata or {}) for schema in schemas)
    metadata = join_metadata([schema.metadata for schema in schemas]) if described else schemas[0].metadata
    schema = pa.unify_schemas(schemas, promote_options="permissive").with_metadata(metadata)
    if by_participant:
        table = pa.concat_tables([parquet.read_table(file).cast(schema) for file in files])
        parquet.write_table(table.sort_by("participant"), out)
        return
    with parquet.ParquetWriter(out, schema) as writer:
        for file in files:
            writer.write_table(parquet.read_table(file).cast(schema))


def _move_tables(folders: list[Path], out: Path, *, by_participant: bool) -> None:
    """A folder of the parts' files as they are; participants are in order within each of them."""
    out.mkdir()
    for number, folder in enumerate(folders):
        (folder / out.name).rename(out / f"part-{number:06d}.parquet")
