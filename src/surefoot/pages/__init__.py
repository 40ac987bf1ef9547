"""Self-contained HTML pages: one file, styles and figures inside, no script, nothing from another host."""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from surefoot.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(template: str, **context: Any) -> str:
    """Fill one of the templates beside this file; values are escaped unless they are `Markup`."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("surefoot", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "range": span}
    return environment.get_template(template).render(surefoot_version=__version__, **context)


def number(value: Any) -> str:
    """A number as people write it: three or four digits, thousands apart; what is missing is a dash; text stays text.

    >>> number(14836.2), number(-12.3456), number(0.04321), number(float("nan"))
    ('14,836', '−12.35', '0.0432', '–')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        # Minus signs that look like minus signs.
        return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 1 else f"{value:.3g}").replace(
            "-", "−"
        )
    return "–" if value is None else str(value)


def span(interval: Any) -> str:
    """`low to high` of an interval; a dash where it has no ends."""
    if math.isnan(interval.low):
        return "–"
    return f"{number(interval.low)} to {number(interval.high)}"


def inline_svg(figure: Figure, description: str) -> Markup:
    """A figure as SVG inside the page, the same bytes for the same figure; `description` is for those who cannot see it."""
    import matplotlib as mpl

    buffer = io.StringIO()
    # The date, and ids drawn at random, would make two equal reports differ.
    with mpl.rc_context({"svg.hashsalt": "surefoot", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    drawing = text[text.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    label = Markup.escape(description)
    return Markup(drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))  # noqa: S704 - our own figure
