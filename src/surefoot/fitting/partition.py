"""Which participants are fitted together: parts of bounded size, from files that are read one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.locations import Location, map_files
from surefoot.data.log_table import LogFile, LogLayout, LogTable, concatenate, name_file
from surefoot.numerics.parallel import Run
from surefoot.screening.screener import LearnedPatterns, sample_people
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import log_layout, parse_logs, study_files

ENOUGH_FILES = 4
"""Fewer files are looked at sooner than others could be asked to."""
PART_ROWS = 2**19
"""Decision points in a part: some hundred megabytes while it is fitted."""
GROUPED_PARTS = 4
"""So many parts of one file are one piece of work, so that a file of many parts is the work of several."""


@dataclass(eq=False)
class Partition:
    """The parts of an input.

    A participant whose rows are all in one file, or in that and the next, is fitted with the others of that file. Those who
    are spread over several files come last; for each part of them the files that hold them are read again.
    """

    study: Study
    path: Location
    part_rows: int
    files: Sequence[LogFile]
    """A large Parquet file counts as several, by its row groups."""
    first_rows: list[int]
    parts: list[NDArray[Any]]
    """Ids of the participants of each part, sorted."""
    holders: list[NDArray[np.int64]]
    """For each part the files that hold its participants."""
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """Name, size and SHA-256 of every file."""
    usual: LearnedPatterns | None = None
    """What the study's screen learned from people of the whole input, so that parts are screened alike."""
    _last: tuple[int, LogTable] | None = None

    @property
    def people(self) -> int:
        return sum(len(part) for part in self.parts)

    @classmethod
    def of(cls, study: Study, path: Location, *, together: bool | None = None, run: Run | None = None) -> Partition:
        """Hash every file and look at the ids in it; of a folder nothing else is kept.

        `together` keeps everybody in one part; the study's pooling decides unless it is given. `run` has others look at the
        files of a folder.
        """
        files = [piece for pieces in map_files(_split_file, study_files(study, path)) for piece in pieces]
        layout = log_layout(study)
        only_ids = LogLayout(layout.participant, layout.time, (layout.participant,), layout.missing)
        if len(files) == 1:
            file = replace(files[0])
            inputs = [file.fingerprint(path)]
            rows = file.read(layout)
            ids = [rows.participants]
            counts = [_count_rows(rows)]
        else:
            look = partial(_look_at_file, layout=only_ids, path=path)
            others = run if run is not None and len(files) >= ENOUGH_FILES else None
            looked = ((file, look(file)) for file in files) if others is None else others(files, look)
            seen = {(file.path, file.start): contents for file, contents in looked}
            prints, ids, counts = (
                list(column) for column in zip(*(seen[file.path, file.start] for file in files), strict=True)
            )
            inputs = [fingerprint for fingerprint in prints if fingerprint is not None]
        first_rows = [0, *np.cumsum([int(count.sum()) for count in counts]).tolist()]
        together = study.method().pooling.needs_everybody if together is None else together
        parts, holders = _divide(ids, counts, np.inf if together else PART_ROWS)
        # The rows of a single file are kept: it is read once.
        last = (0, rows) if len(files) == 1 else None
        return cls(study, path, PART_ROWS, files, first_rows, parts, holders, inputs, None, last)._learn_usual(ids)

    def _learn_usual(self, ids: list[NDArray[Any]]) -> Partition:
        """Let the screen learn from a sample of all people, and read their files for it; `ids` holds those of each file."""
        if self.study.screen is None or not self.study.screen.on or len(self.parts) < 2:
            return self
        everyone = np.unique(np.concatenate(ids))
        sample = everyone[sample_people(len(everyone))]
        holders = [number for number, participants in enumerate(ids) if np.isin(sample, participants).any()]
        screen = self._parse(sample, holders).screen
        self.usual = None if screen is None else screen.usual
        return self

    def only(self, numbers: Sequence[int]) -> Partition:
        """Some parts alone, with their files, without rows: small enough to send to another machine."""
        held = np.unique(np.concatenate([self.holders[number] for number in numbers]))
        files = [self.files[file] for file in held]
        first_rows = [self.first_rows[file] for file in held]
        parts = [self.parts[number] for number in numbers]
        holders = [np.searchsorted(held, self.holders[number]) for number in numbers]
        alone = Partition(self.study, self.path, self.part_rows, files, first_rows, parts, holders)
        alone.usual = self.usual
        return alone

    def read(self, number: int) -> StudyLogs:
        """The logs of the participants of one part."""
        import pyarrow as pa

        logs = self._parse(self.parts[number], self.holders[number])
        if len(self.parts) == 1:
            # Nothing is read after this, and a pooled fit needs the memory: Arrow keeps 170 bytes per decision point.
            self._last = None
            pa.default_memory_pool().release_unused()
        return logs

    def group(self, numbers: Iterable[int]) -> list[list[int]]:
        """Parts of one file together, some at most: whoever fits them reads that file once."""
        groups: list[list[int]] = []
        for number in numbers:
            files = self.holders[number]
            last = groups[-1] if groups else []
            if 0 < len(last) < GROUPED_PARTS and len(files) == 1 and np.array_equal(files, self.holders[last[-1]]):
                last.append(number)
            else:
                groups.append([number])
        return groups

    def _parse(self, people: NDArray[Any], holders: Iterable[int]) -> StudyLogs:
        """The logs of some people, who are in these files."""
        rows = [self._rows(int(file)).select(people) for file in holders]
        with name_file(self.path):
            return parse_logs(self.study, concatenate(rows), usual=self.usual)

    def _rows(self, number: int) -> LogTable:
        """One file's rows; the last file is kept, because the next part often begins where this one ended."""
        if self._last is None or self._last[0] != number:
            self._last = None
            rows = replace(self.files[number]).read(log_layout(self.study), self.first_rows[number])
            self._last = number, rows
        return self._last[1]


