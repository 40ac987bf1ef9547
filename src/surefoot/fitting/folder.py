"""A folder that grows part by part: it continues after an interruption, and is complete or not there.

On this machine a fit grows in `.fitted.partial-KEY` next to `fitted`, and appears under its name in one step. At a URL,
where nothing can be renamed or locked, parts go to their final names, and the manifest comes last; until then a mark holds
the key. An error or Ctrl-C leaves the parts for the next run; wrong input removes them.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

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


@contextmanager
def open_folder(out: Location, key: str, force: bool) -> Iterator[PartWriter]:
    """The writer of the parts of a fit with this key, a hash of the inputs and the parameters; `publish` lets it appear."""
    if isinstance(out, Url):
        mark = f"{UNFINISHED}{key}"
        marks = {name for name in list_names(out) if name.startswith(UNFINISHED)}
        finished = is_fit(out)
        if not finished and marks - {mark} and not force:
            raise InputError(
                f"{out}: holds an unfinished fit of other logs or another study; run that one again to continue it, "
                "choose another folder, or replace it with --force"
            )
        if finished or marks != {mark}:
            (out / mark).write_bytes(b"This fit is not finished: run the same command again.\n")
            _clear(out, mark)
        try:
            yield PartWriter(out, key)
        except InputError:
            _clear(out, mark)
            out.remove([mark])
            raise
        return
    folder = out.parent / f".{out.name}.partial-{key}"
    with refuse_unwritable(out):
        folder.mkdir(exist_ok=True)
        lock = (folder / "lock").open("w")
    with lock:
        try:
            import fcntl

            # The file is ours alone until it is closed, or this process ends, however it ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            words = "wait for it, or choose another folder"
            raise InputError(f"another run is fitting the same logs into {out}; {words}") from None
        except (ImportError, OSError):
            pass  # Neither every system nor every file system has locks.
        try:
            yield PartWriter(folder.resolve(), key)  # Workers may start in another folder.
        except InputError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _clear(out: Url, mark: str) -> None:
    """Remove all but the mark: first the manifest, then the summaries of parts, so that none is left without its tables."""
    names = list_names(out) - {mark}
    summaries = {name for name in names if name.startswith(SUMMARIES)}
    for batch in (names & {"manifest.json"}, summaries, names - summaries - {"manifest.json"}):
        out.remove(sorted(batch))


def publish(writer: PartWriter, out: Location, manifest: dict[str, Any], study: str) -> None:
    """Let all parts that were written appear.

    At a URL, and of more than `MERGED_PEOPLE` people, a table is a folder of the parts' files, which readers of Parquet take
    as one, and which nobody has to copy. Else it is one file, sorted by participant or part after part.
    """
    import pyarrow as pa
    from pyarrow import parquet

    grown = writer.folder
    if isinstance(grown, Url):
        numbers = writer.read_summaries()
        written = {f"{table}.parquet/part-{number:06d}.parquet" for table in TABLES for number in numbers}
        present = {str(file.relative_to(grown)) for file in grown.rglob("*.parquet")}
        grown.remove(sorted(present - written))  # Of an earlier fit whose removal was interrupted.
        write_description(grown, manifest, study)
        grown.remove([writer.summaries.name])
        grown.remove([f"{UNFINISHED}{writer.key}"])
        return
    target = cast(Path, out)
    final = grown / "final"
    shutil.rmtree(final, ignore_errors=True)  # Of a run that was interrupted here.
    final.mkdir()
    if manifest["people"] > MERGED_PEOPLE:
        for name in TABLES:
            (grown / f"{name}.parquet").rename(final / f"{name}.parquet")
    else:
        merged = policies.load(grown / "policies.parquet")
        merged.save(final / "policies.parquet")
        merged.save(final / "policies.json")
        for name in ("critic.parquet", "weights.parquet"):
            tables = [parquet.read_table(file) for file in sorted((grown / name).iterdir())]
            table = pa.concat_tables(tables, promote_options="permissive")
            parquet.write_table(table.sort_by("participant") if name == "critic.parquet" else table, final / name)
    write_description(final, manifest, study)
    if target.exists():
        target.rename(grown / "replaced")
    final.rename(target)
