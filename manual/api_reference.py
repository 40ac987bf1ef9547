"""The Python reference: a page for every public module, with every name that it offers."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import surefoot
from manual.tutorials import run_tutorial

FOLDER = "reference/api"
EXAMPLES = Path(__file__).parent / "examples"


def list_modules() -> dict[str, ModuleType]:
    """The public modules by the name that users write, `surefoot` first."""
    offered = {name: getattr(surefoot, name) for name in surefoot.__all__}
    return {"surefoot": surefoot} | {f"surefoot.{name}": part for name, part in offered.items() if inspect.ismodule(part)}


def list_names(module: ModuleType) -> list[str]:
    """What a module offers: classes and functions first, then what is neither; its public modules have their own pages."""
    names = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name)) and name != "__version__"]
    return sorted(names, key=lambda name: (not callable(getattr(module, name)), name.lower()))


def write_page(name: str, module: ModuleType, examples: dict[str, str]) -> str:
    """The Markdown of a module's page: what mkdocstrings fills in, and an example where the docstring has none."""
    parts = [f"# `{name}`", inspect.cleandoc(module.__doc__ or "")]
    for part in list_names(module):
        parts.append(f"::: {module.__name__}.{part}\n    options:\n      heading: {name}.{part}\n      toc_label: {part}")
        if part in examples:
            parts.append(f"**Example:**\n\n{examples[part]}")
    return "\n\n".join(parts) + "\n"


def write_pages() -> dict[str, str]:
    """Every page by its path in the manual."""
    pages = {}
    for name, module in list_modules().items():
        path = find_examples(name)
        examples = split_examples(run_tutorial(path).text, module.__name__) if path.is_file() else {}
        pages[f"{FOLDER}/{name}.md"] = write_page(name, module, examples)
    return pages


def find_examples(name: str) -> Path:
    """The file with the examples of a module's names whose docstrings have none."""
    return EXAMPLES / f"{name.rsplit('.', maxsplit=1)[-1]}.md"


def split_examples(text: str, module: str) -> dict[str, str]:
    """Examples by name. A heading names what the block under it shows; those after the first refer to it.

    >>> split_examples("## A, B\\n\\nblock\\n", "m")
    {'A': 'block', 'B': 'see that of [`A`][m.A].'}
    """
    found: dict[str, str] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, body = section.split("\n", 1)
        first, *others = heading.split(", ")
        found[first] = body.strip()
        found |= dict.fromkeys(others, f"see that of [`{first}`][{module}.{first}].")
    return found
