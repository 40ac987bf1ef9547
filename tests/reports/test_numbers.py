import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.inference.intervals import Interval
from surefoot.reports.numbers import format_estimate, format_interval, format_number, format_percent, format_value


@pytest.mark.parametrize(
    ("value", "low", "high", "told"),
    [
        (3.3187, 3.1082, 3.5569, "3.32 (95 % interval 3.11 to 3.56)"),
        (0.1021, -0.1896, 0.3939, "0.10 (95 % interval −0.19 to 0.39)"),
        (1324.63, 1301.2, 1348.1, "1,325 (95 % interval 1,301 to 1,348)"),
        (0.00123456, 0.0012, 0.00128, "0.001235 (95 % interval 0.001200 to 0.001280)"),
        (-0.001, -0.2, 0.2, "0.00 (95 % interval −0.20 to 0.20)"),
        (14836.2, np.nan, np.nan, "14,836"),
        (5.0, 5.0, 5.0, "5 (95 % interval 5 to 5)"),
    ],
)
def test_an_estimate_has_the_digits_that_its_interval_supports(value, low, high, told):
    assert format_estimate(Interval(value, 1.0, low, high)) == told


def test_units_percentages_and_what_is_missing():
    assert format_estimate(Interval(2.0, 1.0, 0.0, 4.0), "steps") == "2.0 steps (95 % interval 0.0 to 4.0)"
    assert format_interval(Interval(2.0, np.nan, np.nan, np.nan)) == "–"
    assert (format_number(None), format_number("text"), format_percent(0.0861), format_percent(0.5, 0)) == (
        *("–", "text"),
        *("8.6 %", "50 %"),
    )


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_rounding_never_moves_an_end_by_more_than_a_tenth_of_the_width(value, half):
    interval = Interval(value, half / 2, value - half, value + half)
    told = [format_value(interval), *format_interval(interval).split(" to ")]
    shown = np.array([float(text.replace("−", "-").replace(",", "")) for text in told])
    moved = np.abs(shown - [interval.value, interval.low, interval.high])
    assert moved.max() <= 0.1 * 2 * half + 1e-9 * abs(value)
