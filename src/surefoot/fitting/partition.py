"""Which people are fitted together: parts of bounded size, from files that are read one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data import columns, log_files
from surefoot.data.log_files import Rows
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import described, files_with_rows, read_file

PART_ROWS = 2**19
"""Decision points in a part: some hundred megabytes while it is fitted."""


@dataclass(eq=False)
class Plan:
    """The parts of an input.

    A participant whose rows are all in one file is fitted with the others of that file. Those who are spread over several
    files come last; for each part of them the files that hold them are read again.
    """

    study: Study
    path: Path
    part_rows: int
    files: list[Path]
    first_rows: list[int]
    parts: list[NDArray[Any]]
    """Ids of the people of each part, sorted."""
    holders: list[NDArray[np.int64]]
    """For each part the files that hold its people."""
    _last: tuple[int, Rows] | None = field(default=None, init=False)

    @property
    def people(self) -> int:
        return sum(len(part) for part in self.parts)

    @classmethod
    def of(cls, study: Study, path: Path) -> Plan:
        """Look at the ids in every file, and at nothing else."""
        files = files_with_rows(study, path)
        ids, counts, first_rows = [], [], [0]
        for file in files:
            participants, count = _people_in(study, file)
            ids.append(participants)
            counts.append(count)
            first_rows.append(first_rows[-1] + int(count.sum()))
        owner = np.repeat(np.arange(len(files)), [len(participants) for participants in ids])
        everyone, position = np.unique(np.concatenate(ids), return_inverse=True)
        rows = np.bincount(position, weights=np.concatenate(counts))
        spread = np.bincount(position) > 1
        home = np.zeros(len(everyone), dtype=np.int64)
        home[position] = owner
        home[spread] = len(files)
        order = np.argsort(home, kind="stable")
        limit = np.inf if study.pooling == "all" else PART_ROWS
        before = np.cumsum(rows[order]) - rows[order]
        number = np.zeros(len(everyone), dtype=np.int64)
        number[order] = (before // limit).astype(np.int64)
        _, number = np.unique(number, return_inverse=True)
        parts = [everyone[number == part] for part in range(number.max() + 1)]
        holders = [np.unique(owner[number[position] == part]) for part in range(len(parts))]
        return cls(study, path, PART_ROWS, files, first_rows, parts, holders)

    def only(self, number: int) -> Plan:
        """The plan of one part alone: small enough to send to another machine."""
        part, holders = self.parts[number], self.holders[number]
        return Plan(self.study, self.path, self.part_rows, self.files, self.first_rows, [part], [holders])

    def read(self, people: NDArray[Any]) -> StudyLogs:
        """The logs of the people of one part."""
        which = next(number for number, part in enumerate(self.parts) if part is people)
        found = []
        for file in self.holders[which]:
            rows = self._file(int(file))
            name = self.study.columns.participant
            participants, position = columns.people(rows.table[name].combine_chunks(), name, rows.place)
            wanted = np.flatnonzero(np.isin(participants, people)[position])
            found.append(rows if len(wanted) == len(position) else rows.take(wanted))
        with log_files.naming(self.path):
            return described(self.study, log_files.joined(found))

    def _file(self, number: int) -> Rows:
        """One file's rows; the last file is kept, because the next part often begins where this one ended."""
        if self._last is None or self._last[0] != number:
            self._last = None
            self._last = number, read_file(self.study, self.files[number], self.first_rows[number])
        return self._last[1]


def _people_in(study: Study, file: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    name = study.columns.participant
    rows = read_file(study, file, 0, only=[name])
    with log_files.naming(file):
        participants, position = columns.people(rows.table[name].combine_chunks(), name, rows.place)
    return participants, np.bincount(position, minlength=len(participants))
