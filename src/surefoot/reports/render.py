"""Self-contained HTML pages: one file, styles and figures inside, no script, nothing from another host."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from surefoot.reports.figures import DARK, LIGHT
from surefoot.reports.numbers import format_beside, format_interval, format_number, format_percent, format_value
from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(template: str, *, package: str = "surefoot.reports", **context: Any) -> str:
    """Fill a template of a package, which may build on those of this one; values are escaped unless they are `Markup`."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in (package, "surefoot.reports")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats = {"number": format_number, "value": format_value, "interval": format_interval, "percent": format_percent}
    environment.filters |= {**formats, "digits_of": format_beside}
    page = environment.get_template(template).render(surefoot_version=__version__, light=LIGHT, dark=DARK, **context)
    return page.replace(" %", "\N{NO-BREAK SPACE}%")  # A number and its sign stay on one line.


FRAME = ("ink", "grey", "grid")
"""What belongs to the page rather than to the data."""


def inline_svg(figure: Figure, description: str, *, raster: bool = False) -> Markup:
    """A figure as SVG inside the page, the same bytes for the same figure; `description` is for those who cannot see it.

    An image inside it (`raster`) cannot follow dark mode, so the legend that explains its colours does not either.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    # The date, and ids drawn at random, would make two equal reports differ.
    with mpl.rc_context({"svg.hashsalt": "surefoot", "svg.fonttype": "path"}):
        nameless = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=nameless)
    text = buffer.getvalue()
    drawing = text[text.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    for name in FRAME if raster else LIGHT:
        drawing = drawing.replace(LIGHT[name], f"var(--{name})")
    label = Markup.escape(description)
    return Markup(drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))  # noqa: S704 - our own figure
