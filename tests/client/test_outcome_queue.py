"""The queue on disk against a plain list, with cuts at any byte, damage, a full disk and kills."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.client import Outcome, OutcomeQueue, QueueError, QueueFullError, QueueWarning, Receipt

WHEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def outcome(number):
    return Outcome(f"{number:032x}", float(number), WHEN)


def waiting(queue):
    return [int(json.loads(text)["decision_id"], 16) for text in queue.first(10**6)]


def receipts(count):
    return [Receipt("", "recorded")] * count


steps = st.lists(st.one_of(st.tuples(st.just("append"), st.integers(0, 4)), st.tuples(st.just("settle"), st.integers(1, 4))))


@settings(max_examples=30, deadline=None)
@given(steps, st.integers(1, 20), st.data())
def test_it_is_a_list_that_survives_being_cut_anywhere(actions, limit, data):
    """Whatever is appended and settled, the file gives it back; cut at any byte it loses only the end of what was last."""
    with tempfile.TemporaryDirectory() as folder:
        queue, model, number = OutcomeQueue(folder, limit), deque(), 0
        before, after = b"", b""
        for kind, count in actions:
            before = Path(folder, "waiting.jsonl").read_bytes()
            if kind == "append" and len(model) + count <= limit:
                queue.append(map(outcome, range(number, number + count)))
                model.extend(range(number, number + count))
                number += count
            elif kind == "settle" and model:
                done = min(count, len(model))
                queue.settle(receipts(done))
                for _ in range(done):
                    model.popleft()
            after = Path(folder, "waiting.jsonl").read_bytes()
            assert waiting(queue) == list(model)
        queue.close()
        reopened = OutcomeQueue(folder, limit)
        assert waiting(reopened) == list(model)
        reopened.close()
        if after.startswith(before):
            check_cut(folder, before, after, data.draw(st.integers(len(before), len(after))))


def check_cut(folder, before, after, place):
    """A kill while the last step was being written: all from before is there, and a part of the last step."""

    def read(content):
        Path(folder, "waiting.jsonl").write_bytes(content)
        queue = OutcomeQueue(folder)
        found = waiting(queue)
        queue.close()
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueueWarning)
        first, cut, last = read(before), read(after[:place]), read(after)
    assert cut in (first, last) or (cut == last[: len(cut)] and first == cut[: len(first)])


def test_a_damaged_line_is_set_aside_and_nothing_else_is_lost(tmp_path):
    queue = OutcomeQueue(tmp_path)
    queue.append(map(outcome, range(6)))
    queue.settle(receipts(2))
    queue.close()
    file = tmp_path / "waiting.jsonl"
    lines = file.read_bytes().split(b"\n")
    lines[3] = b"\0" * len(lines[3])
    file.write_bytes(b"\n".join(lines) + b'{"settled": 99}\n{"number": 7, "outc')
    with pytest.warns(QueueWarning, match="3 set aside"):
        queue = OutcomeQueue(tmp_path)
    assert waiting(queue) == [2, 4, 5]
    assert len((tmp_path / "set_aside.jsonl").read_text().splitlines()) == 3
    queue.append([outcome(7)])
    queue.close()
    assert waiting(OutcomeQueue(tmp_path)) == [2, 4, 5, 7]


def test_it_is_bounded_in_memory_and_on_disk(tmp_path):
    queue = OutcomeQueue(tmp_path, limit=10)
    queue.append(map(outcome, range(9)))
    with pytest.raises(QueueFullError, match="holds 9 outcomes and may hold 10"):
        queue.append(map(outcome, range(9, 11)))
    assert len(queue) == 9
    for number in range(9, 60):
        queue.append([outcome(number)])
        queue.settle(receipts(1))
        assert (tmp_path / "waiting.jsonl").stat().st_size < 5_000
    assert waiting(queue) == list(range(51, 60))


def test_what_is_taken_is_on_disk_and_not_only_on_its_way(tmp_path, monkeypatch):
    """A power cut, unlike a kill, loses what was written and not synchronised."""
    queue, synchronised = OutcomeQueue(tmp_path), []
    real, file = os.fsync, tmp_path / "waiting.jsonl"

    def record(handle):
        real(handle)
        synchronised.append((os.fstat(handle).st_ino, file.read_text()))

    monkeypatch.setattr(os, "fsync", record)
    for change in (lambda: queue.append(map(outcome, range(3))), lambda: queue.settle(receipts(2)), queue._rewrite):
        synchronised.clear()
        change()
        assert file.stat().st_ino in {inode for inode, _ in synchronised}
        assert synchronised[-1][1] == file.read_text()
    queue.settle(receipts(1))
    assert synchronised[-1] == (file.stat().st_ino, "")


def test_only_the_owner_may_read_it(tmp_path):
    queue = OutcomeQueue(tmp_path / "queue")
    queue.append([outcome(1)])
    modes = {file.stat().st_mode & 0o777 for file in (tmp_path / "queue").iterdir()}
    assert modes == {0o600} and (tmp_path / "queue").stat().st_mode & 0o777 == 0o700


def test_a_full_disk_adds_nothing_and_says_so(tmp_path, monkeypatch):
    queue = OutcomeQueue(tmp_path)
    queue.append([outcome(1)])
    real = os.write

    def half(file, content):
        if len(content) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, content[: len(content) // 2])

    with monkeypatch.context() as patch, pytest.raises(QueueError, match="No space left"):
        patch.setattr(os, "write", half)
        queue.append([outcome(2)])
    queue.append([outcome(3)])
    queue.close()
    queue.close()
    with pytest.raises(QueueError, match="cannot be used"):
        queue.append([outcome(4)])
    assert waiting(OutcomeQueue(tmp_path)) == [1, 3]


def test_a_file_where_the_folder_should_be_is_refused(tmp_path):
    (tmp_path / "queue").write_text("")
    with pytest.raises(QueueError, match="cannot be used"):
        OutcomeQueue(tmp_path / "queue")


WRITER = """
import sys
from tests.client.test_outcome_queue import OutcomeQueue, outcome, receipts
queue, number = OutcomeQueue(sys.argv[1]), 0
while True:
    queue.append([outcome(number), outcome(number + 1)])
    print("appended", number + 1, flush=True)
    number += 2
    if number % 6 == 0:
        print("settling", flush=True)
        queue.settle(receipts(1))
        print("settled", flush=True)
"""


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.05])
@pytest.mark.filterwarnings("ignore::surefoot.client.QueueWarning")
def test_a_kill_loses_nothing_that_was_taken(tmp_path, seconds):
    words = [sys.executable, "-c", WRITER, str(tmp_path / "queue")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])  # noqa: S603
    assert process.stdout.readline() == "appended 1\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said = ["appended 1", *process.communicate()[0].splitlines()]
    newest = max(int(line.split()[1]) for line in said if line.startswith("appended "))
    settled = said.count("settled")
    queue = OutcomeQueue(tmp_path / "queue")
    found = waiting(queue)
    queue.close()
    assert found[0] in (settled, said.count("settling"))
    assert found == list(range(found[0], found[-1] + 1)) and newest <= found[-1] <= newest + 2
