import numpy as np

from surefoot.screening.clock import Clock
from tests.screening.blocks import flagged, make_block, one

HOUR = 3600.0
START = 1.7e9
BOTH = (one(), one("y", "outcome"))
CLOCK = Clock(until="2030-01-01T00:00")


def regular(people=6, points=40):
    return np.tile(START + 3 * HOUR * np.arange(points), (people, 1))


def values(people=6, points=40):
    return np.random.default_rng(1).standard_normal((2, people, points))


def test_nothing_is_wrong_with_a_clock_that_goes():
    assert flagged(CLOCK, make_block(BOTH, values(), time=regular(), clock=True)) == {}
    assert flagged(CLOCK, make_block(BOTH, values(), time=regular(), clock=False)) == {}


def in_file_order(time):
    """A block in time order whose rows say where in the file they stood."""
    made = make_block(BOTH, values(*time.shape), time=time, clock=True)
    order = np.argsort(time, axis=1, kind="stable")
    taken = [np.take_along_axis(one, order, axis=1) for one in (made.time, made.rows)]
    return type(made)(made.layout, made.values, *taken)


def test_jumps_and_the_hour_that_comes_twice():
    time = regular()
    time[0, 10] += 400 * HOUR
    time[1, 20] -= 8 * HOUR
    time[2, 15:] -= 3.5 * HOUR
    found = flagged(CLOCK, in_file_order(time))
    rows = in_file_order(time).rows
    jumps = rows[found["time", "clock jump"]]
    assert sorted(jumps) == [10, 60]
    assert sorted(rows[found["time", "hour twice"]]) == [95]


def test_the_future_and_the_time_before_enrolment():
    time = regular()
    time[0, -1] = 2e9
    enrolled = np.full(time.shape, START)
    enrolled[3] = START + HOUR
    made = make_block(
        (*BOTH, one("enrolled", "enrolment")), np.concatenate([values(), enrolled[None]]), time=time, clock=True
    )
    found = flagged(CLOCK, made)
    assert np.argwhere(found["time", "in the future"]).tolist() == [[0, 39]]
    assert np.argwhere(found["time", "before enrolment"]).tolist() == [[3, 0]]


def test_a_duplicated_upload_counts_once():
    time, seen = regular(), values()
    time[2, 11] = time[2, 10] + 240
    seen[:, 2, 11] = seen[:, 2, 10]
    found = flagged(CLOCK, make_block(BOTH, seen, time=time, clock=True))
    assert {column for column, _ in found} == {"x", "y"}
    assert np.argwhere(found["y", "duplicated upload"]).tolist() == [[2, 11]]
