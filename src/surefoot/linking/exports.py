"""Exports of the platforms that studies use, recognised by their content and read into typed streams."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from surefoot.errors import InputError
from surefoot.linking.profiles import PROFILES, ExportFile, Streams, list_export_files

MOST_EXAMINED = 200
"""Files of a folder by which its profile is found."""


@dataclass(frozen=True)
class Match:
    """The profile that fits an export, and why."""

    profile: str
    title: str
    reason: str
    rivals: tuple[str, ...] = ()
    """Other profiles that fit too; then a person has to choose."""
    holds_decisions: bool = False

    def __str__(self) -> str:
        rivals = f"; but {' and '.join(self.rivals)} would fit too" if self.rivals else ""
        return f"{self.title}: {self.reason}{rivals}"


@dataclass(frozen=True)
class Export:
    """What a platform exported: typed streams, and the number of rows that belong to none of them, by reason.

    Every stream has the columns `participant` and `time`: in UTC, or local times with a column `zone` (missing where the
    export does not name the zone). The other columns have the platform's names.
    """

    profile: str
    reason: str
    streams: dict[str, pa.Table]
    left_out: dict[str, int]
    rows_in: int
    """Rows of the files; those of the streams and those left out add up to it."""

    @property
    def rows_out(self) -> int:
        return sum(map(len, self.streams.values()))


def find_profile(path: str | Path) -> Match | None:
    """The profile that fits a file, a folder or a zip archive, by columns and structure; None if none does."""
    files = list_export_files(Path(path))
    step = max(1, len(files) // MOST_EXAMINED)
    reasons: dict[str, str] = {}
    fitting: Counter[str] = Counter()
    for file in files[::step]:
        for name in PROFILES:
            reason = PROFILES.find(name).recognize(file)
            if reason is not None:
                fitting[name] += 1
                reasons.setdefault(name, reason)
    if not fitting:
        return None
    name, *others = [name for name, _ in fitting.most_common()]
    profile = PROFILES.find(name)
    return Match(name, profile.title, reasons[name], tuple(others), profile.holds_decisions)


def read_export(path: str | Path, profile: str | None = None) -> Export:
    """Read what a platform exported.

    Parameters
    ----------
    path
        A file, a folder, or a zip archive.
    profile
        The platform's profile, if not the one that fits; `sf.linking.PROFILES` lists them.

    Examples
    --------
    >>> import tempfile
    >>> steps = "Id,ActivityMinute,Steps\\nP1,4/12/2016 12:00:00 AM,3\\nP1,4/12/2016 12:01:00 AM,\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "minutes.csv").write_text(steps)
    ...     export = read_export(Path(folder, "minutes.csv"))
    >>> export.profile, export.streams["minuteSteps"]["Steps"].to_pylist()
    ('fitabase', [3, None])
    """
    path = Path(path)
    if profile is None:
        profile = _choose_profile(path)
    reader = PROFILES.find(profile)
    streams = Streams()
    reasons = []
    for file in list_export_files(path):
        reason = reader.recognize(file)
        if reason is None:
            streams.leave_out(f"lines of {file.name}, which is in another form", _count_lines(file))
        else:
            reasons.append(reason)
            reader.read(file, streams)
    if not reasons:
        raise InputError(f"{path}: nothing in it is as {reader.title} writes it; leave out profile = '{profile}'")
    left_out = dict(streams.left_out)
    export = Export(profile, "; ".join([reasons[0], *streams.notes]), streams.join(), left_out, streams.rows_in)
    if export.rows_out + sum(left_out.values()) != export.rows_in:
        raise RuntimeError(
            f"profile '{profile}' lost rows of {path}: {export.rows_in} in, {export.rows_out} out, {left_out}"
        )
    if export.rows_out == 0:
        counts = ", ".join(f"{count:,} {name}" for name, count in left_out.items()) or "it has none"
        raise InputError(f"{path}: no row can be used ({counts}); export it with participants and times")
    return export


def _choose_profile(path: Path) -> str:
    match = find_profile(path)
    if match is None:
        known = ", ".join(PROFILES.find(name).title for name in PROFILES)
        raise InputError(f"{path}: no profile fits; known are {known}. Write a table with participant and time instead")
    if match.rivals:
        raise InputError(f"{path}: {match}; say which with profile = '{match.profile}', or read the files one by one")
    return match.profile


def _count_lines(file: ExportFile) -> int:
    """At least one, so that no file disappears without a count."""
    with file.open() as stream:
        return max(1, sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(2**20), b"")))
