"""The Python reference: a page for every public module, with every name that it offers."""

from __future__ import annotations

import inspect
from types import ModuleType

import surefoot

FOLDER = "reference/api"


def list_modules() -> dict[str, ModuleType]:
    """The public modules by the name that users write, `surefoot` first."""
    offered = {name: getattr(surefoot, name) for name in surefoot.__all__}
    return {"surefoot": surefoot} | {f"surefoot.{name}": part for name, part in offered.items() if inspect.ismodule(part)}


def list_names(module: ModuleType) -> list[str]:
    """What a module offers: classes and functions first, then what is neither; its public modules have their own pages."""
    names = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name)) and name != "__version__"]
    return sorted(names, key=lambda name: (not callable(getattr(module, name)), name.lower()))


def write_page(name: str, module: ModuleType) -> str:
    """The Markdown of a module's page: what mkdocstrings fills in."""
    introduction = inspect.cleandoc(module.__doc__ or "")
    parts = [f"# `{name}`", introduction]
    for part in list_names(module):
        parts.append(f"::: {module.__name__}.{part}\n    options:\n      heading: {name}.{part}\n      toc_label: {part}")
    return "\n\n".join(parts) + "\n"


def write_pages() -> dict[str, str]:
    """Every page by its path in the manual."""
    return {f"{FOLDER}/{name}.md": write_page(name, module) for name, module in list_modules().items()}
