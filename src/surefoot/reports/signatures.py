"""Signatures that name every keyword, for tab completion and `help`."""

import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def spell_out_keywords(*sources: Callable[..., Any], without: Collection[str] = ()) -> Callable[[F], F]:
    """Show the parameters of other callables in the signature of a function that hands its keywords on to them.

    >>> def pour(cups: int = 1): ...
    >>> @spell_out_keywords(pour)
    ... def serve(guest: str, **options): ...
    >>> print(inspect.signature(serve))
    (guest: str, *, cups: int = 1)
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        shown = {name: kind for name, kind in signature.parameters.items() if kind.kind is not kind.VAR_KEYWORD}
        for source in sources:
            for name, parameter in inspect.signature(source).parameters.items():
                if name not in without:
                    shown.setdefault(name, parameter.replace(kind=parameter.KEYWORD_ONLY))
        function.__signature__ = signature.replace(parameters=list(shown.values()))  # type: ignore[attr-defined]
        return function

    return decorate
