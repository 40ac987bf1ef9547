"""Arrays of the array API standard, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import array_api_compat
import numpy as np
from array_api_compat import device

Array = Any
"""An array of the array API standard: NumPy's, PyTorch's, …"""

BLOCK_ROWS, BLOCK_CELLS = 2**17, 2**23
"""What is computed for many rows goes through in blocks of so many rows, and of so many numbers."""
_namespaces: dict[type, Any] = {}


def array_namespace(values: Array) -> Any:
    """The functions that go with an array, as `array_api_compat` finds them, remembered by the array's type."""
    found = _namespaces.get(type(values))
    if found is None:
        found = _namespaces[type(values)] = array_api_compat.array_namespace(values)
    return found


class PerParticipant:
    """For dataclasses that hold nothing but arrays whose first axis is people."""

    def of(self, people: Array) -> Self:
        """Some people's part: their places, or a mask."""
        return type(self)(*(part[people] for part in vars(self).values()))

    def record(self, people: Array, theirs: Self) -> None:
        """Overwrite some people's part."""
        for mine, new in zip(vars(self).values(), vars(theirs).values(), strict=True):
            mine[people] = new


def contiguous(values: Array) -> Array:
    """C-contiguous copy.

    A view on other axes would be slower to pass over, and the layout decides how products are rounded.
    """
    if isinstance(values, np.ndarray):
        return np.array(values, order="C")  # In a third of the time, which tells on few people.
    copy = array_namespace(values).empty(values.shape, dtype=values.dtype, device=device(values))
    copy[...] = values
    return copy


def empty_columns(values: Array, size: int) -> Array:
    """Room for `size` columns beside the rows of `values` (…, rows, columns), each column side by side in memory."""
    xp = array_namespace(values)
    room = xp.empty((*values.shape[:-2], size, *values.shape[-2:-1]), dtype=values.dtype, device=device(values))
    return xp.matrix_transpose(room) if values.ndim > 1 else room


def stack_features(features: list[Array]) -> Array:
    """(people, features, rows) of features (people, rows): in memory one feature of everybody after the other, so that
    weights of the rows are multiplied in long passes."""
    xp = array_namespace(features[0])
    return xp.permute_dims(xp.stack(features), (1, 0, 2))


def take_people(stacked: Array, people: Array) -> Array:
    """Some people of what `stack_features` made, laid out the same way."""
    xp = array_namespace(stacked)
    return xp.permute_dims(xp.take(xp.permute_dims(stacked, (1, 0, 2)), people, axis=1), (1, 0, 2))


def keep_freed_memory() -> None:
    """Let blocks of people reuse each other's memory instead of asking the system for it anew, which costs a page at a time.

    The C library gives back what exceeds twice the largest piece that was ever freed, learned up to 32 MiB. A fit's arrays
    are smaller than that, but there are many of them; freeing one such piece, never touched, teaches it.
    """
    never_touched = np.empty(2**25 - 2**13, dtype=np.uint8)
    del never_touched


CACHED = 2**18
"""So many numbers stay close to a core, in its own cache."""


def split_people(values: Array, each: int) -> list[slice]:
    """People (the first axis of `values`) in parts that a processor's cache holds, at `each` numbers a participant.

    Passes over many variables wait for memory otherwise. Other devices take everybody at once.
    """
    people: int = values.shape[0]
    size = max(1, CACHED // max(each, 1)) if isinstance(values, np.ndarray) else people
    return [slice(first, first + size) for first in range(0, people, max(size, 1))]


def list_blocks(rows: int, size: int | None = None, *, cells: int = 1) -> Iterator[slice]:
    """Rows one after the other, in blocks: what is computed for each of them need not be held for all at once.

    Without a size, a block holds as many rows as memory allows where each takes so many cells.

    >>> list(list_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = min(BLOCK_ROWS, max(1, BLOCK_CELLS // cells)) if size is None else size
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def sum_last(values: Array) -> Array:
    """Σ over the last axis where it is short, as that of actions: one addition after the other.

    NumPy's own pass along a short axis takes ten times as long.
    """
    total = values[..., 0]
    for place in range(1, values.shape[-1]):
        total = total + values[..., place]
    return total


def gram(features: Array, weights: Array) -> Array:
    """XᵀUX of every participant, (people, features, features)."""
    xp, (people, rows, size) = array_namespace(features), features.shape
    found = xp.empty((people, size, size), dtype=features.dtype, device=device(features))
    for some in split_people(features, rows * size):
        x = features[some]
        found[some] = xp.matmul(xp.matrix_transpose(x * weights[some][..., None]), x)
    return found
