import numpy as np
import pytest
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.data.derived_states import count_days
from surefoot.learning.horizon.transitions import find_transitions

HOUR = np.timedelta64(3600, "s")


def logs_at(*times):
    """One participant for each list of times, ragged, their rows shuffled together."""
    lengths = [len(moments) for moments in times]
    longest = max(lengths)
    padded = np.array([[*moments, *[moments[-1]] * (longest - len(moments))] for moments in times])
    shape = padded.shape
    return sf.Trajectories.from_arrays(np.zeros((*shape, 1)), np.zeros(shape), np.zeros(shape), time=padded, lengths=lengths)


def pairs(logs, **options):
    found = find_transitions(logs, **options)
    rows = np.flatnonzero(found.following >= 0)
    return [(logs.time[row].item(), logs.time[found.following[row]].item(), bool(found.overnight[row])) for row in rows]


def test_no_pair_crosses_a_gap_or_two_people_unless_the_study_says_how_far():
    logs = logs_at([0, 1, 3, 4], [4, 5], [7])
    assert pairs(logs) == [(0, 1, False), (3, 4, False), (4, 5, False)]
    assert pairs(logs, max_gap=2) == [(0, 1, False), (1, 3, False), (3, 4, False), (4, 5, False)]


def test_rows_in_any_order_give_the_same_pairs():
    frame = {"who": [1, 1, 1, 2, 2], "t": [2, 0, 1, 1, 0], "s": [0.0] * 5, "a": [0] * 5, "r": [0.0] * 5}
    import pyarrow as pa

    logs = sf.Trajectories.from_frame(pa.table(frame), participant="who", time="t", state=["s"], action="a", outcome="r")
    assert_array_equal(find_transitions(logs).following, [-1, 2, 0, -1, 3])


def test_nights_are_marked_by_the_number_of_decision_points_a_day():
    logs = logs_at([3, 4, 5, 6, 9, 10])
    assert pairs(logs, day_boundary=5) == [(3, 4, False), (4, 5, True), (5, 6, False), (9, 10, True)]


def test_timestamps_pair_by_their_own_spacing_and_over_one_night():
    start = np.datetime64("2026-03-01T08:00")
    hours = [0, 2, 4, 6, 8, 24, 26, 32, 72, 74]
    logs = logs_at(start + np.array(hours) * HOUR)

    def in_hours(found):
        zero = start.astype("datetime64[us]").item()
        return [(int((a - zero).total_seconds() / 3600), int((b - zero).total_seconds() / 3600), n) for a, b, n in found]

    day = [(0, 2, False), (2, 4, False), (4, 6, False), (6, 8, False)]
    assert in_hours(pairs(logs)) == [*day, (24, 26, False), (72, 74, False)]
    # Over one night, not over two days without any decision point.
    assert in_hours(pairs(logs, day_boundary="04:00")) == [*day, (8, 24, True), (24, 26, False), (72, 74, False)]


def test_a_boundary_that_does_not_fit_the_times_is_refused_with_the_remedy():
    with pytest.raises(sf.InputError, match=r"write the clock time .* day_boundary = '04:00'"):
        find_transitions(logs_at([0.5, 1.5]), day_boundary=5)
    with pytest.raises(sf.InputError, match="write how many decision points"):
        find_transitions(logs_at([0, 1]), day_boundary="04:00")
    with pytest.raises(sf.InputError, match="write a clock time like '04:00'"):
        count_days(np.array(["2026-03-01T08:00"], dtype="datetime64[us]"), "25:00", "time")


def test_people_with_one_decision_point_have_no_pair():
    """The last people of the logs, who have just joined, have no spacing of their own."""
    first = np.datetime64("2026-01-01T08:00:00")
    logs = logs_at([first, first + 4 * HOUR], [first], [first + HOUR], [first + 2 * HOUR])
    assert pairs(logs) == [(first.item(), (first + 4 * HOUR).item(), False)]