def _split_file(file: Location) -> list[LogFile]:
    return LogFile(file).split(PART_ROWS)


def _look_at_file(
    file: LogFile, layout: LogLayout, path: Location
) -> tuple[dict[str, Any] | None, NDArray[Any], NDArray[np.int64]]:
    """The fingerprint of a file (only for its first piece), its participants, and their numbers of rows."""
    opened = replace(file)  # What it reads is not kept.
    rows = opened.read(layout)
    return opened.fingerprint(path, keep=False) if file.start == 0 else None, rows.participants, _count_rows(rows)


def _count_rows(rows: LogTable) -> NDArray[np.int64]:
    return np.bincount(rows.participant_index, minlength=len(rows.participants))


def _divide(
    ids: list[NDArray[Any]], counts: list[NDArray[np.int64]], limit: float
) -> tuple[list[NDArray[Any]], list[NDArray[np.int64]]]:
    """Participants in parts of about `limit` rows, and for each part the files that hold them."""
    owner = np.repeat(np.arange(len(ids)), [len(participants) for participants in ids])
    everyone, position = np.unique(np.concatenate(ids), return_inverse=True)
    rows = np.bincount(position, weights=np.concatenate(counts))
    first, last = np.zeros((2, len(everyone)), dtype=np.int64)
    first[position[::-1]] = owner[::-1]
    last[position] = owner
    # Who is where one file, or piece of a file, ends and the next begins is at home in the first of them.
    home = np.where(last - first > 1, len(ids), first)
    order = np.argsort(home, kind="stable")
    number = np.empty(len(everyone), dtype=np.int64)
    number[order] = _cut(rows[order], home[order], limit)
    # Every pair of a part and a file that holds somebody of it, once.
    pairs = np.unique(number[position] * len(ids) + owner)
    return _split(everyone, number), _split(pairs % len(ids), pairs // len(ids))


def _cut(rows: NDArray[Any], home: NDArray[np.int64], limit: float) -> NDArray[np.int64]:
    """The part of each of the participants, who come in the order of their files: files that begin within the same `limit`
    rows are cut together, evenly, so that a large file shares no part with the next."""
    before = np.cumsum(rows) - rows
    _, together = np.unique(before[np.searchsorted(home, home)] // limit, return_inverse=True)
    begin = before[np.searchsorted(together, np.arange(together[-1] + 1))]
    total = np.bincount(together, weights=rows)
    pieces = np.maximum(1, np.ceil(total / limit))
    piece = (before - begin[together]) * pieces[together] // total[together]
    return np.unique((np.cumsum(pieces) - pieces)[together] + piece, return_inverse=True)[1]


def _split(values: NDArray[Any], number: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Values by their part's number, each in the order they came."""
    by_part = np.argsort(number, kind="stable")
    return np.split(values[by_part], np.cumsum(np.bincount(number))[:-1])
