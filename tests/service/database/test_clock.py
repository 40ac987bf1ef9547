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
