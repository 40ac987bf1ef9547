from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.study.trial_section import Dose
from surefoot.trial_rules.choices import SOURCES, Clocks, find_clock_jump, find_dose_stop, find_source, find_sources

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = ("available", "complete", "covered", "usable")


def test_sources_of_arrays_are_those_of_each():
    cases = list(product((False, True), repeat=4))
    found = find_sources(**dict(zip(NAMES, map(list, zip(*cases, strict=True)), strict=True)))
    assert [SOURCES[one] for one in found] == [find_source(**dict(zip(NAMES, case, strict=True))) for case in cases]


@given(
    st.lists(st.integers(-60, 12000), max_size=12),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(1, 9)),
    st.sampled_from([0, 30, 90.5]),
)
def test_the_first_limit_that_is_reached_is_named(minutes, per_day, per_week, gap):
    dose = Dose(prompts_per_day=per_day, prompts_per_week=per_week, minimum_gap_minutes=gap)
    prompts = [Clocks(NOW - timedelta(minutes=one), NOW) for one in minutes]
    day, week = (sum(0 <= one < span for one in minutes) for span in (1440, 10080))
    expected = None
    if any(0 <= one < gap for one in minutes):
        expected = f"dose: a prompt less than {gap:g} minutes ago"
    if per_week is not None and week >= per_week:
        expected = f"dose: {per_week} prompts in 7 days"
    if per_day is not None and day >= per_day:
        expected = f"dose: {per_day} prompts in 24 hours"
    other_clock = NOW + timedelta(days=365)
    assert find_dose_stop(dose, prompts, Clocks(NOW, other_clock)) == expected
    swapped = [Clocks(server, client) for client, server in prompts]
    by_server = None if expected is None else f"{expected} by the server's clock"
    assert find_dose_stop(dose, swapped, Clocks(other_clock, NOW)) == by_server


DAYS = timedelta(days=1)


@pytest.mark.parametrize(
    ("client", "server", "expected"),
    [
        (0.5, 0.5, None),
        (1.0, 0.0, None),
        (1.001, 0.0, "clock: moved 1 days further than the server's"),
        (3.0, 1.5, "clock: moved 1.5 days further than the server's"),
        (0.5, 30.0, None),
        (-0.25, 0.5, "clock: 0.25 days before an earlier decision point"),
        (0.1, -400.0, "server's clock: 400 days before an earlier decision point"),
    ],
    ids=["together", "a day off line", "ahead", "ahead of the server", "late", "back", "the server's went back"],
)
def test_a_clock_that_jumps_is_found(client, server, expected):
    latest = Clocks(NOW, NOW)
    assert find_clock_jump(latest, Clocks(NOW + client * DAYS, NOW + server * DAYS)) == expected
    assert find_clock_jump(None, latest) is None
