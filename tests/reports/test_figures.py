import numpy as np
from numpy.testing import assert_array_equal

from surefoot.inference.intervals import Interval
from surefoot.reports.figures import DARK, LIGHT, interval_bars, new_figure, thin_out
from surefoot.reports.render import inline_svg


def test_bars_reach_from_low_to_high_and_are_left_out_without_ends():
    values, ends = interval_bars([Interval(2.0, 1.0, 1.0, 5.0), Interval(3.0, np.nan, np.nan, np.nan)], scale=10)
    assert_array_equal(values, [20, 30])
    assert_array_equal(ends, [[10, 0], [30, 0]])


def test_few_values_are_all_drawn_and_of_many_the_ends_and_what_lies_evenly_between():
    rank, values = thin_out(np.array([3.0, 1.0, 2.0]))
    assert (rank.tolist(), values.tolist()) == ([1, 2, 3], [1, 2, 3])
    rank, values = thin_out(np.random.default_rng(0).permutation(5000.0 + np.arange(5000)), most=300)
    assert len(rank) == 300
    assert (rank[0], rank[-1]) == (1, 5000)
    assert_array_equal(values, 5000 + rank - 1)


def test_every_colour_of_a_figure_follows_dark_mode():
    assert list(LIGHT) == list(DARK)
    figure, axes = new_figure(width=3, height=2)
    axes.plot([1, 2], color=LIGHT["blue"])
    drawing = inline_svg(figure, "A line")
    assert "var(--blue)" in drawing
    assert not any(colour in drawing for colour in LIGHT.values())
