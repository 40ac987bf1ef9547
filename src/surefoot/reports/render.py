"""Self-contained HTML pages: one file, styles and figures inside, no script, nothing from another host."""

import io
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from surefoot.atomic_files import write_texts
from surefoot.reports import numbers
from surefoot.reports.figures import DARK, INK, LIGHT, Picture, find_figure
from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@cache
def _make_environment(package: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in (package, "surefoot.reports")]),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": numbers.format_number,
        "value": numbers.format_value,
        "interval": numbers.format_interval,
        "percent": numbers.format_percent,
        "estimate": numbers.format_estimate,
        "digits_of": numbers.format_beside,
        "signed": numbers.format_signed,
        "decimals": numbers.count_decimals,
        "to_decimals": numbers.format_decimals,
        "sentence": lambda text: text[:1].upper() + text[1:],
        "rows": numbers.format_rows,
        "range_to": numbers.format_range,
        "points_to": numbers.format_points,
        "change": numbers.format_change,
        "p": numbers.format_p,
        "p_sentence": numbers.describe_p,
    }
    environment.tests["known"] = lambda interval: not math.isnan(interval.low)
    environment.globals |= {"surefoot_version": __version__, "light": LIGHT, "dark": DARK}
    return environment


def render(template: str, *, package: str = "surefoot.reports", **context: Any) -> str:
    """Fill a template of a package, which may build on those of this one; values in a page are escaped unless they are
    `Markup`."""
    text = _make_environment(package).get_template(template).render(**context)
    # A number and its sign stay on one line of a page.
    return text.replace(" %", "\N{NO-BREAK SPACE}%") if template.endswith(".html") else text


def join_lines(text: str) -> str:
    """A sentence of a template on one line."""
    return re.sub(r"\s*\n\s*", " ", text.strip())


def write_sentences(template: str, **context: Any) -> list[str]:
    """The sentences of a template, which empty lines separate."""
    return [join_lines(sentence) for sentence in render(template, **context).split("\n\n") if sentence.strip()]


FRAME = ("ink", "grey", "grid")
"""Colours of the page rather than of the data."""


def inline_svg(drawn: "Figure | Axes", description: str, *, raster: bool = False) -> Markup:
    """A figure, or that of some axes, as SVG inside the page; `description` is for screen readers.

    The same figure gives the same bytes. An image inside it (`raster`) cannot follow dark mode, so the legend that
    explains its colours does not either.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = drawn if isinstance(drawn, Figure) else find_figure(drawn)
    buffer = io.StringIO()
    # The date, and ids drawn at random, would make two equal reports differ.
    with mpl.rc_context({"svg.hashsalt": "surefoot", "svg.fonttype": "path"}):
        nameless = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=nameless)
    text = buffer.getvalue()
    drawing = text[text.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    # Black is the default and is not written down.
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{Markup.escape(description)}" fill="{INK}" ', 1)
    for name in FRAME if raster else LIGHT:
        drawing = drawing.replace(LIGHT[name], f"var(--{name})")
    return Markup(drawing)  # noqa: S704 - our own figure


def embed_pictures(pictures: Iterable[Picture]) -> list[tuple[Markup, str]]:
    """SVG and note of every picture."""
    return [(inline_svg(axes, description), note) for axes, description, note in pictures]


def save_svg(figure: "Figure", path: Path, description: str) -> None:
    """Write a figure as an SVG file of its own, with its own background; it follows the reader's dark mode too."""
    day, night = (" ".join(f"--{name}: {colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    style = f"<style>:root {{ {day} }} @media (prefers-color-scheme: dark) {{ :root {{ {night} }} }}</style>"
    paper = '<rect width="100%" height="100%" fill="var(--paper)"/>'
    opening, drawing = str(inline_svg(figure, description)).split(">", 1)
    write_texts({path: f"{opening}>{style}{paper}{drawing}"})
