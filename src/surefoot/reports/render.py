"""Self-contained HTML pages: one file, styles and figures inside, no script, nothing from another host."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from surefoot.reports.numbers import format_interval, format_number, format_percent
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
    environment.filters |= {"number": format_number, "interval": format_interval, "percent": format_percent}
    return environment.get_template(template).render(surefoot_version=__version__, **context)


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
