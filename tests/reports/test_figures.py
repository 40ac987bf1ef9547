import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from surefoot.inference.intervals import Interval
from surefoot.reports import figures
from surefoot.reports.figures import DARK, LIGHT, interval_bars, new_figure, thin_out
from surefoot.reports.render import inline_svg, save_svg
from tests.browser import CHROMIUM, WHY_NOT, Browser

SOURCE = Path(figures.__file__).parents[1]


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


LINES = [name for name, colour in LIGHT.items() if colour in (*figures.SERIES, figures.GREY)]
# Full dichromacy in linear RGB: Machado, Oliveira and Fernandes (2009), IEEE TVCG 15(6):1291-1298.
VISION = {
    "all three cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])


def linear(colour):
    """A hexadecimal colour in linear RGB."""
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB, white as sRGB has it."""
    share = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    x, y, z = np.where(share > (6 / 29) ** 3, np.cbrt(share), share / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    """As WCAG 2.2 defines it."""
    darker, lighter = sorted(TO_XYZ[1] @ linear(colour) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["day", "night"])
def test_lines_stand_out_from_the_paper_and_text_more_so(palette):
    assert len(LINES) == 7
    assert min(contrast(palette[name], palette["paper"]) for name in LINES) >= 3
    assert contrast(palette["ink"], palette["paper"]) >= 7


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["day", "night"])
@pytest.mark.parametrize("vision", VISION)
def test_the_colour_blind_can_tell_lines_apart(palette, vision):
    """A difference of 2.3 is just noticeable where two colours touch; lines lie apart and are thin."""
    seen = {name: lab(np.array(VISION[vision]) @ linear(palette[name])) for name in LINES}
    nearest = min(itertools.combinations(seen, 2), key=lambda pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]))
    assert np.linalg.norm(seen[nearest[0]] - seen[nearest[1]]) > 12, nearest


def test_no_figure_has_colours_or_a_style_of_its_own():
    """Everything is drawn on `new_figure`, in colours of the palette."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path != Path(figures.__file__):
            assert not re.findall(r"[\"']#[0-9a-fA-F]{6}[\"']", text), path
            assert not re.findall(r"pyplot|\bFigure\(|\.subplots\(", text), path


@pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)
def test_a_figure_in_a_file_of_its_own_follows_dark_mode(tmp_path):
    figure, axes = new_figure(width=3, height=2)
    axes.plot([1, 2], color=figures.BLUE)
    save_svg(figure, tmp_path / "line.svg", "A line & more")
    found = {}
    with Browser() as browser:
        for dark in (False, True):
            asked, said = browser.visit(tmp_path / "line.svg", dark=dark)
            assert (len(asked), said) == (1, [])
            found[dark] = browser.evaluate("getComputedStyle(document.querySelector('rect')).fill")
    assert found == {False: "rgb(255, 255, 255)", True: "rgb(20, 24, 29)"}
    assert 'aria-label="A line &amp; more"' in (tmp_path / "line.svg").read_text(encoding="utf-8")
