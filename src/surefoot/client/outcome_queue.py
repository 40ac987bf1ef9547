"""Outcomes that wait on disk until the service has them: what `append` took survives a kill, a power cut and a long way
without network.

A folder with three files, readable by its owner only:

- `waiting.jsonl`: a line `{"number": 7, "outcome": {…}}` for each outcome, a line `{"settled": 7}` when the service has
  answered for all up to that one. Lines are added, never changed; the file is emptied when nothing waits any more.
- `set_aside.jsonl`: what the service did not keep, and lines that could not be read, each with the reason.
- `lock`: held by the process that uses the queue; it ends with the process.

A kill between the service's answer and the line that settles it makes the outcome go out again: the service adds nothing.
"""

import json
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from surefoot.client.exchange import Outcome, QueueError, QueueFullError, QueueInUseError, QueueWarning, Receipt

CLOSED = -1


class OutcomeQueue:
    """Outcomes waiting in a folder; for one process at a time, and any number of its threads.

    Parameters
    ----------
    folder : str or Path
        Made if it is not there.
    limit : int
        The most outcomes that it holds.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import UTC, datetime
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue = OutcomeQueue(folder)
    ...     queue.append([Outcome("5f0c" * 8, 312, datetime.now(UTC))])
    ...     queue.close()
    ...     reopened = OutcomeQueue(folder)
    ...     print(len(reopened))
    ...     reopened.close()
    1
    """

    def __init__(self, folder: str | Path, limit: int = 100_000) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self._waiting: deque[tuple[int, str]] = deque()
        self._newest = 0
        self._settled_lines = 0
        self._changing = threading.Lock()
        with self._refuse_unusable():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _open_private(self.folder / "lock")
            try:
                import fcntl  # POSIX has it; the client without a queue needs none of it

                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = _open_private(self.folder / "waiting.jsonl")
                self._recover()
            except BlockingIOError as error:
                os.close(self._lock)
                words = "another client uses this queue; give each process a folder of its own"
                raise QueueInUseError(f"{self.folder}: {words}") from error
            except BaseException:
                os.close(self._lock)
                raise

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"OutcomeQueue({str(self.folder)!r}, waiting={len(self)})"

    def append(self, outcomes: Iterable[Outcome]) -> None:
        """Add outcomes; they are on disk when this returns."""
        texts = [outcome.text() for outcome in outcomes]
        with self._changing, self._refuse_unusable():
            if len(self._waiting) + len(texts) > self.limit:
                words = f"holds {len(self._waiting):,} outcomes and may hold {self.limit:,}; flush it first"
                raise QueueFullError(f"{self.folder}: {words}")
            added = list(enumerate(texts, self._newest + 1))
            self._add_lines(map(_format_waiting, added))
            self._waiting.extend(added)
            self._newest += len(added)

    def first(self, count: int) -> list[str]:
        """The oldest outcomes that wait, as JSON texts."""
        with self._changing:
            return [text for _, text in islice(self._waiting, count)]

    def settle(self, receipts: Sequence[Receipt]) -> None:
        """Take the oldest away: the service has answered for them. What it did not keep is set aside."""
        with self._changing, self._refuse_unusable():
            answered = list(islice(self._waiting, len(receipts)))
            pairs = zip(answered, receipts, strict=True)
            refused = [(text, receipt.reason or receipt.status) for (_, text), receipt in pairs if not receipt.kept]
            self._set_aside(refused)
            if len(receipts) == len(self._waiting):
                os.ftruncate(self._file, 0)
                os.fsync(self._file)
                self._settled_lines = 0
            else:
                self._add_lines([f'{{"settled": {answered[-1][0]}}}\n'])
                self._settled_lines += len(receipts)
            for _ in receipts:
                self._waiting.popleft()
            if self._settled_lines > self.limit:
                self._rewrite()
        self._report(refused)

    def close(self) -> None:
        """Let another process use the queue; what waits, waits on."""
        with self._changing:
            for file in {self._file, self._lock} - {CLOSED}:
                os.close(file)
            self._file = self._lock = CLOSED

    def _recover(self) -> None:
        """Read what an earlier process left; a line that was cut off or damaged is set aside and reported."""
        content = (self.folder / "waiting.jsonl").read_bytes()
        damaged: list[tuple[str, str]] = []
        for line in filter(None, content.split(b"\n")):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                damaged.append((line.decode("utf-8", "replace"), "damaged"))
        self._set_aside(damaged)
        if damaged or self._settled_lines or content[-1:] not in (b"\n", b""):
            self._rewrite()
        self._report(damaged)

    def _take(self, line: dict[str, Any]) -> None:
        """One line of the file: numbers grow, and nothing is settled that was not there."""
        if "settled" in line:
            if not 0 < line["settled"] <= self._newest:
                raise ValueError("settled before it was there")
            while self._waiting and self._waiting[0][0] <= line["settled"]:
                self._waiting.popleft()
                self._settled_lines += 1
            return
        number = line["number"]
        outcome = line["outcome"]
        if number <= self._newest or not isinstance(outcome["decision_id"], str):
            raise ValueError("not the next outcome")
        self._waiting.append((number, json.dumps(outcome)))
        self._newest = number

    def _add_lines(self, lines: Iterable[str]) -> None:
        """All of them on disk, or none."""
        size = os.fstat(self._file).st_size
        try:
            _write_lines(self._file, lines)
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def _set_aside(self, refused: Sequence[tuple[str, str]]) -> None:
        if refused:
            file = _open_private(self.folder / "set_aside.jsonl")
            try:
                _write_lines(file, (json.dumps({"reason": why, "line": line}) + "\n" for line, why in refused))
            finally:
                os.close(file)

    def _report(self, refused: Sequence[tuple[str, str]]) -> None:
        """After everything else: whoever turns warnings into errors finds the queue settled."""
        if refused:
            reasons = ", ".join(sorted({why for _, why in refused}))
            path = self.folder / "set_aside.jsonl"
            warnings.warn(f"{path}: {len(refused)} set aside ({reasons})", QueueWarning, stacklevel=3)

    def _rewrite(self) -> None:
        """Keep only what waits: a new file takes the old one's place in one step."""
        path = self.folder / "waiting.jsonl"
        new = _open_private(path.with_suffix(".new"), os.O_TRUNC)
        try:
            _write_lines(new, map(_format_waiting, self._waiting))
            path.with_suffix(".new").replace(path)
        except OSError:
            os.close(new)
            raise
        _sync_folder(self.folder)
        os.close(self._file)
        self._file = new
        self._settled_lines = 0

    @contextmanager
    def _refuse_unusable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise QueueError(f"{self.folder}: cannot be used ({error.strerror}); see to the disk or name another") from error


def _format_waiting(numbered: tuple[int, str]) -> str:
    return f'{{"number": {numbered[0]}, "outcome": {numbered[1]}}}\n'


def _open_private(path: Path, flags: int = 0) -> int:
    new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, 0o600)
    if new:
        _sync_folder(path.parent)
    return file


def _write_lines(file: int, lines: Iterable[str]) -> None:
    """They are on disk when this returns."""
    content = "".join(lines).encode()
    while content:
        content = content[os.write(file, content) :]
    os.fsync(file)


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
