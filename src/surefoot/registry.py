"""Registries: the parts of one kind (critics, filters, …) by name, open to parts from outside the package."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from surefoot.errors import InputError, require_known

Registered = TypeVar("Registered", bound=Any)
"""A class or an object with a `name`."""


class Registry(Generic[Registered]):
    """The parts of one kind, in the order in which they were registered.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Colour:
    ...     name: str
    >>> colours = Registry[Colour]("colour")
    >>> green = colours.register(Colour("green"))
    >>> colours.find("green") is green, list(colours)
    (True, ['green'])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, Registered] = {}

    def register(self, part: Registered) -> Registered:
        """Add a part under its `name`, which must be free; gives it back, so that this works as a decorator."""
        name: str = part.name
        if name in self._parts:
            raise InputError(f"there already is a {self.kind} '{name}'; give yours another name")
        self._parts[name] = part
        return part

    def unregister(self, name: str) -> None:
        """Forget a part, as a test that registered one must."""
        del self._parts[name]

    def find(self, name: str) -> Registered:
        """The part of that name; an unknown name is refused with those there are."""
        try:
            return self._parts[name]
        except KeyError:
            require_known(self.kind, name, self._parts)
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts
