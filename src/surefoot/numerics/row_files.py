"""Columns of many rows in temporary files, and recipes that make any range of rows from them."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True)
class Block:
    """A range of rows, and what is known of them already."""

    start: int
    stop: int
    known: dict[tuple[int, int, int], NDArray[Any]] = field(default_factory=dict)

    def read(self, recipe: Recipe) -> NDArray[Any]:
        """What a recipe makes of these rows; what several others need is computed once."""
        key = (id(recipe), self.start, self.stop)
        if key not in self.known:
            self.known[key] = recipe.read(self)
        return self.known[key]

    @property
    def range(self) -> slice:
        """As an index."""
        return slice(self.start, self.stop)

    def shift(self, rows: int) -> Block:
        """As many rows, further on."""
        return Block(self.start + rows, self.stop + rows, self.known)


@dataclass(frozen=True, eq=False)
class Recipe:
    """How to make any range of rows."""

    shape: tuple[int, ...]
    axis: int
    """Which axis is that of the rows."""
    dtype: Any
    read: Callable[[Block], NDArray[Any]]
    folder: Path | None
    """Where its files are; None: where the system has temporary ones."""


class RowFile:
    """(columns, rows) of numbers in a temporary file without a name, each column's rows side by side.

    Only what is being read or written is mapped into memory.
    """

    def __init__(self, columns: int, rows: int, dtype: DTypeLike, folder: Path | None) -> None:
        self.shape, self.dtype, self.folder = (columns, rows), np.dtype(dtype), folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as this does
        weakref.finalize(self, self._file.close)
        self._file.truncate(max(columns * rows * self.dtype.itemsize, 1))

    def open(self, mode: Any = "r") -> NDArray[Any]:
        """The file as an array, mapped until it is forgotten."""
        return np.memmap(self._file, self.dtype, mode, shape=self.shape)

    def to_recipe(self, leading: Sequence[int]) -> Recipe:
        """Of an array with the columns in leading axes, rows last."""

        def read(block: Block) -> NDArray[Any]:
            part = np.array(self.open()[:, block.start : block.stop])
            return part.reshape(*leading, block.stop - block.start)

        shape = (*leading, self.shape[1])
        return Recipe(shape, len(leading), self.dtype, read, self.folder)


def expand_key(key: Any, ndim: int, axis: int) -> tuple[tuple[Any, ...], int]:
    """A key with one entry for every axis, and the place of the one for rows."""
    keys = list(key) if isinstance(key, tuple) else [key]
    takes = [0 if one is None else one.ndim if isinstance(one, np.ndarray) and one.dtype.kind == "b" else 1 for one in keys]
    dots = next((place for place, one in enumerate(keys) if one is Ellipsis), len(keys))
    there = dots < len(keys)
    missing = ndim - sum(takes) + there
    keys[dots : dots + there], takes[dots : dots + there] = [slice(None)] * missing, [1] * missing
    place = next(number for number, end in enumerate(np.cumsum(takes)) if end > axis)
    known = slice | int | np.integer | np.ndarray
    if not isinstance(keys[place], known) or getattr(keys[place], "step", None) not in (None, 1):
        raise TypeError("rows that are not in memory are chosen by numbers or a range")
    return tuple(keys), place
