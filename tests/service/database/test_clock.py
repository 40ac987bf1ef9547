import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from surefoot.errors import InputError
from surefoot.service.database import clock


def test_the_clock_is_real_unless_a_simulation_sets_it(monkeypatch, tmp_path):
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5) and clock.read_simulated_time() is None
    file = tmp_path / "clock.txt"
    monkeypatch.setenv(clock.VARIABLE, str(file))
    file.write_text("2026-03-01T09:30:00+01:00\n")
    assert clock.now() == datetime(2026, 3, 1, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize("content", [None, "", "noon", "2026-03-01T09:30:00"])
def test_a_clock_that_cannot_be_read_is_an_error_not_another_time(monkeypatch, tmp_path, content):
    file = tmp_path / "clock.txt"
    monkeypatch.setenv(clock.VARIABLE, str(file))
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=r"clock\.txt"):
        clock.now()


class Machine:
    """A clock that can be set, and one that cannot."""

    def __init__(self):
        self.wall = datetime(2026, 3, 1, tzinfo=UTC)
        self.steady = 1000.0
        self.watch = clock.ClockWatch(lambda: self.steady)

    def look(self, seconds=15.0, *, set_by=0.0):
        self.steady += seconds
        self.wall += timedelta(seconds=seconds + set_by)
        return self.watch.find_jump(self.wall)


DAY = 86_400.0


@pytest.mark.parametrize("set_by", [400 * DAY, -400 * DAY, DAY, -3600.0, 150.0])
def test_a_clock_that_was_set_is_noticed_once_and_settles(monkeypatch, set_by):
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    machine = Machine()
    assert [machine.look() for _ in range(3)] == [timedelta()] * 3 and machine.watch.is_settled
    assert machine.look(set_by=set_by) == timedelta(seconds=set_by) and not machine.watch.is_settled
    assert machine.look() == timedelta() and not machine.watch.is_settled
    assert machine.look(clock.SETTLE_SECONDS) == timedelta() and machine.watch.is_settled


def test_a_clock_that_is_slewed_or_looked_at_late_was_not_set(monkeypatch):
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    machine = Machine()
    assert [machine.look(seconds, set_by=1.0) for seconds in (15.0, 600.0, 3500.0)] == [timedelta()] * 3
    assert machine.watch.is_settled
    assert machine.look(400 * DAY) == timedelta(days=400), "nobody sleeps that long: both clocks were set"
    assert not machine.watch.is_settled


def test_a_clock_that_is_set_right_again_is_believed_at_once(monkeypatch):
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    machine = Machine()
    machine.look()
    machine.look(set_by=400 * DAY)
    machine.look(20.0)
    assert not machine.watch.is_settled
    machine.look(set_by=-400 * DAY)
    assert machine.watch.is_settled
    machine.look(set_by=DAY)
    assert not machine.watch.is_settled


def test_a_jump_is_not_believed_until_it_has_settled(monkeypatch):
    monkeypatch.delenv(clock.VARIABLE, raising=False)
    machine = Machine()
    assert machine.watch.believe(machine.wall) == machine.wall, "there was no look yet"
    machine.look()
    right = machine.wall
    machine.wall += timedelta(days=400)
    assert machine.watch.believe(machine.wall) == right, "before anybody noticed"
    machine.look()
    assert machine.watch.believe(machine.wall) == right + timedelta(seconds=15)
    machine.look(clock.SETTLE_SECONDS)
    assert machine.watch.believe(machine.wall) == machine.wall


def test_a_simulation_may_move_its_clock_in_steps(monkeypatch, tmp_path):
    machine = Machine()
    file = tmp_path / "clock.txt"
    file.write_text("2026-03-01T09:30:00+01:00\n")
    monkeypatch.setenv(clock.VARIABLE, str(file))
    assert [machine.look(set_by=step) for step in (0, DAY, 0, DAY)] == [timedelta()] * 4 and machine.watch.is_settled
    assert machine.look(set_by=400 * DAY) and not machine.watch.is_settled
    assert machine.look(set_by=-400 * DAY) and machine.watch.is_settled


def test_jobs_that_hang_are_waited_for_together(monkeypatch):
    monkeypatch.setattr(clock, "LEAVING_SECONDS", 0.3)
    release = threading.Event()
    jobs = [clock.Job(name, release.wait, 60.0) for name in ("schedule", "messages", "backups", "seals")]
    with clock.repeat_jobs(*jobs):
        began = time.monotonic()
    assert 0.25 < time.monotonic() - began < 0.9
    release.set()
