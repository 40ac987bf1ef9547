"""Parts of a method: frozen dataclasses that own their parameters. A registry finds them by name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.registry import Registry

P = TypeVar("P", bound="Part")


@dataclass(frozen=True)
class Part:
    """A part of a method; its fields are its parameters, and each has a default."""

    name: ClassVar[str]
    kind: ClassVar[str]
    """The parameter of a method that holds it: `critic`."""
    labels: ClassVar[Mapping[str, str]] = {}
    """Parameters that the policy card always shows, and how it calls them."""
    above: ClassVar[Mapping[str, float]] = {}
    at_least: ClassVar[Mapping[str, float]] = {}
    """Parameters that must be above a number, and of at least a number."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn's `clone` expects."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_params(self, changes: Mapping[str, Any]) -> Self:
        """The same part with other values of some parameters; an unknown one is refused."""
        known = list(self.get_params())
        for parameter in changes:
            if parameter not in known:
                has = f"it has {known}" if known else "it has none"
                near = did_you_mean(parameter, known)
                raise InputError(f"{self.kind} '{self.name}' has no parameter '{parameter}'{near}; {has}")
        return replace(self, **changes)

    def check_parameters(self) -> None:
        """Refuse values with which it cannot work; a subclass may add to the limits of single numbers."""
        check_types(self)
        for name, limit in self.above.items():
            if not getattr(self, name) > limit:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a finite number above {limit:g}")
        for name, limit in self.at_least.items():
            if not getattr(self, name) >= limit:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a finite number of at least {limit:g}")

    def describe(self) -> list[str]:
        """Its parameters for the policy card: those with a label, and those that differ from their default."""
        return [
            f"{self.labels.get(field.name, field.name.replace('_', ' '))} {value}"
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None and (field.name in self.labels or value != field.default)
        ]


def check_types(owner: Any) -> None:
    """Refuse values of a dataclass that are not of the kind of their fields' defaults."""
    for field in fields(owner):
        value = getattr(owner, field.name)
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if isinstance(field.default, bool) and not isinstance(value, bool):
            raise InputError(f"{field.name} is {value!r}; it must be true or false")
        if isinstance(field.default, float) and not number:
            raise InputError(f"{field.name} is {value!r}; it must be a number")
        if isinstance(field.default, float) and not np.isfinite(value):
            raise InputError(f"{field.name} is {value}; it must be a finite number")


def make_part(registry: Registry[type[P]], given: Any) -> P:
    """The part that is meant by its name, by a mapping with `name` and parameters, or by itself."""
    if isinstance(given, Part) and given.kind == registry.kind:
        return given  # type: ignore[return-value]
    if isinstance(given, Mapping) and "name" in given:
        parameters = {str(key): value for key, value in given.items() if key != "name"}
        return registry.find(given["name"])().with_params(parameters)
    if not isinstance(given, str):
        raise InputError(
            f"{registry.kind} is {given!r}; give a name ({', '.join(registry)}) or an object of a {registry.kind} class"
        )
    return registry.find(given)()
